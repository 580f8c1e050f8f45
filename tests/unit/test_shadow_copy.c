/* SPDX-License-Identifier: MIT */
// link: shim/keeper/hear.c shim/keeper/carry.c shim/keeper/losses.c shim/keeper/file.c
// link: shim/keeper/look.c shim/keeper/locks.c shim/keeper/list.c
// link: shim/keeper/records.c shim/keeper/shadow_copy.c
// link: shim/keeper/description.c shim/keeper/errand.c
// link: shim/keeper/settle.c shim/keeper/obey.c shim/keeper/mirror.c
// link: shim/keeper/section.c shim/keeper/paused.c shim/keeper/victims.c
// link: shim/keeper/watchdog.c
/*
 * A shadow's copy whose standby, a child, has all sockets as well: what the keeper
 * has closed rings no more (epoll(7), Q6: a description that another process has is
 * not forgotten), and nobody else is asked in its place.  And who asks is answered when
 * the keeper has closed what it has of the description itself.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "os/shadowdir.h"
#include "tests/unit/dir.h"

/* The timer rings now and then: but not in each of so many moments. */
enum { LOOKS = 100, QUIET_MS = 10 };

static int base, program;
static struct dlk_shadow_copy *copy;

/* The program's description is one that can be polled, as those of FUSE are. */
static void lock_one(void)
{
	int fds[3];

	base = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	program = eventfd(0, EFD_CLOEXEC);
	fds[0] = openat(base, "shadow", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	fds[1] = program;
	fds[2] = base;
	copy = dlk_shadow_copy_get(fds);
	assert_non_null(copy);
	close(fds[0]);
}

static pid_t fork_standby(bool closes)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	/* A copy of the program's, which is no program here. */
	close(program);
	if (closes)
		dlk_shadow_copies_stand_by();
	pause();
	_exit(0);
}

static void end_standby(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(base);
}

static int connect_asker(void)
{
	const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct dlk_shadow_plan plan;
	int fds[DLK_SHADOW_FDS];
	struct sockaddr_un at;

	dlk_shadow_copy_plan(copy, &plan, fds);
	dlk_shadowdir_socket(base, plan.sock_name, &at);
	assert_int_equal(connect(sock, (struct sockaddr *)&at, sizeof(at)), 0);
	return sock;
}

/* Has it nothing more to look at? */
static bool gets_quiet(void)
{
	for (int i = 0; i < LOOKS; i++) {
		if (!dlk_polled(dlk_shadow_copies_bell(), POLLIN, QUIET_MS))
			return true;
		dlk_shadow_copies_look();
	}
	return false;
}

static void one_who_asks_too_late_rings_no_more(void **state)
{
	int askers[2];
	pid_t standby;

	(void)state;
	lock_one();
	standby = fork_standby(true);
	assert_true(gets_quiet());
	for (int i = 0; i < 2; i++)
		askers[i] = connect_asker();
	close(program);
	assert_true(gets_quiet());
	/* Who was accepted is answered yet; and so is the next lock's. */
	assert_true(dlk_shadowdir_say(askers[0], base, 0));
	assert_true(gets_quiet());
	dlk_shadow_copy_put(copy);
	assert_true(gets_quiet());
	for (int i = 0; i < 2; i++)
		close(askers[i]);
	end_standby(standby);
}

static void a_copy_that_is_put_rings_no_more(void **state)
{
	pid_t standby;
	int asker;

	(void)state;
	lock_one();
	standby = fork_standby(true);
	assert_true(gets_quiet());
	asker = connect_asker();
	dlk_shadow_copy_put(copy);
	assert_true(gets_quiet());
	close(asker);
	close(program);
	end_standby(standby);
}

/* Its standby was made while it was connected. */
static void one_who_has_left_rings_no_more(void **state)
{
	pid_t standby;
	int asker;

	(void)state;
	lock_one();
	asker = connect_asker();
	assert_true(gets_quiet());
	standby = fork_standby(false);
	close(asker);
	assert_true(gets_quiet());
	dlk_shadow_copy_put(copy);
	close(program);
	end_standby(standby);
}

/* What the keeper closes is closed: no standby has it. */
static void a_standby_keeps_no_asker(void **state)
{
	char byte;
	pid_t standby;
	int asker;

	(void)state;
	lock_one();
	asker = connect_asker();
	assert_true(gets_quiet());
	standby = fork_standby(true);
	dlk_shadow_copy_put(copy);
	assert_int_equal(dlk_polled(asker, POLLIN, 10000) & POLLIN, POLLIN);
	assert_int_equal(recv(asker, &byte, 1, MSG_DONTWAIT), 0);
	close(asker);
	close(program);
	end_standby(standby);
}

static int64_t clock_s;

static int standing_clock(clockid_t id, struct timespec *t)
{
	(void)id;
	*t = (struct timespec){ .tv_sec = clock_s };
	return 0;
}

/* And the keeper has one more descriptor of it, for as long as the clock stands. */
static void lend_one(void)
{
	lock_one();
	dlk_clock_use(standing_clock);
	dlk_shadow_copy_lent(copy);
}

/* The keeper has its description yet: who asks hears nothing. */
static int ask_in_vain(void)
{
	const int asker = connect_asker();

	assert_true(dlk_shadowdir_say(asker, base, 0));
	assert_true(gets_quiet());
	assert_int_equal(dlk_polled(asker, POLLIN, 0), 0);
	return asker;
}

static void what_is_lent_is_waited_for(void **state)
{
	int asker;

	(void)state;
	lend_one();
	asker = ask_in_vain();
	assert_false(dlk_shadow_copy_given_back(copy));
	assert_true(gets_quiet());
	assert_int_equal(dlk_polled(asker, POLLIN, 10000) & POLLIN, POLLIN);
	close(asker);
	dlk_shadow_copy_put(copy);
	close(program);
	close(base);
}

static void what_is_lent_was_the_last(void **state)
{
	int asker, lent;

	(void)state;
	lend_one();
	lent = dup(program);
	close(program);
	asker = ask_in_vain();
	assert_true(dlk_shadow_copy_is_lent(copy));
	close(lent);
	assert_true(dlk_shadow_copy_given_back(copy));
	assert_false(dlk_shadow_copy_is_lent(copy));
	assert_false(dlk_shadow_copy_is_locked(copy));
	assert_int_equal(dlk_polled(asker, POLLIN, 10000) & POLLIN, POLLIN);
	close(asker);
	dlk_shadow_copy_put(copy);
	close(base);
}

/* Its close may never be done. */
static void a_server_that_is_away_keeps_nobody(void **state)
{
	int asker;

	(void)state;
	lend_one();
	asker = ask_in_vain();
	clock_s++;
	while (!dlk_polled(asker, POLLIN, 0) &&
	       dlk_polled(dlk_shadow_copies_bell(), POLLIN, 10000))
		dlk_shadow_copies_look();
	assert_int_equal(dlk_polled(asker, POLLIN, 0) & POLLIN, POLLIN);
	close(asker);
	dlk_shadow_copy_put(copy);
	close(program);
	close(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_who_asks_too_late_rings_no_more),
		cmocka_unit_test(a_copy_that_is_put_rings_no_more),
		cmocka_unit_test(one_who_has_left_rings_no_more),
		cmocka_unit_test(a_standby_keeps_no_asker),
		cmocka_unit_test(what_is_lent_is_waited_for),
		cmocka_unit_test(what_is_lent_was_the_last),
		cmocka_unit_test(a_server_that_is_away_keeps_nobody),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
