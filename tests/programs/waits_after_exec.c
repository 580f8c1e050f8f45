/* SPDX-License-Identifier: MIT */
/*
 * Locks a byte of FILE, becomes another program (execve(2)), and waits for one of
 * OTHER by a thread; at a line on standard input all threads are given the user that
 * they have (setresuid(2)), and it says so.	waits_after_exec FILE OTHER
 */
#include <pthread.h>

#include "tests/lib/helper.h"

static struct flock byte = { .l_type = F_WRLCK, .l_len = 1 };

static void *wait_for(void *other)
{
	tell(fcntl(opened(other), F_SETLKW, &byte) ? strerror(errno)
						   : "granted");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc == 3) {
		if (fcntl(dup(opened(argv[1])), F_SETLK, &byte))
			die(argv[1]);
		execl("/proc/self/exe", argv[0], argv[1], argv[2], "", NULL);
		die("execl");
	}
	if (argc != 4 || pthread_create(&thread, NULL, wait_for, argv[2]))
		return 64;
	wait_for_go();
	if (setresuid((uid_t)-1, geteuid(), (uid_t)-1))
		die("setresuid");
	tell("the same user");
	pthread_join(thread, NULL);
	return 0;
}
