/* SPDX-License-Identifier: MIT */
/*
 * Many locks on one file, one after another:
 *
 *	many_ranges FILE ranges N	N bytes, no two adjacent, of one process
 *	many_ranges FILE owners N	a read lock on the same byte by each of
 *					N descriptions (OFD locks)
 *	many_ranges FILE hold N		as `ranges`, and stays until its input
 *					ends; prints N, and no times
 *
 * Prints the median nanoseconds of the first hundred locks, of the last
 * hundred, and of the last hundred unlocks.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { SAMPLE = 100 };

static long long timed(int fd, int cmd, long start, short type)
{
	struct flock l = { .l_type = type, .l_start = start, .l_len = 1 };
	const long long began = now_ns();

	if (fcntl(fd, cmd, &l) < 0)
		die("fcntl");
	return now_ns() - began;
}

static int another(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0666);

	if (fd < 0)
		die(name);
	return fd;
}

int main(int argc, char **argv)
{
	const struct rlimit files = { 4096, 4096 };
	long long first[SAMPLE] = { 0 }, last[SAMPLE] = { 0 };
	long n;
	bool owners;
	int fd;

	if (argc != 4)
		return 2;
	owners = strcmp(argv[2], "owners") == 0;
	n = strtol(argv[3], NULL, 10);
	setrlimit(RLIMIT_NOFILE, &files);
	fd = another(argv[1]);
	for (long i = 0; i < n; i++) {
		long long ns = owners ? timed(fd = another(argv[1]),
					      F_OFD_SETLK, 0, F_RDLCK)
				      : timed(fd, F_SETLK, 2 * i, F_WRLCK);

		if (i < SAMPLE)
			first[i] = ns;
		last[i % SAMPLE] = ns;
	}
	if (strcmp(argv[2], "hold") == 0) {
		printf("%ld\n", n);
		fflush(stdout);
		while (getchar() != EOF)
			;
		return 0;
	}
	printf("%lld %lld", median(first, SAMPLE), median(last, SAMPLE));
	for (long i = 0; i < SAMPLE; i++)
		last[i] = owners ? timed(fd--, F_OFD_SETLK, 0, F_UNLCK)
				 : timed(fd, F_SETLK, 2 * (n - 1 - i), F_UNLCK);
	printf(" %lld\n", median(last, SAMPLE));
	return 0;
}
