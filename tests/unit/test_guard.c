/* SPDX-License-Identifier: MIT */
// link: shim/keeper/locks.c shim/keeper/list.c shim/keeper/errand.c shim/keeper/hear.c
/*
 * What the kernel's list of locks proves of a reader who has died (DESIGN L4),
 * in a pid namespace of its own, which does not show the locks of the dead:
 * only the lock on which the keeper's own wait was seen to hang, the first of
 * its file, is known to be gone once this wait hangs on another's.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tests/unit/dir.h"

/* A process with a shared lock on the file; fd is of its description. */
struct reader {
	pid_t pid;
	int fd;
	struct dlk_guard guard;
};

static pthread_t waiting;
static int wait_fd;
static unsigned number; /* of the test, and of its file */

static int another_file(void **state)
{
	(void)state;
	number++;
	return 0;
}

/* In a child: no description of another's is kept alive. */
static void close_others(int fd, int told)
{
	for (int i = STDERR_FILENO + 1; i < 64; i++)
		if (i != fd && i != told)
			close(i);
}

/* Until it is killed; it has told by then whether it has the lock. */
static void read_on(int fd, int told)
{
	const bool has = flock(fd, LOCK_SH | LOCK_NB) == 0;

	close_others(fd, told);
	if (write(told, has ? "y" : "n", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

static struct reader reads(void)
{
	struct reader r = { .fd = opened(number) };
	int told[2];
	char has = 0;

	assert_int_equal(pipe(told), 0);
	r.pid = fork();
	if (r.pid == 0)
		read_on(r.fd, told[1]);
	assert_int_equal(read(told[0], &has, 1), 1);
	assert_int_equal(has, 'y');
	close(told[0]);
	close(told[1]);
	dlk_guard_begin(&r.guard, r.fd);
	assert_int_equal(r.guard.mode, LOCK_SH);
	assert_int_equal(r.guard.pid, r.pid);
	assert_true(dlk_guard_can_tell(&r.guard));
	return r;
}

/* Without `close_too` the lock stays, and nobody's line shows it. */
static void dies(struct reader *r, bool close_too)
{
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	if (close_too) {
		close(r->fd);
		r->fd = -1;
	}
}

static void *wait_for_all(void *unused)
{
	(void)unused;
	flock(wait_fd, LOCK_EX);
	flock(wait_fd, LOCK_UN);
	return NULL;
}

static void begin_to_wait(void)
{
	wait_fd = opened(number);
	assert_int_equal(pthread_create(&waiting, NULL, wait_for_all, NULL), 0);
}

static void end_wait(void)
{
	pthread_join(waiting, NULL);
	close(wait_fd);
}

/*
 * Others of this machine lock and unlock meanwhile.  Then a look may fail, or
 * have a line twice (list.h), and the keeper looks again.
 */
static void look_until(bool (*seen)(const struct reader *r),
		       const struct reader *r)
{
	const uint64_t until = dlk_now_ns() + 10000 * DLK_MS;

	while (!dlk_locks_look() || !seen(r)) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(DLK_MS);
	}
}

static bool whatever(const struct reader *r)
{
	(void)r;
	return true;
}

/* No line is there twice, and our wait is on this one. */
static bool has_our_wait(const struct reader *r)
{
	const struct dlk_listed *e;
	const size_t n = dlk_list_of(r->guard.file, &e);
	bool has = false;

	for (size_t i = 0; i < n; i++) {
		if (i > 0 && e[i].pid == e[i - 1].pid)
			return false;
		has |= e[i].blocks_us && (pid_t)e[i].pid == r->pid;
	}
	return has;
}

static void until_it_hangs_on(const struct reader *r)
{
	look_until(has_our_wait, r);
}

static bool our_wait_is_shown(const struct reader *r)
{
	const struct dlk_listed *e;
	const size_t n = dlk_list_of(r->guard.file, &e);

	for (size_t i = 0; i < n; i++)
		if (e[i].blocks_us)
			return true;
	return false;
}

static void is_judged(struct reader *r, enum dlk_verdict verdict)
{
	assert_int_equal(dlk_guard_judge(&r->guard, 1, true), verdict);
}

static void forget(struct reader *r)
{
	dlk_guard_end(&r->guard);
	if (r->fd >= 0)
		dies(r, true);
}

static void the_first_is_gone_when_our_wait_hangs_on_the_next(void **state)
{
	struct reader a = reads(), b;

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	is_judged(&a, DLK_THERE);
	b = reads();
	dies(&a, true);
	until_it_hangs_on(&b);
	is_judged(&a, DLK_GONE_NOW);
	is_judged(&b, DLK_THERE);
	forget(&a);
	forget(&b);
	end_wait();
}

/* What was known of him stays known. */
static void one_who_dies_after_the_list_was_read_is_gone_as_well(void **state)
{
	struct reader a = reads(), b = reads();

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	is_judged(&a, DLK_THERE);
	until_it_hangs_on(&a);
	dies(&a, true);
	is_judged(&a, DLK_THERE);
	until_it_hangs_on(&b);
	is_judged(&a, DLK_GONE_NOW);
	forget(&a);
	forget(&b);
	end_wait();
}

static void a_line_of_the_dead_does_not_make_him_the_first(void **state)
{
	struct reader a = reads(), b = reads();

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	dies(&a, true);
	is_judged(&a, DLK_THERE);
	until_it_hangs_on(&b);
	is_judged(&a, DLK_UNKNOWN);
	forget(&a);
	forget(&b);
	end_wait();
}

/* Our wait hangs on the lock of the dead, which the list does not show. */
static void a_lock_that_outlives_its_taker_is_not_gone(void **state)
{
	struct reader a = reads(), b = reads();

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	is_judged(&a, DLK_THERE);
	dies(&a, false);
	look_until(whatever, &a);
	assert_false(our_wait_is_shown(&a));
	is_judged(&a, DLK_UNKNOWN);
	close(a.fd);
	a.fd = -1;
	until_it_hangs_on(&b);
	is_judged(&a, DLK_GONE_NOW);
	forget(&a);
	forget(&b);
	end_wait();
}

static void nothing_is_known_of_one_who_was_never_the_first(void **state)
{
	struct reader a = reads(), b = reads();

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	is_judged(&b, DLK_THERE);
	dies(&b, true);
	until_it_hangs_on(&a);
	is_judged(&b, DLK_UNKNOWN);
	forget(&a);
	forget(&b);
	end_wait();
}

static pid_t another_waits(void)
{
	const int fd = opened(number);
	const pid_t pid = fork();

	if (pid == 0) {
		close_others(fd, -1);
		flock(fd, LOCK_EX);
		_exit(0);
	}
	close(fd);
	return pid;
}

static bool waits(pid_t pid)
{
	char text[4096], line[64];

	snprintf(line, sizeof(line), "-> FLOCK  ADVISORY  WRITE %d ", pid);
	assert_true(dlk_slurp("/proc/locks", text, sizeof(text)) > 0);
	return strstr(text, line) != NULL;
}

/* It came later all the same, and hangs on whatever is the first. */
static void our_wait_may_hang_below_another_one(void **state)
{
	struct reader a = reads(), b = reads();
	const uint64_t until = dlk_now_ns() + 10000 * DLK_MS;
	const pid_t writer = another_waits();

	(void)state;
	while (!waits(writer)) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(DLK_MS);
	}
	begin_to_wait();
	until_it_hangs_on(&a);
	is_judged(&a, DLK_THERE);
	dies(&a, true);
	until_it_hangs_on(&b);
	is_judged(&a, DLK_GONE_NOW);
	forget(&a);
	forget(&b);
	waitpid(writer, NULL, 0);
	end_wait();
}

/* It may have come along with a wait of his, and his lock be the last. */
static void a_wait_that_is_older_than_the_lock_proves_nothing(void **state)
{
	struct reader a = reads(), b = reads();

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&a);
	assert_int_equal(dlk_guard_judge(&a.guard, 1, false), DLK_THERE);
	dies(&a, true);
	until_it_hangs_on(&b);
	is_judged(&a, DLK_UNKNOWN);
	forget(&a);
	forget(&b);
	end_wait();
}

/* But for one that hung on another's lock when his was there. */
static void it_looks_for_the_first_anew_behind_another_one(void **state)
{
	struct reader b = reads(), a, c;

	(void)state;
	begin_to_wait();
	until_it_hangs_on(&b);
	a = reads();
	until_it_hangs_on(&b);
	assert_int_equal(dlk_guard_judge(&a.guard, 1, false), DLK_THERE);
	dies(&b, true);
	until_it_hangs_on(&a);
	assert_int_equal(dlk_guard_judge(&a.guard, 1, false), DLK_THERE);
	c = reads();
	dies(&a, true);
	until_it_hangs_on(&c);
	assert_int_equal(dlk_guard_judge(&a.guard, 1, false), DLK_GONE_NOW);
	forget(&a);
	forget(&b);
	forget(&c);
	end_wait();
}

/* Who unlocks, and lives, shows it. */
static void the_living_show_that_they_have_unlocked(void **state)
{
	struct reader a = reads();

	(void)state;
	look_until(whatever, &a);
	is_judged(&a, DLK_THERE);
	assert_int_equal(flock(a.fd, LOCK_UN), 0);
	look_until(whatever, &a);
	is_judged(&a, DLK_GONE_NOW);
	forget(&a);
}

#define TEST(name) cmocka_unit_test_setup(name, another_file)

static int run(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_is_gone_when_our_wait_hangs_on_the_next),
		TEST(one_who_dies_after_the_list_was_read_is_gone_as_well),
		TEST(a_line_of_the_dead_does_not_make_him_the_first),
		TEST(a_lock_that_outlives_its_taker_is_not_gone),
		TEST(nothing_is_known_of_one_who_was_never_the_first),
		TEST(our_wait_may_hang_below_another_one),
		TEST(a_wait_that_is_older_than_the_lock_proves_nothing),
		TEST(it_looks_for_the_first_anew_behind_another_one),
		TEST(the_living_show_that_they_have_unlocked),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

/* As a child; its status. */
static int by_a_child(int (*fn)(void))
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		exit(fn());
	return waitpid(pid, &status, 0) != pid || status != 0;
}

/*
 * Only the tests' process has an exit() with LeakSanitizer's look at it: process
 * 1 of the namespace cannot be stopped for that, and its parent has no other
 * child any more (pid_namespaces(7)).
 */
static int host(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL)) {
		perror("mount");
		return 1;
	}
	_exit(by_a_child(run));
}

int main(void)
{
	if (unshare(CLONE_NEWPID | CLONE_NEWNS)) {
		perror("unshare");
		return 1;
	}
	_exit(by_a_child(host));
}
