/* SPDX-License-Identifier: MIT */
/*
 * Waiting: granted when the holder unlocks, closes or dies; EINTR by a handler
 * without SA_RESTART, and on with one.
 */
#include "conform.h"

enum { UNLOCK, CLOSE, DIE };

static int alarms;

static void on_alarm(int signo)
{
	(void)signo;
	alarms++;
}

static void catch_alarm(int flags)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };

	alarms = 0;
	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(100000);
}

/* A child that holds f until it has its turn, and a moment more. */
static pid_t holder(struct turns *t, int way)
{
	pid_t pid;

	turns_new(t);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		flock(fd, LOCK_EX);
		pass_turn(t->to_parent);
		wait_turn(t->to_child);
		usleep(200000);
		if (way == UNLOCK)
			flock(fd, LOCK_UN);
		if (way == CLOSE)
			close(fd);
		if (way == DIE)
			kill(getpid(), SIGKILL);
		wait_turn(t->to_child);
		_exit(0);
	}
	wait_turn(t->to_parent);
	return pid;
}

static void granted_after(int way)
{
	struct turns t;
	pid_t pid = holder(&t, way);
	int fd = opened("f", O_RDWR);

	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	pass_turn(t.to_child);
	SHOW(flock(fd, LOCK_EX));
	PROBE("f");
	if (way != DIE)
		pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(close(fd));
}

static void interrupted(int flags)
{
	struct turns t;
	pid_t pid = holder(&t, UNLOCK);
	int fd = opened("f", O_RDWR);

	catch_alarm(flags);
	if (flags & SA_RESTART)
		pass_turn(t.to_child);
	SHOW(flock(fd, LOCK_EX));
	alarm_each_us(0);
	printf("%d alarms: %d\n", __LINE__, alarms > 0);
	PROBE("f");
	pass_turn(t.to_child);
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(close(fd));
}

int main(void)
{
	granted_after(UNLOCK);
	granted_after(CLOSE);
	granted_after(DIE);
	interrupted(0);
	interrupted(SA_RESTART);
	return 0;
}
