/* SPDX-License-Identifier: MIT */
/*
 * A child of fork(2) starts without POSIX locks, and what it does to its
 * descriptors leaves its parent's where they are (fcntl(2)).
 */
#include "records.h"

static void child(int fd)
{
	struct flock l = { .l_type = F_WRLCK };

	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(fcntl(fd, F_GETLK, &l));
	printf("%d of the parent: %d\n", __LINE__, l.l_pid == getppid());
	SHOW(SET(fd, F_UNLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_WRLCK, 20, 10));
	SHOW(SET(fd, F_RDLCK, 40, 10));
	HELD();
	SHOW(close(opened("f", O_RDONLY)));
	HELD();
	SHOW(SET(fd, F_WRLCK, 20, 10));
	SHOW(close(fd));
	HELD();
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 40, 10));
	HELD();
	IN_CHILD(child(fd));
	HELD();
	SHOW(SET(fd, F_WRLCK, 40, 10));
	HELD();
	/* It ends with what it holds. */
	IN_CHILD(SHOW(SET(fd, F_WRLCK, 60, 10)));
	HELD();
	SHOW(SET(fd, F_WRLCK, 60, 10));
	SHOW(close(fd));
	HELD();
	leave_nothing("f");
	return 0;
}
