/* SPDX-License-Identifier: MIT */
/*
 * Locks FILE: "held"; when it notices that it was stopped for a second it locks
 * once more, LOCK_NB: what comes of it.	stopped_holder FILE
 */
#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/helper.h"

int main(int argc, char **argv)
{
	long last, t;
	int fd;

	if (argc != 2)
		return 64;
	fd = locked(argv[1]);
	tell("held");
	for (last = t = now_ms(); t - last < 1000; t = now_ms())
		last = t;
	tell(flock(fd, LOCK_EX | LOCK_NB) < 0 ? strerror(errno) : "granted");
	wait_for_go();
	return 0;
}
