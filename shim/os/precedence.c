/* SPDX-License-Identifier: MIT */
/* See precedence.h. */
#include "os/precedence.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
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

static bool is_real_time(long policy)
{
	policy &= ~SCHED_RESET_ON_FORK;
	return policy != SCHED_OTHER && policy != SCHED_BATCH &&
	       policy != SCHED_IDLE;
}

/* Who comes first for so long without a sleep is killed: RLIMIT_RTTIME. */
static bool has_limit(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_RTTIME, &rl) < 0 ||
	       rl.rlim_cur != RLIM_INFINITY;
}

/* By its number, for a child has a copy of this, and not the priority. */
static __thread struct {
	long tid; /* 0: it does not come first by us */
	long policy;
} first;

void dlk_come_first(void)
{
	const struct sched_param least = { .sched_priority = 1 };
	const long tid = dlk_syscall(SYS_gettid);
	const long policy = dlk_syscall(SYS_sched_getscheduler, 0);

	if (first.tid == tid || policy < 0 || is_real_time(policy) ||
	    has_limit() || !may_ask() ||
	    dlk_syscall(SYS_sched_setscheduler, 0,
			SCHED_RR | SCHED_RESET_ON_FORK, &least) < 0)
		return;
	first.tid = tid;
	first.policy = policy;
}

void dlk_step_back(void)
{
	const struct sched_param none = { 0 };

	if (!first.tid || first.tid != dlk_syscall(SYS_gettid))
		return;
	/* To give up the flag wants CAP_SYS_NICE. */
	if (dlk_syscall(SYS_sched_setscheduler, 0, first.policy, &none) == 0 ||
	    dlk_syscall(SYS_sched_setscheduler, 0,
			first.policy | SCHED_RESET_ON_FORK, &none) == 0)
		first.tid = 0;
}
