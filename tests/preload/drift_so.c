/* SPDX-License-Identifier: MIT */
/*
 * A clock that drifts: whoever is preloaded with it takes a second for DRIFT
 * seconds ("1.01" is fast by 1 %), by all clocks that count from the start.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CLOCKS = CLOCK_BOOTTIME + 1 };

static struct timespec began[CLOCKS];
static double rate; /* 0: not begun, or none is given */

__attribute__((constructor)) static void begin(void)
{
	const char *drift = getenv("DRIFT");

	for (clockid_t c = 0; c < CLOCKS; c++)
		syscall(SYS_clock_gettime, c, &began[c]);
	rate = drift ? strtod(drift, NULL) : 0;
}

static bool drifts(clockid_t c)
{
	return rate > 0 && c >= 0 && c < CLOCKS &&
	       c != CLOCK_PROCESS_CPUTIME_ID && c != CLOCK_THREAD_CPUTIME_ID;
}

int clock_gettime(clockid_t c, struct timespec *t)
{
	const int r = (int)syscall(SYS_clock_gettime, c, t);
	double passed;

	if (r < 0 || !drifts(c))
		return r;
	passed = (double)(t->tv_sec - began[c].tv_sec) +
		 (double)(t->tv_nsec - began[c].tv_nsec) / 1e9;
	passed = passed * rate + (double)began[c].tv_nsec / 1e9;
	t->tv_sec = began[c].tv_sec + (time_t)passed;
	t->tv_nsec = (long)((passed - (double)(time_t)passed) * 1e9);
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec t;

	(void)tz;
	if (clock_gettime(CLOCK_REALTIME, &t) < 0)
		return -1;
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (at)
		*at = t.tv_sec;
	return t.tv_sec;
}
