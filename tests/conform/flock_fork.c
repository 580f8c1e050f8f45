/* SPDX-License-Identifier: MIT */
/*
 * fork(2) shares the description: the child's unlock is the parent's, the
 * lock outlives the one who took it, and ends with the last of the two.
 */
#include "conform.h"

static void unlock_in_child(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(flock(fd, LOCK_EX));
	pid = fork();
	if (pid == 0) {
		SHOW(flock(fd, LOCK_EX | LOCK_NB));
		SHOW(flock(fd, LOCK_UN));
		_exit(0);
	}
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(close(fd));
}

static void end_of_child(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(flock(fd, LOCK_EX));
	pid = fork();
	if (pid == 0) {
		close(fd);
		PROBE("f");
		exit(0);
	}
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(close(fd));
	PROBE("f");
}

static void outlives_parent(void)
{
	struct turns t;
	int fd = opened("f", O_RDWR);
	pid_t pid;

	turns_new(&t);
	SHOW(flock(fd, LOCK_EX));
	pid = fork();
	if (pid == 0) {
		wait_turn(t.to_child);
		PROBE("f");
		SHOW(close(fd));
		PROBE("f");
		_exit(0);
	}
	SHOW(close(fd));
	PROBE("f");
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	PROBE("f");
}

static void child_locks(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid = fork();

	if (pid == 0) {
		SHOW(flock(fd, LOCK_EX | LOCK_NB));
		_exit(0);
	}
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(flock(fd, LOCK_UN));
	PROBE("f");
	SHOW(close(fd));
}

static void own_description(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(flock(fd, LOCK_EX));
	pid = fork();
	if (pid == 0) {
		int other = opened("f", O_RDWR);

		SHOW(flock(other, LOCK_EX | LOCK_NB));
		_exit(0);
	}
	SHOW(child_status(pid));
	SHOW(close(fd));
}

static void killed_child(void)
{
	struct turns t;
	pid_t pid;

	turns_new(&t);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		SHOW(flock(fd, LOCK_EX));
		pass_turn(t.to_parent);
		pause();
	}
	wait_turn(t.to_parent);
	PROBE("f");
	kill(pid, SIGKILL);
	SHOW(child_status(pid));
	PROBE("f");
}

int main(void)
{
	unlock_in_child();
	end_of_child();
	outlives_parent();
	child_locks();
	own_description();
	killed_child();
	return 0;
}
