/* SPDX-License-Identifier: MIT */
/*
 * An owner's ranges split, merge and change their type: what is asked for
 * replaces what is there (fcntl(2)).
 */
#include "records.h"

static void split(int fd)
{
	SHOW(SET(fd, F_WRLCK, 100, 100));
	HELD();
	SHOW(SET(fd, F_UNLCK, 120, 10));
	HELD();
	SHOW(SET(fd, F_UNLCK, 100, 5));
	SHOW(SET(fd, F_UNLCK, 190, 100));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 50));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	HELD();
}

static void merge(int fd)
{
	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 20, 10));
	HELD();
	SHOW(SET(fd, F_RDLCK, 10, 10));
	HELD();
	SHOW(SET(fd, F_RDLCK, 25, 100));
	HELD();
	SHOW(SET(fd, F_RDLCK, 5, 10));
	HELD();
	SHOW(SET(fd, F_WRLCK, 125, 5));
	HELD();
	SHOW(SET(fd, F_RDLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
}

static void upgrade(int fd)
{
	SHOW(SET(fd, F_RDLCK, 0, 100));
	SHOW(SET(fd, F_WRLCK, 40, 20));
	HELD();
	SHOW(SET(fd, F_WRLCK, 0, 100));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
}

static void downgrade(int fd)
{
	SHOW(SET(fd, F_WRLCK, 0, 100));
	SHOW(SET(fd, F_RDLCK, 40, 20));
	HELD();
	/* Some of it is new, some weaker, some as it was. */
	SHOW(SET(fd, F_RDLCK, 30, 100));
	HELD();
	SHOW(SET(fd, F_RDLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	HELD();
}

/* Two descriptors of one process are one owner. */
static void by_two(int a, int b)
{
	SHOW(SET(a, F_WRLCK, 0, 10));
	SHOW(SET(b, F_WRLCK, 20, 10));
	HELD();
	SHOW(SET(b, F_WRLCK, 10, 10));
	HELD();
	SHOW(SET(b, F_UNLCK, 5, 20));
	HELD();
	SHOW(SET(a, F_RDLCK, 0, 0));
	HELD();
	SHOW(SET(a, F_UNLCK, 0, 0));
	HELD();
}

int main(void)
{
	int fd, other;

	prober_start("f");
	fd = opened("f", O_RDWR);
	other = opened("f", O_RDWR);
	split(fd);
	merge(fd);
	upgrade(fd);
	downgrade(fd);
	by_two(fd, other);
	leave_nothing("f");
	return 0;
}
