/* SPDX-License-Identifier: MIT */
/*
 * A program that calls while it is still being relocated: from the resolver
 * of an indirect function.  What came of it: close(), and with "ifunc" as its
 * file, flock() (LOCK_NB) and unlocking; then dup2() to another number, to its
 * own, and of none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int results[6];

static int copied(int from, int to)
{
	return dup2(from, to) == to ? 0 : errno;
}

static int answer(void)
{
	return 0;
}

static int (*resolve(void))(void)
{
	int fd = open("ifunc", O_RDWR);

	if (fd >= 0) {
		results[1] = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
		results[2] = flock(fd, LOCK_UN) ? errno : 0;
	} else {
		fd = open("/dev/null", O_RDONLY);
	}
	results[3] = copied(fd, 100);
	results[4] = copied(fd, fd);
	results[5] = copied(101, 101);
	results[0] = close(fd) ? errno : 0;
	return answer;
}

int resolved(void) __attribute__((ifunc("resolve")));

int main(void)
{
	int r = resolved();

	for (int i = 0; i < 6; i++)
		printf("%s ", results[i] ? strerrorname_np(results[i]) : "0");
	printf("\n");
	return r;
}
