/* SPDX-License-Identifier: MIT */
// link: shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c shim/hold/schedule.c shim/hold/self.c
/*
 * The timer that kills a holder in time: for which moment it is set, after each
 * thing that a hold can meet, by the kernel's own word (timer_gettime(2)); and
 * that it kills one that is stopped, not earlier than at that moment.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hold/backstop.h"
#include "hold/holds.h"
#include "hold/self.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tests/unit/holds.h"

enum { TTL_MS = 9000, LONG_MS = 1500, SHORT_MS = 400 };

static const struct dlk_rule kills = { .on_lost = DLK_LOST_KILL };
static const struct dlk_rule holds_on = { .on_lost = DLK_LOST_HOLD };
static const struct dlk_rule pauses = { .on_lost = DLK_LOST_PAUSE };

static struct dlk_hold *held_by(const struct dlk_rule *rule, uint32_t ttl_ms,
				uint64_t asked_ns)
{
	struct dlk_hold *h;

	dlk_holds_unlock();
	h = free_hold("dlock1 t", NULL, ttl_ms);
	dlk_holds_lock();
	h->rule = rule;
	dlk_hold_install(h, asked_ns, 0);
	return h;
}

static uint64_t mark_of(const struct dlk_hold *h)
{
	return dlk_backstop_ns(h->valid.deadline_ns, h->valid.span_ms);
}

static void end(struct dlk_hold *h)
{
	if (dlk_hold_is_held(h))
		dlk_hold_drop(h);
	dlk_hold_unpin(h);
}

/* --- by the kernel's word ---------------------------------------------------- */

/* The number of the process's one timer; -1: it has none. */
static int the_timer(void)
{
	FILE *f = fopen("/proc/self/timers", "r");
	char line[80];
	int id = -1, n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "ID: ", 4) == 0) {
			id = (int)strtol(line + 4, NULL, 10);
			n++;
		}
	fclose(f);
	assert_true(n <= 1);
	return id;
}

/* How long until it fires, ns; 0: it does not. */
static uint64_t left_ns(void)
{
	struct itimerspec t;
	const int id = the_timer();

	if (id < 0)
		return 0;
	assert_int_equal(syscall(SYS_timer_gettime, id, &t), 0);
	return (uint64_t)t.it_value.tv_sec * 1000000000 +
	       (uint64_t)t.it_value.tv_nsec;
}

/* (The clock is read before and after.) */
static void assert_set_for(uint64_t mark_ns)
{
	const uint64_t before = dlk_now_ns(), left = left_ns();
	const uint64_t after = dlk_now_ns();

	assert_true(left > 0);
	assert_true(before + left <= mark_ns + (after - before));
	assert_true(after + left >= mark_ns);
}

static void assert_not_set(void)
{
	assert_int_equal(left_ns(), 0);
}

/* --- what it is set for -------------------------------------------------------- */

static int lock(void **state)
{
	(void)state;
	dlk_holds_lock();
	return 0;
}

static int unlock(void **state)
{
	(void)state;
	assert_not_set();
	dlk_holds_unlock();
	return 0;
}

/* (Of a rule that pauses there are two timers.) */
static int unlock_2(void **state)
{
	(void)state;
	dlk_holds_unlock();
	return 0;
}

static void no_timer_unless_it_kills(void **state)
{
	struct dlk_hold *a = held_by(&holds_rule, TTL_MS, dlk_now_ns());
	struct dlk_hold *b = held_by(&holds_on, TTL_MS, dlk_now_ns());

	(void)state;
	assert_int_equal(the_timer(), -1);
	assert_int_equal(dlk_backstop_ns_first(), UINT64_MAX);
	end(a);
	end(b);
}

static void set_while_it_is_held(void **state)
{
	struct dlk_hold *h = held_by(&kills, TTL_MS, dlk_now_ns());

	(void)state;
	assert_set_for(mark_of(h));
	dlk_hold_convert(h);
	assert_set_for(mark_of(h));
	end(h);
	assert_not_set();
}

static void a_renewal_puts_it_off(void **state)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *h = held_by(&kills, TTL_MS, now - 3000 * DLK_MS);
	const uint64_t first = mark_of(h);

	(void)state;
	assert_set_for(first);
	dlk_hold_extend(h, now);
	assert_int_equal(mark_of(h), first + 3000 * DLK_MS);
	assert_set_for(mark_of(h));
	end(h);
}

static void a_shorter_ttl_brings_it_forward(void **state)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *h = held_by(&kills, TTL_MS, now);

	(void)state;
	dlk_hold_cut(h, now, 5000);
	assert_set_for(dlk_backstop_ns(dlk_deadline_ns(now, 5000), 5000));
	end(h);
}

static void the_first_of_several(void **state)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *a = held_by(&kills, TTL_MS, now);
	struct dlk_hold *b = held_by(&kills, 5000, now);
	struct dlk_hold *c = held_by(&kills, 7000, now);

	(void)state;
	assert_set_for(mark_of(b));
	dlk_hold_extend(b, now + 3000 * DLK_MS);
	assert_set_for(mark_of(c));
	end(c);
	assert_set_for(mark_of(b));
	end(b);
	assert_set_for(mark_of(a));
	end(a);
}

/* What the keeper alone renews is the keeper's to stop. */
static void none_while_it_is_elsewhere(void **state)
{
	struct dlk_hold *h = held_by(&kills, TTL_MS, dlk_now_ns());

	(void)state;
	h->keeper.carried = true;
	dlk_hold_leave(h);
	assert_true(h->valid.elsewhere);
	assert_not_set();
	dlk_hold_extend(h, dlk_now_ns());
	assert_set_for(mark_of(h));
	end(h);
}

/* (A program may delete all timers that there are.) */
static void made_anew_if_it_is_deleted(void **state)
{
	struct dlk_hold *h = held_by(&kills, TTL_MS, dlk_now_ns());

	(void)state;
	assert_int_equal(syscall(SYS_timer_delete, the_timer()), 0);
	assert_int_equal(the_timer(), -1);
	dlk_hold_extend(h, dlk_now_ns());
	assert_set_for(mark_of(h));
	end(h);
}

static void none_for_process_1(void **state)
{
	struct dlk_hold *h;

	(void)state;
	dlk_self.pid = 1;
	h = held_by(&kills, TTL_MS, dlk_now_ns());
	assert_not_set();
	end(h);
	dlk_self.pid = getpid();
}

/* --- in a child of its own ------------------------------------------------------ */

typedef int child_fn(void);

static int status_of(child_fn *child)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		dlk_self.pid = getpid();
		dlk_backstop_forget();
		_exit(child());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* (What other processes of the same user have counts as well.) */
static int refused_then_allowed(void)
{
	struct rlimit some, none;
	struct dlk_hold *h;

	if (getrlimit(RLIMIT_SIGPENDING, &some))
		return 4;
	none = (struct rlimit){ 0, some.rlim_max };
	if (the_timer() != -1 || setrlimit(RLIMIT_SIGPENDING, &none))
		return 1; /* (a timer is not inherited) */
	h = held_by(&kills, TTL_MS, dlk_now_ns());
	if (the_timer() != -1 || setrlimit(RLIMIT_SIGPENDING, &some))
		return 2;
	dlk_hold_extend(h, dlk_now_ns());
	return left_ns() > 0 ? 0 : 3;
}

static void tried_again_if_it_is_refused(void **state)
{
	(void)state;
	assert_int_equal(status_of(refused_then_allowed), 0);
}

static uint64_t asked_ns;

/*
 * A child is as far as it has to be while its lease lasts.  (One that had no core
 * for so long is dead before, as it ought to be, and tried once more.)
 */
static _Atomic bool *is_far;

/* until_far CHILD: its end, or stop, once it has been so far */
static pid_t until_far(child_fn *child, int *status, int options)
{
	pid_t pid = -1;

	for (int i = 0; i < 5 && (pid < 0 || !*is_far); i++) {
		asked_ns = dlk_now_ns();
		pid = fork();
		if (pid == 0) {
			dlk_self.pid = getpid();
			dlk_backstop_forget();
			_exit(child());
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, status, options), pid);
	}
	assert_true(*is_far);
	*is_far = false;
	return pid;
}

/* Stopped: nothing of it runs any more. */
static int stops(void)
{
	held_by(&kills, SHORT_MS, asked_ns);
	raise(SIGSTOP);
	return 0;
}

static void kills_who_is_stopped(void **state)
{
	const uint32_t ttl = SHORT_MS;
	int status;

	(void)state;
	asked_ns = dlk_now_ns();
	status = status_of(stops);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_true(dlk_now_ns() >=
		    dlk_backstop_ns(dlk_deadline_ns(asked_ns, ttl), ttl));
}

/* Of a lease that has ended already, and however often it is put off. */
static int renews_then_stops(void)
{
	struct dlk_hold *h = held_by(&kills, SHORT_MS, asked_ns);

	for (int i = 1; i <= 4; i++)
		dlk_hold_extend(h, asked_ns + (uint64_t)i * 100 * DLK_MS);
	raise(SIGSTOP);
	return 0;
}

static void kills_by_the_last_renewal(void **state)
{
	const uint32_t ttl = SHORT_MS;
	int status;

	(void)state;
	asked_ns = dlk_now_ns();
	status = status_of(renews_then_stops);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_true(
		dlk_now_ns() >=
		dlk_backstop_ns(dlk_deadline_ns(asked_ns + 400 * DLK_MS, ttl),
				ttl));
}

/* It sleeps beyond the mark of what it has given back. */
static int gives_back(void)
{
	struct dlk_hold *h = held_by(&kills, LONG_MS, dlk_now_ns());

	end(h);
	*is_far = true;
	dlk_pause_ns((LONG_MS + 100) * DLK_MS);
	return 7;
}

static void lives_if_it_has_given_it_back(void **state)
{
	int status;

	(void)state;
	until_far(gives_back, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static struct dlk_hold *paused_by_keeper(void)
{
	struct dlk_hold *h = held_by(&pauses, LONG_MS, asked_ns);

	h->keeper.carried = true;
	h->keeper.known_until_ns = h->valid.deadline_ns;
	h->lease.pause_ms = 60000;
	dlk_backstop_watch(h);
	return h;
}

/* One of three says READY; it is continued beyond the marks of all, and hears that
 * one after the other was renewed. */
static int one_is_ready(void)
{
	struct dlk_hold *all[3];

	for (int i = 0; i < 3; i++, asked_ns += 10 * DLK_MS)
		all[i] = paused_by_keeper();
	all[0]->valid.trouble = HOLD_READY;
	dlk_backstop_watch(all[0]);
	if (!dlk_backstop_stands_back())
		return 1;
	*is_far = true;
	raise(SIGSTOP);
	for (int i = 0; i < 3; i++) {
		if (!dlk_hold_is_paused(all[i]))
			return 2;
		dlk_hold_heard(all[i], asked_ns + TTL_MS * DLK_MS, true);
	}
	/* Nothing stands back any more. */
	for (int i = 0; i < 3; i++)
		if (dlk_hold_is_paused(all[i]))
			return 3;
	return dlk_backstop_stands_back() ? 4 : 0;
}

static void who_is_ready_for_one_is_for_all(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	pid = until_far(one_is_ready, &status, WUNTRACED);
	assert_true(WIFSTOPPED(status));
	dlk_pause_ns((LONG_MS + 100) * DLK_MS);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* What is renewed while it stands back still does: it is stopped in a moment. */
static void what_is_renewed_meanwhile_stands_back(void **state)
{
	struct dlk_hold *a, *b;

	(void)state;
	asked_ns = dlk_now_ns();
	a = paused_by_keeper();
	b = paused_by_keeper();
	a->valid.trouble = HOLD_READY;
	dlk_backstop_watch(a);
	dlk_hold_extend(b, asked_ns + 1000 * DLK_MS);
	assert_true(dlk_hold_is_paused(b));
	dlk_hold_extend(a, asked_ns + 1000 * DLK_MS);
	assert_false(dlk_hold_is_paused(a));
	assert_true(dlk_hold_is_paused(b));
	dlk_hold_extend(b, asked_ns + 1100 * DLK_MS);
	assert_false(dlk_hold_is_paused(b));
	end(a);
	end(b);
	dlk_backstop_forget();
}

#define backstop_test(f) cmocka_unit_test_setup_teardown(f, lock, unlock)

int main(void)
{
	const struct CMUnitTest tests[] = {
		backstop_test(no_timer_unless_it_kills),
		backstop_test(set_while_it_is_held),
		backstop_test(a_renewal_puts_it_off),
		backstop_test(a_shorter_ttl_brings_it_forward),
		backstop_test(the_first_of_several),
		backstop_test(none_while_it_is_elsewhere),
		backstop_test(made_anew_if_it_is_deleted),
		backstop_test(none_for_process_1),
		backstop_test(tried_again_if_it_is_refused),
		backstop_test(kills_who_is_stopped),
		backstop_test(kills_by_the_last_renewal),
		backstop_test(lives_if_it_has_given_it_back),
		backstop_test(who_is_ready_for_one_is_for_all),
		cmocka_unit_test_setup_teardown(
			what_is_renewed_meanwhile_stands_back, lock, unlock_2),
	};

	dlk_self.pid = getpid();
	is_far = mmap(NULL, sizeof(*is_far), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
