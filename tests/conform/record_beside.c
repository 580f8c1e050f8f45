/* SPDX-License-Identifier: MIT */
/*
 * Beside a process that asks again and again for what it is refused, another
 * gets what is nobody's each time, and is refused what is somebody's.
 */
#include "records.h"

enum { TRIES = 300 };

static struct turns holder, asker;

static void hold(void)
{
	int fd = opened("f", O_RDWR);

	SET(fd, F_WRLCK, 50, 1);
	pass_turn(holder.to_parent);
	wait_turn(holder.to_child);
	_exit(0);
}

/* Until it is granted, which it is when the holder has ended. */
static void ask(void)
{
	int fd = opened("f", O_RDWR);
	int refused = SET(fd, F_WRLCK, 0, 100) != 0;

	pass_turn(asker.to_parent);
	while (refused && SET(fd, F_WRLCK, 0, 100))
		;
	_exit(!refused);
}

static int refused(int fd, int cmd, off_t start)
{
	int n = 0;

	for (int i = 0; i < TRIES; i++) {
		if (record(fd, cmd, F_WRLCK, start, 10))
			n++;
		else
			record(fd, cmd, F_UNLCK, start, 10);
	}
	errno = 0;
	return n;
}

static int named(int fd, off_t start)
{
	int n = 0;

	for (int i = 0; i < TRIES; i++) {
		struct flock l = {
			.l_type = F_WRLCK,
			.l_start = start,
			.l_len = 10,
		};

		n += fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
	}
	return n;
}

int main(void)
{
	pid_t first, second;
	int fd;

	prober_start("f");
	turns_new(&holder);
	turns_new(&asker);
	fflush(stdout);
	first = fork();
	if (first == 0)
		hold();
	wait_turn(holder.to_parent);
	second = fork();
	if (second == 0)
		ask();
	wait_turn(asker.to_parent);
	fd = opened("f", O_RDWR);
	SHOW(refused(fd, F_SETLK, 0));
	SHOW(refused(fd, F_OFD_SETLK, 0));
	SHOW(refused(fd, F_SETLK, 45));
	SHOW(refused(fd, F_OFD_SETLK, 45));
	SHOW(named(fd, 0));
	SHOW(named(fd, 45));
	pass_turn(holder.to_child);
	SHOW(child_status(first));
	SHOW(child_status(second));
	leave_nothing("f");
	return 0;
}
