/* SPDX-License-Identifier: MIT */
/*
 * A lock belongs to the open file description: two opens of one file exclude
 * each other in one process, descriptors by dup(2) do not, and the last close
 * ends it.
 */
#include "conform.h"

int main(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR), c, d;

	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(b, LOCK_UN));
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_EX | LOCK_NB));

	/* Closing the one that does not hold it changes nothing. */
	SHOW(close(a));
	PROBE("f");
	SHOW(close(b));
	PROBE("f");

	a = opened("f", O_RDWR);
	c = dup(a);
	d = fcntl(a, F_DUPFD_CLOEXEC, 100);
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(c, LOCK_EX | LOCK_NB));
	SHOW(close(a));
	PROBE("f");
	SHOW(close(c));
	PROBE("f");
	SHOW(flock(d, LOCK_EX | LOCK_NB));
	SHOW(close(d));
	PROBE("f");

	/* Unlocking by a copy. */
	a = opened("f", O_RDWR);
	c = dup(a);
	SHOW(flock(a, LOCK_EX));
	SHOW(flock(c, LOCK_UN));
	PROBE("f");

	/* dup2(2) onto the descriptor that holds it closes it. */
	SHOW(close(c));
	SHOW(flock(a, LOCK_EX));
	b = opened("g", O_RDWR);
	SHOW(dup2(b, a) == a);
	PROBE("f");

	/* Two files do not meet. */
	c = opened("f", O_RDWR);
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(c, LOCK_EX | LOCK_NB));
	/* stdio closes by no wrapper of ours. */
	fclose(fdopen(c, "r+"));
	PROBE("f");
	return 0;
}
