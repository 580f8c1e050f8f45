/* SPDX-License-Identifier: MIT */
/*
 * dlockctl: what is locked, and why.  The table of verbs and main(); a verb
 * has a file of its own.
 *
 * Exit status: 0; 1 nothing found or a check failed; 64 usage; 69 Redis
 * unavailable; 78 configuration.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"

static const struct verb {
	const char *name;
	const char *arguments;
	int n_arguments;
	bool any; /* it is not about one configuration */
	int (*run)(const struct ctl *ctl);
	const char *help;
} verbs[] = {
	{ "list", "", 0, true, verb_list, "every lock that is held" },
	{ "explain", " PATH", 1, false, verb_explain,
	  "how a path is managed, and why" },
};

enum { N_VERBS = sizeof(verbs) / sizeof(*verbs) };

static void usage(FILE *f)
{
	fputs("usage: dlockctl [-c FILE | --redis URL] [--json] VERB\n"
	      "       dlockctl help | --version\n\n",
	      f);
	for (int i = 0; i < N_VERBS; i++) {
		int pad = 16 - (int)(strlen(verbs[i].name) +
				     strlen(verbs[i].arguments));

		fprintf(f, "  %s%s%*s%s\n", verbs[i].name, verbs[i].arguments,
			pad, "", verbs[i].help);
	}
	fputs("\n  -c, --config FILE  the configuration (else $DLOCK_CONFIG, "
	      "else\n"
	      "                     " DLK_CONFIG_DEFAULT
	      ", and what dlock run\n"
	      "                     has written, for list)\n"
	      "      --redis URL    of list: all default keys there\n"
	      "      --json         for machines\n\n"
	      "Exit status: 0; 1 nothing found or a check failed; 64 usage;\n"
	      "69 Redis unavailable; 78 configuration.  See dlockctl(1).\n",
	      f);
}

static int usage_error(void)
{
	usage(stderr);
	return DLK_EXIT_USAGE;
}

/* What the options and the environment name, and how it was named. */
struct source {
	const char *config, *redis;
};

static int load(const struct verb *verb, struct ctl *ctl,
		const struct source *from)
{
	const char *file = tool_config_file(from->config);
	const char *set = getenv("DLOCK_CONFIG");
	bool named = from->config || (set && *set);

	if (from->redis && (from->config || !verb->any))
		return tool_fail(DLK_EXIT_USAGE,
				 "--redis goes with list, and not with -c");
	if (from->redis)
		return ctl_config_redis(from->redis, &ctl->config);
	if (verb->any && !named)
		return ctl_config_all(file, &ctl->config);
	if (!file)
		return tool_fail(DLK_EXIT_CONFIG,
				 "no configuration: no -c, no "
				 "$DLOCK_CONFIG, no " DLK_CONFIG_DEFAULT);
	return tool_config_load(file, &ctl->config);
}

static int run(const struct verb *verb, struct ctl *ctl,
	       const struct source *from)
{
	int rc;

	if (ctl->argc != verb->n_arguments)
		return tool_fail(DLK_EXIT_USAGE, "usage: dlockctl %s%s",
				 verb->name, verb->arguments);
	rc = load(verb, ctl, from);
	if (!rc)
		rc = verb->run(ctl);
	if (fflush(stdout) || ferror(stdout))
		return tool_fail(DLK_EXIT_NOTHING, "cannot write the result");
	return rc;
}

static int dispatch(struct ctl *ctl, const struct source *from)
{
	const char *name = ctl->argv[0];

	ctl->argc--;
	ctl->argv++;
	for (int i = 0; i < N_VERBS; i++)
		if (!strcmp(name, verbs[i].name))
			return run(&verbs[i], ctl, from);
	if (strcmp(name, "help"))
		return tool_fail(DLK_EXIT_USAGE,
				 "%s: no such verb; see dlockctl help", name);
	usage(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "redis", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	struct source from = { 0 };
	struct ctl ctl = { 0 };
	int c;

	tool_name = "dlockctl";
	while ((c = getopt_long(argc, argv, "c:", longs, NULL)) != -1) {
		if (c == 'h')
			return usage(stdout), 0;
		if (c == 'v')
			return puts("dlockctl " DLK_VERSION), 0;
		if (c == '?')
			return usage_error();
		if (c == 'c')
			from.config = optarg;
		else if (c == 'r')
			from.redis = optarg;
		else
			ctl.json = true;
	}
	ctl.argc = argc - optind;
	ctl.argv = argv + optind;
	return ctl.argc ? dispatch(&ctl, &from) : usage_error();
}
