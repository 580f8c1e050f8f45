/* SPDX-License-Identifier: MIT */
/*
 * Many owners of record locks on one file, each a process of its own:
 *
 *	many_owners FILE hold		then, a number a line: until there are
 *					so many, each with a byte; answers how
 *					many there are.  They end with the
 *					input
 *	many_owners FILE one TIMES	one owner more, far behind those: the
 *					medians in nanoseconds of a lock, an
 *					unlock, a refused lock, and F_GETLK of
 *					all of the file
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { FAR = 1000000, MOST = 2000 };
enum { LOCK, UNLOCK, REFUSED, GET, KINDS };

static const char *name;
static int last[2]; /* its end is the end of all owners */

static int set(int fd, int cmd, off_t start, off_t len, short type)
{
	struct flock l = { .l_type = type, .l_start = start, .l_len = len };

	return fcntl(fd, cmd, &l);
}

/* --- hold ----------------------------------------------------------------- */

static _Noreturn void own(int n, int told)
{
	char c = 'l';

	close(last[1]);
	if (set(opened(name), F_SETLK, 2 * n, 1, F_WRLCK) < 0)
		die("F_SETLK");
	if (write(told, &c, 1) != 1)
		die("write");
	while (read(last[0], &c, 1) < 0 && errno == EINTR)
		;
	exit(0);
}

static void one_more(int n)
{
	int told[2];
	char c;

	if (pipe(told) < 0)
		die("pipe");
	switch (fork()) {
	case -1:
		die("fork");
	case 0:
		close(told[0]);
		own(n, told[1]);
	}
	close(told[1]);
	if (read(told[0], &c, 1) != 1)
		exit(1);
	close(told[0]);
}

static int hold(void)
{
	char line[32];
	int n = 0;

	if (pipe(last) < 0)
		die("pipe");
	while (fgets(line, sizeof(line), stdin)) {
		while (n < strtol(line, NULL, 10) && n < MOST)
			one_more(n++);
		printf("%d\n", n);
		fflush(stdout);
	}
	return 0;
}

/* --- one ------------------------------------------------------------------ */

static long long timed(int kind, int fd)
{
	const long long began = now_ns();
	int got = 0;

	switch (kind) {
	case LOCK:
		got = set(fd, F_SETLK, FAR, 1, F_WRLCK);
		break;
	case UNLOCK:
		got = set(fd, F_SETLK, FAR, 1, F_UNLCK);
		break;
	case REFUSED:
		set(fd, F_SETLK, 0, 0, F_WRLCK);
		break;
	case GET:
		got = set(fd, F_GETLK, 0, FAR, F_WRLCK);
		break;
	}
	if (got < 0)
		die("fcntl");
	return now_ns() - began;
}

static int one(size_t times)
{
	long long *ns[KINDS];
	int fd = opened(name);

	for (int k = 0; k < KINDS; k++)
		if (!(ns[k] = calloc(times, sizeof(*ns[k]))))
			die("calloc");
	for (size_t i = 0; i < times; i++)
		for (int k = 0; k < KINDS; k++)
			ns[k][i] = timed(k, fd);
	for (int k = 0; k < KINDS; k++)
		printf("%lld ", median(ns[k], times));
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	name = argv[1];
	if (strcmp(argv[2], "hold") == 0)
		return hold();
	return argc == 4 ? one(strtoul(argv[3], NULL, 10)) : 2;
}
