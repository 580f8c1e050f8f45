/* SPDX-License-Identifier: MIT */
/*
 * Who only asks for a record lock must not keep others from theirs.
 *
 *	hold FILE START LEN		lock it, until the input ends
 *	ask FILE START LEN		try to lock it, again and again, until
 *					the input ends: "GRANTED REFUSED 0"
 *	stale FILE START LEN		lock it, close it so that no library
 *					sees it, then lock and unlock what is
 *					behind it, again and again
 *	try FILE START LEN HOW N	N times: "REFUSED P50 P99" (us)
 *
 * HOW: posix, ofd, lockf or get (F_GETLK, "refused" if it names a holder).
 * hold, ask and stale say "ready 0 0" when they have begun.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { TRIES_MAX = 100000 };

static int fd;
static long start, len;

static struct flock bytes(int type)
{
	return (struct flock){
		.l_type = (short)type,
		.l_start = start,
		.l_len = len,
	};
}

static int set(int cmd, int type)
{
	struct flock l = bytes(type);

	return fcntl(fd, cmd, &l) ? errno : 0;
}

static bool input_ended(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

static int hold(void)
{
	if (set(F_SETLK, F_WRLCK))
		return 1;
	puts("ready 0 0");
	fflush(stdout);
	getchar();
	return set(F_SETLK, F_UNLCK);
}

static int ask(void)
{
	long granted = 0, refused = 0;

	puts("ready 0 0");
	fflush(stdout);
	while (!input_ended()) {
		int err = set(F_SETLK, F_WRLCK);

		if (err && err != EAGAIN)
			return 1;
		refused += err != 0;
		if (err)
			continue;
		granted++;
		if (set(F_SETLK, F_UNLCK))
			return 1;
	}
	printf("%ld %ld 0\n", granted, refused);
	return 0;
}

static int stale(const char *file)
{
	if (set(F_SETLK, F_WRLCK))
		return 1;
	raw_syscall(SYS_close, fd, 0, 0, 0);
	fd = open(file, O_RDWR);
	start += len;
	return ask();
}

static int try(const char *how)
{
	struct flock l = bytes(F_WRLCK);
	int cmd = strcmp(how, "ofd") == 0 ? F_OFD_SETLK : F_SETLK, err;

	if (strcmp(how, "get") == 0)
		return fcntl(fd, F_GETLK, &l) ? errno : l.l_type != F_UNLCK;
	if (strcmp(how, "lockf") == 0)
		err = lockf(fd, F_TLOCK, len) ? errno : 0;
	else
		err = set(cmd, F_WRLCK);
	if (!err && set(cmd, F_UNLCK))
		exit(1);
	return err;
}

static double us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int tries(const char *how, long n)
{
	static double took[TRIES_MAX];
	long refused = 0;

	if (n < 1 || n > TRIES_MAX || lseek(fd, start, SEEK_SET) < 0)
		return 2;
	for (long i = 0; i < n; i++) {
		took[i] = us();
		refused += try(how) != 0;
		took[i] = us() - took[i];
	}
	qsort(took, (size_t)n, sizeof(*took), ascending);
	printf("%ld %.0f %.0f\n", refused, took[n / 2], took[n * 99 / 100]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	fd = open(argv[2], O_RDWR | O_CREAT, 0666);
	start = strtol(argv[3], NULL, 10);
	len = strtol(argv[4], NULL, 10);
	if (fd < 0)
		return 2;
	if (strcmp(argv[1], "hold") == 0)
		return hold();
	if (strcmp(argv[1], "ask") == 0)
		return ask();
	if (strcmp(argv[1], "stale") == 0)
		return stale(argv[2]);
	return argc > 6 ? tries(argv[5], strtol(argv[6], NULL, 10)) : 2;
}
