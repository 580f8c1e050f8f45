/* SPDX-License-Identifier: MIT */
/*
 * Record locks at Redis: granted whole or not at all, whatever is lost, late
 * or sent twice; a whole-file write lock is one string (DESIGN L9); what has
 * expired, or is dead by proof (L3), stands in nobody's way, and no more.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "scripts.h"
#include "tests/unit/fake.h"
#include "tests/unit/records.h"

static struct holder a, b, far;

static int stage(void **state)
{
	reset(&a, 'a', HOST, 2000);
	reset(&b, 'b', HOST, 3000);
	reset(&far, 'f', "elsewhere", 1000);
	return connect_at_once(state);
}

static struct dlk_records_ask question(struct holder *h,
				       enum dlk_range_type type, uint64_t start,
				       uint64_t end)
{
	return (struct dlk_records_ask){ .range = { start, end, type },
					 .seq = ++h->seq,
					 .since_ns = h->since,
					 .known = h->held.n > 0 };
}

static int acquire_as(struct holder *h, enum dlk_range_type type,
		      uint64_t start, uint64_t end, bool proof)
{
	struct dlk_records_ask q = question(h, type, start, end);
	int err;

	q.proof = proof;
	err = ask(h, &q);
	if (!err)
		assert_int_equal(dlk_ranges_set(&h->held, q.range), 0);
	return err;
}

static int acquire(struct holder *h, enum dlk_range_type type, uint64_t start,
		   uint64_t end)
{
	return acquire_as(h, type, start, end, false);
}

/* Weaken what is held, and say so. */
static int give(struct holder *h, enum dlk_range_type type, uint64_t start,
		uint64_t end)
{
	struct dlk_range weaker = { start, end, type };

	assert_int_equal(dlk_ranges_set(&h->held, weaker), 0);
	return say_window(h, ++h->seq, start, end);
}

static const char *type_at(const char *key)
{
	return tell(redis.c, "TYPE", key, NULL)->str;
}

static bool nothing_left(void)
{
	return keys_left(redis.c) == 0;
}

/* How long an owner in a hash has still, ms; -1 for none. */
static long long left_of(const struct holder *h)
{
	char id[DLK_RANDOM_LEN + 1];
	struct dlk_records_owner o;
	long long now = server_ms();
	const redisReply *r;

	id_of(h, id);
	r = tell(redis.c, "HGET", "k", id, NULL);
	if (r->type != REDIS_REPLY_STRING)
		return -1;
	assert_true(dlk_records_read_owner(r->str, r->len, &o));
	assert_int_equal(o.token_len, strlen(h->token));
	assert_memory_equal(o.token, h->token, o.token_len);
	return (long long)o.expiry_ms - now;
}

#define assert_text(set, want)                                                 \
	do {                                                                   \
		char text_[4096];                                              \
		text_of(set, text_, sizeof(text_));                            \
		assert_string_equal(text_, want);                              \
	} while (0)

#define assert_there(h, want)                                                  \
	do {                                                                   \
		struct dlk_range room_[64];                                    \
		struct dlk_ranges set_ = { .v = room_, .room = 64 };           \
		read_ranges(h, &set_);                                         \
		assert_text(&set_, want);                                      \
	} while (0)

static void assert_busy(int said, const struct holder *by,
			enum dlk_range_type type, uint64_t start, uint64_t end)
{
	assert_int_equal(said, DLK_BUSY);
	assert_string_equal(got.holder, by->token);
	assert_int_equal(got.range.type, type);
	assert_true(got.range.start == start);
	assert_true(got.range.end == end);
	assert_true(got.left_ms > TTL - 5000 && got.left_ms <= TTL);
}

/* --- the string ----------------------------------------------------------- */

static void a_write_lock_on_the_whole_file_is_a_string(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, MAX), 0);
	assert_string_equal(value_at(redis.c, "k"), a.token);
	assert_true(ttl_at(redis.c, "k") > TTL - 5000);
	assert_int_equal(tell(redis.c, "DBSIZE", NULL)->integer, 1);
	assert_busy(acquire(&far, R, 7, 7), &a, W, 0, MAX);
	assert_int_equal(renew(&a), 0);
	assert_int_equal(give(&a, U, 0, MAX), 0);
	assert_true(nothing_left());
}

static void a_string_gives_a_part(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	assert_int_equal(give(&a, U, 10, 19), 0);
	assert_string_equal(type_at("k"), "hash");
	assert_there(&a, "W0-9 W20-9223372036854775807");
	assert_true(left_of(&a) > TTL - 5000 && left_of(&a) <= TTL);
	assert_true(ttl_at(redis.c, "k") > TTL - 5000);
	assert_true(ttl_at(redis.c, PLACES) > TTL - 5000);
	assert_int_equal(acquire(&far, W, 10, 19), 0);
	assert_busy(acquire(&far, W, 10, 20), &a, W, 20, MAX);
	assert_int_equal(give(&a, U, 0, MAX), 0);
	assert_int_equal(give(&far, U, 0, MAX), 0);
	assert_true(nothing_left());
}

static void a_string_becomes_readers(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	assert_int_equal(acquire(&a, R, 10, 19), 0);
	assert_there(&a, "W0-9 R10-19 W20-9223372036854775807");
	assert_int_equal(acquire(&far, R, 12, 13), 0);
}

static void a_hash_keeps_foreign_lockers_out(void **state)
{
	(void)state;
	acquire(&a, R, 5, 5);
	assert_int_equal(
		tell(redis.c, "SET", "k", "x", "NX", "PX", "9", NULL)->type,
		REDIS_REPLY_NIL);
}

/* Asked twice, for the answer to the first never came. */
static void a_string_is_granted_twice(void **state)
{
	struct dlk_records_ask q = question(&a, W, 0, MAX);

	(void)state;
	assert_int_equal(ask(&a, &q), 0);
	tell_ok(tell(redis.c, "PEXPIRE", "k", "1000", NULL));
	assert_int_equal(ask(&a, &q), 0);
	assert_true(ttl_at(redis.c, "k") > TTL - 5000);
	assert_string_equal(value_at(redis.c, "k"), a.token);
	q.seq = ++a.seq;
	assert_int_equal(ask(&a, &q), 0);
	assert_string_equal(type_at("k"), "hash");
	assert_there(&a, "W0-9223372036854775807");
}

/* A string has no sequence number: what came before it could not be told. */
static void only_the_first_request_makes_a_string(void **state)
{
	(void)state;
	acquire(&a, R, 0, 9);
	assert_int_equal(give(&a, U, 0, MAX), 0);
	assert_int_equal(acquire(&a, W, 0, MAX), 0);
	assert_string_equal(type_at("k"), "hash");
	assert_there(&a, "W0-9223372036854775807");
}

static void a_set_of_all_of_it_keeps_the_string(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	assert_int_equal(say_window(&a, ++a.seq, 0, MAX), 0);
	assert_string_equal(value_at(redis.c, "k"), a.token);
}

/* --- ranges --------------------------------------------------------------- */

static void readers_share_and_a_writer_waits(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, R, 0, 99), 0);
	assert_int_equal(acquire(&far, R, 50, 149), 0);
	assert_busy(acquire(&far, W, 60, 60), &a, R, 0, 99);
	assert_busy(acquire(&a, W, 99, 200), &far, R, 50, 149);
	assert_int_equal(acquire(&a, W, 150, 200), 0);
	assert_int_equal(acquire(&far, W, 100, 149), 0);
	assert_there(&a, "R0-99 W150-200");
	assert_there(&far, "R50-99 W100-149");
}

static void a_refused_upgrade_changes_nothing(void **state)
{
	(void)state;
	acquire(&a, R, 0, 99);
	acquire(&far, R, 90, 90);
	assert_busy(acquire(&a, W, 0, 99), &far, R, 90, 90);
	assert_there(&a, "R0-99");
	assert_int_equal(acquire(&a, W, 0, 89), 0);
	assert_there(&a, "W0-89 R90-99");
	assert_busy(acquire(&far, R, 89, 91), &a, W, 0, 89);
	assert_there(&far, "R90-90");
}

static void a_downgrade_lets_readers_in(void **state)
{
	(void)state;
	acquire(&a, W, 0, 99);
	assert_busy(acquire(&far, R, 0, 0), &a, W, 0, 99);
	assert_int_equal(give(&a, R, 0, 49), 0);
	assert_there(&a, "R0-49 W50-99");
	assert_int_equal(acquire(&far, R, 0, 49), 0);
}

static void each_owner_has_a_ttl_of_its_own(void **state)
{
	(void)state;
	acquire(&far, R, 0, 9);
	tell_ok(tell(redis.c, "PEXPIRE", "k", "1000", NULL));
	acquire(&a, R, 0, 9);
	assert_true(left_of(&a) > TTL - 5000 && left_of(&a) <= TTL);
	assert_true(ttl_at(redis.c, "k") > TTL - 5000);
	assert_true(ttl_at(redis.c, PLACES) > TTL - 5000);
}

static void a_longer_ttl_is_not_shortened(void **state)
{
	(void)state;
	acquire(&far, R, 0, 9);
	tell_ok(tell(redis.c, "PEXPIRE", "k", "900000", NULL));
	acquire(&a, R, 0, 9);
	assert_int_equal(renew(&a), 0);
	assert_true(ttl_at(redis.c, "k") > 800000);
	assert_true(ttl_at(redis.c, PLACES) > 800000);
}

static void the_last_range_takes_the_keys_along(void **state)
{
	(void)state;
	acquire(&a, R, 0, 9);
	acquire(&far, R, 5, 20);
	assert_int_equal(give(&a, U, 0, 100), 0);
	assert_int_equal(left_of(&a), -1);
	assert_int_equal(give(&far, U, 3, 20), 0);
	assert_true(nothing_left());
}

/* 2^53 and 2^53 + 1 are one and the same Lua number. */
static void offsets_are_exact(void **state)
{
	const uint64_t big = 1ull << 53;

	(void)state;
	acquire(&a, W, big, big);
	assert_int_equal(acquire(&far, W, big + 1, big + 1), 0);
	assert_int_equal(acquire(&far, W, big - 1, big - 1), 0);
	assert_busy(acquire(&far, W, big, big + 1), &a, W, big, big);
	assert_int_equal(acquire(&a, W, MAX - 1, MAX - 1), 0);
	assert_int_equal(acquire(&far, W, MAX, MAX), 0);
	assert_int_equal(acquire(&a, W, MAX - 4096, MAX - 1), 0);
	assert_int_equal(give(&a, U, MAX - 2, MAX - 2), 0);
	assert_there(&a, "W9007199254740992-9007199254740992 "
			 "W9223372036854771711-9223372036854775804 "
			 "W9223372036854775806-9223372036854775806");
}

/* The carry of the two halves of an offset. */
static void neighbours_merge_across_a_carry(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9999999999);
	acquire(&a, W, 10000000000, 10000000000);
	assert_there(&a, "W0-10000000000");
	give(&a, U, 10000000000, MAX);
	assert_there(&a, "W0-9999999999");
	give(&a, U, 9999999999, 9999999999);
	assert_there(&a, "W0-9999999998");
}

/* --- late and twice ------------------------------------------------------- */

static void what_is_older_is_stale(void **state)
{
	struct dlk_records_ask q;

	(void)state;
	q = question(&a, R, 0, 9);
	assert_int_equal(acquire(&a, W, 0, 99), 0);
	assert_int_equal(ask(&a, &q), DLK_OLD_SEQ);
	assert_int_equal(got.seq, 2);
	assert_there(&a, "W0-99");
	assert_int_equal(acquire(&a, W, 200, 299), 0);
	assert_int_equal(give(&a, U, 0, 0), 0);
	assert_int_equal(a.seq, 4);
	a.held.n = 0;
	got.seq = 0;
	assert_int_equal(say_window(&a, 3, 0, MAX), DLK_OLD_SEQ);
	assert_int_equal(got.seq, 4);
	assert_there(&a, "W1-99 W200-299");
}

static void the_same_number_does_the_same(void **state)
{
	struct dlk_records_ask q;

	(void)state;
	acquire(&a, W, 0, 9);
	q = question(&a, W, 5, 19);
	assert_int_equal(ask(&a, &q), 0);
	assert_int_equal(ask(&a, &q), 0);
	assert_there(&a, "W0-19");
	dlk_ranges_set(&a.held, q.range);
	assert_int_equal(give(&a, U, 8, 9), 0);
	assert_int_equal(say_window(&a, a.seq, 8, 9), 0);
	assert_there(&a, "W0-7 W10-19");
}

/* Or else a copy of it that is late would be granted behind our back. */
static void a_refusal_counts_as_a_request(void **state)
{
	struct dlk_records_ask first, again;

	(void)state;
	acquire(&a, W, 0, 9);
	acquire(&far, W, 20, 29);
	first = question(&a, W, 20, 29);
	again = question(&a, W, 20, 29);
	assert_int_equal(ask(&a, &again), DLK_BUSY);
	give(&far, U, 0, MAX);
	assert_int_equal(ask(&a, &first), DLK_OLD_SEQ);
	assert_there(&a, "W0-9");
}

static void a_set_gives_nothing_that_was_not_there(void **state)
{
	(void)state;
	acquire(&a, R, 0, 9);
	acquire(&a, W, 20, 29);
	dlk_ranges_set(&a.held, (struct dlk_range){ 5, 24, W });
	assert_int_equal(say_window(&a, ++a.seq, 0, MAX), 0);
	assert_there(&a, "R0-9 W20-29");
	assert_int_equal(say_window(&far, 1, 0, MAX), 0);
	far.held.n = 0;
	dlk_ranges_set(&far.held, (struct dlk_range){ 5, 24, W });
	assert_int_equal(say_window(&far, 2, 0, MAX), 0);
	assert_there(&far, "");
}

static void a_set_of_a_window_leaves_the_rest(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(acquire(&a, i % 2 ? R : W, i * 10, i * 10 + 8),
				 0);
	dlk_ranges_set(&a.held, (struct dlk_range){ 0, MAX, U });
	assert_int_equal(say_window(&a, ++a.seq, 15, 165), 0);
	assert_there(&a, "W0-8 R10-14 W166-168 R170-178 W180-188 R190-198");
}

/* The owner holds something, and the server knows of nothing. */
static void what_is_lost_is_not_begun_anew(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	assert_int_equal(acquire(&a, W, 20, 29), DLK_GONE);
	assert_true(nothing_left());
	acquire(&far, W, 0, 9);
	assert_int_equal(acquire(&a, W, 20, 29), DLK_GONE);
	assert_there(&a, "");
}

static void ranges_without_their_owner_hold_nothing(void **state)
{
	char id[DLK_RANDOM_LEN + 1];

	(void)state;
	acquire(&a, W, 0, 9);
	acquire(&b, W, 20, 29);
	id_of(&a, id);
	tell_ok(tell(redis.c, "HDEL", "k", id, NULL));
	assert_int_equal(acquire(&far, W, 5, 14), 0);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	far.held.n = 0;
	assert_int_equal(acquire(&far, W, 0, 9), 0);
	assert_there(&b, "");
	assert_there(&far, "W0-9");
}

/* --- expiry --------------------------------------------------------------- */

static void the_expired_are_in_nobodys_way(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	acquire(&a, R, 20, 29);
	acquire(&b, R, 25, 30);
	expire(&a);
	assert_int_equal(look(&far, W, 0, 24), 0);
	assert_busy(acquire(&far, W, 0, MAX), &b, R, 25, 30);
	assert_int_equal(acquire(&far, W, 0, 24), 0);
	assert_there(&a, "");
	assert_int_equal(left_of(&a), -1);
}

static void the_expired_are_not_carried_on(void **state)
{
	(void)state;
	acquire(&far, W, 100, 100);
	acquire(&a, W, 0, 9);
	expire(&a);
	assert_int_equal(renew(&a), DLK_GONE);
	assert_int_equal(acquire(&a, W, 20, 29), DLK_GONE);
	assert_there(&a, "");
	acquire(&b, W, 0, 9);
	expire(&b);
	b.held.n = 0;
	assert_int_equal(acquire(&b, W, 20, 29), 0);
	assert_there(&b, "W20-29");
}

/* Ten owners die where nobody goes; each new one looks at two of all. */
static void the_expired_are_swept(void **state)
{
	struct holder h;

	(void)state;
	acquire(&far, W, 0, 0);
	for (uint64_t i = 0; i < 10; i++) {
		reset(&h, (char)('A' + i), HOST, 1);
		assert_int_equal(acquire(&h, W, i * 10 + 10, i * 10 + 10), 0);
		expire(&h);
	}
	for (uint64_t i = 0; i < 200; i++) {
		reset(&h, 'z', HOST, 1);
		assert_int_equal(acquire(&h, W, 5, 5), 0);
		assert_int_equal(give(&h, U, 5, 5), 0);
	}
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 2);
	assert_int_equal(tell(redis.c, "ZCARD", PLACES, NULL)->integer, 3);
}

/* --- proof of death ------------------------------------------------------- */

static void proof_cuts_what_it_proves(void **state)
{
	(void)state;
	acquire(&a, W, 0, 99);
	assert_busy(acquire(&b, W, 40, 59), &a, W, 0, 99);
	assert_false(got.replaced);
	assert_int_equal(acquire_as(&b, W, 40, 59, true), 0);
	assert_true(got.replaced);
	assert_there(&a, "W0-39 W60-99");
	assert_there(&b, "W40-59");
	assert_int_equal(renew(&a), 0);
}

static void proof_unfolds_a_string(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	assert_int_equal(acquire_as(&b, W, 40, 59, true), 0);
	assert_there(&a, "W0-39 W60-9223372036854775807");
	assert_true(left_of(&a) > TTL - 5000 && left_of(&a) <= TTL);
	assert_int_equal(acquire_as(&b, W, 0, MAX, true), 0);
	assert_there(&a, "");
	assert_there(&b, "W0-9223372036854775807");
}

/* Who renews the dead's is told that nothing is left, and that is no loss. */
static void who_has_nothing_left_is_not_forgotten(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	assert_int_equal(acquire_as(&b, W, 0, 9, true), 0);
	assert_there(&a, "");
	assert_int_equal(renew(&a), 0);
	b.held.n = 0;
	assert_int_equal(say_window(&b, ++b.seq, 0, MAX), 0);
	assert_int_equal(acquire(&far, W, 0, MAX), 0);
	far.held.n = a.held.n = 0;
	assert_int_equal(say_window(&far, ++far.seq, 0, MAX), 0);
	assert_int_equal(say_window(&a, ++a.seq, 0, MAX), 0);
	assert_true(nothing_left());
}

/* He goes on under his token, with what he takes from then on. */
static void who_shares_the_description_is_taken_over_alive(void **state)
{
	struct dlk_records_ask q;

	(void)state;
	acquire(&a, W, 0, MAX);
	q = question(&b, W, 0, MAX);
	q.proof = q.shares = true;
	assert_int_equal(ask(&b, &q), 0);
	assert_there(&a, "");
	assert_there(&b, "W0-9223372036854775807");
	assert_int_equal(renew(&a), 0);
	b.held.n = 0;
	assert_int_equal(say_window(&b, ++b.seq, 0, MAX), 0);
	assert_int_equal(acquire(&a, W, 5, 6), 0);
	assert_there(&a, "W5-6");
	a.held.n = 0;
	assert_int_equal(say_window(&a, ++a.seq, 0, MAX), 0);
	assert_string_equal(type_at("k"), "none");
}

/* ... or not at all: he has what he had, if somebody else is in the way. */
static void who_shares_the_description_is_not_cut_for_nothing(void **state)
{
	struct dlk_records_ask q;

	(void)state;
	acquire(&a, W, 0, 4);
	acquire(&a, R, 5, 14);
	acquire(&far, W, 25, 29);
	q = question(&b, W, 3, 29);
	q.proof = q.shares = true;
	assert_busy(ask(&b, &q), &far, W, 25, 29);
	assert_there(&a, "W0-4 R5-14");
	assert_there(&b, "");
	give(&far, U, 0, MAX);
	q.seq = ++b.seq;
	assert_int_equal(ask(&b, &q), 0);
	assert_there(&a, "W0-2");
	assert_there(&b, "W3-29");
}

static void proof_of_a_reader_demotes(void **state)
{
	(void)state;
	acquire(&a, W, 0, 99);
	assert_int_equal(acquire_as(&b, R, 90, 200, true), 0);
	assert_true(got.replaced);
	assert_there(&a, "W0-89 R90-99");
	assert_int_equal(acquire_as(&b, R, 0, 0, true), 0);
	assert_there(&a, "R0-0 W1-89 R90-99");
}

static void proof_of_a_reader_removes_no_reader(void **state)
{
	(void)state;
	acquire(&a, R, 0, 99);
	assert_int_equal(acquire_as(&b, R, 0, MAX, true), 0);
	assert_false(got.replaced);
	assert_there(&a, "R0-99");
}

static void proof_leaves_what_is_newer(void **state)
{
	(void)state;
	acquire(&b, W, 0, 99);
	assert_busy(acquire_as(&a, W, 0, 99, true), &b, W, 0, 99);
	b.since = 1;
	assert_int_equal(acquire(&b, W, 100, 100), 0);
	assert_busy(acquire_as(&a, W, 0, 99, true), &b, W, 0, 100);
	a.since = 3000;
	assert_busy(acquire_as(&a, W, 0, 99, true), &b, W, 0, 100);
	a.since = 3001;
	assert_int_equal(acquire_as(&a, W, 0, 99, true), 0);
	assert_there(&b, "W100-100");
}

/* A token lives on: what counts is the owner's last kernel grant. */
static void proof_leaves_the_owner_that_locked_since(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	a.since = 5000;
	acquire(&a, W, 20, 29);
	assert_busy(acquire_as(&b, W, 0, 9, true), &a, W, 0, 9);
}

/* The first digits are the process's. */
static void become(struct holder *next, const struct holder *h)
{
	memcpy(next->token + sizeof("dlock1"), h->token + sizeof("dlock1"),
	       DLK_RANDOM_LEN / 2);
}

/* A process that has become another program, which proves all that it has. */
static void adopt(struct holder *h, enum dlk_range_type type, uint64_t start,
		  uint64_t end)
{
	struct dlk_records_ask q = question(h, type, start, end);

	q.proof = true;
	q.adopts = q.rest = true;
	assert_int_equal(ask(h, &q), 0);
	assert_int_equal(dlk_ranges_set(&h->held, q.range), 0);
}

static void adoption_ends_what_the_process_had(void **state)
{
	struct holder beside;

	(void)state;
	reset(&beside, 'o', HOST, 2000);
	acquire(&beside, R, 0, 99);
	acquire(&a, R, 0, 99);
	acquire(&a, W, 200, 299);
	become(&b, &a);
	adopt(&b, R, 10, 19);
	assert_there(&b, "R10-19");
	assert_int_equal(left_of(&a), -1);
	assert_there(&beside, "R0-99");
	assert_int_equal(renew(&a), DLK_REPLACED);
	assert_int_equal(renew(&b), 0);
}

/* A restarted server has the older one again, by its keeper, and not us yet. */
static void nobody_adopts_what_is_younger(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	become(&b, &a);
	assert_int_equal(renew(&b), DLK_GONE);
	acquire(&b, W, 20, 29);
	assert_int_equal(renew(&b), 0);
	assert_int_equal(renew(&a), 0);
}

static void adoption_unfolds_a_string(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	become(&b, &a);
	adopt(&b, R, 0, 9);
	assert_there(&b, "R0-9");
	assert_int_equal(left_of(&a), -1);
}

static void adoption_leaves_what_is_newer(void **state)
{
	(void)state;
	acquire(&a, R, 0, 9);
	become(&b, &a);
	b.since = 1999;
	adopt(&b, R, 0, 9);
	assert_there(&a, "R0-9");
	assert_there(&b, "R0-9");
}

static void proof_leaves_other_hosts_and_files(void **state)
{
	struct holder other_file;

	(void)state;
	acquire(&far, W, 0, 9);
	assert_busy(acquire_as(&b, W, 0, 9, true), &far, W, 0, 9);
	reset(&other_file, 'o', HOST, 1);
	token_of(other_file.token, 'o', HOST, "fd00:1f:1.01", 1);
	acquire(&other_file, W, 10, 19);
	assert_busy(acquire_as(&b, W, 10, 19, true), &other_file, W, 10, 19);
	assert_there(&far, "W0-9");
}

/* --- who is in the way ---------------------------------------------------- */

static void nobody_is_in_the_way_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(look(&a, W, 0, MAX), 0);
	acquire(&a, W, 0, MAX);
	assert_int_equal(look(&a, W, 5, 5), 0);
	assert_busy(look(&far, R, 5, 5), &a, W, 0, MAX);
	give(&a, U, 50, 59);
	assert_int_equal(look(&a, W, 0, MAX), 0);
	assert_int_equal(look(&far, W, 50, 59), 0);
	assert_busy(look(&far, W, 55, 60), &a, W, 60, MAX);
}

static void who_holds_nothing_may_ask(void **state)
{
	struct dlk_lease lease = lease_of(&a);
	struct dlk_range range = { 0, 9, R };

	(void)state;
	acquire(&a, W, 0, MAX);
	lease.token_len = 0;
	assert_int_equal(dlk_records_get(c, in_ms(5000), &lease, &range, 0,
					 &got),
			 DLK_BUSY);
	give(&a, R, 5, MAX);
	assert_int_equal(dlk_records_get(c, in_ms(5000), &lease, &range, 0,
					 &got),
			 DLK_BUSY);
	assert_int_equal(got.range.end, 4);
}

/* He may be the asker himself, after exec(2): so nothing is taken from him. */
static void whom_the_kernel_did_not_name_is_not_named(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	acquire(&far, W, 20, 29);
	acquire(&a, R, 40, 49);
	acquire(&far, R, 45, 49);
	assert_busy(look_since(&b, 2000, W, 0, 9), &a, W, 0, 9);
	assert_int_equal(look_since(&b, 9000, W, 0, 9), 0);
	assert_busy(look_since(&b, 9000, R, 0, MAX), &far, W, 20, 29);
	assert_busy(look_since(&b, 9000, W, 40, MAX), &far, R, 45, 49);
	assert_int_equal(look_since(&b, 9000, R, 40, MAX), 0);
	assert_int_equal(look_since(&b, 9000, W, 40, 44), 0);
	assert_there(&a, "W0-9 R40-49");
}

static void a_string_that_the_kernel_did_not_name_is_nobody(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	assert_busy(look_since(&b, 1, R, 5, 5), &a, W, 0, MAX);
	assert_int_equal(look_since(&b, 9000, R, 5, 5), 0);
	assert_busy(look_since(&far, 9000, R, 5, 5), &a, W, 0, MAX);
	assert_busy(look(&b, R, 5, 5), &a, W, 0, MAX);
}

/* A reader that begins far before, behind many that end before. */
static void a_reader_from_far_back_is_found(void **state)
{
	struct holder h;

	(void)state;
	acquire(&a, R, 0, 100000);
	reset(&h, 'h', HOST, 1);
	h.held.room = 0; /* that the server has it will do */
	for (uint64_t i = 0; i < 300; i++) {
		struct dlk_records_ask q =
			question(&h, R, 10 * i + 10, 10 * i + 10);

		assert_int_equal(ask(&h, &q), 0);
	}
	assert_busy(acquire(&far, W, 4001, 4005), &a, R, 0, 100000);
	assert_busy(look(&h, W, 4001, 4005), &a, R, 0, 100000);
	assert_busy(look(&h, W, 0, 9), &a, R, 0, 100000);
}

/* The one that starts first, whatever its type. */
static void the_first_one_is_named(void **state)
{
	struct holder third_one;

	(void)state;
	reset(&third_one, 't', "third", 1);
	token_of(third_one.token, 't', "third", FILE_, 1);
	acquire(&a, R, 10, 50);
	acquire(&third_one, R, 5, 30);
	acquire(&a, W, 60, 69);
	acquire(&third_one, W, 80, 89);
	assert_busy(look(&far, W, 0, MAX), &third_one, R, 5, 30);
	assert_busy(look(&far, W, 20, 20), &third_one, R, 5, 30);
	assert_busy(look(&far, W, 31, MAX), &a, R, 10, 50);
	assert_busy(look(&far, R, 0, MAX), &a, W, 60, 69);
	assert_busy(look(&far, W, 65, MAX), &a, W, 60, 69);
	assert_busy(look(&a, W, 0, MAX), &third_one, R, 5, 30);
	assert_busy(look(&third_one, R, 0, MAX), &a, W, 60, 69);
	/* By its kernel, `a` is not there: the next one. */
	assert_busy(look_since(&b, 9000, W, 31, MAX), &third_one, W, 80, 89);
}

/* Of so many that not all of them are looked at. */
static void the_first_one_of_many_is_named(void **state)
{
	static const char fill[] =
		"for i = 1, 11000 do"
		" local s = string.format('%019d', i)"
		" redis.call('ZADD', KEYS[1], 0, 'O' .. ARGV[1] .. s .. s .. "
		"'R',"
		" 0, 'SR' .. s .. s .. ARGV[1], 0, 'ER' .. s .. s .. ARGV[1])"
		" end return 1";

	(void)state;
	acquire(&a, R, 30000, 30010);
	acquire(&b, R, 10000, 40000);
	acquire(&far, R, 20000, 40000);
	tell(redis.c, "EVAL", fill, "1", PLACES,
	     "ffffffffffffffffffffffffffffffff", NULL);
	assert_busy(look(&a, W, 30005, MAX), &b, R, 10000, 40000);
	assert_busy(look(&b, W, 30005, MAX), &far, R, 20000, 40000);
}

/* Behind many of the asker's own, of an owner whose last one is a reader. */
static void a_writer_behind_our_own_is_found(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(acquire(&a, W, i * 10, i * 10 + 4), 0);
	acquire(&far, W, 405, 405);
	acquire(&far, R, 500, 509);
	assert_busy(acquire(&a, R, 0, 600), &far, W, 405, 405);
	assert_busy(look(&a, R, 0, 600), &far, W, 405, 405);
	assert_busy(look(&a, W, 406, 600), &far, R, 500, 509);
}

/* From far back, of an owner that is not there any more. */
static void a_lost_reader_from_far_back_is_swept(void **state)
{
	char id[DLK_RANDOM_LEN + 1];

	(void)state;
	acquire(&far, R, 0, 100000);
	id_of(&far, id);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(acquire(&a, R, i * 10 + 10, i * 10 + 10), 0);
	assert_busy(acquire(&b, W, 5000, 5000), &far, R, 0, 100000);
	assert_int_equal(tell(redis.c, "HDEL", "k", id, NULL)->integer, 1);
	assert_int_equal(acquire(&b, W, 5000, 5000), 0);
	assert_there(&far, "R0-4999 R5001-100000");
}

/* --- other programs' ------------------------------------------------------ */

static void a_foreign_string_is_busy(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SET", "k", "foreign", NULL));
	assert_int_equal(acquire_as(&a, W, 5, 5, true), DLK_BUSY);
	assert_string_equal(got.holder, "foreign");
	assert_int_equal(got.left_ms, -1);
	assert_true(got.range.start == 0 && got.range.end == MAX);
	assert_int_equal(acquire_as(&a, W, 0, MAX, true), DLK_BUSY);
	assert_int_equal(look(&a, R, 5, 5), DLK_BUSY);
	assert_int_equal(renew(&a), DLK_LOST);
	assert_int_equal(say_window(&a, 9, 0, MAX), 0);
	assert_string_equal(value_at(redis.c, "k"), "foreign");
}

static void a_huge_value_is_not_carried(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SETRANGE", "k", "1048575", "x", NULL));
	assert_int_equal(acquire(&a, W, 5, 5), DLK_BUSY);
	assert_string_equal(got.holder, "");
	assert_int_equal(acquire(&a, W, 0, MAX), DLK_BUSY);
	assert_int_equal(look(&a, R, 5, 5), DLK_BUSY);
	assert_int_equal(renew(&a), DLK_LOST);
	assert_int_equal(say_window(&a, 9, 0, MAX), 0);
	assert_int_equal(tell(redis.c, "STRLEN", "k", NULL)->integer, 1048576);
}

static void assert_odd(const char *type)
{
	a.seq = 0;
	assert_int_equal(acquire(&a, W, 0, MAX), DLK_WRONG_TYPE);
	assert_string_equal(got.holder, type);
	assert_int_equal(acquire_as(&a, R, 5, 5, true), DLK_WRONG_TYPE);
	assert_int_equal(look(&a, R, 5, 5), DLK_WRONG_TYPE);
	assert_string_equal(got.holder, type);
	assert_int_equal(renew(&a), DLK_LOST);
	assert_int_equal(say_window(&a, 9, 0, MAX), 0);
	assert_string_equal(type_at("k"), type);
	assert_int_equal(ttl_at(redis.c, "k"), -1);
	assert_int_equal(tell(redis.c, "EXISTS", PLACES, NULL)->integer, 0);
}

static void a_key_of_another_type_is_odd(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "RPUSH", "k", "x", NULL));
	assert_odd("list");
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	tell_ok(tell(redis.c, "HSET", "k", a.token, "1", "x", "y", NULL));
	assert_odd("hash");
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 2);
}

/* Somebody has written into our hash: never a grant over a live owner. */
static void a_damaged_index_grants_nothing(void **state)
{
	char member[128];

	(void)state;
	acquire(&a, R, 0, 9);
	snprintf(member, sizeof(member), "ER%019d%019d%.32s", 9, 0,
		 a.token + 7);
	assert_int_equal(tell(redis.c, "ZREM", PLACES, member, NULL)->integer,
			 1);
	assert_int_equal(acquire(&far, W, 20, 29), DLK_BUSY);
	assert_int_equal(got.left_ms, -1);
	assert_int_equal(look(&far, W, 20, 29), DLK_BUSY);
	assert_int_equal(got.left_ms, -1);
}

/* What cannot be cut out is in the way; nor is it tried for ever. */
static void a_damaged_index_ends_every_call(void **state)
{
	char member[128];

	(void)state;
	acquire(&a, W, 0, 9);
	acquire(&a, W, 40, 49);
	snprintf(member, sizeof(member), "O%.32s%019d%019dW", a.token + 7, 0,
		 9);
	assert_int_equal(tell(redis.c, "ZREM", PLACES, member, NULL)->integer,
			 1);
	assert_int_equal(acquire_as(&b, W, 0, 9, true), DLK_BUSY);
	assert_int_equal(got.left_ms, -1);
	assert_there(&a, "W40-49");
}

static void a_string_without_a_ttl_is_still_ours(void **state)
{
	(void)state;
	acquire(&a, W, 0, MAX);
	tell_ok(tell(redis.c, "PERSIST", "k", NULL));
	assert_int_equal(acquire_as(&b, W, 0, 9, true), DLK_BUSY);
	assert_int_equal(got.left_ms, -1);
	assert_int_equal(give(&a, U, 10, MAX), 0);
	assert_there(&a, "W0-9");
	assert_int_equal(renew(&a), 0);
	assert_true(ttl_at(redis.c, "k") > 0);
}

/* --- renewal, restart ----------------------------------------------------- */

static void renew_carries_one_on(void **state)
{
	(void)state;
	acquire(&a, W, 0, 9);
	tell_ok(tell(redis.c, "PEXPIRE", "k", "2000", NULL));
	tell_ok(tell(redis.c, "PEXPIRE", PLACES, "2000", NULL));
	assert_int_equal(renew(&a), 0);
	assert_true(left_of(&a) > TTL - 5000);
	assert_true(ttl_at(redis.c, "k") > TTL - 5000);
	assert_true(ttl_at(redis.c, PLACES) > TTL - 5000);
	assert_there(&a, "W0-9");
	assert_int_equal(renew(&far), DLK_GONE);
}

static void renew_never_creates(void **state)
{
	(void)state;
	assert_int_equal(renew(&a), DLK_GONE);
	assert_true(nothing_left());
}

static void renew_tells_a_successor(void **state)
{
	(void)state;
	acquire(&b, W, 0, MAX);
	assert_int_equal(renew(&a), DLK_REPLACED);
	assert_int_equal(renew(&far), DLK_LOST);
	assert_string_equal(value_at(redis.c, "k"), b.token);
}

static void a_young_server_grants_and_tells_nothing(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), DLK_GRACE);
	assert_true(got.left_ms > HOUR_MS - 60000);
	assert_int_equal(look(&a, W, 0, 9), DLK_GRACE);
	assert_int_equal(say_window(&a, 9, 0, MAX), 0);
	assert_int_equal(renew(&a), DLK_GONE);
	assert_int_equal(acquire(&a, W, 0, 9), DLK_GRACE);
	assert_int_equal(look(&a, W, 0, 9), DLK_GRACE);
	assert_true(nothing_left());
}

static void a_young_server_takes_all_back(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "ZADD", PLACES, "0", "litter", NULL));
	a.seq = 7;
	far.seq = 9;
	for (uint64_t i = 0; i < 20; i++)
		dlk_ranges_set(&a.held,
			       (struct dlk_range){ i * 10, i * 10 + 4, W });
	dlk_ranges_set(&far.held, (struct dlk_range){ 5, 9, W });
	dlk_ranges_set(&far.held, (struct dlk_range){ 15, 15, R });
	assert_int_equal(reclaim(&a), 0);
	assert_int_equal(tell(redis.c, "ZCARD", PLACES, NULL)->integer, 60);
	assert_int_equal(reclaim(&far), 0);
	assert_int_equal(reclaim(&a), 0);
	assert_there(&far, "W5-9 R15-15");
	assert_true(left_of(&a) > TTL - 5000);
	assert_true(ttl_at(redis.c, PLACES) > TTL - 5000);
	assert_int_equal(renew(&a), 0);
	assert_int_equal(give(&far, U, 0, MAX), 0);
	assert_int_equal(give(&a, U, 0, MAX), 0);
	assert_true(nothing_left());
}

static void put_whole(const struct holder *h, const char *px, const char *ms)
{
	tell_ok(tell(redis.c, "SET", "k", h->token, px, ms, NULL));
}

static void a_whole_lease_is_reclaimed_as_it_was(void **state)
{
	(void)state;
	a.seq = 1;
	dlk_ranges_set(&a.held, (struct dlk_range){ 0, MAX, W });
	assert_int_equal(reclaim(&a), 0);
	assert_string_equal(value_at(redis.c, "k"), a.token);
	assert_int_equal(reclaim(&a), 0);
	assert_int_equal(tell(redis.c, "DEL", "k", NULL)->integer, 1);
	a.seq = 2;
	assert_int_equal(reclaim(&a), 0);
	assert_string_equal(type_at("k"), "hash");
	dlk_ranges_set(&far.held, (struct dlk_range){ 5, 5, R });
	assert_int_equal(reclaim(&far), DLK_LOST);
}

/* The keeper may know less than the process that has put it back already. */
static void an_older_reclaim_changes_nothing(void **state)
{
	(void)state;
	a.seq = 7;
	dlk_ranges_set(&a.held, (struct dlk_range){ 0, 9, W });
	assert_int_equal(reclaim(&a), 0);
	a.seq = 5;
	dlk_ranges_set(&a.held, (struct dlk_range){ 20, 29, W });
	assert_int_equal(reclaim(&a), 0);
	assert_there(&a, "W0-9");
}

static void reclaim_takes_nothing_from_others(void **state)
{
	(void)state;
	far.seq = 3;
	dlk_ranges_set(&far.held, (struct dlk_range){ 5, 9, R });
	assert_int_equal(reclaim(&far), 0);
	a.seq = 3;
	dlk_ranges_set(&a.held, (struct dlk_range){ 9, 9, W });
	assert_int_equal(reclaim(&a), DLK_LOST);
	assert_there(&a, "");
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	tell_ok(tell(redis.c, "HSET", "k", "x", "1", NULL));
	assert_int_equal(reclaim(&a), DLK_LOST);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 1);
}

/* The memory has the first request, of the whole file; he has given some back. */
static void reclaim_shrinks_a_whole_lease(void **state)
{
	(void)state;
	put_whole(&a, "PX", "9000");
	a.seq = 5;
	dlk_ranges_set(&a.held, (struct dlk_range){ 0, 99, W });
	assert_int_equal(reclaim(&a), 0);
	assert_string_equal(type_at("k"), "hash");
	assert_there(&a, "W0-99");
	dlk_ranges_set(&far.held, (struct dlk_range){ 100, 109, W });
	far.seq = 2;
	assert_int_equal(reclaim(&far), 0);
}

/* What somebody keeps for ever is not outdated, and what is no lease is none. */
static void reclaim_changes_no_string_of_others(void **state)
{
	(void)state;
	note_memory(TTL * 3 / 4 + 100, "restarted");
	a.seq = 2;
	dlk_ranges_set(&a.held, (struct dlk_range){ 5, 9, W });
	put_whole(&far, NULL, NULL);
	assert_int_equal(reclaim(&a), DLK_LOST);
	assert_string_equal(value_at(redis.c, "k"), far.token);
	for (const char *const *odd =
		     (const char *const[]){ "dlock1 ", "dlock1 x", NULL };
	     *odd; odd++) {
		tell_ok(tell(redis.c, "SET", "k", *odd, "PX", "3000", NULL));
		assert_int_equal(reclaim(&a), DLK_LOST);
		assert_string_equal(value_at(redis.c, "k"), *odd);
	}
}

/* Of a memory of a while ago: but where it was renewed since that began. */
static void reclaim_takes_what_is_not_renewed_any_more(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		tell_ok(tell(redis.c, "FLUSHALL", NULL));
		far.seq = whole ? 1 : 3;
		far.held.n = a.held.n = 0;
		dlk_ranges_set(&far.held,
			       (struct dlk_range){ 0, whole ? MAX : 19, W });
		assert_int_equal(reclaim(&far), 0);
		assert_string_equal(type_at("k"), whole ? "string" : "hash");
		a.seq = 3;
		dlk_ranges_set(&a.held, (struct dlk_range){ 5, 9, W });
		note_memory(TTL * 3 / 4 + 100, "restarted");
		assert_int_equal(reclaim(&a), DLK_LOST);
		assert_there(&a, "");
		if (whole)
			tell(redis.c, "PEXPIRE", "k", "5000", NULL);
		else
			expire_in(&far, 5000);
		assert_int_equal(reclaim(&a), 0);
		assert_there(&a, "W5-9");
		assert_there(&far, whole ? "W0-4 W10-9223372036854775807"
					 : "W0-4 W10-19");
	}
}

/*
 * After execve(2) one process has two leases: the keeper tells of all that the
 * kernel shows, the program of what it was granted.
 */
static void reclaim_leaves_each_its_own(void **state)
{
	(void)state;
	for (int keeper_first = 0; keeper_first < 2; keeper_first++) {
		a.seq = b.seq = 2;
		dlk_ranges_set(&a.held, (struct dlk_range){ 0, 29, W });
		dlk_ranges_set(&b.held, (struct dlk_range){ 10, 19, W });
		if (keeper_first)
			assert_int_equal(reclaim(&a), 0);
		assert_int_equal(reclaim(&b), 0);
		assert_int_equal(reclaim(&a), 0);
		assert_there(&a, "W0-9 W20-29");
		assert_there(&b, "W10-19");
		tell_ok(tell(redis.c, "FLUSHALL", NULL));
	}
	assert_int_equal(reclaim(&b), 0);
	a.held.n = 0;
	dlk_ranges_set(&a.held, (struct dlk_range){ 12, 15, W });
	assert_int_equal(reclaim(&a), DLK_LOST);
	assert_there(&a, "");
	assert_there(&b, "W10-19");
}

/* The memory has what a queue had granted: it is of no lock, unless elsewhere. */
static void reclaim_passes_over_no_claim_of_its_host(void **state)
{
	struct holder claim;

	(void)state;
	a.seq = 3;
	dlk_ranges_set(&a.held, (struct dlk_range){ 0, 9, W });
	dlk_ranges_set(&a.held, (struct dlk_range){ 20, 29, W });
	put_claim(&claim, 'd', HOST, (struct dlk_range){ 5, 5, W });
	assert_int_equal(reclaim(&a), 0);
	assert_there(&a, "W0-9 W20-29");
	assert_there(&claim, "");
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	put_claim(&claim, 'd', HOST, (struct dlk_range){ 8, 22, W });
	assert_int_equal(reclaim(&a), 0);
	assert_there(&a, "W0-9 W20-29");
	assert_there(&claim, "W10-19");
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	put_claim(&claim, 'd', "elsewhere", (struct dlk_range){ 5, 5, W });
	assert_int_equal(reclaim(&a), DLK_LOST);
	assert_there(&a, "");
	assert_there(&claim, "W5-5");
}

static void an_old_server_reclaims_nothing(void **state)
{
	(void)state;
	a.seq = 3;
	dlk_ranges_set(&a.held, (struct dlk_range){ 9, 9, W });
	assert_int_equal(reclaim(&a), DLK_GONE);
	assert_true(nothing_left());
}

/* --- long lists ----------------------------------------------------------- */

enum { MANY = 2500 };

static struct dlk_range many_room[MANY];

static void many(struct dlk_ranges *set, uint64_t step)
{
	*set = (struct dlk_ranges){ .v = many_room, .room = MANY };
	for (uint64_t i = 0; i < MANY; i += step)
		assert_int_equal(dlk_ranges_set(set,
						(struct dlk_range){ i * 10,
								    i * 10 + 4,
								    W }),
				 0);
}

static unsigned set_all(struct holder *h, const struct dlk_ranges *set)
{
	struct dlk_lease lease = lease_of(h);
	struct dlk_range window = { 0, MAX, U };
	const redisReply *r;
	unsigned n = 0;

	dlk_conn_reset(c);
	while (window.start <= window.end) {
		assert_int_equal(dlk_records_set(c, &lease, ++h->seq, &window,
						 set, false),
				 0);
		n++;
	}
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
		assert_int_equal(dlk_lease_released(r, &got.seq), 0);
	}
	return n;
}

static void a_long_list_goes_in_pages(void **state)
{
	static struct dlk_range room[MANY];
	struct dlk_ranges set, there = { .v = room, .room = MANY };

	(void)state;
	teach(DLK_LUA_records_set, HOUR_MS);
	many(&set, 1);
	a.seq = 7;
	assert_int_equal(reclaim_all(&a, a.seq, 9, &set), 0);
	read_ranges(&a, &there);
	assert_int_equal(there.n, MANY);
	assert_int_equal(set_all(&a, &set), 6);
	many(&set, 2);
	assert_int_equal(set_all(&a, &set), 3);
	read_ranges(&a, &there);
	assert_int_equal(there.n, MANY / 2);
	for (size_t i = 0; i < set.n; i++)
		assert_true(there.v[i].start == set.v[i].start &&
			    there.v[i].end == set.v[i].end &&
			    there.v[i].type == set.v[i].type);
	dlk_ranges_set(&set, (struct dlk_range){ 0, MAX, U });
	assert_int_equal(set_all(&a, &set), 1);
	assert_true(nothing_left());
}

/* More than one call may take the server's time for; far is another owner. */
static void a_large_release_takes_several_calls(void **state)
{
	struct dlk_ranges set;
	int calls = 1;

	(void)state;
	many(&set, 1);
	dlk_ranges_set(&far.held, (struct dlk_range){ 7, 7, R });
	far.seq = 1;
	assert_int_equal(reclaim(&far), 0);
	assert_int_equal(reclaim_all(&a, 7, 9, &set), 0);
	while (say_window(&a, 7 + (uint64_t)calls, 0, MAX) == DLK_OLD_SEQ) {
		assert_int_equal(got.seq, 7 + calls);
		assert_true(calls++ < 9);
	}
	assert_int_equal(calls, 3);
	assert_there(&a, "");
	assert_there(&far, "R7-7");
}

/* More of the dead than one call may carry away. */
static void a_thousand_dead_ranges_go_a_call(void **state)
{
	struct dlk_ranges set;
	int calls = 0, said;

	(void)state;
	many(&set, 1);
	assert_int_equal(reclaim_all(&a, 7, 9, &set), 0);
	dlk_conn_delete(c);
	c = dlk_conn_new(&redis.ep);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	expire(&a);
	while ((said = acquire(&far, W, 0, MAX)) == DLK_BUSY && calls++ < 9)
		assert_int_equal(got.left_ms, 0);
	assert_int_equal(said, 0);
	assert_int_equal(calls, 2);
	assert_there(&a, "");
}

/* --- the server ----------------------------------------------------------- */

static void the_names_are_the_servers(void **state)
{
	static const char *const both[][2] = {
		{ DLK_LUA_records_acquire, DLK_SHA_records_acquire },
		{ DLK_LUA_records_set, DLK_SHA_records_set },
		{ DLK_LUA_records_drop, DLK_SHA_records_drop },
		{ DLK_LUA_records_queue, DLK_SHA_records_queue },
		{ DLK_LUA_records_renew, DLK_SHA_records_renew },
		{ DLK_LUA_records_reclaim, DLK_SHA_records_reclaim },
		{ DLK_LUA_records_get, DLK_SHA_records_get },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(both) / sizeof(*both); i++)
		assert_string_equal(
			tell(redis.c, "SCRIPT", "LOAD", both[i][0], NULL)->str,
			both[i][1]);
}

static void a_full_server_still_serves(void **state)
{
	const redisReply *r;

	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "1", NULL));
	r = tell(redis.c, "SET", "x", "y", NULL);
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_int_equal(acquire(&far, W, 20, 29), 0);
	assert_int_equal(renew(&a), 0);
	assert_int_equal(give(&a, U, 0, MAX), 0);
	assert_int_equal(give(&far, U, 0, MAX), 0);
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "0", NULL));
	assert_true(nothing_left());
}

/* Nor does the next connection, for another server may be there by then. */
static void is_opened_anew(void)
{
	dlk_conn_close(c);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
}

static void a_replica_refuses_to_answer(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	tell_ok(tell(redis.c, "REPLICAOF", "127.0.0.1", "1", NULL));
	assert_int_equal(renew(&a), -EAGAIN);
	is_opened_anew();
	assert_int_equal(look(&far, W, 0, 9), -EAGAIN);
	is_opened_anew();
	assert_int_equal(acquire(&far, W, 20, 29), -EAGAIN);
	is_opened_anew();
	assert_int_equal(say_window(&a, 9, 0, MAX), -EAGAIN);
	is_opened_anew();
	tell_ok(tell(redis.c, "REPLICAOF", "NO", "ONE", NULL));
}

static void the_places_are_named_after_the_lease(void **state)
{
	char places[16];

	(void)state;
	assert_int_equal(dlk_records_ranges_key("k%rec", 5, places, 16), 9);
	assert_string_equal(places, "{k%rec}%r");
	assert_int_equal(dlk_records_ranges_key("k%rec", 5, places, 9),
			 -ENAMETOOLONG);
	assert_int_equal(dlk_records_ranges_key("k%rec", 5, places, 10), 9);
}

/* --- what is there -------------------------------------------------------- */

#define N20 "00000000000000000001"
#define N15 "000000000000001"

static bool reads_owner(const char *head)
{
	struct dlk_records_owner o;

	return dlk_records_read_owner(head, strlen(head), &o);
}

static void an_owner_is_read_with_care(void **state)
{
	char long_one[2 * DLK_TOKEN_MAX];

	(void)state;
	assert_true(reads_owner(N20 " " N15 " " N20 " x"));
	assert_false(reads_owner(""));
	assert_false(reads_owner("1"));
	assert_false(reads_owner(N20 " " N15 " " N20 " "));
	assert_false(reads_owner(N20 "-" N15 " " N20 " x"));
	assert_false(reads_owner(N20 " " N15 "-" N20 " x"));
	assert_false(reads_owner(N20 " " N15 " " N20 "-x"));
	assert_false(reads_owner("x" N20 N15 " " N20 " x"));
	assert_false(reads_owner(N20 " x0000000000000x " N20 " x"));
	snprintf(long_one, sizeof(long_one), "%s %s %s %0*d", N20, N15, N20,
		 DLK_TOKEN_MAX, 0);
	assert_false(reads_owner(long_one));
}

#define ID "0123456789abcdef0123456789abcdef"
#define D  "0000000000000000000"
#define D9 "0000000000000000009"

static bool reads_place(const char *member)
{
	struct dlk_range r;

	return dlk_records_read_place(member, strlen(member), &r);
}

static void a_place_is_read_with_care(void **state)
{
	(void)state;
	assert_true(reads_place("O" ID D D9 "W"));
	assert_true(reads_place("O" ID D9 "9223372036854775807R"));
	assert_false(reads_place(""));
	assert_false(reads_place("O"));
	assert_false(reads_place("S" ID D D9 "W"));
	assert_false(reads_place("O" ID D D9 "X"));
	assert_false(reads_place("O" ID D D9 "WW"));
	assert_false(reads_place("O" ID D9 D "W"));
	assert_false(reads_place("O" ID D9 "9223372036854775808R"));
	assert_false(reads_place("O" ID D "000000000000000000xR"));
}

/* --- what the owner has, by the server ------------------------------------ */

static int list(const struct holder *h, struct dlk_ranges *set, uint64_t *seq)
{
	struct dlk_lease lease = lease_of(h);

	dlk_conn_reset(c);
	set->n = 0;
	return dlk_records_list(c, in_ms(5000), &lease, set, seq);
}

static int reduce(const struct holder *h, uint64_t seq,
		  const struct dlk_ranges *set)
{
	struct dlk_lease lease = lease_of(h);

	dlk_conn_reset(c);
	return dlk_records_reduce(c, in_ms(5000), &lease, seq, set);
}

static void the_server_tells_what_an_owner_has(void **state)
{
	struct dlk_range room[64];
	struct dlk_ranges set = { .v = room, .room = 64 };
	uint64_t seq;

	(void)state;
	assert_int_equal(list(&a, &set, &seq), DLK_GONE);
	acquire(&a, W, 0, 9);
	acquire(&b, R, 20, 29);
	acquire(&a, R, 15, MAX);
	assert_int_equal(list(&a, &set, &seq), 0);
	assert_text(&set, "W0-9 R15-9223372036854775807");
	assert_true(seq == a.seq);
	assert_int_equal(list(&far, &set, &seq), DLK_GONE);
}

static void the_server_tells_who_has_the_string(void **state)
{
	struct dlk_range room[64];
	struct dlk_ranges set = { .v = room, .room = 64 };
	uint64_t seq;

	(void)state;
	acquire(&a, W, 0, MAX);
	assert_int_equal(list(&a, &set, &seq), 0);
	assert_text(&set, "W0-9223372036854775807");
	assert_int_equal(list(&b, &set, &seq), DLK_GONE);
	set.n = 0;
	assert_int_equal(reduce(&a, seq, &set), 0);
	assert_true(nothing_left());
}

static void a_long_list_is_told_in_pages(void **state)
{
	enum { N = DLK_RECORDS_PAGE + 3 };
	static struct dlk_range room[N + 2];
	struct dlk_ranges set = { .v = room, .room = N + 2 };
	struct holder *h = &a;
	uint64_t seq;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		struct dlk_records_ask q = question(h, W, 2 * i, 2 * i);

		q.known = i > 0;
		assert_int_equal(ask(h, &q), 0);
	}
	assert_int_equal(list(h, &set, &seq), 0);
	assert_int_equal(set.n, N);
	assert_true(set.v[N - 1].start == 2 * (N - 1));
	set.n -= 2;
	assert_int_equal(reduce(h, seq, &set), 0);
	assert_int_equal(list(h, &set, &seq), 0);
	assert_int_equal(set.n, N - 2);
}

static void what_was_asked_for_since_is_not_reduced(void **state)
{
	struct dlk_range room[64];
	struct dlk_ranges set = { .v = room, .room = 64 };
	uint64_t seq;

	(void)state;
	acquire(&a, W, 0, 9);
	assert_int_equal(list(&a, &set, &seq), 0);
	acquire(&a, W, 20, 29);
	set.n = 0;
	assert_int_equal(reduce(&a, seq, &set), DLK_OLD_SEQ);
	assert_there(&a, "W0-9 W20-29");
	assert_int_equal(list(&a, &set, &seq), 0);
	dlk_ranges_set(&set, (struct dlk_range){ 5, 25, U });
	dlk_ranges_set(&set, (struct dlk_range){ 50, 59, W });
	assert_int_equal(reduce(&a, seq, &set), 0);
	assert_there(&a, "W0-4 W26-29");
	set.n = 0;
	assert_int_equal(reduce(&a, seq, &set), 0);
	assert_true(nothing_left());
	assert_int_equal(reduce(&a, seq, &set), 0);
}

/* --- answers that are none ------------------------------------------------ */

static void serve_text(int fd, void *arg)
{
	while (hear(fd))
		if (!say(fd, arg, strlen(arg)))
			return;
}

/* What an acquire makes of it.  (The first answers are those of CLIENT SETNAME
 * and INFO.) */
static int acquire_from(const char *text)
{
	struct fake f = { 0 };
	struct dlk_conn *was = c;
	char all[1024];
	int said;

	snprintf(all, sizeof(all), "+OK\r\n+OK\r\n%s", text);
	fake_start(&f, serve_text, all);
	c = dlk_conn_new(&f.ep);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	said = acquire(&a, W, 0, 9);
	dlk_conn_delete(c);
	c = was;
	fake_stop(&f);
	a.held.n = 0;
	return said;
}

#define BUSY_WITH(range, n)                                                    \
	"*4\r\n:0\r\n:5\r\n$1\r\nx\r\n$" n "\r\n" range "\r\n"

static void odd_answers_are_no_answers(void **state)
{
	static const char *const odd[] = {
		":1\r\n",
		"$-1\r\n",
		"*0\r\n",
		"*3\r\n:1\r\n:0\r\n$0\r\n\r\n",
		"*4\r\n:1\r\n:0\r\n:0\r\n$0\r\n\r\n",
		"*4\r\n:1\r\n:0\r\n$0\r\n\r\n*0\r\n",
		"*4\r\n:9\r\n:0\r\n$0\r\n\r\n$0\r\n\r\n",
		"*4\r\n$1\r\n1\r\n:0\r\n$0\r\n\r\n$0\r\n\r\n",
		"*4\r\n:3\r\n:0\r\n$0\r\n\r\n$0\r\n\r\n",
		"*4\r\n:3\r\n:0\r\n$1\r\nx\r\n$0\r\n\r\n",
		BUSY_WITH("", "0"),
		BUSY_WITH("X" D D, "39"),
		BUSY_WITH("W" D, "20"),
		BUSY_WITH("W" D D "0", "40"),
		BUSY_WITH("W000000000000000000x" D, "39"),
		BUSY_WITH("W0000000000000000001" D, "39"),
		BUSY_WITH("W" D "9223372036854775808", "39"),
		"-ERR odd\r\n",
	};

	(void)state;
	assert_int_equal(acquire_from(BUSY_WITH("W" D D, "39")), DLK_BUSY);
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		assert_int_equal(acquire_from(odd[i]), -EREMOTEIO);
	assert_int_equal(acquire_from("-LOADING x\r\n"), -EAGAIN);
	assert_int_equal(acquire_from("HTTP/1.1 400\r\n"), -EPROTO);
}

#define old_test(f)   cmocka_unit_test_setup_teardown(f, stage, disconnect)
#define young_test(f) cmocka_unit_test_setup_teardown(f, young, disconnect)

static int young(void **state)
{
	return stage(state) || disconnect(state) || connect_young(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		old_test(a_write_lock_on_the_whole_file_is_a_string),
		old_test(a_string_gives_a_part),
		old_test(a_string_becomes_readers),
		old_test(a_hash_keeps_foreign_lockers_out),
		old_test(a_string_is_granted_twice),
		old_test(only_the_first_request_makes_a_string),
		old_test(a_set_of_all_of_it_keeps_the_string),
		old_test(readers_share_and_a_writer_waits),
		old_test(a_refused_upgrade_changes_nothing),
		old_test(a_downgrade_lets_readers_in),
		old_test(each_owner_has_a_ttl_of_its_own),
		old_test(a_longer_ttl_is_not_shortened),
		old_test(the_last_range_takes_the_keys_along),
		old_test(offsets_are_exact),
		old_test(neighbours_merge_across_a_carry),
		old_test(what_is_older_is_stale),
		old_test(the_same_number_does_the_same),
		old_test(a_refusal_counts_as_a_request),
		old_test(a_set_gives_nothing_that_was_not_there),
		old_test(a_set_of_a_window_leaves_the_rest),
		old_test(what_is_lost_is_not_begun_anew),
		old_test(ranges_without_their_owner_hold_nothing),
		old_test(the_expired_are_in_nobodys_way),
		old_test(the_expired_are_not_carried_on),
		old_test(the_expired_are_swept),
		old_test(proof_cuts_what_it_proves),
		old_test(proof_unfolds_a_string),
		old_test(who_has_nothing_left_is_not_forgotten),
		old_test(who_shares_the_description_is_taken_over_alive),
		old_test(who_shares_the_description_is_not_cut_for_nothing),
		old_test(proof_of_a_reader_demotes),
		old_test(proof_of_a_reader_removes_no_reader),
		old_test(proof_leaves_what_is_newer),
		old_test(proof_leaves_the_owner_that_locked_since),
		old_test(adoption_ends_what_the_process_had),
		old_test(nobody_adopts_what_is_younger),
		old_test(adoption_unfolds_a_string),
		old_test(adoption_leaves_what_is_newer),
		old_test(proof_leaves_other_hosts_and_files),
		old_test(nobody_is_in_the_way_of_its_own),
		old_test(who_holds_nothing_may_ask),
		old_test(whom_the_kernel_did_not_name_is_not_named),
		old_test(a_string_that_the_kernel_did_not_name_is_nobody),
		old_test(a_reader_from_far_back_is_found),
		old_test(the_first_one_is_named),
		old_test(the_first_one_of_many_is_named),
		old_test(a_writer_behind_our_own_is_found),
		old_test(a_lost_reader_from_far_back_is_swept),
		old_test(a_foreign_string_is_busy),
		old_test(a_huge_value_is_not_carried),
		old_test(a_key_of_another_type_is_odd),
		old_test(a_damaged_index_grants_nothing),
		old_test(a_damaged_index_ends_every_call),
		old_test(a_string_without_a_ttl_is_still_ours),
		old_test(renew_carries_one_on),
		old_test(renew_never_creates),
		old_test(renew_tells_a_successor),
		young_test(a_young_server_grants_and_tells_nothing),
		young_test(a_young_server_takes_all_back),
		young_test(a_whole_lease_is_reclaimed_as_it_was),
		young_test(an_older_reclaim_changes_nothing),
		young_test(reclaim_takes_nothing_from_others),
		young_test(reclaim_takes_what_is_not_renewed_any_more),
		young_test(reclaim_shrinks_a_whole_lease),
		young_test(reclaim_changes_no_string_of_others),
		young_test(reclaim_leaves_each_its_own),
		young_test(reclaim_passes_over_no_claim_of_its_host),
		old_test(an_old_server_reclaims_nothing),
		young_test(a_long_list_goes_in_pages),
		young_test(a_large_release_takes_several_calls),
		young_test(a_thousand_dead_ranges_go_a_call),
		old_test(the_names_are_the_servers),
		old_test(a_full_server_still_serves),
		old_test(a_replica_refuses_to_answer),
		old_test(the_places_are_named_after_the_lease),
		old_test(the_server_tells_what_an_owner_has),
		old_test(the_server_tells_who_has_the_string),
		old_test(a_long_list_is_told_in_pages),
		old_test(what_was_asked_for_since_is_not_reduced),
		cmocka_unit_test(an_owner_is_read_with_care),
		cmocka_unit_test(a_place_is_read_with_care),
		old_test(odd_answers_are_no_answers),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
