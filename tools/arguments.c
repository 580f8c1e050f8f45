/* SPDX-License-Identifier: MIT */
/*
 * The command line of dlockctl: one table of all options.  Which of them a verb
 * takes stands with the verbs (dlockctl.c).
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"

/* getopt_long(3) tells the n-th of them by FIRST + n. */
enum { FIRST = 256 };

static const struct option longs[] = {
	[OPT_CONFIG] = { "config", required_argument, NULL, FIRST },
	[OPT_REDIS] = { "redis", required_argument, NULL, FIRST + OPT_REDIS },
	[OPT_JSON] = { "json", no_argument, NULL, FIRST + OPT_JSON },
	[OPT_HELP] = { "help", no_argument, NULL, FIRST + OPT_HELP },
	[OPT_VERSION] = { "version", no_argument, NULL, FIRST + OPT_VERSION },
	[OPT_PATH] = { "path", required_argument, NULL, FIRST + OPT_PATH },
	[OPT_HOST] = { "host", required_argument, NULL, FIRST + OPT_HOST },
	[OPT_HERE] = { "here", no_argument, NULL, FIRST + OPT_HERE },
	[OPT_WAITING] = { "waiting", no_argument, NULL, FIRST + OPT_WAITING },
	[OPT_OLDER] = { "older", required_argument, NULL, FIRST + OPT_OLDER },
	[OPT_SORT] = { "sort", required_argument, NULL, FIRST + OPT_SORT },
	[OPT_TOKEN] = { "token", required_argument, NULL, FIRST + OPT_TOKEN },
	[OPT_YES] = { "yes", no_argument, NULL, FIRST + OPT_YES },
	[OPT_WARNING] = { "warning", required_argument, NULL,
			  FIRST + OPT_WARNING },
	[OPT_CRITICAL] = { "critical", required_argument, NULL,
			   FIRST + OPT_CRITICAL },
	[OPT_PROMETHEUS] = { "prometheus", no_argument, NULL,
			     FIRST + OPT_PROMETHEUS },
	[OPT_AS] = { "as", required_argument, NULL, FIRST + OPT_AS },
	[OPT_NOWAIT] = { "nonblock", no_argument, NULL, FIRST + OPT_NOWAIT },
	[OPT_WAIT] = { "wait", required_argument, NULL, FIRST + OPT_WAIT },
	[OPT_SHARED] = { "shared", no_argument, NULL, FIRST + OPT_SHARED },
	[OPT_INTERVAL] = { "interval", required_argument, NULL,
			   FIRST + OPT_INTERVAL },
	[OPT_COUNT] = { "count", required_argument, NULL, FIRST + OPT_COUNT },
	[N_OPTIONS] = { NULL, 0, NULL, 0 },
};

/* An empty argument is a variable that is unset, and means nothing. */
static bool take(struct ctl *ctl, enum ctl_option option)
{
	ctl->given[option] = optarg ? optarg : "";
	if (!optarg || *optarg)
		return true;
	tool_say("%s: its argument is empty (is a variable unset?)",
		 ctl_option_name(option));
	return false;
}

/* Is it the beginning of a long option's name? */
static bool is_begun(const char *name)
{
	for (const struct option *o = longs; o->name; o++)
		if (!strncmp(o->name, name, strcspn(name, "=")))
			return true;
	return false;
}

/* Of a word that is no option, and of one that may be several, optopt is 0. */
static void complain(int c, const char *word)
{
	char letter[] = { '-', (char)optopt, '\0' };
	const char *what = "no such option";

	if (optopt && optopt < FIRST)
		word = letter;
	if (c == ':')
		what = "an argument is missing";
	else if (optopt >= FIRST)
		what = "it takes no argument";
	else if (!optopt && is_begun(word + strlen("--")))
		what = "it may be several options";
	tool_say("%s: %s", word, what);
}

/*
 * What is wrong does not end it: --json may come yet.  With '-' a word that is
 * no option comes in its turn, as 1; it is kept in front of what is not read.
 */
bool ctl_arguments(struct ctl *ctl, int argc, char **argv,
		   ctl_ends_fn *ends_options)
{
	bool right = true;
	int c;

	opterr = 0;
	ctl->argv = argv + 1;
	while (!ends_options(ctl) &&
	       (c = getopt_long(argc, argv, "-:c:nw:", longs, NULL)) != -1) {
		if (c == 1) {
			ctl->argv[ctl->argc++] = optarg;
			continue;
		}
		if (c == 'c')
			c = FIRST + OPT_CONFIG;
		if (c == 'n')
			c = FIRST + OPT_NOWAIT;
		if (c == 'w')
			c = FIRST + OPT_WAIT;
		if (c < FIRST)
			complain(c, argv[optind - 1]);
		right = c >= FIRST && take(ctl, c - FIRST) && right;
	}
	memmove(ctl->argv + ctl->argc, argv + optind,
		(size_t)(argc - optind + 1) * sizeof(*argv));
	ctl->argc += argc - optind;
	return right;
}

const char *ctl_option_name(enum ctl_option option)
{
	static char name[32];

	snprintf(name, sizeof(name), "--%s", longs[option].name);
	return name;
}

int ctl_option_duration(const struct ctl *ctl, enum ctl_option option,
			uint64_t *ms)
{
	if (!ctl->given[option] || !dlk_duration(ctl->given[option], ms))
		return 0;
	return tool_fail(DLK_EXIT_USAGE,
			 "%s: '%s' is not a duration (90s, 5m, 2h)",
			 ctl_option_name(option), ctl->given[option]);
}
