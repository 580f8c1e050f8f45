/* SPDX-License-Identifier: MIT */
// link: shim/hold/end.c shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c
// link: shim/hold/schedule.c shim/hold/self.c
/*
 * A lock that the kernel does not show has ended, and its lease is given back; but
 * not for a look in the midst of which a call has converted it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "hold/delegation.h"
#include "hold/end.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/liveness.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "os/sys.h"
#include "tests/unit/holds.h"

enum { TTL_MS = 9000 };

static struct dlk_hold *h;
static unsigned n_released;
static bool is_locked, is_locked_by_a_call;

/* --- what else there is ----------------------------------------------------- */

uint32_t dlk_take_from_keeper(struct dlk_hold *hold)
{
	(void)hold;
	return 0;
}

bool dlk_delegation_tell(uint32_t told, uint32_t type)
{
	(void)told, (void)type;
	return false;
}

bool dlk_shared(int fd)
{
	(void)fd;
	return false;
}

bool dlk_thread_here(void)
{
	return true;
}

void dlk_trace_lease(const struct dlk_hold *hold, const char *what,
		     const struct dlk_range *range)
{
	(void)hold, (void)what, (void)range;
}

void dlk_release_send(struct dlk_hold *hold)
{
	assert_ptr_equal(hold, h);
	assert_int_equal(is_locked, hold->kind != DLK_FLOCK);
	n_released++;
}

bool dlk_file_trylock(const struct dlk_file *file)
{
	(void)file;
	assert_false(is_locked);
	is_locked = !is_locked_by_a_call;
	return is_locked;
}

void dlk_file_unlock(const struct dlk_file *file)
{
	(void)file;
	assert_true(is_locked);
	is_locked = false;
}

/* --- the kernel, and a call in the midst of a look --------------------------- */

static int shown;
static void (*meanwhile)(void);

int dlk_lock_is_there(struct dlk_hold *hold)
{
	assert_ptr_equal(hold, h);
	assert_int_equal(is_locked, hold->kind != DLK_FLOCK);
	if (meanwhile)
		meanwhile();
	return shown;
}

static void converts(void)
{
	DLK_GUARD(&dlk_holds_mutex);
	dlk_hold_convert(h);
}

static void is_refused(void)
{
	converts();
	DLK_GUARD(&dlk_holds_mutex);
	dlk_hold_unchanged(h);
}

static void is_weakened(void)
{
	converts();
	DLK_GUARD(&dlk_holds_mutex);
	assert_true(dlk_hold_weaken(h, dlk_now_ns()));
}

static void ends(void)
{
	DLK_GUARD(&dlk_holds_mutex);
	dlk_hold_drop(h);
}

/* --- a lease ---------------------------------------------------------------- */

static int hold(void **state)
{
	(void)state;
	shown = 0;
	meanwhile = NULL;
	n_released = 0;
	is_locked = is_locked_by_a_call = false;
	h = free_hold("t", NULL, TTL_MS);
	dlk_holds_lock();
	dlk_hold_install(h, dlk_now_ns(), 0);
	dlk_holds_unlock();
	return 0;
}

static int done(void **state)
{
	(void)state;
	DLK_GUARD(&dlk_holds_mutex);
	if (h->state != HOLD_ENDED)
		dlk_hold_drop(h);
	dlk_hold_unpin(h);
	return 0;
}

static void assert_stays(void)
{
	assert_true(dlk_hold_is_there(h));
	assert_true(dlk_hold_is_held(h));
	assert_int_equal(n_released, 0);
}

static void assert_ends(void)
{
	assert_false(dlk_hold_is_there(h));
	assert_int_equal(h->state, HOLD_RELEASING);
	assert_int_equal(n_released, 1);
}

static void what_is_shown_stays(void **state)
{
	(void)state;
	shown = 1;
	assert_stays();
	shown = -1;
	assert_stays();
}

static void what_is_not_shown_is_released(void **state)
{
	(void)state;
	assert_ends();
	assert_false(dlk_hold_is_there(h));
	assert_int_equal(n_released, 1);
}

static void a_call_that_has_ended_it_was_quicker(void **state)
{
	(void)state;
	meanwhile = ends;
	assert_false(dlk_hold_is_there(h));
	assert_int_equal(n_released, 0);
}

static void what_is_converted_is_not_ended(void **state)
{
	(void)state;
	meanwhile = converts;
	assert_stays();
}

static void what_was_converted_meanwhile_is_not_ended(void **state)
{
	(void)state;
	meanwhile = is_refused;
	assert_stays();
	meanwhile = is_weakened;
	assert_stays();
	meanwhile = NULL;
	assert_ends();
}

static void what_was_seen_before_a_conversion_ends_nothing(void **state)
{
	unsigned conversions;

	(void)state;
	assert_true(dlk_hold_is_known(h, &conversions));
	is_refused();
	dlk_hold_end_seen(h, conversions);
	assert_true(dlk_hold_is_held(h));
	assert_true(dlk_hold_is_known(h, &conversions));
	dlk_hold_end_seen(h, conversions);
	assert_false(dlk_hold_is_known(h, &conversions));
	assert_int_equal(n_released, 1);
}

static void records_end_while_no_call_is_granted_more(void **state)
{
	(void)state;
	h->kind = DLK_POSIX;
	is_locked_by_a_call = true;
	assert_stays();
	is_locked_by_a_call = false;
	assert_ends();
	assert_false(is_locked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, hold, done)
		TEST(what_is_shown_stays),
		TEST(what_is_not_shown_is_released),
		TEST(a_call_that_has_ended_it_was_quicker),
		TEST(what_is_converted_is_not_ended),
		TEST(what_was_converted_meanwhile_is_not_ended),
		TEST(what_was_seen_before_a_conversion_ends_nothing),
		TEST(records_end_while_no_call_is_granted_more),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
