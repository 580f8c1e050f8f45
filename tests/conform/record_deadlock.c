/* SPDX-License-Identifier: MIT */
/*
 * F_SETLKW that would close a circle of waits fails with EDEADLK, and what was
 * held stays; OFD locks wait on.
 */
#include <stdbool.h>

#include "records.h"

#include <sys/time.h>

static void nothing(int signo)
{
	(void)signo;
}

/* By the number of who waits, not by a byte's that he waits for (proc_locks(5)). */
static bool waits_for_lock(pid_t pid)
{
	char line[256], number[32], who[32];
	bool found = false;
	FILE *locks = fopen("/proc/locks", "re");

	snprintf(number, sizeof(number), "%d", pid);
	while (locks && fgets(line, sizeof(line), locks))
		found |= sscanf(line, "%*s -> %*s %*s %*s %31s", who) == 1 &&
			 strcmp(who, number) == 0;
	if (locks)
		fclose(locks);
	return found;
}

/* Holds `own` and then waits for `other`; its turn comes when it waits. */
static pid_t waiter(int type, int own, int other)
{
	struct turns t;
	pid_t pid;

	turns_new(&t);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		SHOW(SET(fd, type, own, 10));
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		if (WAIT(fd, F_WRLCK, other, 10))
			show_result(__LINE__, "the wait", -1, errno);
		SET(fd, F_UNLCK, 0, 0);
		_exit(0);
	}
	wait_turn(t.to_parent);
	pass_turn(t.to_child);
	return pid;
}

/* Or has ended without a wait. */
static void until_it_waits(pid_t pid)
{
	siginfo_t ended = { .si_pid = 0 };

	while (!waits_for_lock(pid) && ended.si_pid == 0) {
		usleep(5000);
		waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
	}
}

/* We hold 0, the first 10, the second 20, ...; all of a circle wait. */
static void circle(int size)
{
	int fd = opened("f", O_RDWR);
	pid_t pids[4];

	SHOW(SET(fd, F_WRLCK, 0, 10));
	for (int i = 1; i < size; i++) {
		pids[i] = waiter(F_WRLCK, 10 * i, 10 * i - 10);
		until_it_waits(pids[i]);
	}
	SHOW(WAIT(fd, F_WRLCK, 10 * size - 10, 10));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	for (int i = 1; i < size; i++)
		SHOW(child_status(pids[i]));
	HELD();
	SHOW(close(fd));
}

/* Two readers that both want to write. */
static void upgrade(void)
{
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(SET(fd, F_RDLCK, 0, 10));
	pid = waiter(F_RDLCK, 0, 0);
	until_it_waits(pid);
	SHOW(WAIT(fd, F_WRLCK, 0, 10));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 10));
	SHOW(child_status(pid));
	HELD();
	SHOW(close(fd));
}

/* A description's lock knows no deadlock: it waits until the alarm. */
static void description(void)
{
	struct sigaction sa = { .sa_handler = nothing };
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(OFD(fd, F_WRLCK, 0, 10));
	pid = waiter(F_WRLCK, 10, 0);
	until_it_waits(pid);
	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(100000);
	SHOW(record(fd, F_OFD_SETLKW, F_WRLCK, 10, 10));
	alarm_each_us(0);
	HELD();
	/* (The child has the description, too: closing would not end it.) */
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	SHOW(child_status(pid));
	HELD();
	SHOW(close(fd));
}

int main(void)
{
	prober_start("f");
	circle(2);
	circle(3);
	circle(4);
	upgrade();
	description();
	leave_nothing("f");
	return 0;
}
