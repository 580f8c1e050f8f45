/* SPDX-License-Identifier: MIT */
/*
 * The engine of lock calls, with a kernel, a server and a clock of the test's:
 * in which order it does what, that it never sleeps with the kernel's lock or
 * inside a file's own part, that it leaves what it has entered, and what it
 * says of a failure.
 *
 * Each step that it has done is a letter:
 *
 *	u  resume	e  enter	p  prepare	k  the kernel, no wait
 *	a  ask		r  rollback	l  leave	h  who is in the way?
 *	n  not now	o  our own?	c  a cycle?	K  wait in the kernel
 *	Q  wait in the queue		d  doubt	b  back off	g  ping
 *	f  fill the hands, after a handler
 */
// link: shim/lock/engine.c
// link: shim/lock/event.c
// wrap: dlk_now_ns
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lock/alone.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "lock/wait.h"
#include "lock/replaced.h"
#include "model/timeline.h"
#include "tests/unit/lcg.h"

enum { TIMEOUT_MS = 500, STEPS = 12, LOG = 4096 };

/* What the next steps of a kind give, one after the other; then 0. */
struct script {
	int v[STEPS];
	unsigned n;
};

static struct world {
	uint64_t now_ns;
	struct script kernel, redis, ping, waits, queue, follow, own, cycle;
	struct script tentative, pass, entrance, kept;
	bool inside, in_hand;
	bool handled; /* a handler runs as it enters */
	unsigned entered, left;
	char log[LOG];
	char said[256];
	bool young;
} world;

static struct dlk_rule rule = { .timeout_ms = TIMEOUT_MS };
static struct dlk_scratch scratch;

static void done(char letter)
{
	const size_t n = strlen(world.log);

	assert_in_range(n, 0, LOG - 2);
	world.log[n] = letter;
	world.now_ns += DLK_MS / 100;
}

static int next(struct script *s)
{
	return s->n < STEPS ? s->v[s->n++] : 0;
}

/* It sleeps, and may never come back. */
static void sleeps(char letter, uint64_t ns)
{
	assert_false(world.in_hand);
	assert_false(world.inside);
	done(letter);
	world.now_ns += ns;
}

/* --- the test's own of everything ----------------------------------------- */

uint64_t __wrap_dlk_now_ns(void);
uint64_t __wrap_dlk_now_ns(void)
{
	return world.now_ns;
}

int dlk_follow_up(struct request *r)
{
	(void)r;
	done('u');
	return next(&world.follow);
}

enum acquire_event dlk_request_ping(struct request *r)
{
	sleeps('g', 0);
	return dlk_event_of_redis(r, next(&world.ping));
}

int dlk_request_pause(struct request *r, uint64_t ns)
{
	(void)r;
	sleeps('b', ns);
	return 0;
}

int dlk_request_fill_hands(struct request *r, int err)
{
	assert_null(r->s);
	done('f');
	world.handled = false;
	r->s = &scratch;
	return err;
}

enum acquire_event dlk_request_replaced(struct request *r)
{
	(void)r;
	done('o');
	return (enum acquire_event)next(&world.own);
}

void dlk_queue_end(struct request *r)
{
	assert_false(world.inside);
	assert_non_null(r->slot.claim);
}

enum acquire_event dlk_queue_not_now(struct request *r)
{
	(void)r;
	done('n');
	return next(&world.pass) ? EV_OK : EV_NOTHING;
}

enum acquire_event dlk_queue_wait(struct request *r)
{
	sleeps('Q', 30 * DLK_MS);
	r->asked_ns = world.now_ns;
	return dlk_event_of_redis(r, next(&world.queue));
}

bool dlk_request_is_by_lease(const struct request *r)
{
	return strncmp(r->s->answer.holder, "dlock1 ", 7) == 0;
}

void dlk_alone_begin(struct request *r)
{
	r->acquire.may_be_local = false;
}

void dlk_alone_note(struct request *r, enum acquire_state was,
		    enum acquire_event event)
{
	(void)r;
	(void)was;
	(void)event;
}

void dlk_request_young_line(struct request *r)
{
	(void)r;
	world.young = true;
}

void dlk_request_line(const struct request *r, enum dlk_level level,
		      const char *what, const char *why, const char *then)
{
	(void)r;
	(void)level;
	snprintf(world.said, sizeof(world.said), "%s%s%s", what, why, then);
}

/* Signals are let in unless the kernel's lock is in hand. */
static int enter(struct request *r, struct dlk_call *call, uint64_t until_ns)
{
	const int err = call ? next(&world.entrance) : 0;

	assert_int_equal(world.in_hand, call == NULL);
	assert_int_equal(until_ns == UINT64_MAX, call == NULL);
	assert_false(world.inside);
	done('e');
	world.inside = err == 0;
	world.entered += err == 0;
	if (world.handled)
		r->s = NULL;
	return err;
}

static enum acquire_event prepare(struct request *r)
{
	assert_true(world.inside);
	done('p');
	return dlk_event_of_redis(r, next(&world.kept));
}

static enum acquire_event try_kernel(struct request *r)
{
	const int err = next(&world.kernel);

	assert_true(world.inside);
	done('k');
	world.in_hand = err == 0;
	return dlk_event_of_kernel(r, err);
}

static enum acquire_event ask(struct request *r)
{
	assert_true(world.inside && world.in_hand);
	done('a');
	return dlk_event_of_redis(r, next(&world.redis));
}

static enum acquire_event rollback(struct request *r)
{
	(void)r;
	assert_true(world.inside && world.in_hand);
	done('r');
	world.in_hand = false;
	return EV_OK;
}

static void leave(struct request *r)
{
	(void)r;
	assert_true(world.inside);
	done('l');
	world.inside = false;
	world.left++;
}

static enum acquire_event check_holder(struct request *r)
{
	(void)r;
	assert_false(world.inside);
	done('h');
	return next(&world.tentative) ? EV_AGAIN : EV_BUSY;
}

static enum acquire_event wait_in_kernel(struct request *r)
{
	const int err = next(&world.waits);

	sleeps('K', 3 * DLK_MS);
	world.in_hand = err == 0;
	return err == -EDEADLK ? EV_DEADLOCK : dlk_event_of_place(r, err);
}

static enum acquire_event closes_cycle(struct request *r)
{
	const int err = next(&world.cycle);

	(void)r;
	done('c');
	return err < 0 ? EV_DEADLOCK : err ? EV_SUSPECTED : EV_OK;
}

static enum acquire_event doubt(struct request *r)
{
	(void)r;
	sleeps('d', DLK_MS);
	return EV_OK;
}

static const struct lock_kind kind = {
	.enter = enter,
	.leave = leave,
	.steps = {
		[ACQ_PREPARE] = prepare,
		[ACQ_TRY_KERNEL] = try_kernel,
		[ACQ_ASK] = ask,
		[ACQ_ROLLBACK] = rollback,
		[ACQ_CHECK_HOLDER] = check_holder,
		[ACQ_CHECK_CYCLE] = closes_cycle,
		[ACQ_WAIT_KERNEL] = wait_in_kernel,
		[ACQ_DOUBT] = doubt,
	},
};

/* --- orders --------------------------------------------------------------- */

static int reset(void **unused)
{
	(void)unused;
	world = (struct world){ .now_ns = 1000 * DLK_MS };
	memset(&scratch, 0, sizeof(scratch));
	return 0;
}

static int run(bool wait)
{
	struct dlk_call call = { .wait = wait };
	struct request a = { .call = &call, .rule = &rule, .s = &scratch };
	const int err = dlk_engine_run(&a, &kind);

	assert_int_equal(world.entered, world.left);
	assert_int_equal(world.in_hand, err == 0);
	return err;
}

#define GIVES(what, ...)                                                       \
	world.what = (struct script)                                           \
	{                                                                      \
		.v = { __VA_ARGS__ }                                           \
	}

static void held_by_a_lease(void)
{
	strcpy(scratch.answer.holder, "dlock1 other");
}

static void nobody_is_in_the_way(void **unused)
{
	(void)unused;
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkal");
}

static void a_refusal_is_asked_once_more(void **unused)
{
	(void)unused;
	held_by_a_lease();
	GIVES(redis, DLK_BUSY, DLK_BUSY);
	assert_int_equal(run(false), -EWOULDBLOCK);
	assert_string_equal(world.log, "epkarlouepkarlo");
	assert_string_equal(world.said, "");
}

static void a_foreign_holder_is_not(void **unused)
{
	(void)unused;
	strcpy(scratch.answer.holder, "somebody");
	GIVES(redis, DLK_BUSY);
	assert_int_equal(run(false), -EWOULDBLOCK);
	assert_string_equal(world.log, "epkarlo");
}

static void who_waits_is_woken_and_tries(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkarlocQuepkal");
}

static void a_local_holder_is_waited_for_in_the_kernel(void **unused)
{
	(void)unused;
	GIVES(kernel, -EAGAIN);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epklcKepkal");
}

static void a_local_holder_refuses_who_does_not_wait(void **unused)
{
	(void)unused;
	GIVES(kernel, -EACCES);
	assert_int_equal(run(false), -EACCES);
	assert_string_equal(world.log, "epklh");
}

static void one_who_only_asks_is_tried_again(void **unused)
{
	(void)unused;
	GIVES(kernel, -EAGAIN, -EAGAIN);
	GIVES(tentative, true, true);
	assert_int_equal(run(false), 0);
	assert_string_equal(world.log, "epklhuepklhuepkal");
}

/* Granted by the queue, and a program without dlock has the file. */
static void a_stranger_has_the_next_one_served(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(kernel, 0, -EAGAIN);
	GIVES(pass, 1);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkarlocQuepklhncKepkal");
}

/* Nothing to pass on: it was woken to look at a local holder. */
static void who_has_no_claim_waits_on(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(kernel, 0, -EAGAIN);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkarlocQuepklhnQuepkal");
}

static void a_file_of_our_own_with_that_key_is_no_wait(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(own, EV_BUSY);
	assert_int_equal(run(true), -EDEADLK);
	assert_string_equal(world.log, "epkarlo");
	reset(NULL);
	GIVES(redis, DLK_BUSY);
	GIVES(own, EV_BUSY);
	assert_int_equal(run(false), -EWOULDBLOCK);
}

static void a_cycle_of_waits_is_refused(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(cycle, -EDEADLK);
	assert_int_equal(run(true), -EDEADLK);
	assert_string_equal(world.log, "epkarloc");
}

/* A suspicion is looked at again, not waited with in the kernel. */
static void a_suspected_cycle_is_paused_for(void **unused)
{
	(void)unused;
	GIVES(kernel, -EAGAIN, -EAGAIN);
	GIVES(cycle, 1);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epklcbuepklcKepkal");
}

static void the_kernel_s_deadlock_is_doubted_for_a_while(void **unused)
{
	(void)unused;
	GIVES(kernel, -EAGAIN, -EAGAIN, -EAGAIN, -EAGAIN, -EAGAIN);
	GIVES(waits, -EDEADLK, -EDEADLK, -EDEADLK, -EDEADLK, -EDEADLK);
	assert_int_equal(run(true), -EDEADLK);
	assert_string_equal(world.log, "epklcKduepklcKduepklcKduepklcK");
}

static void another_file_by_that_number_begins_anew(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(follow, DLK_OTHER_FILE);
	assert_int_equal(run(true), DLK_OTHER_FILE);
	assert_string_equal(world.log, "epkarlocQu");
}

static void an_interrupted_entrance_is_not_left(void **unused)
{
	(void)unused;
	GIVES(entrance, -EINTR);
	assert_int_equal(run(true), -EINTR);
	assert_string_equal(world.log, "e");
}

static void others_inside_are_waited_for_no_longer(void **unused)
{
	(void)unused;
	GIVES(entrance, -ETIMEDOUT);
	assert_int_equal(run(true), -ENOLCK);
	assert_string_equal(world.log, "e");
	assert_non_null(strstr(world.said, "other threads"));
}

/* It may have come to wait for nothing, or for another file. */
static void a_handler_runs_at_the_entrance(void **unused)
{
	(void)unused;
	world.handled = true;
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "efupkal");
	reset(NULL);
	world.handled = true;
	GIVES(follow, DLK_OTHER_FILE);
	assert_int_equal(run(true), DLK_OTHER_FILE);
	assert_string_equal(world.log, "eful");
	reset(NULL);
	world.handled = true;
	GIVES(entrance, -EINTR);
	assert_int_equal(run(true), -EINTR);
	assert_string_equal(world.log, "ef");
}

/* --- a server that does not answer ---------------------------------------- */

/* Pinged with nothing in hand until the timeout; then it is said why. */
static void a_silent_server_ends_in_enolck(void **unused)
{
	const uint64_t began = world.now_ns;
	int i;

	(void)unused;
	GIVES(redis, -ETIMEDOUT);
	for (i = 0; i < STEPS; i++)
		world.ping.v[i] = -ETIMEDOUT;
	rule.timeout_ms = 100;
	assert_int_equal(run(true), -ENOLCK);
	rule.timeout_ms = TIMEOUT_MS;
	assert_string_equal(world.log, "epkarlbugbugbugbug");
	assert_in_range(world.now_ns - began, 60 * DLK_MS, 100 * DLK_MS);
	assert_string_equal(world.said,
			    "; not locked, the call fails with ENOLCK");
}

static void it_is_asked_again_when_it_answers(void **unused)
{
	(void)unused;
	GIVES(redis, -ETIMEDOUT);
	GIVES(ping, -ECONNREFUSED, -EINTR);
	assert_int_equal(run(false), 0);
	assert_string_equal(world.log, "epkarlbugbugbugepkal");
	assert_string_equal(world.said, "");
}

static void an_error_of_the_server_s_is_final(void **unused)
{
	(void)unused;
	GIVES(redis, -EREMOTEIO);
	assert_int_equal(run(true), -ENOLCK);
	assert_string_equal(world.log, "epkarl");
	assert_string_equal(world.said,
			    "; not locked, the call fails with ENOLCK");
}

static void a_young_server_is_waited_for_or_fails(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_GRACE);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkarlbuepkal");
	assert_true(world.young);
	reset(NULL);
	GIVES(redis, DLK_GRACE);
	assert_int_equal(run(false), -ENOLCK);
	assert_string_equal(world.log, "epkarl");
	assert_true(world.young);
}

static void a_key_of_another_type_is_named(void **unused)
{
	(void)unused;
	strcpy(scratch.answer.holder, "list");
	GIVES(redis, DLK_WRONG_TYPE);
	assert_int_equal(run(true), -ENOLCK);
	assert_non_null(strstr(world.said, "the key is no lock but a list"));
}

/* Told of by the queue, as by an ask; the timeout counts from there. */
static void the_server_may_go_while_we_wait(void **unused)
{
	(void)unused;
	GIVES(redis, DLK_BUSY);
	GIVES(queue, -ECONNRESET);
	assert_int_equal(run(true), 0);
	assert_string_equal(world.log, "epkarlocQbugepkal");
}

/* --- whatever comes ------------------------------------------------------- */

static void fill(struct script *s, const int *of, unsigned n, struct lcg *seed)
{
	for (unsigned i = 0; i < STEPS; i++)
		s->v[i] = lcg_below(seed, 3) ? of[lcg_below(seed, n)] : 0;
}

#define FILL(what, ...)                                                        \
	do {                                                                   \
		static const int of_[] = { __VA_ARGS__ };                      \
		fill(&world.what, of_, sizeof(of_) / sizeof(of_[0]), seed);    \
	} while (0)

static void any_world(struct lcg *seed)
{
	reset(NULL);
	if (lcg_below(seed, 2))
		held_by_a_lease();
	FILL(kernel, -EAGAIN, -EAGAIN, -EACCES, -EBADF);
	FILL(redis, DLK_BUSY, DLK_BUSY, DLK_GRACE, DLK_WRONG_TYPE, -ETIMEDOUT,
	     -EREMOTEIO, -EINTR, -ENOLCK);
	FILL(ping, -ETIMEDOUT, -EINTR, -ECONNREFUSED);
	FILL(waits, -EDEADLK, -EINTR, DLK_OTHER_FILE);
	FILL(queue, DLK_GRACE, -ECONNRESET, DLK_WRONG_TYPE);
	FILL(follow, 0, 0, 0, 0, -EBADF, DLK_OTHER_FILE);
	FILL(own, EV_OK, EV_OK, EV_AGAIN, EV_BUSY);
	FILL(cycle, 0, 0, 1, -EDEADLK);
	FILL(tentative, 0, 1);
	FILL(pass, 0, 1);
	FILL(entrance, 0, 0, 0, -EINTR);
	FILL(kept, 0, 0, 0, DLK_BUSY, -ETIMEDOUT);
}

/* The world's functions assert what MUST be, and run() the rest. */
static void nothing_is_in_hand_in_any_sleep(void **unused)
{
	struct lcg seed = { .seed = 20260 };
	unsigned granted = 0;

	(void)unused;
	for (int i = 0; i < 100000; i++) {
		any_world(&seed);
		granted += run(i % 2) == 0;
	}
	assert_in_range(granted, 1000, 99000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nobody_is_in_the_way, reset),
		cmocka_unit_test_setup(a_refusal_is_asked_once_more, reset),
		cmocka_unit_test_setup(a_foreign_holder_is_not, reset),
		cmocka_unit_test_setup(who_waits_is_woken_and_tries, reset),
		cmocka_unit_test_setup(
			a_local_holder_is_waited_for_in_the_kernel, reset),
		cmocka_unit_test_setup(a_local_holder_refuses_who_does_not_wait,
				       reset),
		cmocka_unit_test_setup(one_who_only_asks_is_tried_again, reset),
		cmocka_unit_test_setup(a_stranger_has_the_next_one_served,
				       reset),
		cmocka_unit_test_setup(who_has_no_claim_waits_on, reset),
		cmocka_unit_test_setup(
			a_file_of_our_own_with_that_key_is_no_wait, reset),
		cmocka_unit_test_setup(a_cycle_of_waits_is_refused, reset),
		cmocka_unit_test_setup(a_suspected_cycle_is_paused_for, reset),
		cmocka_unit_test_setup(
			the_kernel_s_deadlock_is_doubted_for_a_while, reset),
		cmocka_unit_test_setup(another_file_by_that_number_begins_anew,
				       reset),
		cmocka_unit_test_setup(an_interrupted_entrance_is_not_left,
				       reset),
		cmocka_unit_test_setup(others_inside_are_waited_for_no_longer,
				       reset),
		cmocka_unit_test_setup(a_handler_runs_at_the_entrance, reset),
		cmocka_unit_test_setup(a_silent_server_ends_in_enolck, reset),
		cmocka_unit_test_setup(it_is_asked_again_when_it_answers,
				       reset),
		cmocka_unit_test_setup(an_error_of_the_server_s_is_final,
				       reset),
		cmocka_unit_test_setup(a_young_server_is_waited_for_or_fails,
				       reset),
		cmocka_unit_test_setup(a_key_of_another_type_is_named, reset),
		cmocka_unit_test_setup(the_server_may_go_while_we_wait, reset),
		cmocka_unit_test(nothing_is_in_hand_in_any_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
