/* SPDX-License-Identifier: MIT */
/*
 * Processes that share one description lock, convert and unlock it at once.
 * It has one lock, whichever of them asked last, so that none is ever refused
 * for another's sake, and none fails.
 */
#include "conform.h"

enum { SIBLINGS = 4, ROUNDS = 300 };

static int failures(int fd)
{
	static const int ops[] = { LOCK_EX,           LOCK_UN,
				   LOCK_EX | LOCK_NB, LOCK_UN,
				   LOCK_SH | LOCK_NB, LOCK_EX,
				   LOCK_SH,           LOCK_UN };
	int failed = 0;

	for (int i = 0; i < ROUNDS; i++)
		for (size_t op = 0; op < sizeof(ops) / sizeof(ops[0]); op++)
			if (flock(fd, ops[op]) < 0)
				failed++;
	return failed > 100 ? 100 : failed;
}

int main(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid[SIBLINGS];

	SHOW(flock(fd, LOCK_EX));
	PROBE("f");
	for (int i = 0; i < SIBLINGS; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(failures(fd));
	}
	for (int i = 0; i < SIBLINGS; i++)
		SHOW(WEXITSTATUS(child_status(pid[i])));
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	PROBE("f");
	SHOW(flock(fd, LOCK_UN));
	PROBE("f");
	return 0;
}
