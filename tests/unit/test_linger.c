/* SPDX-License-Identifier: MIT */
/*
 * A lease that has expired is renewed if, and only if, nobody can have been
 * granted what was its (scripts/linger.inc): whatever became of the server.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/lease.h"
#include "lease/queue.h"
#include "lease/ranges.h"
#include "lease/records.h"
#include "os/sys.h"
#include "scripts.h"
#include "tests/unit/fake.h"
#include "tests/unit/leases.h"

enum { SHORT = 20, PAUSE = 60000 };

static struct dlk_lease lease_of(const char *token, bool shared,
				 uint32_t ttl_ms, uint32_t pause_ms)
{
	return (struct dlk_lease){ .key = "k",
				   .key_len = 1,
				   .token = token,
				   .token_len = strlen(token),
				   .ttl_ms = ttl_ms,
				   .pause_ms = pause_ms,
				   .shared = shared };
}

static int acquire(const struct dlk_lease *l)
{
	dlk_conn_reset(c);
	return dlk_lease_acquire(c, in_ms(5000), l, false, NULL, NULL, &answer);
}

static int renew(const struct dlk_lease *l)
{
	struct dlk_renewal u = { .lease = l };
	int err;

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_renew(c, l, true), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	err = dlk_lease_renewed(c, in_ms(5000), &u);
	dlk_conn_reset(c);
	return err;
}

static int release(const struct dlk_lease *l)
{
	const int err = release_lease(l, false);

	dlk_conn_reset(c);
	return err;
}

/* Granted, and it has expired. */
static struct dlk_lease lapsed(const char *token, bool shared,
			       uint32_t pause_ms)
{
	struct dlk_lease l = lease_of(token, shared, SHORT, pause_ms);

	assert_int_equal(acquire(&l), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	return l;
}

static void a_stranger_has_it_for_a_moment(bool shared)
{
	const struct dlk_lease l = lease_of(other, shared, TTL, 0);

	assert_int_equal(acquire(&l), 0);
	assert_int_equal(release(&l), 0);
}

/* --- nobody had it -------------------------------------------------------- */

static void it_goes_on_if_nobody_had_it(void **state)
{
	struct dlk_lease l = lapsed(ours, false, PAUSE);
	const struct dlk_lease its = lease_of(other, false, TTL, 0);

	(void)state;
	assert_int_equal(renew(&l), 0);
	l.ttl_ms = TTL;
	assert_int_equal(renew(&l), 0);
	assert_int_equal(acquire(&its), DLK_BUSY);
	assert_int_equal(release(&l), 0);
	assert_int_equal(acquire(&its), 0);
}

static void so_does_a_reader(void **state)
{
	const struct dlk_lease l = lapsed(ours, true, PAUSE);

	(void)state;
	a_stranger_has_it_for_a_moment(true);
	assert_int_equal(renew(&l), 0);
}

/* With hold_at_least as well, though it is in a hash. */
static void it_stays_when_it_is_given_back(void **state)
{
	struct dlk_lease l = lapsed(ours, false, PAUSE);
	const struct dlk_lease its = lease_of(other, false, TTL, 0);

	(void)state;
	assert_int_equal(renew(&l), 0);
	l.stays_until_ns = dlk_now_ns() + PAUSE * 1000000ULL;
	assert_int_equal(release(&l), 0);
	assert_int_equal(acquire(&its), DLK_BUSY);
}

/* Control: without it, what has expired is gone. */
static void it_does_not_without(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, 0);

	(void)state;
	assert_int_equal(renew(&l), DLK_GONE);
}

/* --- somebody had it, or may have ----------------------------------------- */

static void a_writer_between_ends_it(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, PAUSE);

	(void)state;
	a_stranger_has_it_for_a_moment(false);
	assert_int_equal(renew(&l), DLK_GONE);
}

static void so_does_a_reader_a_writers(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, PAUSE);

	(void)state;
	a_stranger_has_it_for_a_moment(true);
	assert_int_equal(renew(&l), DLK_GONE);
}

static void and_a_writer_a_readers(void **state)
{
	const struct dlk_lease l = lapsed(ours, true, PAUSE);

	(void)state;
	a_stranger_has_it_for_a_moment(false);
	assert_int_equal(renew(&l), DLK_GONE);
}

static void who_has_it_now_is_told_of(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, PAUSE);
	const struct dlk_lease plain = lease_of(other, false, TTL, 0);
	const struct dlk_lease its = lease_of(other, false, TTL, PAUSE);

	(void)state;
	assert_int_equal(acquire(&plain), 0);
	assert_int_equal(renew(&l), DLK_LOST);
	assert_int_equal(release(&plain), 0);
	assert_int_equal(acquire(&its), 0);
	assert_int_equal(renew(&l), DLK_LOST);
}

/* A program without dlock finds the key taken, as long as it is there. */
static void a_foreign_one_cannot_come_between(void **state)
{
	(void)state;
	lapsed(ours, false, PAUSE);
	assert_int_equal(
		tell(redis.c, "SET", "k", "x", "NX", "PX", "9000", NULL)->type,
		REDIS_REPLY_NIL);
}

static void what_was_deleted_is_gone(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, PAUSE);

	(void)state;
	tell(redis.c, "DEL", "k", NULL);
	assert_int_equal(renew(&l), DLK_GONE);
}

static void nobody_waits_for_it_for_ever(void **state)
{
	const struct dlk_lease l = lapsed(ours, false, 1);

	(void)state;
	assert_int_equal(renew(&l), DLK_GONE);
}

/*
 * A snapshot, or a replica: what is there was written by another run.  (Of a
 * server with a delay after restarts, for else it loses nothing.)
 */
static void another_memory_proves_nothing(void **state)
{
	struct dlk_lease l;
	char text[256], *run;

	(void)state;
	teach(DLK_LUA_acquire, HOUR_MS);
	l = lapsed(ours, false, PAUSE);
	assert_int_equal(renew(&l), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	snprintf(text, sizeof(text), "%s",
		 tell(redis.c, "HGET", "k", ours, NULL)->str);
	run = strrchr(text, ' ') + 1;
	assert_int_equal(strlen(run), 80);
	run[79] = run[79] == '0' ? '1' : '0';
	tell(redis.c, "HSET", "k", ours, text, NULL);
	assert_int_equal(renew(&l), DLK_GONE);
}

/* --- ranges --------------------------------------------------------------- */

static int acquire_as(const struct dlk_lease *l, enum dlk_range_type type,
		      uint64_t start, uint64_t end)
{
	const struct dlk_records_ask ask = { .range = { start, end, type },
					     .since_ns = 1,
					     .seq = 1 };

	dlk_conn_reset(c);
	return dlk_records_acquire(c, in_ms(5000), l, &ask, &answer);
}

static int acquire_range(const struct dlk_lease *l, uint64_t start,
			 uint64_t end)
{
	return acquire_as(l, DLK_WRITE, start, end);
}

static struct dlk_lease ranges_of(const char *token, uint32_t ttl_ms,
				  uint32_t pause_ms)
{
	struct dlk_lease l = lease_of(token, false, ttl_ms, pause_ms);

	l.ranges_key = "{k}%r";
	l.ranges_key_len = strlen(l.ranges_key);
	return l;
}

static int renew_after(uint64_t start, uint64_t end, uint32_t pause_ms)
{
	const struct dlk_lease l = ranges_of(ours, SHORT, pause_ms);
	const struct dlk_lease its = ranges_of(other, TTL, 0);

	assert_int_equal(acquire_range(&l, 0, 9), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	assert_int_equal(acquire_range(&its, start, end), 0);
	release(&its);
	return renew(&l);
}

static void ranges_go_on_if_nobody_had_one(void **state)
{
	(void)state;
	assert_int_equal(renew_after(10, 19, PAUSE), 0);
}

/* Ours lapse on [0, 9], in the way of whom another one's on [10, 19] refuse. */
static struct dlk_lease lapsed_beside(struct dlk_lease *living)
{
	const struct dlk_lease l = ranges_of(ours, SHORT, PAUSE);

	*living = ranges_of(third, TTL, 0);
	assert_int_equal(acquire_range(&l, 0, 9), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	assert_int_equal(acquire_range(living, 10, 19), 0);
	return l;
}

/* It was on its way when its process was stopped, with what that has. */
static void nor_did_a_late_request_of_its_own(void **state)
{
	struct dlk_lease living;
	const struct dlk_lease l = lapsed_beside(&living);
	const struct dlk_records_ask q = { .range = { 20, 29, DLK_WRITE },
					   .since_ns = 1,
					   .seq = 2,
					   .known = true };

	(void)state;
	dlk_conn_reset(c);
	assert_int_equal(dlk_records_acquire(c, in_ms(5000), &l, &q, &answer),
			 0);
	assert_int_equal(renew(&l), 0);
}

static void nor_did_who_asks_who_has_it(void **state)
{
	struct dlk_lease living;
	const struct dlk_lease l = lapsed_beside(&living);
	const struct dlk_lease its = ranges_of(other, TTL, 0);
	const struct dlk_range byte = { 5, 5, DLK_WRITE },
			       all = { 0, 19, DLK_READ };

	(void)state;
	dlk_conn_reset(c);
	assert_int_equal(
		dlk_records_get(c, in_ms(5000), &its, &byte, 0, &answer), 0);
	assert_int_equal(dlk_records_get(c, in_ms(5000), &its, &all, 0,
					 &answer),
			 DLK_BUSY);
	assert_string_equal(answer.holder, third);
	assert_int_equal(renew(&l), 0);
}

/* How many commands its script has sent, of those that search. */
static unsigned searches(void)
{
	const char *info = tell(redis.c, "INFO", "commandstats", NULL)->str;
	const char *at = strstr(info, "cmdstat_zlexcount:calls=");

	return at ? (unsigned)strtoul(strchr(at, '=') + 1, NULL, 10) : 0;
}

/* However many linger there: each would be another search, behind those before. */
static void who_is_refused_meets_all_at_once(void **state)
{
	enum { MANY = 64 };
	const struct dlk_lease its = ranges_of(other, TTL, 0);
	const struct dlk_lease living = ranges_of(third, TTL, 0);
	char token[DLK_TOKEN_MAX];
	unsigned before;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		struct dlk_lease l;

		token_of(token, 'a', HOST, FILE_, 1000);
		token[sizeof("dlock1")] = (char)('0' + i / 10);
		token[sizeof("dlock1") + 1] = (char)('0' + i % 10);
		l = ranges_of(token, SHORT, PAUSE);
		assert_int_equal(acquire_as(&l, DLK_READ, 0, 9), 0);
	}
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	assert_int_equal(acquire_as(&living, DLK_READ, 0, 9), 0);
	before = searches();
	assert_int_equal(acquire_range(&its, 0, 9), DLK_BUSY);
	assert_in_range(searches() - before, 1, MANY / 2);
}

static void nor_did_who_is_refused(void **state)
{
	struct dlk_lease living;
	const struct dlk_lease l = lapsed_beside(&living);
	const struct dlk_lease its = ranges_of(other, TTL, 0);

	(void)state;
	assert_int_equal(acquire_range(&its, 0, 19), DLK_BUSY);
	assert_string_equal(answer.holder, third);
	assert_int_equal(renew(&l), 0);
}

/* In vain, or whom nobody can tell that he was granted it. */
static void nor_did_who_waits(void **state)
{
	char claim[DLK_TOKEN_MAX], what[DLK_WHAT_LEN + 1];
	struct dlk_lease living;
	const struct dlk_lease l = lapsed_beside(&living);
	const struct dlk_lease its = ranges_of(other, TTL, 0);
	const struct dlk_range all = { 0, 19, DLK_WRITE };
	struct dlk_waiter w = { .claim = claim,
				.what = what,
				.claim_ttl_ms = TTL };

	(void)state;
	token_of(claim, 'c', "elsewhere", FILE_, UINT64_MAX);
	w.claim_len = strlen(claim);
	dlk_records_what(what, &all, "", false);
	memset(w.channel, 'a', DLK_CHANNEL_LEN);
	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, in_ms(5000), "heartbeat", &its, &w,
				       &answer),
			 DLK_BUSY);
	assert_true(w.queued);
	assert_int_equal(release(&living), 0);
	assert_int_equal(renew(&l), 0);
	/* Control: it was the first one that nobody hears. */
	assert_int_equal(tell(redis.c, "EXISTS", "{k}%q", NULL)->integer, 0);
}

static void it_ends_by_a_claim(void **state)
{
	char claim[DLK_TOKEN_MAX], what[DLK_WHAT_LEN + 1];
	const struct dlk_lease l = ranges_of(ours, SHORT, PAUSE);
	const struct dlk_lease its = ranges_of(other, TTL, 0);
	const struct dlk_range all = { 5, 19, DLK_WRITE };
	struct dlk_waiter w = { .claim = claim,
				.what = what,
				.channel = DLK_NO_CHANNEL,
				.claim_ttl_ms = TTL };

	(void)state;
	token_of(claim, 'c', "elsewhere", FILE_, UINT64_MAX);
	w.claim_len = strlen(claim);
	dlk_records_what(what, &all, "", false);
	assert_int_equal(acquire_range(&l, 0, 9), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, in_ms(5000), "heartbeat", &its, &w,
				       &answer),
			 0);
	assert_int_equal(renew(&l), DLK_GONE);
}

static void they_do_not_if_somebody_had_a_byte(void **state)
{
	(void)state;
	assert_int_equal(renew_after(9, 19, PAUSE), DLK_GONE);
}

static void nor_if_they_do_not_linger(void **state)
{
	(void)state;
	assert_int_equal(renew_after(10, 19, 0), DLK_GONE);
}

/* All of a file is a lease like any other then, and no string. */
static void nor_is_a_whole_file_another_thing(void **state)
{
	const struct dlk_lease l = ranges_of(ours, SHORT, PAUSE);

	(void)state;
	assert_int_equal(acquire_range(&l, 0, DLK_RANGE_MAX), 0);
	dlk_pause_ns(2 * SHORT * 1000000ULL);
	assert_int_equal(renew(&l), 0);
}

int main(void)
{
#define AT_ONCE(f)                                                             \
	cmocka_unit_test_setup_teardown(f, connect_at_once, disconnect)
	const struct CMUnitTest tests[] = {
		AT_ONCE(it_goes_on_if_nobody_had_it),
		AT_ONCE(so_does_a_reader),
		AT_ONCE(it_stays_when_it_is_given_back),
		AT_ONCE(it_does_not_without),
		AT_ONCE(a_writer_between_ends_it),
		AT_ONCE(so_does_a_reader_a_writers),
		AT_ONCE(and_a_writer_a_readers),
		AT_ONCE(who_has_it_now_is_told_of),
		AT_ONCE(a_foreign_one_cannot_come_between),
		AT_ONCE(what_was_deleted_is_gone),
		AT_ONCE(nobody_waits_for_it_for_ever),
		cmocka_unit_test_setup_teardown(another_memory_proves_nothing,
						connect_young, disconnect),
		AT_ONCE(ranges_go_on_if_nobody_had_one),
		AT_ONCE(nor_did_a_late_request_of_its_own),
		AT_ONCE(nor_did_who_asks_who_has_it),
		AT_ONCE(nor_did_who_is_refused),
		AT_ONCE(who_is_refused_meets_all_at_once),
		AT_ONCE(nor_did_who_waits),
		AT_ONCE(it_ends_by_a_claim),
		AT_ONCE(they_do_not_if_somebody_had_a_byte),
		AT_ONCE(nor_if_they_do_not_linger),
		AT_ONCE(nor_is_a_whole_file_another_thing),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
