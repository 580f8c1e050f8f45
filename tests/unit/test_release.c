/* SPDX-License-Identifier: MIT */
// link: shim/hold/release.c shim/hold/hold.c shim/hold/backstop.c shim/hold/holds.c
// link: shim/hold/schedule.c shim/hold/self.c
/*
 * What an owner of record locks has left is said by the window that a call has
 * changed; once anything of it went wrong, the whole list is.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/release.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "lease/store.h"
#include "os/sys.h"
#include "tests/unit/holds.h"

enum { TTL_MS = 9000, MOST = 8, MIDDLE = 1000 };

bool dlk_thread_need(uint64_t at_ns)
{
	(void)at_ns;
	return true;
}

void dlk_trace_lease(const struct dlk_hold *h, const char *what,
		     const struct dlk_range *range)
{
	(void)h, (void)what, (void)range;
}

bool dlk_file_trylock(const struct dlk_file *file)
{
	(void)file;
	return true;
}

void dlk_file_unlock(const struct dlk_file *file)
{
	(void)file;
}

/* --- a server that answers when it is told to ------------------------------- */

static struct message {
	struct dlk_range window;
	struct dlk_sending how;
} sent[MOST];
static unsigned n_sent;
static unsigned fails_in; /* the first message does, while this one is sent */
static bool pages;        /* the list is too long for one message */

static void answer(unsigned i, int err)
{
	sent[i].how.done(sent[i].how.arg, err, 0);
}

static int send_ranges(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *lease, uint64_t seq,
		       struct dlk_range *window,
		       const struct dlk_ranges *ranges)
{
	(void)s, (void)lease, (void)seq, (void)ranges;
	assert_true(n_sent < MOST);
	sent[n_sent++] = (struct message){ *window, *how };
	if (n_sent == fails_in)
		answer(0, -EPIPE);
	window->start =
		pages && window->start < MIDDLE ? MIDDLE : window->end + 1;
	return 0;
}

static const struct dlk_store_ops ops = { .send_ranges = send_ranges };
static struct dlk_redis section = { .name = "test" };
static struct dlk_rule rule = { .on_lost = DLK_LOST_REPORT, .redis = &section };
static struct dlk_hold *h;

static int start(void **state)
{
	static struct dlk_endpoint ep;

	(void)state;
	section.endpoints = &ep;
	section.n_endpoints = 1;
	if (dlk_stores_begin(&section, 1, NULL) < 0)
		return -1;
	dlk_store_of(&section)->ops = &ops;
	return 0;
}

static int hold(void **state)
{
	(void)state;
	n_sent = fails_in = 0;
	pages = false;
	h = free_hold("t", "p", TTL_MS);
	h->rule = &rule;
	dlk_holds_lock();
	dlk_hold_install(h, dlk_now_ns(), 0);
	dlk_holds_unlock();
	return 0;
}

static int end(void **state)
{
	(void)state;
	dlk_holds_lock();
	dlk_hold_drop(h);
	dlk_hold_unpin(h);
	dlk_holds_unlock();
	return 0;
}

static void assert_sent(unsigned i, uint64_t first, uint64_t last)
{
	assert_true(i < n_sent);
	assert_true(sent[i].window.start == first);
	assert_true(sent[i].window.end == last);
}

/* --- what is said ----------------------------------------------------------- */

static const struct dlk_range part = { .start = 3, .end = 5 };

static void a_call_sends_its_window(void **state)
{
	(void)state;
	dlk_list_send(h, &part);
	assert_int_equal(n_sent, 1);
	assert_sent(0, 3, 5);
	answer(0, 0);
	assert_int_equal(h->out.message, OUTBOX_NOTHING);
}

static void after_a_failure_all_is_sent(void **state)
{
	(void)state;
	dlk_list_send(h, &part);
	answer(0, -EPIPE);
	dlk_list_send(h, &part);
	assert_int_equal(n_sent, 2);
	assert_sent(1, 0, DLK_RANGE_MAX);
	answer(1, 0);
	assert_int_equal(h->out.message, OUTBOX_NOTHING);
}

/* Between two of its pages: the rest waits, and all is sent once more. */
static void so_if_it_fails_meanwhile(void **state)
{
	(void)state;
	dlk_list_send(h, &part);
	pages = true;
	fails_in = 2;
	dlk_list_send(h, NULL);
	assert_int_equal(n_sent, 2);
	assert_sent(1, 0, DLK_RANGE_MAX);
	answer(1, 0);
	assert_int_equal(h->out.message, OUTBOX_RANGES);
	assert_true(h->out.unsent);
	dlk_list_send(h, &part);
	assert_int_equal(n_sent, 4);
	assert_sent(2, 0, DLK_RANGE_MAX);
	assert_sent(3, MIDDLE, DLK_RANGE_MAX);
	answer(2, 0);
	answer(3, 0);
	assert_int_equal(h->out.message, OUTBOX_NOTHING);
}

#define of_a_hold(f) cmocka_unit_test_setup_teardown(f, hold, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		of_a_hold(a_call_sends_its_window),
		of_a_hold(after_a_failure_all_is_sent),
		of_a_hold(so_if_it_fails_meanwhile),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
