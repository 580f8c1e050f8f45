/* SPDX-License-Identifier: MIT */
// link: shim/keeper/list.c
/*
 * The kernel's list of locks, read while others lock and unlock: a lock that
 * is there all the time is never missed (DESIGN L4: what is taken for gone is
 * released).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/list.h"
#include "os/sys.h"
#include "model/fdinfo.h"
#include "model/timeline.h"
#include "tests/unit/dir.h"

enum {
	OTHERS = 300,
	CHURNERS = 2,
	STEADY = 40,
	LENGTHS = 800,
	SOON_MS = 20000
};

/* What the list calls the file behind fd, which is locked. */
static uint64_t listed_as(int fd)
{
	char path[64], text[1024];
	struct dlk_lock_line l;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	assert_true(dlk_slurp(path, text, sizeof(text)) > 0);
	assert_true(dlk_fdinfo_lock(text, DLK_LINE_FLOCK, &l));
	assert_int_equal(l.pid, getpid());
	return dlk_list_file(&l);
}

/*
 * Other programs of the machine may lock meanwhile: then two readings do not agree,
 * or one has a line twice, which was shifted from one piece to the next.
 */
static const struct dlk_listed *listed(uint64_t file, unsigned n)
{
	const uint64_t until = dlk_now_ns() + SOON_MS * DLK_MS;
	const struct dlk_listed *e = NULL;

	while (!dlk_list_read() || dlk_list_of(file, &e) != n) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(DLK_MS);
	}
	return e;
}

static void a_lock_is_listed_with_its_taker(void **state)
{
	const struct dlk_listed *e;
	int fd = opened(STEADY), other = opened(STEADY);
	uint64_t file;

	(void)state;
	assert_int_equal(flock(fd, LOCK_SH), 0);
	file = listed_as(fd);
	e = listed(file, 1);
	assert_int_equal(e[0].pid, getpid());
	assert_int_equal(e[0].mode, LOCK_SH);
	assert_false(e[0].blocks_us);
	assert_int_equal(flock(other, LOCK_SH), 0);
	listed(file, 2);
	close(fd);
	listed(file, 1);
	close(other);
	listed(file, 0);
}

/* Wherever the cuts are.  (Others may lock meanwhile, and so stir it.) */
static void a_list_of_any_length_is_read(void **state)
{
	static int fd[LENGTHS];
	const struct dlk_listed *e;

	(void)state;
	for (unsigned i = 0; i < LENGTHS; i++) {
		fd[i] = opened(2000 + i);
		assert_int_equal(flock(fd[i], LOCK_EX), 0);
		e = listed(listed_as(fd[i]), 1);
		assert_int_equal(e[0].pid, getpid());
	}
	for (unsigned i = 0; i < LENGTHS; i++)
		close(fd[i]);
}

static void churn(unsigned which)
{
	int fds[OTHERS];
	unsigned x = which + 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < OTHERS; i++)
		fds[i] = opened(1000 + which * OTHERS + (unsigned)i);
	for (;;) {
		x = x * 1103515245 + 12345;
		flock(fds[x / 65536 % OTHERS], x & 0x8000 ? LOCK_EX : LOCK_UN);
		/* Bursts: without a pause no two readings would ever agree. */
		if (x / 65536 % 8 == 0)
			dlk_pause_ns(DLK_MS / 20);
	}
}

static void none_is_missed_while_others_come_and_go(void **state)
{
	const uint64_t until = dlk_now_ns() + 2000 * DLK_MS;
	uint64_t file[STEADY];
	pid_t child[CHURNERS];
	unsigned read = 0, missed = 0, failed = 0;
	int fd[STEADY];

	(void)state;
	for (unsigned i = 0; i < CHURNERS; i++) {
		child[i] = fork();
		if (child[i] == 0)
			churn(i);
	}
	for (int i = 0; i < STEADY; i++) {
		fd[i] = opened((unsigned)i);
		assert_int_equal(flock(fd[i], LOCK_EX), 0);
		file[i] = listed_as(fd[i]);
		dlk_pause_ns(DLK_MS);
	}
	while (dlk_now_ns() < until ||
	       (!read && dlk_now_ns() < until + SOON_MS * DLK_MS)) {
		const struct dlk_listed *e;

		if (!dlk_list_read()) {
			failed++;
			continue;
		}
		read++;
		for (int i = 0; i < STEADY; i++)
			missed += dlk_list_of(file[i], &e) == 0;
	}
	for (unsigned i = 0; i < CHURNERS; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	print_message("# read %u times, %u not of one mind\n", read, failed);
	assert_int_equal(missed, 0);
	assert_true(read > 0);
	for (int i = 0; i < STEADY; i++)
		close(fd[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_is_listed_with_its_taker),
		cmocka_unit_test(a_list_of_any_length_is_read),
		cmocka_unit_test(none_is_missed_while_others_come_and_go),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
