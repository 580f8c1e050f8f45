/* SPDX-License-Identifier: MIT */
/*
 * flock(2) and record locks do not see each other (flock(2), on a local file
 * system).
 */
#include "records.h"

static void others(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(SET(fd, F_WRLCK, 0, 0));
	SHOW(OFD(fd, F_WRLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	SHOW(flock(fd, LOCK_UN));
}

int main(void)
{
	int fd, copy;

	prober_start("f");
	fd = opened("f", O_RDWR);
	SHOW(flock(fd, LOCK_EX));
	SHOW(SET(fd, F_WRLCK, 0, 10));
	HELD();
	SHOW(flock(fd, LOCK_UN));
	IN_CHILD(others());
	SHOW(flock(fd, LOCK_EX));
	SHOW(SET(fd, F_UNLCK, 0, 0));
	IN_CHILD(others());
	/* Of one file: the process's go with any descriptor, flock's do not. */
	SHOW(SET(fd, F_WRLCK, 0, 10));
	copy = dup(fd);
	SHOW(close(copy));
	HELD();
	IN_CHILD(others());
	PROBE("f");
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	SHOW(close(fd));
	PROBE("f");
	HELD();
	leave_nothing("f");
	return 0;
}
