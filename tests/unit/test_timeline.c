/* SPDX-License-Identifier: MIT */
/*
 * The life of a lease: for every ttl that a rule may have, it is renewed
 * before it is warned of, warned of before it ends, and ends here before it
 * can end at the server.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "config/config.h"
#include "model/timeline.h"
#include "tests/unit/lcg.h"

/* A day after boot, in odd nanoseconds. */
static const uint64_t asked = 86400123456789;

/* The first ttl of all that breaks a rule, 0 for none. */
#define FIRST_TTL_THAT(broken)                                                 \
	__extension__({                                                        \
		uint32_t first_ = 0;                                           \
		for (uint32_t ttl = DLK_TTL_MIN_MS;                            \
		     ttl <= DLK_TTL_MAX_MS && !first_; ttl++)                  \
			if (broken)                                            \
				first_ = ttl;                                  \
		first_;                                                        \
	})

static void ends_before_the_server_forgets_it(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(dlk_deadline_ns(asked, ttl) + 2 * DLK_MS >
			       asked + ttl * DLK_MS),
		0);
}

/* Of no rule's lease; but a restart delay may be as short. */
static void what_is_too_short_is_not_held(void **state)
{
	(void)state;
	for (uint32_t ttl = 0; ttl < DLK_TTL_MIN_MS; ttl++) {
		assert_true(dlk_deadline_ns(asked, ttl) >= asked);
		assert_true(dlk_deadline_ns(asked, ttl) <=
			    asked + ttl * DLK_MS);
	}
	assert_int_equal(dlk_deadline_ns(asked, 1), asked);
}

static void gives_a_hundredth_to_drift(void **state)
{
	(void)state;
	assert_int_equal(FIRST_TTL_THAT(asked + ttl * DLK_MS -
						dlk_deadline_ns(asked, ttl) !=
					(ttl / 100 + 2) * DLK_MS),
			 0);
}

static void is_renewed_before_the_warning(void **state)
{
	(void)state;
	assert_int_equal(FIRST_TTL_THAT(dlk_renew_ns(asked, ttl) <= asked ||
					dlk_renew_ns(asked, ttl) >=
						dlk_warn_ns(asked, ttl)),
			 0);
}

static void is_warned_of_before_the_end(void **state)
{
	(void)state;
	assert_int_equal(FIRST_TTL_THAT(dlk_warn_ns(asked, ttl) >=
					dlk_deadline_ns(asked, ttl)),
			 0);
}

/* The margin is not eaten up by a timer's worst lateness. */
static void is_stopped_between_the_warning_and_the_end(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(
			dlk_stop_ns(dlk_deadline_ns(asked, ttl), ttl) <=
				dlk_warn_ns(asked, ttl) ||
			dlk_backstop_ns(dlk_deadline_ns(asked, ttl), ttl) <=
				dlk_stop_ns(dlk_deadline_ns(asked, ttl), ttl) ||
			dlk_backstop_ns(dlk_deadline_ns(asked, ttl), ttl) +
					18 * DLK_MS >
				dlk_deadline_ns(asked, ttl)),
		0);
}

/* Sent after a third, a renewal may time out three times by its sixth. */
static void is_not_stopped_before_a_reconnect(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(dlk_renew_ns(asked, ttl) + ttl / 6 * 3 * DLK_MS >
			       dlk_stop_ns(dlk_deadline_ns(asked, ttl), ttl)),
		0);
}

/* A missed renewal has five more chances before the warning. */
static void is_tried_again_in_time(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(dlk_retry_ns(asked, ttl) <= asked ||
			       dlk_renew_ns(asked, ttl) +
					       5 * (dlk_retry_ns(asked, ttl) -
						    asked) >=
				       dlk_warn_ns(asked, ttl)),
		0);
}

static void is_handed_over_after_50_ms(void **state)
{
	(void)state;
	assert_true(dlk_handover_ns(asked) == asked + 50 * DLK_MS);
}

/* The keeper is second, and still long before the warning. */
static void is_renewed_by_the_keeper_if_not_by_the_process(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(
			dlk_keeper_renew_ns(dlk_renew_ns(asked, ttl),
					    dlk_deadline_ns(asked, ttl)) <=
				dlk_renew_ns(asked, ttl) ||
			dlk_keeper_renew_ns(dlk_renew_ns(asked, ttl),
					    dlk_deadline_ns(asked, ttl)) >=
				dlk_warn_ns(asked, ttl)),
		0);
	/* What is overdue is not put off. */
	assert_true(dlk_keeper_renew_ns(asked, asked - 1) == asked);
}

static void counts_from_the_moment_that_its_deadline_tells(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(dlk_asked_ns(dlk_deadline_ns(asked, ttl), ttl) !=
			       asked),
		0);
}

/* What goes along early is renewed at a quarter of its ttl at the soonest. */
static void is_renewed_early_but_not_much(void **state)
{
	(void)state;
	assert_int_equal(
		FIRST_TTL_THAT(dlk_renew_ns(asked, ttl) - dlk_early_ns(ttl) <
			       asked + ttl / 4 * DLK_MS - DLK_MS),
		0);
}

/* --- pauses --------------------------------------------------------------- */

static void a_pause_is_5_to_60_ms(void **state)
{
	struct lcg g = { 3 };

	(void)state;
	for (int walk = 0; walk < 1000; walk++) {
		uint64_t pause = 0;

		for (int i = 0; i < 100; i++) {
			pause = dlk_backoff_ns(pause, 0, lcg_u32(&g));
			assert_true(pause >= 5 * DLK_MS);
			assert_true(pause <= 60 * DLK_MS);
		}
	}
}

static void a_pause_is_at_most_three_of_the_last(void **state)
{
	struct lcg g = { 4 };

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t last = 5 * DLK_MS + lcg_below(&g, 245 * DLK_MS);

		assert_true(dlk_backoff_ns(last, 0, lcg_u32(&g)) <= 3 * last);
	}
}

static void pauses_grow_to_the_limit(void **state)
{
	uint64_t pause = 0, last;
	int steps = 0;

	(void)state;
	do {
		last = pause;
		pause = dlk_backoff_ns(pause, 0, UINT32_MAX);
		assert_true(pause > last);
	} while (pause < 59 * DLK_MS && ++steps < 20);
	assert_true(pause >= 59 * DLK_MS);
}

/* Two waiters that met once do not meet for ever. */
static void pauses_are_spread_out(void **state)
{
	struct lcg g = { 5 };
	unsigned low = 0, high = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t pause = dlk_backoff_ns(50 * DLK_MS, 0, lcg_u32(&g));

		low += pause < 5 * DLK_MS + 55 * DLK_MS / 4;
		high += pause > 5 * DLK_MS + 55 * DLK_MS * 3 / 4;
	}
	assert_in_range(low, 2200, 2800);
	assert_in_range(high, 2200, 2800);
}

static void a_pause_ends_when_the_holder_can(void **state)
{
	struct lcg g = { 6 };

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t left = 1 + lcg_below(&g, 300 * DLK_MS);
		uint64_t last = lcg_below(&g, 250 * DLK_MS);

		assert_true(dlk_backoff_ns(last, left, lcg_u32(&g)) <=
			    left + DLK_MS);
	}
	assert_true(dlk_backoff_ns(250 * DLK_MS, 1, UINT32_MAX) == 1 + DLK_MS);
}

static void a_pause_is_not_longer_than_it_must_be(void **state)
{
	const uint64_t last = 100 * DLK_MS;

	(void)state;
	assert_true(dlk_backoff_ns(last, 500 * DLK_MS, 4711) ==
		    dlk_backoff_ns(last, 0, 4711));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_before_the_server_forgets_it),
		cmocka_unit_test(what_is_too_short_is_not_held),
		cmocka_unit_test(gives_a_hundredth_to_drift),
		cmocka_unit_test(is_renewed_before_the_warning),
		cmocka_unit_test(is_warned_of_before_the_end),
		cmocka_unit_test(is_stopped_between_the_warning_and_the_end),
		cmocka_unit_test(is_not_stopped_before_a_reconnect),
		cmocka_unit_test(is_tried_again_in_time),
		cmocka_unit_test(is_handed_over_after_50_ms),
		cmocka_unit_test(
			is_renewed_by_the_keeper_if_not_by_the_process),
		cmocka_unit_test(
			counts_from_the_moment_that_its_deadline_tells),
		cmocka_unit_test(is_renewed_early_but_not_much),
		cmocka_unit_test(a_pause_is_5_to_60_ms),
		cmocka_unit_test(a_pause_is_at_most_three_of_the_last),
		cmocka_unit_test(pauses_grow_to_the_limit),
		cmocka_unit_test(pauses_are_spread_out),
		cmocka_unit_test(a_pause_ends_when_the_holder_can),
		cmocka_unit_test(a_pause_is_not_longer_than_it_must_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
