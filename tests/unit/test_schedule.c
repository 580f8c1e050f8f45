/* SPDX-License-Identifier: MIT */
// link: shim/hold/schedule.c shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c shim/hold/self.c
/*
 * What the thread is to do first, of all that the process holds: whatever of a
 * lease changes, it is found when its time has come, and not before.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/schedule.h"
#include "hold/self.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "tests/unit/holds.h"
#include "tests/unit/lcg.h"

enum { N = 40, STEPS = 20000, TTL_MS = 12000 };

/* The mutex is held but in here; that takes it itself, to begin with. */
static struct dlk_hold *new_hold(uint64_t renew_ns, uint64_t handover_ns)
{
	struct dlk_hold *h;

	dlk_holds_unlock();
	h = free_hold("t", NULL, TTL_MS);
	dlk_holds_lock();
	dlk_hold_install(h, dlk_now_ns(), 0);
	h->valid.renew_ns = renew_ns;
	h->keeper.due_ns = handover_ns;
	h->valid.deadline_ns = renew_ns;
	dlk_hold_unpin(h);
	return h;
}

static int begin(void **state)
{
	(void)state;
	dlk_holds_lock();
	return 0;
}

static int end(void **state)
{
	(void)state;
	atomic_store(&dlk_self.away, false);
	while (dlk_holds_first())
		dlk_hold_drop(dlk_holds_first());
	assert_true(dlk_schedule_ns() == UINT64_MAX);
	dlk_holds_unlock();
	return 0;
}

static void a_lease_is_due_for_whatever_comes_first(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	assert_true(dlk_schedule_ns() == 300);
	h->keeper.number = 7;
	dlk_schedule(h);
	assert_true(dlk_schedule_ns() == 500);
	h->valid.renew_ns = 900;
	dlk_schedule(h);
	assert_true(dlk_schedule_ns() == 900);
}

static void one_that_the_keeper_has_alone_is_not_due(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	h->keeper.number = 7;
	h->keeper.carried = true;
	atomic_store(&dlk_self.away, true);
	dlk_schedule(h);
	assert_true(dlk_schedule_ns() == UINT64_MAX);
}

/* By what a call has asked for; the keeper is to know. */
static void what_the_keeper_does_not_know_is_due_at_once(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	h->keeper.number = 7;
	h->keeper.known_until_ns = h->valid.deadline_ns;
	h->valid.deadline_ns += dlk_early_ns(TTL_MS);
	assert_true(dlk_schedule_is_news(h));
	dlk_schedule(h);
	assert_true(dlk_schedule_ns() == 0);
	h->keeper.known_until_ns = h->valid.deadline_ns;
	dlk_schedule(h);
	assert_true(dlk_schedule_ns() == 500);
}

static void what_is_released_is_not_renewed(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	dlk_hold_release(h);
	assert_true(dlk_schedule_ns() == UINT64_MAX);
	/* Whoever gives it up sends that first. */
	assert_null(dlk_schedule_take_unsaid(UINT64_MAX));
	dlk_outbox_put(&h->out, OUTBOX_RELEASE, 700);
	dlk_schedule(h);
	assert_null(dlk_schedule_take_unsaid(699));
	assert_ptr_equal(dlk_schedule_take_unsaid(700), h);
}

/*
 * No keeper has it, and its renewal has failed a moment ago, so that the next
 * one is as near as those that go along with others: a renewal in place of the
 * hand-over would fail as well, and again, and the lease never be handed over.
 */
static void what_is_due_does_not_wait_for_what_may_be_early(void **state)
{
	const uint64_t early = dlk_early_ns(TTL_MS);
	struct dlk_hold *h = new_hold(1000 + early, 1000);

	(void)state;
	assert_int_equal(dlk_schedule_duty(h, 999), DLK_NO_DUTY);
	assert_int_equal(dlk_schedule_duty(h, 1000), DLK_HAND_OVER);
	h->keeper.due_ns = UINT64_MAX;
	assert_int_equal(dlk_schedule_duty(h, 1000), DLK_RENEW);
	h->keeper.number = 7;
	h->keeper.known_until_ns = h->valid.deadline_ns - early;
	assert_int_equal(dlk_schedule_duty(h, 1000), DLK_TELL);
	h->keeper.number = 0;
	h->keeper.due_ns = 1000;
	assert_int_equal(dlk_schedule_duty(h, 1000 + early), DLK_RENEW);
	dlk_hold_release(h);
	assert_int_equal(dlk_schedule_duty(h, 1000 + early), DLK_NO_DUTY);
}

/* Whoever has it pinned need not say what he has changed. */
static void an_unpinned_lease_is_due_by_what_it_has_become(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	dlk_hold_pin(h);
	h->valid.renew_ns = 100;
	dlk_hold_unpin(h);
	assert_true(dlk_schedule_ns() == 100);
	dlk_hold_pin(h);
	dlk_hold_drop(h);
	assert_non_null(dlk_holds_first());
	dlk_hold_unpin(h);
	assert_null(dlk_holds_first());
	assert_true(dlk_schedule_ns() == UINT64_MAX);
}

static void what_is_put_off_comes_no_sooner(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	dlk_schedule_after(h, 400);
	assert_true(dlk_schedule_ns() == 400);
	dlk_schedule_after(h, 100);
	assert_true(dlk_schedule_ns() == 300);
}

/* A renewal goes along with others; to hand it over early would be too soon. */
static void only_a_renewal_is_early(void **state)
{
	struct dlk_hold *h = new_hold(500, 300);

	(void)state;
	assert_true(h->due.early_ns == 0);
	h->keeper.number = 7;
	dlk_schedule(h);
	assert_true(h->due.early_ns == dlk_early_ns(TTL_MS));
}

static uint64_t earliest(struct dlk_hold *const *all)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < N; i++) {
		const struct dlk_hold *h = all[i];

		if (dlk_schedule_renewal_ns(h) < first)
			first = dlk_schedule_renewal_ns(h);
		if (dlk_schedule_handover_ns(h) < first)
			first = dlk_schedule_handover_ns(h);
	}
	return first;
}

static void the_first_is_found_after_any_change(void **state)
{
	struct lcg g = { 311 };
	struct dlk_hold *all[N];

	(void)state;
	for (int i = 0; i < N; i++)
		all[i] = new_hold(1 + lcg_below(&g, 1000),
				  1 + lcg_below(&g, 1000));
	for (int i = 0; i < STEPS; i++) {
		struct dlk_hold *h = all[lcg_below(&g, N)];

		h->valid.renew_ns = 1 + lcg_below(&g, 1000);
		h->keeper.known_until_ns = h->valid.deadline_ns =
			h->valid.renew_ns;
		h->keeper.number = lcg_below(&g, 2);
		dlk_schedule(h);
		assert_true(dlk_schedule_ns() == earliest(all));
	}
}

static unsigned count_undelegated(void)
{
	unsigned n = 0;

	for (const struct dlk_hold *h = dlk_schedule_undelegated(); h;
	     h = LIST_NEXT(h, undelegated)) {
		assert_true(dlk_hold_is_held(h) && !h->keeper.carried);
		n++;
	}
	return n;
}

static void those_without_a_keeper_are_listed(void **state)
{
	struct lcg g = { 7 };
	struct dlk_hold *all[N];
	unsigned left = N;

	(void)state;
	for (int i = 0; i < N; i++)
		all[i] = new_hold(500, 300);
	assert_int_equal(count_undelegated(), N);
	for (int i = 0; i < STEPS; i++) {
		struct dlk_hold *h = all[lcg_below(&g, N)];
		const bool carried = lcg_below(&g, 2);

		left += h->keeper.carried - carried;
		h->keeper.carried = carried;
		dlk_schedule(h);
		assert_int_equal(count_undelegated(), left);
	}
	for (int i = 0; i < N; i++)
		dlk_hold_drop(all[i]);
	assert_int_equal(count_undelegated(), 0);
}

#define table_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		table_test(what_is_due_does_not_wait_for_what_may_be_early),
		table_test(a_lease_is_due_for_whatever_comes_first),
		table_test(one_that_the_keeper_has_alone_is_not_due),
		table_test(what_the_keeper_does_not_know_is_due_at_once),
		table_test(what_is_released_is_not_renewed),
		table_test(an_unpinned_lease_is_due_by_what_it_has_become),
		table_test(what_is_put_off_comes_no_sooner),
		table_test(only_a_renewal_is_early),
		table_test(the_first_is_found_after_any_change),
		table_test(those_without_a_keeper_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
