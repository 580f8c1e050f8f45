/* SPDX-License-Identifier: MIT */
/*
 * execve(2) keeps the lock with the descriptor; a close-on-exec descriptor
 * takes its lock with it.
 */
#include "conform.h"

static void after_exec(const char *number)
{
	int fd = (int)strtol(number, NULL, 10);

	PROBE("f");
	if (fd >= 0) {
		SHOW(flock(fd, LOCK_EX | LOCK_NB));
		SHOW(flock(fd, LOCK_UN));
		PROBE("f");
	}
	exit(0);
}

static void run_with(int flags)
{
	int fd = opened("f", O_RDWR | flags);
	char self[] = "/proc/self/exe", number[16];
	char *args[] = { self, number, NULL };
	pid_t pid;

	snprintf(number, sizeof(number), "%d", flags ? -1 : fd);
	pid = fork();
	if (pid == 0) {
		SHOW(flock(fd, LOCK_EX));
		if (flags) {
			int own = opened("f", O_RDWR | O_CLOEXEC);

			SHOW(flock(own, LOCK_EX | LOCK_NB));
		}
		execv(self, args);
		_exit(3);
	}
	close(fd);
	SHOW(child_status(pid));
	PROBE("f");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		after_exec(argv[1]);
	run_with(0);
	run_with(O_CLOEXEC);
	return 0;
}
