/* SPDX-License-Identifier: MIT */
/*
 * Locks FILE, closes it US microseconds later, and tries the lock once more by
 * another description: its result; or "late", if it is refused after a close that
 * has waited for a second.	closes_when_keeper_starts FILE US
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/helper.h"

int main(int argc, char **argv)
{
	long long until, closing;
	int fd, other;

	if (argc != 3)
		return 64;
	fd = locked(argv[1]);
	until = now_ns() + strtoll(argv[2], NULL, 10) * 1000;
	other = open(argv[1], O_RDWR);
	if (other < 0)
		die(argv[1]);
	while (now_ns() < until)
		;
	closing = now_ns();
	close(fd);
	closing = now_ns() - closing;
	if (flock(other, LOCK_EX | LOCK_NB) == 0)
		tell("granted");
	else
		tell(closing < 1000000000 ? strerror(errno) : "late");
	return 0;
}
