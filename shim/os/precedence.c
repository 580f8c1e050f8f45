/* SPDX-License-Identifier: MIT */
/* See precedence.h. */
#include "os/precedence.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "os/sys.h"

/* (Of Linux 2.6.32; not in every libc's header.) */
#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

static bool has_no_filter(void *none, const char *line)
{
	if (strncmp(line, "Seccomp:", 8) != 0)
		return true;
	*(bool *)none = strcmp(line + 8, "\t0") == 0;
	return false;
}

/* A filter may kill for a call that its author did not think of: seccomp(2). */
static bool may_ask(void)
{
	bool none = false;

	return dlk_each_line("/proc/thread-self/status", has_no_filter,
			     &none) &&
	       none;
}

static bool is_real_time(void)
{
	const long policy = dlk_syscall(SYS_sched_getscheduler, 0);

	return policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_BATCH &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_IDLE;
}

static __thread bool comes_first;

void dlk_come_first(void)
{
	const struct sched_param least = { .sched_priority = 1 };

	if (!comes_first && may_ask() && !is_real_time())
		comes_first = dlk_syscall(SYS_sched_setscheduler, 0,
					  SCHED_RR | SCHED_RESET_ON_FORK,
					  &least) == 0;
}

void dlk_step_back(void)
{
	const struct sched_param none = { 0 };

	if (comes_first)
		dlk_syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
	comes_first = false;
}
