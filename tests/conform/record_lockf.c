/* SPDX-License-Identifier: MIT */
/*
 * lockf(3): POSIX write locks from the offset on, forwards, backwards, or to
 * the end; F_TEST takes what is ours for free.
 */
#include "records.h"

static void ours(int fd)
{
	SHOW(lseek(fd, 100, SEEK_SET));
	SHOW(lockf(fd, F_LOCK, 10));
	SHOW(lockf(fd, F_TLOCK, -10));
	HELD();
	SHOW(lockf(fd, F_TEST, 0));
	SHOW(lockf(fd, F_TEST, -100));
	SHOW(lockf(fd, F_ULOCK, 5));
	HELD();
	SHOW(lockf64(fd, F_TLOCK, 0));
	HELD();
	SHOW(lockf(fd, F_TLOCK, -101));
	SHOW(lockf(fd, F_TLOCK, INT64_MAX));
	SHOW(lockf(fd, F_TEST, -101));
	SHOW(lockf64(fd, F_ULOCK, -20));
	HELD();
	SHOW(lockf(fd, F_ULOCK, 0));
	HELD();
}

static void theirs(void)
{
	int fd = opened("f", O_RDWR), ro = open("f", O_RDONLY);

	SHOW(lockf(fd, F_TEST, 0));
	SHOW(lockf64(fd, F_TEST, 10));
	SHOW(lockf(fd, F_TLOCK, 11));
	SHOW(lockf(fd, F_TLOCK, 10));
	SHOW(lockf(ro, F_TEST, 0));
	SHOW(lockf(ro, F_TLOCK, 1));
	SHOW(lseek(fd, 20, SEEK_SET));
	SHOW(lockf(fd, F_TEST, -20));
	SHOW(lockf(fd, F_TEST, -10));
	SHOW(lockf(fd, F_LOCK, -10));
	HELD();
	SHOW(lockf(fd, F_ULOCK, -20));
	HELD();
}

static void wrong(int fd)
{
	SHOW(lockf(fd, 17, 0));
	SHOW(lockf(fd, -1, 0));
	SHOW(lockf(-1, F_LOCK, 0));
	SHOW(lockf(-1, F_TLOCK, 0));
	SHOW(lockf(-1, F_TEST, 0));
	SHOW(lockf(-1, F_ULOCK, 0));
	SHOW(lockf(-1, 17, 0));
	SHOW(lockf(open("f", O_PATH), F_TLOCK, 0));
	SHOW(lockf(open("f", O_PATH), F_ULOCK, 0));
}

static void read_lock(void)
{
	int fd = opened("f", O_RDWR);

	/* It asks for a read lock: others' are not in its way. */
	SHOW(lockf(fd, F_TEST, 0));
	SHOW(lockf(fd, F_TLOCK, 0));
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	ours(fd);
	SHOW(lseek(fd, 10, SEEK_SET));
	SHOW(lockf(fd, F_LOCK, 10));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(lockf(fd, F_ULOCK, 10));
	SHOW(SET(fd, F_UNLCK, 0, 0));
	SHOW(lockf(fd, F_LOCK, 10));
	HELD();
	IN_CHILD(theirs());
	wrong(fd);
	HELD();
	SHOW(SET(fd, F_RDLCK, 0, 0));
	IN_CHILD(read_lock());
	HELD();
	SHOW(lockf(fd, F_ULOCK, 0));
	HELD();
	leave_nothing("f");
	return 0;
}
