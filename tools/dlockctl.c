/* SPDX-License-Identifier: MIT */
/*
 * dlockctl: what is locked, and why.  The table of verbs and main(); a verb
 * has a file of its own.
 *
 * Exit status: 0; 1 nothing found or a check failed; 64 usage; 69 Redis
 * unavailable; 77 not allowed; 78 configuration.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"

/* The version of what --json prints: dlockctl(1), MACHINE OUTPUT. */
enum { SCHEMA = 1 };

/* Where check and doctor could not look. */
enum { UNKNOWN = 3 };

#define TAKES(option) (1U << (option))
#define ANY_VERB                                                               \
	(TAKES(OPT_CONFIG) | TAKES(OPT_JSON) | TAKES(OPT_HELP) |               \
	 TAKES(OPT_VERSION))
#define FILTERS                                                                \
	(TAKES(OPT_PATH) | TAKES(OPT_HOST) | TAKES(OPT_HERE) |                 \
	 TAKES(OPT_WAITING) | TAKES(OPT_OLDER))

static const struct verb {
	const char *name;
	const char *arguments;
	int least, most; /* so many arguments */
	bool any;        /* it is not about one configuration */
	unsigned takes;
	int (*run)(const struct ctl *ctl);
	const char *help;
} verbs[] = {
	{ "list", "", 0, 0, true, TAKES(OPT_REDIS) | TAKES(OPT_SORT) | FILTERS,
	  verb_list, "every lock that is held" },
	{ "show", " PATH", 1, 1, false, 0, verb_show,
	  "one file: who holds it, who waits, who has it in this kernel" },
	{ "watch", "", 0, 0, true,
	  TAKES(OPT_REDIS) | TAKES(OPT_SORT) | TAKES(OPT_INTERVAL) |
		  TAKES(OPT_COUNT) | FILTERS,
	  verb_watch, "the list, again and again" },
	{ "history", " PATH", 1, 1, false, 0, verb_history,
	  "what befell a file's leases, as far as it is recorded" },
	{ "lock", " KEY|PATH -- CMD", 2, INT_MAX, false,
	  TAKES(OPT_REDIS) | TAKES(OPT_NOWAIT) | TAKES(OPT_WAIT) |
		  TAKES(OPT_SHARED),
	  verb_lock, "run a command while a lease is held" },
	{ "break", " PATH|--token T", 0, 1, true,
	  TAKES(OPT_REDIS) | TAKES(OPT_TOKEN) | TAKES(OPT_YES), verb_break,
	  "take a lease away from who holds it" },
	{ "check", "", 0, 0, true,
	  TAKES(OPT_REDIS) | TAKES(OPT_WARNING) | TAKES(OPT_CRITICAL) | FILTERS,
	  verb_check, "one line and 0, 1, 2 or 3, for monitoring" },
	{ "stats", "", 0, 0, true,
	  TAKES(OPT_REDIS) | TAKES(OPT_PROMETHEUS) | FILTERS, verb_stats,
	  "servers and locks in numbers" },
	{ "doctor", "", 0, 0, false, TAKES(OPT_AS), verb_doctor,
	  "what is wrong with this setup, why, and what to do" },
	{ "explain", " PATH", 1, 1, false, 0, verb_explain,
	  "how a path is managed, and why" },
};

enum { N_VERBS = sizeof(verbs) / sizeof(*verbs) };

static void usage(FILE *f)
{
	fputs("usage: dlockctl [-c FILE | --redis URL] [--json] VERB "
	      "[OPTION]...\n"
	      "       dlockctl help | --version\n\n",
	      f);
	for (int i = 0; i < N_VERBS; i++) {
		int pad = 23 - (int)(strlen(verbs[i].name) +
				     strlen(verbs[i].arguments));

		fprintf(f, "  %s%s%*s%s\n", verbs[i].name, verbs[i].arguments,
			pad, "", verbs[i].help);
	}
	fputs("\n  -c, --config FILE  the configuration (else $DLOCK_CONFIG, "
	      "else\n"
	      "                     " DLK_CONFIG_DEFAULT
	      ", and what dlock run\n"
	      "                     has written, likewise)\n"
	      "      --redis URL    default keys there; not of show, history,\n"
	      "                     doctor, explain\n"
	      "      --json         for machines\n\n"
	      "list, watch, check, stats:  --path GLOB  --host GLOB  --here\n"
	      "       --waiting  --older TIME\n"
	      "list, watch: --sort path|host|held|ttl|waiters\n"
	      "watch: --interval TIME  --count N    doctor: --as USER\n"
	      "lock:  -n (do not wait)  -w TIME  --shared\n"
	      "break: --yes (do not ask)\n\n"
	      "Exit status: 0; 1 nothing found or a check failed; 64 usage;\n"
	      "69 Redis unavailable; 77 not allowed; 78 configuration.  See "
	      "dlockctl(1).\n",
	      f);
}

/* --- for machines --------------------------------------------------------- */

/* The last texts, each once, where it was said last: a watch never ends. */
static char *heard[256];
static size_t n_heard;

static void forget_heard(size_t i)
{
	free(heard[i]);
	memmove(heard + i, heard + i + 1, (--n_heard - i) * sizeof(*heard));
}

static void listen(const char *text)
{
	char *kept = strdup(text);
	size_t i = 0;

	if (!kept)
		return;
	while (i < n_heard && strcmp(heard[i], text) != 0)
		i++;
	if (i < n_heard)
		forget_heard(i);
	else if (n_heard == sizeof(heard) / sizeof(*heard))
		forget_heard(0);
	heard[n_heard++] = kept;
}

/* One object, whatever happens: the members of the verb stand between. */
static void json_begin(struct json *j, const char *verb)
{
	json_open(j, NULL, '{');
	json_int(j, "schema", SCHEMA);
	json_text(j, "verb", verb);
}

static void json_end(struct json *j, int status)
{
	json_open(j, "messages", '[');
	for (size_t i = 0; i < n_heard; i++)
		json_text(j, NULL, heard[i]);
	json_close(j, ']');
	json_int(j, "status", status);
	json_close(j, '}');
}

/* --- a verb --------------------------------------------------------------- */

static int load(const struct verb *verb, struct ctl *ctl)
{
	const char *file = tool_config_file(ctl->given[OPT_CONFIG]);
	const char *redis = ctl->given[OPT_REDIS];
	const char *set = getenv("DLOCK_CONFIG");
	bool named = ctl->given[OPT_CONFIG] || (set && *set);

	if (redis && ctl->given[OPT_CONFIG])
		return tool_fail(DLK_EXIT_USAGE, "--redis goes not with -c");
	if (redis)
		return ctl_config_redis(redis, &ctl->config);
	/* A path is that of one configuration's rule. */
	if (verb->any && !ctl->argc && !named)
		return ctl_config_all(file, &ctl->config);
	if (!file)
		return tool_fail(DLK_EXIT_CONFIG,
				 "no configuration: no -c, no "
				 "$DLOCK_CONFIG, no " DLK_CONFIG_DEFAULT);
	return tool_config_load(file, &ctl->config);
}

static int run(const struct verb *verb, struct ctl *ctl)
{
	int rc;

	for (unsigned i = 0; i < N_OPTIONS; i++)
		if (ctl->given[i] && !((verb->takes | ANY_VERB) & TAKES(i)))
			return tool_fail(DLK_EXIT_USAGE,
					 "%s is no option of %s",
					 ctl_option_name(i), verb->name);
	if (ctl->argc < verb->least || ctl->argc > verb->most)
		return tool_fail(DLK_EXIT_USAGE, "usage: dlockctl %s%s",
				 verb->name, verb->arguments);
	rc = load(verb, ctl);
	return rc ? rc : verb->run(ctl);
}

static const struct verb *find_verb(const struct ctl *ctl)
{
	for (int i = 0; ctl->argc && i < N_VERBS; i++)
		if (!strcmp(ctl->argv[0], verbs[i].name))
			return &verbs[i];
	return NULL;
}

/* The last of the least words is a command's first: its options are its own. */
static bool has_command(const struct ctl *ctl)
{
	const struct verb *verb = find_verb(ctl);

	return verb && verb->most == INT_MAX && ctl->argc > verb->least;
}

static int dispatch(struct ctl *ctl, const struct verb *verb, bool right)
{
	if (!right || !ctl->argc) {
		usage(stderr);
		return DLK_EXIT_USAGE;
	}
	if (!verb)
		return tool_fail(DLK_EXIT_USAGE,
				 "%s: no such verb; see dlockctl help",
				 ctl->argv[0]);
	ctl->argc--;
	ctl->argv++;
	return run(verb, ctl);
}

/* Of check and doctor the exit codes are their own, up to UNKNOWN. */
static bool has_own_codes(const struct verb *verb)
{
	return verb && (verb->run == verb_check || verb->run == verb_doctor);
}

static int act(struct ctl *ctl, const struct verb *verb, bool right)
{
	int rc = dispatch(ctl, verb, right);
	const char *why = n_heard ? heard[n_heard - 1] : "";

	if (!has_own_codes(verb) || rc <= UNKNOWN)
		return rc;
	return verb->run == verb_check ? ctl_check_unknown(ctl, why)
				       : ctl_doctor_unable(ctl, rc, why);
}

static int finish(const struct verb *verb, int rc)
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		return tool_fail(
			has_own_codes(verb) ? UNKNOWN : DLK_EXIT_NOTHING,
			"cannot write the result to standard "
			"output%s%s",
			errno ? ": " : "", errno ? strerror(errno) : "");
	return rc;
}

int main(int argc, char **argv)
{
	struct json json = { .f = stdout };
	const struct verb *verb;
	struct ctl ctl = { 0 };
	bool right;
	int rc;

	tool_begin("dlockctl");
	tool_listener = listen;
	right = ctl_arguments(&ctl, argc, argv, has_command);
	if (right &&
	    (ctl.given[OPT_HELP] || (ctl.argc && !strcmp(ctl.argv[0], "help"))))
		return usage(stdout), finish(NULL, 0);
	if (right && ctl.given[OPT_VERSION])
		return puts("dlockctl " DLK_VERSION), finish(NULL, 0);
	verb = find_verb(&ctl);
	if (has_own_codes(verb))
		tool_unable = UNKNOWN;
	if (!ctl.given[OPT_JSON])
		return finish(verb, act(&ctl, verb, right));
	ctl.json = &json;
	json_begin(&json, verb ? verb->name : NULL);
	rc = act(&ctl, verb, right);
	json_end(&json, rc);
	return finish(verb, rc);
}
