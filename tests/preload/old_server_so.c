/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into redis-server: one that says it was started an hour ago.  It
 * notes its start by time(2), and tells the time by gettimeofday(2).
 */
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

time_t time(time_t *t)
{
	struct timeval now;

	gettimeofday(&now, NULL);
	now.tv_sec -= 3600;
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
