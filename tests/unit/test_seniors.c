/* SPDX-License-Identifier: MIT */
/*
 * Who goes first where nobody queues (scripts/senior.inc, DESIGN 5.7): a senior
 * who is refused leaves a mark, and while that is there a junior is not granted
 * what the senior wants and could have.  It delays, and does nothing else: who
 * has a lock keeps it, what a proof of death has removed is the prover's, and it
 * ends by itself.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sched.h>
#include <cmocka.h>

#include "model/timeline.h"
#include "os/sys.h"
#include "tests/unit/records.h"

static struct holder a, b, far;
static char claim[DLK_TOKEN_MAX]; /* that of a senior, who is `third` */

static int stage(void **state)
{
	reset(&a, 'a', HOST, 2000);
	reset(&b, 'b', "somewhere", 3000);
	reset(&far, 'f', "elsewhere", 1000);
	token_of(claim, 'e', "somewhere", FILE_, UINT64_MAX);
	return connect_at_once(state);
}

static bool is_marked(void)
{
	return tell(redis.c, "EXISTS", "{k}%s", NULL)->integer == 1;
}

static char mark[DLK_TOKEN_MAX + 48];

static void renew_mark(void)
{
	tell_ok(tell(redis.c, "SET", "{k}%s", mark, "PX", "100", NULL));
}

/* His. */
static void put_mark(const char *what)
{
	snprintf(mark, sizeof(mark), "%s %s", what, claim);
	renew_mark();
}

/* What a senior was refused, and left; false: it is over by now. */
static bool take_mark(void)
{
	const redisReply *r = tell(redis.c, "GET", "{k}%s", NULL);

	if (r->type == REDIS_REPLY_STRING)
		snprintf(mark, sizeof(mark), "%s", r->str);
	return r->type == REDIS_REPLY_STRING;
}

/* --- of whole files ------------------------------------------------------- */

static struct dlk_lease whole_file(const char *token)
{
	return (struct dlk_lease){ .key = "k",
				   .key_len = 1,
				   .token = token,
				   .token_len = strlen(token),
				   .ttl_ms = TTL };
}

static int whole_by(const char *token, bool shared, enum dlk_rank rank,
		    bool proof)
{
	struct dlk_lease lease = whole_file(token);

	lease.shared = shared;
	lease.rank = rank;
	dlk_conn_reset(c);
	return dlk_lease_acquire(c, in_ms(5000), &lease, proof, NULL, NULL,
				 &answer);
}

static int whole(const char *token, bool shared, enum dlk_rank rank)
{
	return whole_by(token, shared, rank, false);
}

static int release(const char *token)
{
	const struct dlk_lease lease = whole_file(token);

	return release_lease(&lease, false);
}

/* `who` holds it, a senior (third) is refused, and leaves a mark. */
static void marked(const char *who, bool shared, bool wants_shared)
{
	assert_int_equal(whole(who, shared, DLK_NO_RANK), 0);
	do {
		assert_int_equal(whole(third, wants_shared, DLK_SENIOR),
				 DLK_BUSY);
		assert_true(answer.holder_len > 0);
	} while (!take_mark());
	assert_int_equal(release(who), 0);
}

/*
 * The answer beside a mark, which lasts for a moment: if it is over by now,
 * perhaps before the question came, once more.
 */
static int beside(const char *token, bool shared, enum dlk_rank rank)
{
	for (;;) {
		int err;

		renew_mark();
		err = whole(token, shared, rank);
		if (is_marked())
			return err;
		if (!err)
			release(token);
	}
}

static void a_junior_gives_way(void **state)
{
	(void)state;
	marked(ours, false, false);
	assert_int_equal(beside(other, false, DLK_JUNIOR), DLK_BUSY);
	/* He is told of as who is to have it first: by a claim. */
	assert_string_equal(answer.holder, claim);
	assert_in_range(answer.left_ms, 0, 100);
	assert_int_equal(beside(other, true, DLK_JUNIOR), DLK_BUSY);
	assert_int_equal(whole(third, false, DLK_SENIOR), 0);
}

static void others_do_not(void **state)
{
	(void)state;
	marked(ours, false, false);
	assert_int_equal(beside(other, false, DLK_NO_RANK), 0);
	assert_int_equal(release(other), 0);
	renew_mark();
	assert_int_equal(whole(ours, false, DLK_SENIOR), 0);
}

static void a_senior_takes_the_mark_with_him(void **state)
{
	(void)state;
	marked(ours, false, false);
	renew_mark();
	assert_int_equal(whole(third, false, DLK_SENIOR), 0);
	assert_false(is_marked());
	assert_int_equal(release(third), 0);
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
}

/* (An answer that was lost is asked for again.) */
static void what_one_has_is_no_matter(void **state)
{
	(void)state;
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
	put_mark("EX");
	assert_int_equal(beside(other, false, DLK_JUNIOR), 0);
}

/*
 * By a proof a lease of this host and file is removed, which may be that of who
 * shares the description, and lives: who has removed it is granted it.
 */
static void what_a_proof_removes_is_the_provers(void **state)
{
	char old[DLK_TOKEN_MAX];

	(void)state;
	token_of(old, 'd', HOST, FILE_, 1000);
	put_mark("EX");
	do {
		assert_int_equal(whole(old, false, DLK_NO_RANK), 0);
		renew_mark();
		assert_int_equal(whole_by(ours, false, DLK_JUNIOR, true), 0);
		assert_true(answer.replaced);
	} while (!is_marked() && release(ours) == 0);
	assert_string_equal(value_at(redis.c, "k"), ours);
}

/* (As with one server, where nothing is `fair`.) */
static void readers_join_readers(void **state)
{
	(void)state;
	assert_int_equal(whole(ours, true, DLK_JUNIOR), 0);
	put_mark("EX");
	assert_int_equal(beside(other, true, DLK_JUNIOR), 0);
	assert_int_equal(release(ours), 0);
	assert_int_equal(release(other), 0);
	assert_int_equal(beside(ours, true, DLK_JUNIOR), DLK_BUSY);
}

static void readers_do_not_keep_readers_out(void **state)
{
	(void)state;
	marked(ours, false, true);
	assert_int_equal(beside(other, false, DLK_JUNIOR), DLK_BUSY);
	assert_int_equal(beside(other, true, DLK_JUNIOR), 0);
}

/* A reader's is not a writer's to remove, nor the other way round. */
static void a_mark_is_dropped_by_its_like(void **state)
{
	(void)state;
	marked(ours, false, true);
	assert_int_equal(beside(other, false, DLK_SENIOR), 0);
	assert_int_equal(release(other), 0);
	renew_mark();
	assert_int_equal(whole(third, true, DLK_SENIOR), 0);
	assert_false(is_marked());
}

static void a_mark_ends_by_itself(void **state)
{
	long long left;

	(void)state;
	assert_int_equal(whole(ours, false, DLK_NO_RANK), 0);
	assert_int_equal(whole(third, false, DLK_SENIOR), DLK_BUSY);
	left = ttl_at(redis.c, "{k}%s");
	assert_true(left != -1 && left <= 100);
	while (is_marked())
		sched_yield();
	assert_int_equal(release(ours), 0);
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
}

static void it_is_written_once_in_its_life(void **state)
{
	(void)state;
	assert_int_equal(whole(ours, false, DLK_NO_RANK), 0);
	tell_ok(tell(redis.c, "SET", "{k}%s", "SH whose", "PX", "9000", NULL));
	assert_int_equal(whole(third, false, DLK_SENIOR), DLK_BUSY);
	assert_string_equal(value_at(redis.c, "{k}%s"), "SH whose");
}

static void juniors_leave_none(void **state)
{
	(void)state;
	assert_int_equal(whole(ours, false, DLK_NO_RANK), 0);
	assert_int_equal(whole(other, false, DLK_JUNIOR), DLK_BUSY);
	assert_int_equal(whole(other, false, DLK_NO_RANK), DLK_BUSY);
	assert_false(is_marked());
}

/* Nor one that stays for longer than any does, as if the clock was set. */
static void what_is_no_mark_is_none(void **state)
{
	(void)state;
	put_mark("EX");
	tell_ok(tell(redis.c, "SET", "{k}%s", mark, NULL));
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
	assert_int_equal(release(other), 0);
	tell_ok(tell(redis.c, "SET", "{k}%s", mark, "PX", "9000", NULL));
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
	assert_int_equal(release(other), 0);
	tell_ok(tell(redis.c, "SET", "{k}%s", "whatever", "PX", "90", NULL));
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
	assert_int_equal(release(other), 0);
	tell(redis.c, "DEL", "{k}%s", NULL);
	tell(redis.c, "HSET", "{k}%s", "a", "b", NULL);
	assert_int_equal(whole(other, false, DLK_JUNIOR), 0);
	assert_int_equal(whole(third, false, DLK_SENIOR), DLK_BUSY);
}

/* --- of ranges ------------------------------------------------------------ */

static int acquire_by(struct holder *h, enum dlk_rank rank,
		      enum dlk_range_type type, uint64_t start, uint64_t end,
		      bool proof)
{
	struct dlk_lease lease = lease_of(h);
	const struct dlk_records_ask q = { .range = { start, end, type },
					   .seq = ++h->seq,
					   .since_ns = h->since,
					   .known = h->held.n > 0,
					   .proof = proof };
	int err;

	lease.rank = rank;
	dlk_conn_reset(c);
	err = dlk_records_acquire(c, in_ms(5000), &lease, &q, &got);
	if (!err)
		assert_int_equal(dlk_ranges_set(&h->held, q.range), 0);
	return err;
}

static int acquire(struct holder *h, enum dlk_rank rank,
		   enum dlk_range_type type, uint64_t start, uint64_t end)
{
	return acquire_by(h, rank, type, start, end, false);
}

static void range_of_third(char type, uint64_t start, uint64_t end)
{
	char what[DLK_RANGE_LEN + 1];

	snprintf(what, sizeof(what), "%c%019llu%019llu", type,
		 (unsigned long long)start, (unsigned long long)end);
	put_mark(what);
}

static void end(struct holder *h)
{
	const struct dlk_range all = { 0, MAX, U };

	assert_int_equal(dlk_ranges_set(&h->held, all), 0);
	assert_int_equal(say_window(h, ++h->seq, 0, MAX), 0);
}

/* a has [10, 19], a senior (far) who wants [start, end] is refused. */
static void range_is_marked(enum dlk_range_type type, uint64_t start,
			    uint64_t last)
{
	assert_int_equal(acquire(&a, DLK_NO_RANK, W, 10, 19), 0);
	do {
		assert_int_equal(acquire(&far, DLK_SENIOR, type, start, last),
				 DLK_BUSY);
		assert_string_equal(got.holder, a.token);
	} while (!take_mark());
	end(&a);
}

/* As beside(). */
static int range_beside(struct holder *h, enum dlk_rank rank,
			enum dlk_range_type type, uint64_t start, uint64_t last)
{
	const uint64_t seq = h->seq;

	for (;;) {
		int err;

		renew_mark();
		err = acquire(h, rank, type, start, last);
		if (is_marked())
			return err;
		if (!err)
			end(h);
		h->seq = seq;
	}
}

static void a_junior_gives_way_where_they_meet(void **state)
{
	(void)state;
	range_is_marked(W, 0, 19);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, R, 5, 5), DLK_BUSY);
	assert_memory_equal(got.holder, far.token, 39);
	assert_int_equal(got.range.start, 0);
	assert_int_equal(got.range.end, 19);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 0, MAX), DLK_BUSY);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 20, 29), 0);
	/* (Others are there now.) */
	assert_int_equal(range_beside(&a, DLK_JUNIOR, R, 5, 5), DLK_BUSY);
	renew_mark();
	assert_int_equal(acquire(&far, DLK_SENIOR, W, 0, 19), 0);
	assert_false(is_marked());
}

static void so_it_does_for_the_whole_file(void **state)
{
	(void)state;
	range_is_marked(W, 0, MAX);
	b.seq = 0;
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 0, MAX), DLK_BUSY);
	b.seq = 0;
	assert_int_equal(range_beside(&b, DLK_NO_RANK, W, 0, MAX), 0);
}

static void readers_meet_no_reader(void **state)
{
	(void)state;
	range_is_marked(R, 10, 19);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, R, 10, 19), 0);
	assert_int_equal(range_beside(&a, DLK_JUNIOR, W, 18, 30), DLK_BUSY);
}

/* Else it would be nobody's, for as long as that one has the rest. */
static void what_a_senior_cannot_have_yet_is_granted(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, DLK_NO_RANK, W, 30, 39), 0);
	a.held.n = 0;
	range_is_marked(W, 0, 34);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 5, 9), DLK_BUSY);
	reset(&a, 'c', HOST, 2000);
	assert_int_equal(acquire(&a, DLK_NO_RANK, W, 34, 39), 0);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 5, 9), 0);
}

/* What is the senior's own is in no way of his. */
static void nor_is_he_in_his_own_way(void **state)
{
	(void)state;
	assert_int_equal(acquire(&far, DLK_NO_RANK, W, 0, 4), 0);
	range_is_marked(W, 0, 19);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 5, 9), DLK_BUSY);
	assert_int_equal(acquire(&far, DLK_SENIOR, W, 0, 19), 0);
}

static void who_has_something_there_gives_way_to_none(void **state)
{
	(void)state;
	assert_int_equal(acquire(&b, DLK_NO_RANK, W, 30, 39), 0);
	range_is_marked(W, 0, 20);
	assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 10, 19), 0);
}

static void what_a_proof_frees_is_the_provers(void **state)
{
	struct holder old;

	(void)state;
	reset(&old, 'd', HOST, 1000);
	assert_int_equal(acquire(&b, DLK_NO_RANK, W, 30, 39), 0);
	range_of_third('W', 10, 19);
	for (;;) {
		assert_int_equal(acquire(&old, DLK_NO_RANK, W, 10, 19), 0);
		renew_mark();
		assert_int_equal(acquire_by(&a, DLK_JUNIOR, W, 10, 19, true),
				 0);
		assert_true(got.replaced);
		if (is_marked())
			break;
		end(&a);
		old.held.n = 0;
	}
}

/* What has expired and lingers is its owner's until somebody is granted it. */
static void what_lingers_is_not_swept_for_a_refusal(void **state)
{
	struct dlk_lease lease = lease_of(&a);
	const struct dlk_records_ask q = { .range = { 10, 19, W },
					   .seq = ++a.seq,
					   .since_ns = a.since };
	char id[DLK_RANDOM_LEN + 1] = "";
	long long a_is_there;
	int err;

	(void)state;
	memcpy(id, a.token + strlen("dlock1 "), DLK_RANDOM_LEN);
	lease.ttl_ms = 1;
	lease.pause_ms = HOUR_MS;
	dlk_conn_reset(c);
	assert_int_equal(dlk_records_acquire(c, in_ms(5000), &lease, &q, &got),
			 0);
	dlk_pause_ns(10 * DLK_MS);
	range_of_third('W', 0, 19);
	err = range_beside(&b, DLK_JUNIOR, W, 10, 19);
	/* Refused, it changes nothing; or it is granted. */
	a_is_there = tell(redis.c, "HEXISTS", "k", id, NULL)->integer;
	assert_true(err ? a_is_there : !a_is_there);
}

static void an_odd_mark_is_none(void **state)
{
	static const char *const odd[] = {
		"W5555555555555555555999999999999999999x",
		"W000000000000000000000000000000000019",
		"X00000000000000000000000000000000000019",
		"EX",
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		put_mark(odd[i]);
		b.seq = 0;
		assert_int_equal(range_beside(&b, DLK_JUNIOR, W, 10, 19), 0);
		end(&b);
	}
}

static void a_whole_file_is_marked_by_its_first_request(void **state)
{
	(void)state;
	range_is_marked(W, 0, MAX);
	far.seq = 0;
	renew_mark();
	assert_int_equal(acquire(&far, DLK_SENIOR, W, 0, MAX), 0);
	assert_string_equal(value_at(redis.c, "k"), far.token);
	assert_false(is_marked());
}

#define senior_test(f) cmocka_unit_test_setup_teardown(f, stage, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		senior_test(a_junior_gives_way),
		senior_test(others_do_not),
		senior_test(a_senior_takes_the_mark_with_him),
		senior_test(what_one_has_is_no_matter),
		senior_test(what_a_proof_removes_is_the_provers),
		senior_test(readers_join_readers),
		senior_test(readers_do_not_keep_readers_out),
		senior_test(a_mark_is_dropped_by_its_like),
		senior_test(a_mark_ends_by_itself),
		senior_test(it_is_written_once_in_its_life),
		senior_test(juniors_leave_none),
		senior_test(what_is_no_mark_is_none),
		senior_test(a_junior_gives_way_where_they_meet),
		senior_test(so_it_does_for_the_whole_file),
		senior_test(readers_meet_no_reader),
		senior_test(what_a_senior_cannot_have_yet_is_granted),
		senior_test(nor_is_he_in_his_own_way),
		senior_test(who_has_something_there_gives_way_to_none),
		senior_test(what_a_proof_frees_is_the_provers),
		senior_test(what_lingers_is_not_swept_for_a_refusal),
		senior_test(an_odd_mark_is_none),
		senior_test(a_whole_file_is_marked_by_its_first_request),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
