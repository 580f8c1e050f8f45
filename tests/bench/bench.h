/* SPDX-License-Identifier: MIT */
/* What the benchmarks measure by: a clock, and the median of many. */
#ifndef DLK_BENCH_H
#define DLK_BENCH_H

#include <stdlib.h>
#include <time.h>

static inline long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline int compare(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static inline long long median(long long *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

#endif
