/* SPDX-License-Identifier: MIT */
/*
 * dlockctl: what its verbs are given, and what they share.
 *
 * A verb prints its result on stdout and everything else on stderr, and
 * returns the exit code.  It changes no lock unless its name says so.
 */
#ifndef DLK_TOOLS_CTL_H
#define DLK_TOOLS_CTL_H

#include <stdbool.h>

#include "config/config.h"
#include "tools/json.h"

/* Every option of every verb; arguments.c has their names. */
enum ctl_option {
	OPT_CONFIG,
	OPT_REDIS,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION,
	OPT_PATH,
	OPT_HOST,
	OPT_HERE,
	OPT_WAITING,
	OPT_OLDER,
	OPT_SORT,
	OPT_TOKEN,
	OPT_YES,
	OPT_WARNING,
	OPT_CRITICAL,
	OPT_PROMETHEUS,
	OPT_AS,
	OPT_NOWAIT,
	OPT_WAIT,
	OPT_SHARED,
	OPT_INTERVAL,
	OPT_COUNT,
	N_OPTIONS,
};

struct ctl {
	const char *given[N_OPTIONS]; /* its argument, or ""; NULL: not given */
	/*
	 * The object that a verb adds its members to, for --json; else NULL.
	 * What is said meanwhile, and the exit code, are added after it.
	 */
	struct json *json;
	struct dlk_config *config;
	int argc; /* the verb's own arguments */
	char **argv;
};

/*
 * arguments.c: the options, wherever they stand, and after them what is left.
 * Behind the word with which `ends_options` says so none is looked for.  False,
 * after a message: one of them is none.
 */
typedef bool ctl_ends_fn(const struct ctl *ctl);
bool ctl_arguments(struct ctl *ctl, int argc, char **argv,
		   ctl_ends_fn *ends_options);
/* "--older", as a message has it. */
const char *ctl_option_name(enum ctl_option option);
/* --older and its like: 0 and the milliseconds, or an exit code. */
int ctl_option_duration(const struct ctl *ctl, enum ctl_option option,
			uint64_t *ms);

/*
 * Mark those locks of this host whose file is no more under its name: it was
 * renamed, replaced or removed.  After holders_find(), for it is by who has them;
 * asks the file system, for a second at most.
 */
struct scan;
void ctl_mark_moved(const struct dlk_config *config, struct scan *scan);

/*
 * ctl_config.c: the configuration of verbs that look at locks, and not at one
 * path.  `file` (may be NULL) and all that dlock run has written; or what has
 * a default key at one Redis.  0, or an exit code after a message.
 */
int ctl_config_all(const char *file, struct dlk_config **out);
int ctl_config_redis(const char *url, struct dlk_config **out);

/* check.c: its line where it could not look, and why; its exit code. */
int ctl_check_unknown(const struct ctl *ctl, const char *why);

/* doctor.c: the same; what `rc` says is wrong with the configuration is a
 * finding. */
int ctl_doctor_unable(const struct ctl *ctl, int rc, const char *why);

int verb_list(const struct ctl *ctl);
int verb_show(const struct ctl *ctl);
int verb_watch(const struct ctl *ctl);
int verb_history(const struct ctl *ctl);
int verb_lock(const struct ctl *ctl);
int verb_break(const struct ctl *ctl);
int verb_check(const struct ctl *ctl);
int verb_doctor(const struct ctl *ctl);
int verb_stats(const struct ctl *ctl);
int verb_explain(const struct ctl *ctl);

#endif
