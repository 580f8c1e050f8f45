/* SPDX-License-Identifier: MIT */
/*
 * Locks FILE: "held"; as soon as it is continued it locks once more, LOCK_NB: what
 * comes of it.	stopped_holder FILE
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static volatile sig_atomic_t is_continued;

static void go_on(int signo)
{
	(void)signo;
	is_continued = 1;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc != 2)
		return 64;
	handle(SIGCONT, go_on, SA_RESTART);
	fd = locked(argv[1]);
	tell("held");
	while (!is_continued)
		;
	tell(flock(fd, LOCK_EX | LOCK_NB) < 0 ? strerror(errno) : "granted");
	wait_for_go();
	return 0;
}
