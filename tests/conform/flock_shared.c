/* SPDX-License-Identifier: MIT */
/*
 * Shared locks: any number of descriptions has one, in one process or in
 * several, and none while another has an exclusive one.  Each ends by itself.
 */
#include <stdbool.h>

#include "conform.h"

/* Can another description have a shared one now? */
static const char *reading(const char *name)
{
	int fd = opened(name, O_RDONLY);
	bool can = flock(fd, LOCK_SH | LOCK_NB) == 0;

	close(fd);
	return can ? "yes" : "no";
}

#define READING(name) printf("%d reading: %s\n", __LINE__, reading(name))

/* A child with a lock of its own, until it gets its turn. */
static pid_t holder(struct turns *t, int op)
{
	pid_t pid;

	turns_new(t);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		SHOW(flock(fd, op));
		pass_turn(t->to_parent);
		wait_turn(t->to_child);
		_exit(0);
	}
	wait_turn(t->to_parent);
	return pid;
}

static void two_descriptions(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR);

	SHOW(flock(a, LOCK_SH | LOCK_NB));
	SHOW(flock(b, LOCK_SH | LOCK_NB));
	PROBE("f");
	READING("f");
	SHOW(flock(a, LOCK_UN));
	PROBE("f");
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_SH));
	SHOW(close(b));
	PROBE("f");
	SHOW(close(a));
	PROBE("f");
}

static void one_process_both_modes(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDONLY);

	SHOW(flock(a, LOCK_EX));
	SHOW(flock(b, LOCK_SH | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	SHOW(flock(b, LOCK_SH | LOCK_NB));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(flock(b, LOCK_UN));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(close(a));
	SHOW(close(b));
}

static void two_processes(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = holder(&t, LOCK_SH);

	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	READING("f");
	SHOW(flock(fd, LOCK_UN));
	PROBE("f");
	SHOW(flock(fd, LOCK_SH));
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(close(fd));
	PROBE("f");

	fd = opened("f", O_RDWR);
	pid = holder(&t, LOCK_EX);
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	SHOW(close(fd));
}

static void killed_reader(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = holder(&t, LOCK_SH);

	SHOW(flock(fd, LOCK_SH));
	SHOW(kill(pid, SIGKILL));
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(close(fd));
}

/* The child says that it unlocks before it does; then the lock is had. */
static void waits(int held, int wanted)
{
	int fd = opened("f", O_RDWR), order[2];
	struct turns t;
	char c = '-';
	pid_t pid;

	turns_new(&t);
	if (pipe2(order, O_NONBLOCK | O_CLOEXEC))
		_exit(2);
	pid = fork();
	if (pid == 0) {
		int own = opened("f", O_RDWR);

		SHOW(flock(own, held));
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		pass_turn(order);
		SHOW(flock(own, LOCK_UN));
		_exit(0);
	}
	wait_turn(t.to_parent);
	SHOW(flock(fd, wanted | LOCK_NB));
	pass_turn(t.to_child);
	errno = 0;
	if (flock(fd, wanted))
		perror("flock");
	if (read(order[0], &c, 1) != 1)
		c = '!';
	SHOW(child_status(pid));
	printf("%d after the unlock: %c\n", __LINE__, c);
	SHOW(close(fd));
}

/* A waiting writer keeps no reader out: flock(2) has no queue. */
static void reader_passes_writer(void)
{
	int fd = opened("f", O_RDWR), b = opened("f", O_RDWR);
	struct turns t;
	pid_t pid;

	turns_new(&t);
	SHOW(flock(fd, LOCK_SH));
	pid = fork();
	if (pid == 0) {
		int own = opened("f", O_RDWR);

		pass_turn(t.to_parent);
		_exit(flock(own, LOCK_EX) == 0 ? 0 : 1);
	}
	wait_turn(t.to_parent);
	SHOW(flock(b, LOCK_SH | LOCK_NB));
	READING("f");
	SHOW(flock(fd, LOCK_UN));
	SHOW(flock(b, LOCK_UN));
	SHOW(child_status(pid));
	PROBE("f");
	close(fd);
	close(b);
}

static void repeated(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	PROBE("f");
	READING("f");
	SHOW(flock(fd, LOCK_UN));
	PROBE("f");
	SHOW(flock(fd, LOCK_UN));
	SHOW(close(fd));
}

static void duplicates(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR), c;

	SHOW(flock(a, LOCK_SH));
	c = dup(a);
	SHOW(flock(c, LOCK_SH | LOCK_NB));
	SHOW(close(a));
	PROBE("f");
	READING("f");

	/* One description of the two goes, by its copy. */
	SHOW(flock(b, LOCK_SH));
	a = dup(b);
	SHOW(flock(a, LOCK_UN));
	PROBE("f");
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(c, LOCK_UN));
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	PROBE("f");
	close(a);
	close(b);
	close(c);
}

static void replaced_by_dup2(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR);

	SHOW(flock(a, LOCK_SH));
	SHOW(flock(b, LOCK_SH));
	SHOW(dup2(b, a) == a);
	SHOW(close(b));
	PROBE("f");
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	SHOW(close(a));
	PROBE("f");
}

static void child_unlocks(void)
{
	int fd = opened("f", O_RDWR), other = opened("f", O_RDWR);
	pid_t pid;

	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(other, LOCK_SH));
	pid = fork();
	if (pid == 0) {
		SHOW(flock(fd, LOCK_SH | LOCK_NB));
		SHOW(flock(fd, LOCK_UN));
		_exit(0);
	}
	SHOW(child_status(pid));
	PROBE("f");
	SHOW(flock(other, LOCK_EX | LOCK_NB));
	SHOW(flock(other, LOCK_UN));
	PROBE("f");
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	PROBE("f");
	SHOW(close(fd));
	SHOW(close(other));
	PROBE("f");
}

static void child_ends(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid;

	turns_new(&t);
	SHOW(flock(fd, LOCK_SH));
	pid = fork();
	if (pid == 0) {
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		PROBE("f");
		exit(0);
	}
	wait_turn(t.to_parent);
	SHOW(close(fd));
	PROBE("f");
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	PROBE("f");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	two_descriptions();
	one_process_both_modes();
	two_processes();
	killed_reader();
	waits(LOCK_EX, LOCK_SH);
	waits(LOCK_SH, LOCK_EX);
	reader_passes_writer();
	repeated();
	duplicates();
	replaced_by_dup2();
	child_unlocks();
	child_ends();
	return 0;
}
