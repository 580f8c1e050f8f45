/* SPDX-License-Identifier: MIT */
/*
 * Two processes: readers share, a writer is alone, a range is granted whole or
 * not at all, and what was held survives a refusal.
 */
#include "records.h"

static struct turns t;

static void second(void)
{
	int fd = opened("f", O_RDWR);

	wait_turn(t.to_child);
	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(SET(fd, F_WRLCK, 9, 1));
	SHOW(SET(fd, F_WRLCK, 10, 10));
	SHOW(SET(fd, F_RDLCK, 20, 10));
	SHOW(SET(fd, F_WRLCK, 25, 1));
	HELD();
	/* Refused for its last byte. */
	SHOW(SET(fd, F_WRLCK, 10, 11));
	SHOW(SET(fd, F_WRLCK, 10, 100));
	SHOW(SET(fd, F_RDLCK, 5, 20));
	SHOW(SET(fd, F_WRLCK, 0, 0));
	HELD();
	/* A part goes, a part is asked for again. */
	SHOW(SET(fd, F_UNLCK, 12, 4));
	SHOW(SET(fd, F_WRLCK, 8, 8));
	HELD();
	pass_turn(t.to_parent);
	wait_turn(t.to_child);
	SHOW(SET(fd, F_WRLCK, 20, 10));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	pass_turn(t.to_parent);
	wait_turn(t.to_child);
	_exit(0);
}

int main(void)
{
	pid_t pid;
	int fd;

	prober_start("f");
	turns_new(&t);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		second();
	fd = opened("f", O_RDWR);
	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 20, 10));
	pass_turn(t.to_child);
	wait_turn(t.to_parent);
	SHOW(SET(fd, F_WRLCK, 20, 10));
	SHOW(SET(fd, F_RDLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_UNLCK, 20, 10));
	HELD();
	pass_turn(t.to_child);
	wait_turn(t.to_parent);
	SHOW(SET(fd, F_WRLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	leave_nothing("f");
	return 0;
}
