/* SPDX-License-Identifier: MIT */
// link: shim/hold/wait_report.c shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c
// link: shim/hold/schedule.c shim/hold/self.c
/*
 * A wait is told of for as long as it lasts; but not while something that the
 * process has given back may not have been sent: others would see a cycle that is
 * none.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/thread.h"
#include "hold/wait_report.h"
#include "os/sys.h"
#include "tests/unit/holds.h"

bool dlk_thread_need(uint64_t at_ns)
{
	(void)at_ns;
	return true;
}

void dlk_identity_process(char digits[17])
{
	digits[0] = 0;
}

static bool drain(struct dlk_store *s, uint64_t deadline_ns,
		  bool (*interrupt)(void *arg))
{
	(void)s;
	(void)deadline_ns;
	(void)interrupt;
	return false;
}

static const struct dlk_store_ops ops = { .drain = drain };
static struct dlk_store store = { .ops = &ops };

static bool owes(void)
{
	return dlk_wait_report_owes(&store, UINT64_MAX);
}

/* It is pinned by the caller. */
static struct dlk_hold *held(const char *places)
{
	struct dlk_hold *h = free_hold("t", places, 9000);

	dlk_holds_lock();
	dlk_hold_install(h, dlk_now_ns(), 0);
	dlk_holds_unlock();
	return h;
}

static void release(struct dlk_hold *h)
{
	dlk_holds_lock();
	dlk_hold_release(h);
	dlk_holds_unlock();
}

static void drop(struct dlk_hold *h)
{
	dlk_holds_lock();
	dlk_hold_drop(h);
	dlk_holds_unlock();
}

static void a_release_is_owed_until_it_is_sent(void **state)
{
	struct dlk_hold *h = held("p");

	(void)state;
	assert_false(owes());
	release(h);
	assert_true(owes());
	/* Said to be sent; and a connection is waited for. */
	dlk_outbox_sent(&h->out, OUTBOX_RELEASE, dlk_now_ns());
	assert_true(owes());
	dlk_unpin(h);
	assert_false(owes());
	dlk_outbox_answered(&h->out, OUTBOX_RELEASE, -1, dlk_now_ns());
	assert_true(owes());
	drop(h);
	assert_false(owes());
}

static void so_is_a_list_of_ranges(void **state)
{
	struct dlk_hold *h = held("p");

	(void)state;
	dlk_outbox_sent(&h->out, OUTBOX_RANGES, dlk_now_ns());
	assert_true(owes());
	dlk_outbox_answered(&h->out, OUTBOX_RANGES, 0, dlk_now_ns());
	assert_false(owes());
	drop(h);
	dlk_unpin(h);
}

static void nobody_waits_for_flock_s_in_a_cycle(void **state)
{
	struct dlk_hold *h = held(NULL);

	(void)state;
	release(h);
	assert_false(owes());
	drop(h);
	dlk_unpin(h);
}

static void one_that_is_told_of_is_due_until_it_is_over(void **state)
{
	const struct dlk_reported_wait wait = {
		.store = &store, .id = 1, .owner = "o", .key = "k", .key_len = 1
	};

	(void)state;
	assert_true(dlk_wait_report_due_ns() == UINT64_MAX);
	dlk_wait_report(&wait);
	assert_true(dlk_wait_report_due_ns() <= dlk_now_ns());
	dlk_wait_report(NULL);
	assert_true(dlk_wait_report_due_ns() == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_release_is_owed_until_it_is_sent),
		cmocka_unit_test(so_is_a_list_of_ranges),
		cmocka_unit_test(nobody_waits_for_flock_s_in_a_cycle),
		cmocka_unit_test(one_that_is_told_of_is_due_until_it_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
