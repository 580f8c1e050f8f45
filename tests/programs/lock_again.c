/* SPDX-License-Identifier: MIT */
/*
 * Unlocks and locks again (LOCK_NB) 30 times, of a lock long held, in the moment
 * in which a keeper may look at it:	lock_again FILE
 * How many were refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "tests/lib/helper.h"

int main(int argc, char **argv)
{
	int fd, failed = 0;
	char line[32];

	if (argc != 2)
		return 64;
	fd = locked(argv[1]);
	if (system("true"))
		die("system");
	for (int i = 0; i < 30; i++) {
		pause_ms(70);
		if (flock(fd, LOCK_UN) || flock(fd, LOCK_EX | LOCK_NB))
			failed++;
	}
	snprintf(line, sizeof(line), "%d refused", failed);
	tell(line);
	return 0;
}
