/* SPDX-License-Identifier: MIT */
/*
 * Conversion between shared and exclusive, flock(2), NOTES: the old lock is
 * given up first.  So one that is refused with LOCK_NB, or interrupted, has
 * lost the old lock, and two readers who both wait for the exclusive one do
 * not wait for each other.
 */
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "conform.h"

static const char *reading(const char *name)
{
	int fd = opened(name, O_RDONLY);
	bool can = flock(fd, LOCK_SH | LOCK_NB) == 0;

	close(fd);
	return can ? "yes" : "no";
}

/* What another process may do now. */
static void probe_from_child(int line)
{
	pid_t pid = fork();

	if (pid == 0) {
		printf("%d reading: %s, writing: %s\n", line, reading("f"),
		       probe("f") ? "no" : "yes");
		fflush(stdout);
		_exit(0);
	}
	child_status(pid);
}

#define FROM_CHILD() probe_from_child(__LINE__)

/*
 * A child that reads; at its first turn it does `then` with LOCK_NB, at its
 * second it ends.
 */
static pid_t reader(struct turns *t, int then)
{
	pid_t pid;

	turns_new(t);
	pid = fork();
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		SHOW(flock(fd, LOCK_SH));
		pass_turn(t->to_parent);
		wait_turn(t->to_child);
		SHOW(flock(fd, then | LOCK_NB));
		pass_turn(t->to_parent);
		wait_turn(t->to_child);
		_exit(0);
	}
	wait_turn(t->to_parent);
	return pid;
}

static void its_turn(struct turns *t)
{
	pass_turn(t->to_child);
	wait_turn(t->to_parent);
}

static void its_end(struct turns *t, pid_t pid)
{
	pass_turn(t->to_child);
	SHOW(child_status(pid));
}

static void alone(int nb)
{
	int fd = opened("f", O_RDWR);

	SHOW(flock(fd, LOCK_SH | nb));
	FROM_CHILD();
	SHOW(flock(fd, LOCK_EX | nb));
	FROM_CHILD();
	SHOW(flock(fd, LOCK_EX | nb));
	SHOW(flock(fd, LOCK_SH | nb));
	FROM_CHILD();
	SHOW(flock(fd, LOCK_EX | nb));
	FROM_CHILD();
	SHOW(flock(fd, LOCK_UN));
	FROM_CHILD();
	SHOW(close(fd));
}

/* Refused by a reader: it has lost its own lock, which the reader finds. */
static void refused(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = reader(&t, LOCK_EX);

	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	FROM_CHILD();
	its_turn(&t);
	FROM_CHILD();
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	its_end(&t, pid);
	FROM_CHILD();
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(close(fd));
}

static void refused_alone_after(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = reader(&t, LOCK_UN);

	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	its_turn(&t);
	FROM_CHILD();
	its_end(&t, pid);
	SHOW(close(fd));
}

static void refused_by_own_description(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR);

	SHOW(flock(a, LOCK_SH));
	SHOW(flock(b, LOCK_SH));
	SHOW(flock(a, LOCK_EX | LOCK_NB));
	FROM_CHILD();
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	FROM_CHILD();
	SHOW(flock(a, LOCK_SH | LOCK_NB));
	SHOW(flock(b, LOCK_SH | LOCK_NB));
	SHOW(flock(a, LOCK_SH | LOCK_NB));
	SHOW(flock(a, LOCK_UN));
	FROM_CHILD();
	SHOW(close(b));
	FROM_CHILD();
	SHOW(close(a));
}

static void downgrade_lets_readers_in(void)
{
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid;

	turns_new(&t);
	SHOW(flock(fd, LOCK_EX));
	pid = fork();
	if (pid == 0) {
		int own = opened("f", O_RDWR), failed;

		SHOW(flock(own, LOCK_SH | LOCK_NB));
		pass_turn(t.to_parent);
		failed = flock(own, LOCK_SH);
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		SHOW(failed);
		SHOW(flock(own, LOCK_EX | LOCK_NB));
		_exit(0);
	}
	wait_turn(t.to_parent);
	SHOW(flock(fd, LOCK_SH));
	wait_turn(t.to_parent);
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	FROM_CHILD();
	SHOW(close(fd));
	FROM_CHILD();
}

static void by_copy(void)
{
	int a = opened("f", O_RDWR), b = dup(a);

	SHOW(flock(a, LOCK_SH));
	SHOW(flock(b, LOCK_EX | LOCK_NB));
	FROM_CHILD();
	SHOW(flock(a, LOCK_SH | LOCK_NB));
	FROM_CHILD();
	SHOW(close(a));
	SHOW(flock(b, LOCK_EX));
	FROM_CHILD();
	SHOW(close(b));
	FROM_CHILD();
}

/* The description is converted, whoever asks for it. */
static void by_child(int from, int to)
{
	int fd = opened("f", O_RDWR);
	pid_t pid;

	SHOW(flock(fd, from));
	pid = fork();
	if (pid == 0) {
		SHOW(flock(fd, to | LOCK_NB));
		exit(0);
	}
	SHOW(child_status(pid));
	FROM_CHILD();
	SHOW(flock(fd, from | LOCK_NB));
	FROM_CHILD();
	SHOW(flock(fd, LOCK_UN));
	FROM_CHILD();
	SHOW(close(fd));
}

/* The reader is refused, and so has given up what the waiter waits for. */
static void waits_for_a_refused_one(void)
{
	int fd = opened("f", O_RDWR), b = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = reader(&t, LOCK_EX);

	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(b, LOCK_SH));
	its_turn(&t);
	SHOW(flock(b, LOCK_UN));
	SHOW(flock(fd, LOCK_EX));
	FROM_CHILD();
	its_end(&t, pid);
	SHOW(close(fd));
	SHOW(close(b));
}

static void on_alarm(int signo)
{
	(void)signo;
}

static void interrupted(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid = reader(&t, LOCK_EX);

	SHOW(flock(fd, LOCK_SH));
	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(100000);
	SHOW(flock(fd, LOCK_EX));
	alarm_each_us(0);
	its_turn(&t);
	FROM_CHILD();
	its_end(&t, pid);
	FROM_CHILD();
	SHOW(close(fd));
}

/* Shared by two processes: who is in, and did they ever meet? */
struct inside {
	int n, met;
};

static int convert(int fd, struct inside *in)
{
	int r = flock(fd, LOCK_EX);

	if (__atomic_add_fetch(&in->n, 1, __ATOMIC_SEQ_CST) != 1)
		__atomic_add_fetch(&in->met, 1, __ATOMIC_SEQ_CST);
	sched_yield();
	__atomic_sub_fetch(&in->n, 1, __ATOMIC_SEQ_CST);
	return r;
}

static void both_want_it(void)
{
	struct inside *in = mmap(NULL, sizeof(*in), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = opened("f", O_RDWR);
	struct turns t;
	pid_t pid;

	turns_new(&t);
	pid = fork();
	if (pid == 0) {
		int own = opened("f", O_RDWR), failed = 0;

		for (int i = 0; i < 10; i++) {
			flock(own, LOCK_SH);
			pass_turn(t.to_parent);
			wait_turn(t.to_child);
			failed |= convert(own, in);
			flock(own, LOCK_UN);
			pass_turn(t.to_parent);
			wait_turn(t.to_child);
		}
		_exit(failed ? 1 : 0);
	}
	for (int i = 0; i < 10; i++) {
		SHOW(flock(fd, LOCK_SH));
		wait_turn(t.to_parent);
		pass_turn(t.to_child);
		SHOW(convert(fd, in));
		SHOW(flock(fd, LOCK_UN));
		wait_turn(t.to_parent);
		pass_turn(t.to_child);
	}
	SHOW(child_status(pid));
	printf("met: %d\n", in->met);
	FROM_CHILD();
	SHOW(close(fd));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alone(0);
	alone(LOCK_NB);
	refused();
	refused_alone_after();
	refused_by_own_description();
	downgrade_lets_readers_in();
	by_copy();
	by_child(LOCK_EX, LOCK_SH);
	by_child(LOCK_SH, LOCK_EX);
	waits_for_a_refused_one();
	interrupted();
	both_want_it();
	return 0;
}
