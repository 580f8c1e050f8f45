/* SPDX-License-Identifier: MIT */
// link: shim/hold/verdict.c shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c
// link: shim/hold/schedule.c shim/hold/self.c
/*
 * What a renewal makes of a hold: of one that is held, and of one that ended
 * while it was asked for.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "hold/holds.h"
#include "hold/verdict.h"
#include "os/sys.h"
#include "tests/unit/holds.h"

enum { TTL_MS = 9000 };

static struct dlk_hold *h;
static uint64_t asked_ns;

/* One that is held and, as by the thread, pinned. */
static int hold(void **state)
{
	(void)state;
	h = free_hold("dlock1 t", NULL, TTL_MS);
	asked_ns = dlk_now_ns();
	dlk_holds_lock();
	dlk_hold_install(h, asked_ns, 0);
	dlk_holds_unlock();
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlk_holds_lock();
	if (h->state != HOLD_ENDED)
		dlk_hold_drop(h);
	dlk_hold_unpin(h);
	dlk_holds_unlock();
	return dlk_any_held() || dlk_any_owed() ? -1 : 0;
}

static enum hold_verdict judged(int result, bool reclaimed, uint64_t now)
{
	const struct dlk_renewal r = { .lease = &h->lease,
				       .result = result,
				       .asked_ns = now,
				       .reclaimed = reclaimed };

	return dlk_judge(h, &r, now);
}

static void with_mutex(void (*what)(struct dlk_hold *h))
{
	dlk_holds_lock();
	what(h);
	dlk_holds_unlock();
}

/* --- it is held ----------------------------------------------------------- */

static void what_is_renewed_is_held_for_longer(void **state)
{
	const uint64_t later = asked_ns + 3000 * DLK_MS;

	(void)state;
	assert_int_equal(judged(0, false, later), VERDICT_NOTHING);
	assert_true(h->valid.deadline_ns == dlk_deadline_ns(later, TTL_MS));
}

static void another_s_is_lost(void **state)
{
	(void)state;
	assert_int_equal(judged(DLK_LOST, false, asked_ns), VERDICT_LOST);
	assert_int_equal(judged(DLK_GONE, false, asked_ns), VERDICT_LOST);
}

static void what_was_replaced_by_proof_just_ends(void **state)
{
	(void)state;
	assert_int_equal(judged(DLK_REPLACED, false, asked_ns),
			 VERDICT_NOTHING);
	assert_int_equal(h->state, HOLD_ENDED);
}

static void silence_is_told_of_at_its_marks(void **state)
{
	const uint64_t warn = dlk_hold_warn_ns(h), final = dlk_hold_final_ns(h);

	(void)state;
	assert_int_equal(judged(-ETIMEDOUT, false, warn - 1), VERDICT_NOTHING);
	assert_int_equal(judged(-ETIMEDOUT, false, warn), VERDICT_WARN);
	assert_int_equal(judged(-ETIMEDOUT, false, warn + 1), VERDICT_NOTHING);
	assert_int_equal(judged(0, false, warn + 2), VERDICT_RECOVERED);
	assert_int_equal(judged(0, false, asked_ns), VERDICT_NOTHING);
	assert_int_equal(judged(-ETIMEDOUT, false, final), VERDICT_LOST);
}

static void so_are_marks_between_two_renewals(void **state)
{
	(void)state;
	assert_int_equal(dlk_judge_marks(h, dlk_hold_final_ns(h)),
			 VERDICT_NOTHING);
	assert_int_equal(judged(-ETIMEDOUT, false, asked_ns), VERDICT_NOTHING);
	assert_int_equal(dlk_judge_marks(h, dlk_hold_warn_ns(h)), VERDICT_WARN);
	assert_int_equal(dlk_judge_marks(h, dlk_hold_final_ns(h)),
			 VERDICT_LOST);
}

/* --- it ended meanwhile --------------------------------------------------- */

static void what_was_released_and_put_back_is_released(void **state)
{
	(void)state;
	with_mutex(dlk_hold_release);
	assert_int_equal(judged(0, false, asked_ns), VERDICT_NOTHING);
	assert_int_equal(judged(0, true, asked_ns), VERDICT_PUT_BACK);
}

static void so_if_that_is_acknowledged_already(void **state)
{
	(void)state;
	with_mutex(dlk_hold_release);
	with_mutex(dlk_hold_drop);
	assert_int_equal(judged(0, true, asked_ns), VERDICT_PUT_BACK);
}

/* The keeper has it, for whoever shares the description. */
static void what_was_left_is_somebody_else_s(void **state)
{
	(void)state;
	with_mutex(dlk_hold_drop);
	assert_int_equal(judged(0, true, asked_ns), VERDICT_NOTHING);
}

/* (A downgrade keeps the token.) */
static void what_is_converted_is_the_callers(void **state)
{
	(void)state;
	with_mutex(dlk_hold_convert);
	assert_int_equal(judged(0, true, asked_ns), VERDICT_NOTHING);
	assert_int_equal(h->state, HOLD_CONVERTING);
}

#define of_a_hold(f) cmocka_unit_test_setup_teardown(f, hold, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		of_a_hold(what_is_renewed_is_held_for_longer),
		of_a_hold(another_s_is_lost),
		of_a_hold(what_was_replaced_by_proof_just_ends),
		of_a_hold(silence_is_told_of_at_its_marks),
		of_a_hold(so_are_marks_between_two_renewals),
		of_a_hold(what_was_released_and_put_back_is_released),
		of_a_hold(so_if_that_is_acknowledged_already),
		of_a_hold(what_was_left_is_somebody_else_s),
		of_a_hold(what_is_converted_is_the_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
