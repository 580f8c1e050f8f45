/* SPDX-License-Identifier: MIT */
/* What flock(2) returns, valid arguments and others. */
#include "conform.h"

int main(void)
{
	int a = opened("f", O_RDWR), ro, wo, path, dir, closed;

	SHOW(flock(a, LOCK_EX));
	SHOW(flock(a, LOCK_EX));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	SHOW(flock(a, LOCK_UN));
	SHOW(flock(a, LOCK_UN | LOCK_NB));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_UN));

	/* EINVAL: operation is invalid. */
	SHOW(flock(a, 0));
	SHOW(flock(a, LOCK_NB));
	SHOW(flock(a, LOCK_EX | LOCK_UN));
	SHOW(flock(a, LOCK_EX | LOCK_SH));
	SHOW(flock(a, 0x1000));
	SHOW(flock(a, -1));
	PROBE("f");

	/* EBADF: fd is not an open file descriptor. */
	SHOW(flock(-1, LOCK_EX));
	SHOW(flock(99999, LOCK_EX));
	closed = dup(a);
	close(closed);
	SHOW(flock(closed, LOCK_EX));
	SHOW(flock(closed, LOCK_UN));
	path = open("f", O_PATH);
	SHOW(flock(path, LOCK_EX));
	SHOW(flock(path, LOCK_UN));

	/* The mode of the open does not matter. */
	ro = opened("g", O_RDONLY);
	SHOW(flock(ro, LOCK_EX | LOCK_NB));
	wo = opened("g", O_WRONLY | O_APPEND);
	SHOW(flock(wo, LOCK_EX | LOCK_NB));
	SHOW(flock(ro, LOCK_UN));
	SHOW(flock(wo, LOCK_EX | LOCK_NB));
	SHOW(fcntl(wo, F_GETFL) & (O_ACCMODE | O_APPEND));
	SHOW(lseek(ro, 0, SEEK_CUR));

	/* Directories lock too. */
	dir = open(".", O_RDONLY | O_DIRECTORY);
	SHOW(flock(dir, LOCK_EX | LOCK_NB));
	SHOW(flock(dir, LOCK_UN));

	/* A name that is gone, or was changed, is the same lock. */
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(rename("f", "h"));
	PROBE("h");
	SHOW(flock(a, LOCK_UN));
	PROBE("h");
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(unlink("h"));
	SHOW(flock(a, LOCK_UN));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	return 0;
}
