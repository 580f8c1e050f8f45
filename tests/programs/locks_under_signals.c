/* SPDX-License-Identifier: MIT */
/*
 * A lock call that signals meet.
 *
 *	storm FILE MS	locks, while a SA_RESTART handler runs every
 *				MS: "RESULT TOOK-MS SIGNALS"
 *	alarm FILE MS...	locks, with a SIGALRM after MS, whose handler
 *				has no SA_RESTART: "RESULT LATE-MS" for each
 *
 * RESULT is 0 or the name of the errno.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { AGAIN_MS = 3000 };

static volatile sig_atomic_t signals;

static void handler(int sig)
{
	(void)sig;
	signals++;
}

static void set_timer(long first_ms, long then_ms)
{
	const struct itimerval it = {
		.it_value = { first_ms / 1000, first_ms % 1000 * 1000 },
		.it_interval = { then_ms / 1000, then_ms % 1000 * 1000 },
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

static int storm(char **arg)
{
	long every = strtol(arg[1], NULL, 10), begin = now_ms();
	int fd = opened(arg[0]);
	const char *result;
	char line[64];

	handle(SIGALRM, handler, SA_RESTART);
	set_timer(every, every);
	result = outcome(flock(fd, LOCK_EX));
	set_timer(0, 0);
	snprintf(line, sizeof(line), "%s %ld %d", result, now_ms() - begin,
		 (int)signals);
	tell(line);
	wait_for_go();
	return 0;
}

/* A signal that is lost comes again, much later: nothing hangs. */
static int alarms(char **arg)
{
	int fd = opened(arg[0]);

	handle(SIGALRM, handler, 0);
	for (arg++; *arg; arg++) {
		long after = strtol(*arg, NULL, 10), begin = now_ms();
		const char *result;
		char line[64];

		set_timer(after, AGAIN_MS);
		result = outcome(flock(fd, LOCK_EX));
		set_timer(0, 0);
		snprintf(line, sizeof(line), "%s %ld", result,
			 now_ms() - begin - after);
		tell(line);
	}
	return 0;
}

static const struct command commands[] = {
	{ "storm", 2, storm },
	{ "alarm", 2, alarms },
	{ 0 },
};

int main(int argc, char **argv)
{
	return run_command(commands, argc, argv);
}
