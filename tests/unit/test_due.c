/* SPDX-License-Identifier: MIT */
/*
 * What is due comes first, whatever was put in, moved or taken out before; and
 * what may be done early goes along, but never alone.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "model/due.h"
#include "tests/unit/lcg.h"

enum { N = 500, STEPS = 40000, SPAN = 1000 };

static struct dlk_dues dues;
static struct dlk_due nodes[N];

static void begin(void)
{
	memset(&dues, 0, sizeof(dues));
	memset(nodes, 0, sizeof(nodes));
}

static uint64_t earliest(void)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < N; i++)
		if (dlk_due_is_set(&nodes[i]) && nodes[i].at_ns < first)
			first = nodes[i].at_ns;
	return first;
}

static void nothing_is_due_of_nothing(void **state)
{
	struct dlk_due *taken[1];

	(void)state;
	begin();
	assert_true(dlk_dues_ns(&dues) == UINT64_MAX);
	assert_int_equal(dlk_dues_take(&dues, UINT64_MAX, taken, 1), 0);
	dlk_due_clear(&dues, &nodes[0]);
	dlk_due_set(&dues, &nodes[0], UINT64_MAX);
	assert_true(dlk_dues_ns(&dues) == UINT64_MAX);
	assert_false(dlk_due_is_set(&nodes[0]));
}

static void the_first_is_known_after_any_change(void **state)
{
	struct lcg g = { 301 };

	(void)state;
	begin();
	for (int i = 0; i < STEPS; i++) {
		struct dlk_due *d = &nodes[lcg_below(&g, N)];

		if (lcg_below(&g, 3))
			dlk_due_set(&dues, d, lcg_below(&g, SPAN));
		else
			dlk_due_clear(&dues, d);
		assert_true(dlk_dues_ns(&dues) == earliest());
	}
}

static void all_is_taken_in_its_order(void **state)
{
	struct lcg g = { 302 };
	struct dlk_due *taken[N + 1];

	(void)state;
	begin();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++)
			dlk_due_set(&dues, &nodes[i], lcg_below(&g, SPAN));
		assert_int_equal(dlk_dues_take(&dues, SPAN, taken, N + 1), N);
		for (int i = 0; i < N; i++)
			assert_false(dlk_due_is_set(taken[i]));
		for (int i = 1; i < N; i++)
			assert_true(taken[i - 1]->at_ns <= taken[i]->at_ns);
		assert_true(dlk_dues_ns(&dues) == UINT64_MAX);
	}
}

static void no_more_is_taken_than_there_is_room_for(void **state)
{
	struct dlk_due *taken[N];

	(void)state;
	begin();
	for (unsigned i = 0; i < N; i++)
		dlk_due_set(&dues, &nodes[i], i);
	assert_int_equal(dlk_dues_take(&dues, N, taken, 7), 7);
	assert_true(dlk_dues_ns(&dues) == 7);
}

static void what_may_be_early_goes_along(void **state)
{
	struct dlk_due *taken[N];

	(void)state;
	begin();
	for (unsigned i = 0; i < 5; i++) {
		nodes[i].early_ns = 100;
		dlk_due_set(&dues, &nodes[i], 1000 + 60 * i);
	}
	assert_int_equal(dlk_dues_take(&dues, 999, taken, N), 0);
	/* At 1000, 1060; not that of 1120. */
	assert_int_equal(dlk_dues_take(&dues, 1000, taken, N), 2);
	assert_ptr_equal(taken[0], &nodes[0]);
	assert_ptr_equal(taken[1], &nodes[1]);
	assert_true(dlk_dues_ns(&dues) == 1120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_due_of_nothing),
		cmocka_unit_test(the_first_is_known_after_any_change),
		cmocka_unit_test(all_is_taken_in_its_order),
		cmocka_unit_test(no_more_is_taken_than_there_is_room_for),
		cmocka_unit_test(what_may_be_early_goes_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
