/* SPDX-License-Identifier: MIT */
/*
 * F_SETLKW waits until whoever is in the way unlocks, closes or dies; EINTR by
 * a handler without SA_RESTART, and on with one.  What a handler leaves blocked
 * stays so.
 */
#include <setjmp.h>
#include <ucontext.h>

#include "records.h"

enum { UNLOCK, PART, CLOSE, DIE };

static int alarms;
static sigjmp_buf back;

static void on_alarm(int signo)
{
	(void)signo;
	alarms++;
}

static void on_alarm_jump(int signo)
{
	(void)signo;
	alarm_each_us(0);
	siglongjmp(back, 1);
}

static void catch_alarm(void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	alarms = 0;
	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(60000);
}

static void on_alarm_block(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	alarms++;
	sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR1);
}

/* A child that holds f 0-9 until it has its turn, and a moment more. */
static pid_t holder(struct turns *t, int way)
{
	pid_t pid;

	turns_new(t);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		SET(fd, F_WRLCK, 0, 10);
		pass_turn(t->to_parent);
		wait_turn(t->to_child);
		usleep(100000);
		if (way == UNLOCK)
			SET(fd, F_UNLCK, 0, 0);
		if (way == PART)
			SET(fd, F_RDLCK, 0, 10);
		if (way == CLOSE)
			close(opened("f", O_RDONLY));
		if (way == DIE)
			kill(getpid(), SIGKILL);
		wait_turn(t->to_child);
		SET(fd, F_UNLCK, 0, 0);
		_exit(0);
	}
	wait_turn(t->to_parent);
	return pid;
}

static void granted_after(int way, int cmd, int type)
{
	struct turns t;
	pid_t pid = holder(&t, way);
	int fd = opened("f", O_RDWR);

	SHOW(SET(fd, F_WRLCK, 5, 10));
	pass_turn(t.to_child);
	SHOW(record(fd, cmd, type, 5, 10));
	HELD();
	if (way != DIE)
		pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(record(fd, cmd, F_UNLCK, 0, 0));
	SHOW(close(fd));
	HELD();
}

static void interrupted(int cmd, int flags)
{
	struct turns t;
	pid_t pid = holder(&t, UNLOCK);
	int fd = opened("f", O_RDWR);

	SHOW(record(fd, cmd, F_RDLCK, 20, 10));
	catch_alarm(on_alarm, flags);
	if (flags & SA_RESTART)
		pass_turn(t.to_child);
	SHOW(record(fd, cmd, F_WRLCK, 5, 20));
	alarm_each_us(0);
	printf("%d alarms: %d\n", __LINE__, alarms > 0);
	HELD();
	pass_turn(t.to_child);
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(record(fd, cmd, F_UNLCK, 0, 0));
	SHOW(close(fd));
	HELD();
}

static int is_blocked(int signo)
{
	sigset_t set;

	sigprocmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signo);
}

/* The handler has the thread go on with a signal blocked. */
static void blocks_more(int cmd)
{
	struct sigaction sa = {
		.sa_sigaction = on_alarm_block,
		.sa_flags = SA_SIGINFO,
	};
	struct turns t;
	pid_t pid = holder(&t, UNLOCK);
	int fd = opened("f", O_RDWR);
	sigset_t none;

	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(60000);
	SHOW(record(fd, cmd, F_WRLCK, 5, 20));
	alarm_each_us(0);
	SHOW(is_blocked(SIGUSR1));
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	pass_turn(t.to_child);
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(close(fd));
	HELD();
}

static void lockf_interrupted(void)
{
	struct turns t;
	pid_t pid = holder(&t, UNLOCK);
	int fd = opened("f", O_RDWR);

	catch_alarm(on_alarm, 0);
	SHOW(lockf(fd, F_LOCK, 0));
	alarm_each_us(0);
	HELD();
	pass_turn(t.to_child);
	SHOW(lockf(fd, F_LOCK, 0));
	HELD();
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(lockf(fd, F_ULOCK, 0));
	SHOW(close(fd));
}

/* A handler that does not come back: nothing was granted, nothing is left. */
static void jumped(int cmd)
{
	struct turns t;
	pid_t pid = holder(&t, UNLOCK);
	int fd = opened("f", O_RDWR);

	if (sigsetjmp(back, 1) == 0) {
		catch_alarm(on_alarm_jump, 0);
		SHOW(record(fd, cmd, F_WRLCK, 5, 20));
	}
	HELD();
	pass_turn(t.to_child);
	SHOW(record(fd, cmd, F_WRLCK, 5, 20));
	HELD();
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(record(fd, cmd, F_UNLCK, 0, 0));
	HELD();
	SHOW(close(fd));
}

int main(void)
{
	prober_start("f");
	granted_after(UNLOCK, F_SETLKW, F_WRLCK);
	granted_after(PART, F_SETLKW, F_RDLCK);
	granted_after(CLOSE, F_SETLKW, F_WRLCK);
	granted_after(DIE, F_SETLKW, F_RDLCK);
	granted_after(UNLOCK, F_OFD_SETLKW, F_WRLCK);
	granted_after(DIE, F_OFD_SETLKW, F_WRLCK);
	interrupted(F_SETLKW, 0);
	interrupted(F_SETLKW, SA_RESTART);
	interrupted(F_OFD_SETLKW, 0);
	blocks_more(F_SETLKW);
	lockf_interrupted();
	jumped(F_SETLKW);
	jumped(F_OFD_SETLKW);
	leave_nothing("f");
	return 0;
}
