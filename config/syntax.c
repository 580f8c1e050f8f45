/* SPDX-License-Identifier: MIT */
/*
 * libconfuse: from a prepared text to sections and options.
 *
 *  1. It MUST NOT print: an error function is set before it parses.
 *  2. Every option is a text to it, so that option.c can name the offending
 *     text; libconfuse would only say that there is one.
 *
 * libconfuse keeps its scanner in static variables, so does this file keep
 * the one run that is under way; dlk_config_load() is not thread-safe.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/internal.h"

static struct dlk_build *running;

/* "no such option" alone does not help: say which there are. */
static void add_names(struct dlk_error *text, const cfg_opt_t *opts)
{
	size_t n = strlen(text->text);
	const char *sep = " (known here: ";

	for (; opts && opts->name && n < sizeof(text->text); opts++) {
		n += (size_t)snprintf(text->text + n, sizeof(text->text) - n,
				      "%s%s", sep, opts->name);
		sep = ", ";
	}
	if (n < sizeof(text->text))
		snprintf(text->text + n, sizeof(text->text) - n, ")");
}

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg,
							   const char *fmt,
							   va_list ap)
{
	struct dlk_error text = { "" };

	vsnprintf(text.text, sizeof(text.text) / 2, fmt, ap);
	if (!strncmp(text.text, "no such option", strlen("no such option")))
		add_names(&text, cfg->opts);
	dlk_fail(running, cfg->line, "%s", text.text);
}

/*
 * Called for each value.  The line is kept as the option's comment: the only
 * field of libconfuse's that is the caller's, survives, and is freed.
 */
static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
	const char **text = result;

	/* More than one value: a list that goes on. */
	if (opt->nvalues == 1) {
		char line[16];

		snprintf(line, sizeof(line), "%d", cfg->line);
		cfg_opt_setcomment(opt, line);
	}
	*text = value;
	return 0;
}

/* Called at a section's end, where its line is that of the closing brace. */
static int on_section(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);

	(void)cfg;
	if (running->n_closed < running->n_sections)
		sec->line = (int)running->section_lines[running->n_closed++];
	return 0;
}

#define TEXT(name)    CFG_STR_CB(name, NULL, CFGF_NODEFAULT, on_value)
#define LIST(name)    CFG_STR_LIST_CB(name, NULL, CFGF_NODEFAULT, on_value)
#define SECTION_FLAGS (CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES)

static cfg_t *create(void)
{
	cfg_opt_t redis[] = { TEXT("url"),
			      LIST("urls"),
			      TEXT("username"),
			      TEXT("password_file"),
			      TEXT("credentials"),
			      TEXT("ca_file"),
			      TEXT("cert_file"),
			      TEXT("key_file"),
			      TEXT("server_name"),
			      TEXT("mode"),
			      TEXT("connect_timeout"),
			      TEXT("restart_delay"),
			      TEXT("allow_eviction"),
			      TEXT("replicas"),
			      TEXT("master"),
			      TEXT("sentinel_username"),
			      TEXT("sentinel_password_file"),
			      CFG_END() };
	cfg_opt_t path[] = { TEXT("redis"),         TEXT("key"),
			     TEXT("ttl"),           TEXT("timeout"),
			     TEXT("on_lost"),       TEXT("unreachable"),
			     TEXT("local"),         TEXT("coherence"),
			     TEXT("fair"),          TEXT("interop"),
			     TEXT("hold_at_least"), TEXT("pause_at_most"),
			     LIST("exclude"),       CFG_END() };
	cfg_opt_t top[] = { TEXT("host_id"), TEXT("state_dir"),
			    CFG_SEC("redis", redis, SECTION_FLAGS),
			    CFG_SEC("path", path, SECTION_FLAGS), CFG_END() };

	/* cfg_init() copies all of it, names included. */
	return cfg_init(top, CFGF_NONE);
}

/* Some of libconfuse's errors have no message; the last line read is near. */
static int last_line(cfg_t *cfg)
{
	static const char *const kinds[] = { "redis", "path" };
	int line = cfg->line;

	for (size_t k = 0; k < 2; k++) {
		unsigned n = cfg_size(cfg, kinds[k]);
		cfg_t *sec = n ? cfg_getnsec(cfg, kinds[k], n - 1) : NULL;

		if (sec && sec->line > line)
			line = sec->line;
	}
	return line;
}

int dlk_syntax_parse(struct dlk_build *b, const char *text, cfg_t **out)
{
	cfg_t *cfg = create();
	int ret;

	if (!cfg)
		return dlk_no_memory(b);
	running = b;
	dlk_syntax_streams();
	cfg_set_error_function(cfg, on_error);
	cfg_set_validate_func(cfg, "redis", on_section);
	cfg_set_validate_func(cfg, "path", on_section);
	ret = cfg_parse_buf(cfg, text);
	if (ret != CFG_SUCCESS) {
		dlk_fail(b, last_line(cfg), "this is no option and no section");
		dlk_syntax_free(cfg);
		running = NULL;
		return -EINVAL;
	}
	/* Reading the values reports nothing: they are as they were parsed. */
	running = NULL;
	*out = cfg;
	return 0;
}

void dlk_syntax_free(cfg_t *cfg)
{
	if (cfg)
		cfg_free(cfg);
}
