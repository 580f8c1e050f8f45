/* SPDX-License-Identifier: MIT */
/*
 * Becoming the command.  Its environment is ours with two variables set: the
 * shim stands first in LD_PRELOAD, what was there stays behind it.
 */
#include "tools/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/log.h"
#include "tools/common.h"

/* Is the shim first already (dlock run under dlock run)? */
static bool first_in(const char *list, const char *shim)
{
	size_t len = strlen(shim);

	return !strncmp(list, shim, len) && strchr(": ", list[len]);
}

static int preload(const char *shim)
{
	const char *old = getenv("LD_PRELOAD");
	char *list;
	int err;

	if (!old || !*old)
		return setenv("LD_PRELOAD", shim, 1);
	if (first_in(old, shim))
		return 0;
	if (asprintf(&list, "%s:%s", shim, old) < 0)
		return -1;
	err = setenv("LD_PRELOAD", list, 1);
	free(list);
	return err;
}

int run_exec(const struct run_options *opt, const struct run_plan *plan)
{
	const char *disable = getenv("DLOCK_DISABLE");

	if (disable && !strcmp(disable, "1"))
		tool_say("warning: DLOCK_DISABLE is set: %s runs UNLOCKED",
			 opt->argv[0]);
	dlk_log_init(getenv("DLOCK_LOG"), true);
	dlk_log_complain();
	if (preload(plan->shim) || setenv("DLOCK_CONFIG", plan->config, 1))
		return tool_fail(DLK_EXIT_CANNOT, "%s", strerror(errno));
	execvp(plan->program, opt->argv);
	return tool_fail(errno == ENOENT ? DLK_EXIT_NOT_FOUND : DLK_EXIT_CANNOT,
			 "%s: %s", opt->argv[0], strerror(errno));
}
