/* SPDX-License-Identifier: MIT */
/*
 * The votes of masters (model/tally.h): what they come to does not depend on the
 * order in which they come, no two can have a majority, and of a split vote
 * exactly one goes on.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "model/tally.h"
#include "tests/unit/lcg.h"

enum { TRIES = 20000 };

static void a_majority_is_more_than_half(void **state)
{
	(void)state;
	assert_int_equal(dlk_majority(3), 2);
	assert_int_equal(dlk_majority(5), 3);
	assert_int_equal(dlk_majority(15), 8);
}

static void it_is_open_until_nothing_can_change_it(void **state)
{
	struct tally t = dlk_tally(3);

	(void)state;
	assert_int_equal(dlk_tally_state(&t), TALLY_OPEN);
	dlk_tally_yes(&t, 2);
	dlk_tally_silent(&t, true);
	assert_int_equal(dlk_tally_state(&t), TALLY_OPEN);
	dlk_tally_yes(&t, 0);
	assert_int_equal(dlk_tally_state(&t), TALLY_YES);

	t = dlk_tally(3);
	dlk_tally_no(&t, 0, 7);
	assert_int_equal(dlk_tally_state(&t), TALLY_OPEN);
	dlk_tally_silent(&t, true);
	assert_int_equal(dlk_tally_state(&t), TALLY_NO);
}

static void who_may_have_a_majority_is_no_split(void **state)
{
	struct tally t = dlk_tally(3);

	(void)state;
	dlk_tally_yes(&t, 0);
	dlk_tally_no(&t, 1, 7);
	dlk_tally_silent(&t, true); /* it may be 7's, too */
	assert_int_equal(dlk_tally_state(&t), TALLY_NO);
	assert_false(dlk_tally_is_split(&t));

	t = dlk_tally(3);
	dlk_tally_yes(&t, 0);
	dlk_tally_no(&t, 1, 7);
	dlk_tally_no(&t, 2, 7);
	assert_false(dlk_tally_is_split(&t));

	t = dlk_tally(3);
	dlk_tally_yes(&t, 0);
	dlk_tally_no(&t, 1, 7);
	dlk_tally_no(&t, 2, 0); /* nobody knows whose */
	assert_false(dlk_tally_is_split(&t));

	t = dlk_tally(3);
	dlk_tally_yes(&t, 0);
	dlk_tally_no(&t, 1, 7);
	dlk_tally_no(&t, 2, 8);
	assert_true(dlk_tally_is_split(&t));
	assert_true(t.first_yes);
}

/* What one of several sees, in an order of its own. */
static struct tally count(struct lcg *g, const unsigned *has, unsigned n,
			  unsigned who)
{
	struct tally t = dlk_tally(n);
	unsigned order[DLK_MASTERS_MAX];

	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n - 1; i > 0; i--) {
		const unsigned k = (unsigned)lcg_below(g, i + 1);
		const unsigned was = order[i];

		order[i] = order[k];
		order[k] = was;
	}
	for (unsigned i = 0; i < n; i++) {
		if (has[order[i]] == who)
			dlk_tally_yes(&t, order[i]);
		else
			dlk_tally_no(&t, order[i], has[order[i]]);
	}
	return t;
}

static void of_several_at_most_one_goes_on(void **state)
{
	struct lcg g = { 1 };

	(void)state;
	for (int try = 0; try < TRIES; try++) {
		const unsigned n = 3 + 2 * (unsigned)lcg_below(&g, 4);
		const unsigned askers = 2 + (unsigned)lcg_below(&g, 6);
		unsigned has[DLK_MASTERS_MAX], got = 0, go_on = 0, split = 0;

		for (unsigned i = 0; i < n; i++)
			has[i] = 1 + (unsigned)lcg_below(&g, askers);
		for (unsigned who = 1; who <= askers; who++) {
			const struct tally t = count(&g, has, n, who);

			got += dlk_tally_state(&t) == TALLY_YES;
			if (dlk_tally_state(&t) != TALLY_NO ||
			    !dlk_tally_is_split(&t))
				continue;
			split++;
			go_on += t.first_yes;
		}
		assert_true(got <= 1);
		assert_int_equal(go_on, split ? 1 : 0);
		if (got)
			assert_int_equal(split, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_majority_is_more_than_half),
		cmocka_unit_test(it_is_open_until_nothing_can_change_it),
		cmocka_unit_test(who_may_have_a_majority_is_no_split),
		cmocka_unit_test(of_several_at_most_one_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
