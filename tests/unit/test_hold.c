/* SPDX-License-Identifier: MIT */
// link: shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c shim/hold/schedule.c shim/hold/self.c
/*
 * The life of a hold: what each event makes of each state, what the counts and
 * the table then say, and until when its memory stays.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/holds.h"
#include "hold/schedule.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tests/unit/holds.h"
#include "tests/unit/lcg.h"

enum { TTL_MS = 9000, CLAIM_MS = 2000, MANY = 40 };

static const struct dlk_file file = { .dev = 8, .ino = 15 };
static uint64_t asked_ns;

static struct dlk_hold *new_hold(void)
{
	struct dlk_hold *h;

	dlk_holds_unlock();
	h = free_hold("dlock1 t", NULL, TTL_MS);
	dlk_holds_lock();
	h->file = file;
	return h;
}

/* Held, pinned by the caller. */
static struct dlk_hold *held(void)
{
	struct dlk_hold *h = new_hold();

	asked_ns = dlk_now_ns();
	dlk_hold_install(h, asked_ns, 0);
	return h;
}

static void assert_any(bool held, bool owed)
{
	assert_int_equal(dlk_any_held(), held);
	assert_int_equal(dlk_any_owed(), owed);
}

static int lock(void **state)
{
	(void)state;
	dlk_holds_lock();
	return 0;
}

/* Whatever a test has left ends. */
static int unlock(void **state)
{
	struct dlk_hold *next;

	(void)state;
	for (struct dlk_hold *h = dlk_holds_first(); h; h = next) {
		next = h->next;
		h->out.unanswered = 0;
		h->pins = 1;
		if (h->state != HOLD_ENDED)
			dlk_hold_drop(h);
		dlk_hold_unpin(h);
	}
	dlk_holds_unlock();
	return dlk_any_held() || dlk_any_owed() ? -1 : 0;
}

/* --- states --------------------------------------------------------------- */

enum event { CONVERT, WEAKEN, EXTEND, RELEASE, DROP, EVENTS };

static void happen(struct dlk_hold *h, enum event event)
{
	switch (event) {
	case CONVERT:
		dlk_hold_convert(h);
		break;
	case WEAKEN:
		dlk_hold_weaken(h, dlk_now_ns());
		break;
	case EXTEND:
		dlk_hold_extend(h, dlk_now_ns());
		break;
	case RELEASE:
		dlk_hold_release(h);
		break;
	case DROP:
		dlk_hold_drop(h);
		break;
	case EVENTS:
		break;
	}
}

static struct dlk_hold *hold_in(enum hold_state state)
{
	struct dlk_hold *h = state == HOLD_FREE ? new_hold() : held();

	if (state == HOLD_CONVERTING)
		dlk_hold_convert(h);
	if (state == HOLD_RELEASING)
		dlk_hold_release(h);
	if (state == HOLD_ENDED)
		dlk_hold_drop(h);
	return h;
}

/* What becomes of it; NEVER: it must not be asked for. */
enum { NEVER = -1 };

static const struct edge {
	enum hold_state from;
	int to[EVENTS];
} edges[] = {
	{ HOLD_HELD,
	  { HOLD_CONVERTING, HOLD_HELD, HOLD_HELD, HOLD_RELEASING,
	    HOLD_ENDED } },
	{ HOLD_CONVERTING,
	  { HOLD_CONVERTING, HOLD_HELD, HOLD_CONVERTING, HOLD_RELEASING,
	    HOLD_ENDED } },
	{ HOLD_RELEASING,
	  { HOLD_RELEASING, HOLD_RELEASING, HOLD_RELEASING, NEVER,
	    HOLD_ENDED } },
	{ HOLD_ENDED, { HOLD_ENDED, HOLD_ENDED, HOLD_ENDED, NEVER, NEVER } },
};

static void each_state_meets_each_event(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		for (int e = 0; e < EVENTS; e++) {
			const int to = edges[i].to[e];
			struct dlk_hold *h = hold_in(edges[i].from);

			if (to != NEVER) {
				happen(h, (enum event)e);
				assert_int_equal(h->state, to);
			}
			assert_any(dlk_hold_is_held(h),
				   h->state == HOLD_RELEASING);
			assert_int_equal(dlk_hold_find(&file, NULL) == h,
					 dlk_hold_is_held(h));
			if (h->state != HOLD_ENDED)
				dlk_hold_drop(h);
			dlk_hold_unpin(h);
			assert_null(dlk_holds_first());
		}
	}
}

#ifdef DLK_CHECK
/* Does it end the process?  In a child, which has nothing else. */
static bool is_caught(enum hold_state from, enum event event)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct dlk_hold *h;

		signal(SIGILL, SIG_DFL);
		dlk_holds_forget();
		dlk_schedule_forget();
		dlk_hold_forget();
		dlk_holds_lock();
		h = hold_in(from);
		if (event < EVENTS)
			happen(h, event);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

/* Built for tests (make SAN=...), a defect ends the process. */
static void what_must_not_be_is_caught(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		/* Nothing else is. */
		assert_false(is_caught(edges[i].from, EVENTS));
		for (int e = 0; e < EVENTS; e++)
			if (edges[i].to[e] == NEVER)
				assert_true(is_caught(edges[i].from,
						      (enum event)e));
	}
}
#endif

/* --- times ---------------------------------------------------------------- */

static void a_hold_is_held_by_its_ttl(void **state)
{
	struct dlk_hold *h = new_hold();
	uint64_t look_ns;

	(void)state;
	asked_ns = dlk_now_ns() - DLK_MS;
	look_ns = dlk_hold_install(h, asked_ns, 0);
	assert_true(h->valid.deadline_ns == dlk_deadline_ns(asked_ns, TTL_MS));
	assert_true(h->valid.renew_ns == dlk_renew_ns(asked_ns, TTL_MS));
	assert_true(look_ns == dlk_handover_ns(h->valid.granted_ns));
	dlk_hold_extend(h, asked_ns + 5 * DLK_MS);
	assert_true(h->valid.deadline_ns ==
		    dlk_deadline_ns(asked_ns + 5 * DLK_MS, TTL_MS));
}

static void by_a_claim_only_by_that_ones_life(void **state)
{
	struct dlk_hold *h = new_hold();

	(void)state;
	asked_ns = dlk_now_ns();
	dlk_hold_install(h, asked_ns, CLAIM_MS);
	assert_true(h->valid.deadline_ns ==
		    dlk_deadline_ns(asked_ns, CLAIM_MS));
	assert_true(h->valid.renew_ns ==
		    dlk_confirm_ns(h->valid.granted_ns, CLAIM_MS));
	/* The first renewal makes the lease of it. */
	dlk_hold_extend(h, asked_ns);
	assert_true(h->valid.deadline_ns == dlk_deadline_ns(asked_ns, TTL_MS));
}

static void what_was_not_renewed_is_tried_again_in_time(void **state)
{
	struct dlk_hold *h = held();
	uint64_t now = asked_ns + 3000 * DLK_MS;

	(void)state;
	dlk_hold_retry(h, now);
	assert_true(h->valid.renew_ns == dlk_retry_ns(now, TTL_MS));
	now = h->valid.deadline_ns - 100 * DLK_MS;
	dlk_hold_retry(h, now);
	assert_true(h->valid.renew_ns == now + 25 * DLK_MS);
}

static void a_cut_makes_nothing_longer(void **state)
{
	struct dlk_hold *h = held();

	(void)state;
	dlk_hold_cut(h, asked_ns, 1000);
	assert_true(h->valid.deadline_ns == dlk_deadline_ns(asked_ns, 1000));
	assert_true(h->valid.renew_ns == dlk_renew_ns(asked_ns, 1000));
	dlk_hold_cut(h, asked_ns + 500 * DLK_MS, 1000);
	assert_true(h->valid.deadline_ns == dlk_deadline_ns(asked_ns, 1000));
	dlk_hold_extend(h, asked_ns + 500 * DLK_MS);
	assert_true(h->valid.deadline_ns ==
		    dlk_deadline_ns(asked_ns + 500 * DLK_MS, 1000));
}

/* --- what is still to be said --------------------------------------------- */

static void a_downgrade_is_said_after_a_renewal(void **state)
{
	struct dlk_hold *h = held();
	const uint64_t now = dlk_now_ns();

	(void)state;
	assert_int_equal(dlk_hold_mode(h), LOCK_EX);
	dlk_hold_convert(h);
	assert_true(dlk_hold_weaken(h, now));
	assert_int_equal(dlk_hold_mode(h), LOCK_SH);
	assert_true(h->valid.renew_ns == now);
	assert_true(dlk_outbox_due_ns(&h->out) == UINT64_MAX);
	dlk_hold_extend(h, now);
	assert_int_equal(dlk_outbox_next(&h->out, dlk_now_ns()), OUTBOX_SEND);
}

static void what_is_given_up_is_not_weakened(void **state)
{
	struct dlk_hold *h = held();

	(void)state;
	dlk_hold_release(h);
	assert_false(dlk_hold_weaken(h, dlk_now_ns()));
	assert_int_equal(h->out.message, OUTBOX_RELEASE);
	dlk_hold_drop(h);
	assert_false(dlk_hold_weaken(h, dlk_now_ns()));
	assert_int_equal(h->out.message, OUTBOX_NOTHING);
}

static void what_was_never_held_is_released(void **state)
{
	struct dlk_hold *h = new_hold();

	(void)state;
	dlk_hold_install_released(h);
	assert_any(0, 1);
	assert_int_equal(h->out.message, OUTBOX_RELEASE);
	dlk_hold_drop(h);
	assert_null(dlk_holds_first());
}

/* --- its memory ----------------------------------------------------------- */

static void it_stays_while_it_is_pinned(void **state)
{
	struct dlk_hold *h = held();

	(void)state;
	dlk_hold_pin(h);
	dlk_hold_drop(h);
	assert_any(0, 0);
	dlk_hold_unpin(h);
	assert_ptr_equal(dlk_holds_first(), h);
	dlk_hold_unpin(h);
	assert_null(dlk_holds_first());
}

static void it_stays_while_an_answer_is_to_come(void **state)
{
	struct dlk_hold *h = held();

	(void)state;
	dlk_outbox_sent(&h->out, OUTBOX_RANGES, dlk_now_ns());
	dlk_hold_drop(h);
	dlk_hold_unpin(h);
	assert_ptr_equal(dlk_holds_first(), h);
	/* As release.c hears it. */
	dlk_hold_pin(h);
	dlk_outbox_answered(&h->out, OUTBOX_RANGES, 0, dlk_now_ns());
	dlk_hold_unpin(h);
	assert_null(dlk_holds_first());
}

static bool any(const struct dlk_hold *h, const void *unused)
{
	(void)unused;
	return h->state != HOLD_ENDED;
}

/* Who walks over them is not led astray by those that end meanwhile. */
static void a_walk_goes_on_though_they_end(void **state)
{
	struct dlk_hold *h = NULL;
	unsigned seen = 0;

	(void)state;
	for (int i = 0; i < MANY; i++)
		dlk_hold_unpin(held());
	dlk_holds_unlock();
	while ((h = dlk_hold_next(h, any, NULL))) {
		dlk_holds_lock();
		dlk_hold_drop(h);
		if (h->next && seen % 3 == 0)
			dlk_hold_release(h->next);
		dlk_holds_unlock();
		seen++;
	}
	dlk_holds_lock();
	assert_int_equal(seen, MANY);
	assert_null(dlk_holds_first());
}

/* --- many, at random ------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What is counted, and what is due first, is what a walk finds. */
static void recount(void)
{
	unsigned n_held = 0, n_owed = 0;
	uint64_t first = UINT64_MAX;

	for (const struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		n_held += dlk_hold_is_held(h);
		n_owed += h->state == HOLD_RELEASING;
		assert_int_not_equal(h->state, HOLD_FREE);
		first = least(first, dlk_outbox_due_ns(&h->out));
		if (dlk_hold_is_held(h))
			first = least(first,
				      least(dlk_schedule_renewal_ns(h),
					    dlk_schedule_handover_ns(h)));
	}
	assert_any(n_held, n_owed);
	assert_true(dlk_schedule_ns() == first);
}

static void what_is_counted_and_due_is_in_the_table(void **state)
{
	struct dlk_hold *all[MANY] = { NULL };
	struct lcg g = { 7 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct dlk_hold **h = &all[lcg_below(&g, MANY)];
		const enum event e = (enum event)lcg_below(&g, EVENTS);

		if (!*h) {
			*h = held();
		} else if ((*h)->state == HOLD_ENDED) {
			dlk_hold_unpin(*h);
			*h = NULL;
		} else if ((*h)->state != HOLD_RELEASING || e == DROP) {
			happen(*h, e);
		}
		recount();
	}
}

#define hold_test(f) cmocka_unit_test_setup_teardown(f, lock, unlock)

int main(void)
{
	const struct CMUnitTest tests[] = {
		hold_test(each_state_meets_each_event),
#ifdef DLK_CHECK
		hold_test(what_must_not_be_is_caught),
#endif
		hold_test(a_hold_is_held_by_its_ttl),
		hold_test(by_a_claim_only_by_that_ones_life),
		hold_test(what_was_not_renewed_is_tried_again_in_time),
		hold_test(a_cut_makes_nothing_longer),
		hold_test(a_downgrade_is_said_after_a_renewal),
		hold_test(what_is_given_up_is_not_weakened),
		hold_test(what_was_never_held_is_released),
		hold_test(it_stays_while_it_is_pinned),
		hold_test(it_stays_while_an_answer_is_to_come),
		hold_test(a_walk_goes_on_though_they_end),
		hold_test(what_is_counted_and_due_is_in_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
