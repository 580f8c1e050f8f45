/* SPDX-License-Identifier: MIT */
/*
 * Waiting for ranges at Redis (DESIGN 4): who is refused queues in the same
 * request; who gives something back serves those whose range is free then, in
 * their order; a claim is its waiter's, for a while, and becomes its lease only
 * by an ask.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/queue.h"
#include "scripts.h"
#include "tests/unit/records.h"

#define QUEUE "{k}%q"

enum { LIFE = 20000, WAITERS = 4 };

/* Someone who waits, for as long as its connection listens. */
struct waiter {
	struct holder h;
	struct dlk_waiter w;
	struct dlk_range want;
	char claim[DLK_TOKEN_MAX];
	char what[DLK_WHAT_LEN + 1];
	struct dlk_conn *listens;
};

static struct holder a, b, far;
static struct waiter v[WAITERS];
static bool fair, interop, holds;

/* --- who waits ------------------------------------------------------------ */

static void listen_on(struct waiter *w)
{
	char name[sizeof("dlock%wake:") + DLK_CHANNEL_LEN];
	const struct dlk_arg args[] = { { DLK_LITERAL("SUBSCRIBE") },
					{ name, sizeof(name) - 1 } };
	const redisReply *r;

	snprintf(name, sizeof(name), "dlock%%wake:%.32s", w->w.channel);
	w->listens = dlk_conn_new(&redis.ep);
	assert_int_equal(dlk_conn_open(w->listens, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_call(w->listens, in_ms(5000), 2, args, &r),
			 0);
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
}

static void die(struct waiter *w)
{
	dlk_conn_delete(w->listens);
	w->listens = NULL;
	/* The server has seen it when it has answered something since. */
	while (tell(redis.c, "PUBSUB", "NUMPAT", NULL)->integer != 0 ||
	       tell(redis.c, "PUBSUB", "CHANNELS", NULL)->elements == WAITERS)
		;
}

/* The n-th: of another host each. */
static void prepare(unsigned n)
{
	struct waiter *w = &v[n];
	char host[16];

	snprintf(host, sizeof(host), "host%u", n);
	memset(w, 0, sizeof(*w));
	reset(&w->h, (char)('0' + n), host, 5000 + n);
	token_of(w->claim, (char)('5' + n), host, FILE_, UINT64_MAX);
	w->w = (struct dlk_waiter){ .claim = w->claim,
				    .claim_len = strlen(w->claim),
				    .request = 7,
				    .what = w->what,
				    .claim_ttl_ms = LIFE };
	memset(w->w.channel, 'a' + (int)n, DLK_CHANNEL_LEN);
	listen_on(w);
}

static int stage(void **state)
{
	int err = connect_at_once(state);

	fair = interop = holds = false;
	reset(&a, 'a', HOST, 2000);
	reset(&b, 'b', HOST, 3000);
	reset(&far, 'f', "elsewhere", 1000);
	for (unsigned n = 0; n < WAITERS; n++)
		prepare(n);
	return err;
}

/* All is given back by every test, whatever it did. */
static int clear(void **state)
{
	for (unsigned n = 0; n < WAITERS; n++)
		if (v[n].listens)
			dlk_conn_delete(v[n].listens);
	assert_int_equal(tell(redis.c, "DBSIZE", NULL)->integer, 0);
	return disconnect(state);
}

static struct dlk_lease lease_by(const struct holder *h)
{
	struct dlk_lease lease = lease_of(h);

	lease.fair = fair;
	lease.interop = interop;
	return lease;
}

static int acquire_with(struct holder *h, enum dlk_range_type type,
			uint64_t start, uint64_t end, struct dlk_waiter *w,
			bool proof)
{
	struct dlk_lease lease = lease_by(h);
	const struct dlk_records_ask q = { .range = { start, end, type },
					   .seq = ++h->seq,
					   .since_ns = h->since,
					   .proof = proof,
					   .known = h->held.n > 0,
					   .holds = holds,
					   .waiter = w };
	int err;

	dlk_conn_reset(c);
	err = dlk_records_acquire(c, in_ms(5000), &lease, &q, &got);
	if (!err)
		assert_int_equal(dlk_ranges_set(&h->held, q.range), 0);
	return err;
}

static int acquire(struct holder *h, enum dlk_range_type type, uint64_t start,
		   uint64_t end)
{
	return acquire_with(h, type, start, end, NULL, false);
}

static int want(struct waiter *w, enum dlk_range_type type, uint64_t start,
		uint64_t end)
{
	char id[DLK_RANDOM_LEN + 1];

	w->want = (struct dlk_range){ start, end, type };
	id_of(&w->h, id);
	dlk_records_what(w->what, &w->want, id, holds);
	return acquire_with(&w->h, type, start, end, &w->w, false);
}

/* [CONFIRM] */
static int confirm(struct waiter *w)
{
	return acquire_with(&w->h, w->want.type, w->want.start, w->want.end,
			    &w->w, false);
}

static void assert_queues(struct waiter *w, enum dlk_range_type type,
			  uint64_t start, uint64_t end)
{
	assert_int_equal(want(w, type, start, end), DLK_BUSY);
	assert_true(w->w.queued);
}

static int stay(struct waiter *w)
{
	struct dlk_lease lease = lease_by(&w->h);

	dlk_conn_reset(c);
	return dlk_queue_say(c, in_ms(5000), "heartbeat", &lease, &w->w, &got);
}

static void say(struct waiter *w, const char *verb)
{
	struct dlk_lease lease = lease_by(&w->h);
	const redisReply *r;

	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, 0, verb, &lease, &w->w, NULL), 0);
	w->w.queued &= strcmp(verb, "cancel") != 0;
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
}

/* What it was told since it was asked last: 'g', 't' or 0. */
static char told(struct waiter *w)
{
	const redisReply *r;
	char heard = 0;

	/* What was published was written before this is answered. */
	tell(redis.c, "PING", NULL);
	while (dlk_conn_take(w->listens, &r) == 0)
		heard = r->element[2]->str[0];
	dlk_conn_reset(w->listens);
	return heard;
}

static void assert_told(const char *all)
{
	char heard[WAITERS + 1] = "";

	for (unsigned n = 0; n < WAITERS; n++)
		heard[n] = (char)(v[n].listens ? told(&v[n]) ?: '.' : '.');
	assert_string_equal(heard, all);
}

/* --- who holds ------------------------------------------------------------ */

static int give_by(struct holder *h, enum dlk_range_type type, uint64_t start,
		   uint64_t end, bool text)
{
	struct dlk_lease lease = lease_by(h);
	struct dlk_range weaker = { start, end, type }, window = weaker;
	const redisReply *r;

	assert_int_equal(dlk_ranges_set(&h->held, weaker), 0);
	if (h->held.n == 0)
		window = (struct dlk_range){ 0, MAX, U };
	dlk_conn_reset(c);
	assert_int_equal(dlk_records_set(c, &lease, ++h->seq, &window, &h->held,
					 text),
			 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	return dlk_lease_released(r, &got.seq);
}

static void give(struct holder *h, enum dlk_range_type type, uint64_t start,
		 uint64_t end)
{
	assert_int_equal(give_by(h, type, start, end, false), 0);
}

static void give_all(struct holder *h)
{
	give(h, U, 0, MAX);
}

static void assert_has(const struct holder *h, const char *text)
{
	struct dlk_range room[64];
	struct dlk_ranges set = { .v = room, .room = 64 };
	char buf[1024];

	read_ranges(h, &set);
	text_of(&set, buf, sizeof(buf));
	assert_string_equal(buf, text);
}

static void assert_claims(const struct waiter *w, const char *text)
{
	struct holder h = w->h;

	memcpy(h.token, w->claim, sizeof(h.token));
	assert_has(&h, text);
}

static long long waiting(void)
{
	long long n = tell(redis.c, "HLEN", QUEUE, NULL)->integer;

	return n ? n - 2 : 0;
}

/* It was granted, asks by its claim, and gives all back. */
static void take_and_give(struct waiter *w)
{
	assert_int_equal(confirm(w), 0);
	assert_false(w->w.queued);
	give_all(&w->h);
}

/* --- queue, grant, confirm ------------------------------------------------ */

static void who_is_refused_waits(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&far, W, 9, 9), DLK_BUSY);
	assert_int_equal(waiting(), 0);
	assert_queues(&v[0], W, 5, 14);
	assert_queues(&v[0], W, 5, 14);
	assert_int_equal(waiting(), 1);
	assert_queues(&v[1], W, 5, 14);
	assert_int_equal(v[1].w.ahead, 1);
	say(&v[0], "cancel");
	say(&v[1], "cancel");
	assert_int_equal(waiting(), 0);
	give_all(&a);
	assert_told("....");
}

static void a_release_grants(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 5, 14);
	assert_queues(&v[1], W, 5, 14);
	give_all(&a);
	assert_told("g...");
	assert_claims(&v[0], "W5-14");
	assert_int_equal(waiting(), 1);
	assert_int_equal(acquire(&far, R, 14, 14), DLK_BUSY);
	take_and_give(&v[0]);
	assert_told(".g..");
	take_and_give(&v[1]);
}

static void a_part_is_enough(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 99), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 20, 29);
	give(&a, U, 15, 24);
	assert_told("....");
	give(&a, U, 25, 40);
	assert_told(".g..");
	give(&a, U, 0, 10);
	assert_told("g...");
	give_all(&a);
	take_and_give(&v[0]);
	take_and_give(&v[1]);
}

static void what_was_confirmed_is_the_owners(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 5, 14);
	give_all(&a);
	assert_int_equal(confirm(&v[0]), 0);
	assert_claims(&v[0], "");
	assert_has(&v[0].h, "W5-14");
	assert_int_equal(tell(redis.c, "EXISTS", QUEUE, NULL)->integer, 0);
	give_all(&v[0].h);
}

static void the_whole_file_is_a_string_again(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, MAX), 0);
	assert_queues(&v[0], W, 0, MAX);
	v[0].h.seq = 0; /* its next ask is by a new token */
	give_all(&a);
	assert_told("g...");
	assert_int_equal(confirm(&v[0]), 0);
	assert_string_equal(tell(redis.c, "GET", "k", NULL)->str, v[0].h.token);
	give_all(&v[0].h);
}

static void readers_are_granted_together(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], R, 0, 9);
	assert_queues(&v[1], W, 5, 5);
	assert_queues(&v[2], R, 3, 12);
	give_all(&a);
	assert_told("g.g.");
	take_and_give(&v[0]);
	assert_told("....");
	take_and_give(&v[2]);
	assert_told(".g..");
	take_and_give(&v[1]);
}

static void a_writer_that_reads_lets_readers_in(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], R, 2, 3);
	assert_queues(&v[1], R, 7, 8);
	assert_int_equal(acquire(&a, R, 0, 5), 0);
	assert_told("g...");
	give(&a, R, 6, 9);
	assert_told(".g..");
	take_and_give(&v[0]);
	take_and_give(&v[1]);
	give_all(&a);
}

static void ones_own_ranges_are_in_nobodys_way(void **state)
{
	(void)state;
	assert_int_equal(acquire(&v[0].h, R, 0, 9), 0);
	assert_int_equal(acquire(&far, R, 5, 9), 0);
	assert_queues(&v[0], W, 5, 12);
	assert_int_equal(stay(&v[0]), DLK_BUSY);
	give_all(&far);
	assert_told("g...");
	assert_int_equal(confirm(&v[0]), 0);
	assert_has(&v[0].h, "R0-4 W5-12");
	give_all(&v[0].h);
}

/* --- the order ------------------------------------------------------------ */

static void two_wait(void)
{
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&b, W, 50, 59), 0);
	assert_queues(&v[0], W, 0, 99);
	assert_queues(&v[1], W, 0, 9);
}

static void who_can_goes_on(void **state)
{
	(void)state;
	two_wait();
	assert_int_equal(want(&v[2], W, 20, 29), 0);
	give_all(&a);
	assert_told(".g..");
	take_and_give(&v[1]);
	give_all(&v[2].h);
	assert_told("....");
	give_all(&b);
	assert_told("g...");
	take_and_give(&v[0]);
}

static void fair_is_in_order(void **state)
{
	(void)state;
	fair = true;
	two_wait();
	assert_queues(&v[2], W, 20, 29);
	assert_int_equal(acquire(&far, W, 30, 39), DLK_BUSY);
	assert_int_equal(acquire(&far, W, 100, 109), 0);
	give_all(&a);
	assert_int_equal(stay(&v[2]), DLK_BUSY);
	assert_true(got.left_ms > LIFE / 2);
	assert_told("....");
	give_all(&b);
	assert_told("g...");
	take_and_give(&v[0]);
	assert_told(".gg.");
	take_and_give(&v[1]);
	take_and_give(&v[2]);
	give_all(&far);
}

/* What all had whose description is shared, and was not got from them. */
static void what_fair_leaves_has_its_ttl(void **state)
{
	struct dlk_lease lease;
	struct dlk_records_ask q = { .range = { 0, 9, W },
				     .seq = 1,
				     .since_ns = b.since,
				     .proof = true,
				     .shares = true };

	(void)state;
	fair = true;
	lease = lease_by(&b);
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	dlk_conn_reset(c);
	assert_int_equal(dlk_records_acquire(c, in_ms(5000), &lease, &q, &got),
			 DLK_BUSY);
	assert_has(&a, "W0-9");
	assert_in_range(ttl_at(redis.c, PLACES), 1, TTL);
	give_all(&a);
	take_and_give(&v[0]);
}

/* Who holds something waits for those who hold, as in the kernel. */
static void fair_is_no_deadlock(void **state)
{
	(void)state;
	fair = true;
	assert_int_equal(acquire(&a, R, 0, 9), 0);
	assert_queues(&v[0], W, 5, 14);
	assert_int_equal(acquire(&far, R, 5, 5), DLK_BUSY);
	holds = true;
	assert_int_equal(acquire(&far, R, 5, 5), 0);
	holds = false;
	assert_int_equal(acquire(&b, W, 20, 29), 0);
	assert_queues(&v[1], W, 20, 29);
	assert_queues(&v[3], R, 25, 25);
	holds = true;
	assert_queues(&v[2], R, 25, 25);
	give(&b, R, 20, 29);
	assert_told("..g.");
	take_and_give(&v[2]);
	give_all(&b);
	assert_told(".g..");
	take_and_give(&v[1]);
	assert_told("...g");
	take_and_give(&v[3]);
	give_all(&a);
	give_all(&far);
	assert_told("g...");
	take_and_give(&v[0]);
}

static void what_expired_is_for_those_who_wait(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&b, W, 20, 29), 0);
	assert_queues(&v[0], W, 0, 9);
	expire(&a);
	assert_int_equal(acquire(&far, W, 5, 5), DLK_BUSY);
	assert_told("g...");
	take_and_give(&v[0]);
	give_all(&b);
}

static void an_expired_string_is_for_those_who_wait(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, MAX), 0);
	assert_queues(&v[0], W, 0, 9);
	tell(redis.c, "DEL", "k", NULL);
	assert_int_equal(acquire(&far, W, 0, MAX), DLK_BUSY);
	assert_told("g...");
	take_and_give(&v[0]);
}

static void who_stays_finds_what_expired(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 9, 9);
	expire(&a);
	assert_int_equal(stay(&v[1]), DLK_BUSY);
	assert_told("g...");
	assert_int_equal(stay(&v[0]), 0);
	take_and_give(&v[0]);
	take_and_give(&v[1]);
}

static void a_text_serves_nobody(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_int_equal(give_by(&a, U, 0, 9, true), 0);
	assert_told("....");
	assert_int_equal(stay(&v[0]), 0);
	take_and_give(&v[0]);
}

static void with_interop_the_first_one_asks(void **state)
{
	(void)state;
	interop = true;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	give_all(&a);
	assert_told("t...");
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
	assert_int_equal(confirm(&v[0]), 0);
	give_all(&v[0].h);
	assert_told(".t..");
	take_and_give(&v[1]);
}

/* --- who is not there any more -------------------------------------------- */

static void the_dead_are_passed_by(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	die(&v[0]);
	give_all(&a);
	assert_told(".g..");
	assert_int_equal(waiting(), 0);
	take_and_give(&v[1]);
}

static void the_stale_are_passed_by(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	v[0].w.claim_ttl_ms = 1;
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	usleep(3000);
	give_all(&a);
	assert_told(".g..");
	take_and_give(&v[1]);
}

/* (Its life is longer than this process may stand still while it is there.) */
static void a_claim_expires(void **state)
{
	const uint64_t until = in_ms(60000);

	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	v[0].w.claim_ttl_ms = 3000;
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	give_all(&a);
	assert_told("g...");
	assert_int_equal(stay(&v[1]), DLK_BUSY);
	while (stay(&v[1]) == DLK_BUSY) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(20 * DLK_MS);
	}
	assert_int_equal(stay(&v[1]), 0);
	assert_int_equal(confirm(&v[0]), DLK_BUSY);
	assert_true(v[0].w.queued);
	take_and_give(&v[1]);
	take_and_give(&v[0]);
}

static void who_leaves_a_claim_serves_the_next(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	give_all(&a);
	say(&v[0], "cancel");
	assert_told("gg..");
	take_and_give(&v[1]);
}

static void who_rests_keeps_its_place(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	say(&v[0], "suspend");
	assert_int_equal(stay(&v[0]), DLK_BUSY);
	assert_int_equal(v[0].w.ahead, 0);
	say(&v[0], "suspend");
	give_all(&a);
	assert_told(".g..");
	take_and_give(&v[1]);
	say(&v[0], "cancel");
}

static void who_passes_is_first_again(void **state)
{
	struct dlk_lease lease;

	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	assert_queues(&v[2], W, 0, 9);
	give_all(&a);
	lease = lease_by(&v[0].h);
	assert_int_equal(dlk_queue_say(c, in_ms(5000), "yield", &lease, &v[0].w,
				       &got),
			 DLK_BUSY);
	assert_told("gg..");
	assert_int_equal(stay(&v[0]), DLK_BUSY);
	assert_int_equal(v[0].w.ahead, 0);
	take_and_give(&v[1]);
	assert_told("g...");
	take_and_give(&v[0]);
	take_and_give(&v[2]);
}

/* --- claims --------------------------------------------------------------- */

static void proof_replaces_no_claim(void **state)
{
	struct holder same = v[0].h;

	(void)state;
	token_of(same.token, 'd', "host0", FILE_, 90000);
	same.since = 90000;
	same.seq = 0;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	give_all(&a);
	assert_int_equal(acquire_with(&same, W, 0, 9, NULL, true), DLK_BUSY);
	assert_claims(&v[0], "W0-9");
	take_and_give(&v[0]);
}

static void a_claim_is_in_no_way_of_its_process(void **state)
{
	struct holder same = v[0].h;

	(void)state;
	token_of(same.token, 'd', "host0", FILE_, 90000);
	memcpy(same.token + 7, v[0].claim + 7, 16);
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	give_all(&a);
	assert_int_equal(acquire(&same, W, 5, 5), 0);
	assert_int_equal(confirm(&v[0]), DLK_BUSY);
	give_all(&same);
	take_and_give(&v[0]);
}

static void a_claim_is_no_lock(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	give_all(&a);
	assert_int_equal(look(&far, W, 0, 99), 0);
	assert_int_equal(confirm(&v[0]), 0);
	assert_int_equal(look(&far, W, 0, 99), DLK_BUSY);
	give_all(&v[0].h);
}

static void a_late_ask_takes_no_claim(void **state)
{
	(void)state;
	assert_int_equal(acquire(&v[0].h, W, 20, 29), 0);
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	give_all(&a);
	v[0].h.seq -= 2;
	assert_int_equal(confirm(&v[0]), DLK_OLD_SEQ);
	assert_claims(&v[0], "W0-9");
	v[0].h.seq += 2;
	take_and_give(&v[0]);
}

/* Its owner has expired: it cannot be confirmed, and is the next one's. */
static void a_claim_of_nobody_is_the_next_ones(void **state)
{
	(void)state;
	assert_int_equal(acquire(&v[0].h, W, 20, 29), 0);
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_queues(&v[0], W, 0, 9);
	assert_queues(&v[1], W, 0, 9);
	give_all(&a);
	expire(&v[0].h);
	assert_int_equal(confirm(&v[0]), DLK_GONE);
	assert_told("gg..");
	take_and_give(&v[1]);
}

/* A claim is no lock, and hides none of its owner's that it reaches over. */
static void who_has_a_claim_as_well_is_seen(void **state)
{
	(void)state;
	assert_int_equal(acquire(&v[0].h, W, 0, 4), 0);
	assert_int_equal(acquire(&a, W, 5, 5), 0);
	assert_queues(&v[0], W, 3, 5);
	give_all(&a);
	assert_told("g...");
	assert_int_equal(look(&far, W, 4, 4), DLK_BUSY);
	assert_true(got.range.start == 0 && got.range.end == 4);
	assert_int_equal(look(&far, W, 5, 5), 0);
	take_and_give(&v[0]);
	give_all(&v[0].h);
}

/* Whoever held it all along has put it back, after a restart. */
static void put_back(struct holder *h)
{
	struct dlk_lease lease = lease_of(h);
	const struct dlk_renewal u = { .lease = &lease, .sent_seq = h->seq };

	dlk_conn_reset(c);
	assert_int_equal(
		dlk_records_restore(c, in_ms(5000), &u, h->since, &h->held), 0);
}

/* The claim of another process of the holder's host: gone, or what is left of it
   is worth nothing. */
static void a_claim_ends_where_a_holder_is_put_back(void **state)
{
	struct holder same;

	(void)state;
	for (int all = 0; all < 2; all++) {
		reset(&same, 'd', "host0", 90000);
		same.seq = 3;
		dlk_ranges_set(&same.held,
			       (struct dlk_range){ all ? 0 : 5, 9, W });
		assert_int_equal(acquire(&a, W, 0, 9), 0);
		assert_queues(&v[0], W, 0, 9);
		give_all(&a);
		assert_claims(&v[0], "W0-9");
		put_back(&same);
		assert_has(&same, all ? "W0-9" : "W5-9");
		assert_claims(&v[0], all ? "" : "W0-4");
		assert_int_equal(confirm(&v[0]), DLK_BUSY);
		assert_string_equal(got.holder, same.token);
		assert_claims(&v[0], "");
		assert_true(v[0].w.queued);
		give_all(&same);
		take_and_give(&v[0]);
	}
}

/* --- behind very many ----------------------------------------------------- */

/* So many more that wait for what v[0] does, and look for themselves. */
static void crowd(const char *n)
{
	static const char fill[] =
		"local now = redis.call('TIME')[1] * 1000"
		" for i = 1, ARGV[1] do"
		" local n = redis.call('HINCRBY', KEYS[1], 'tail', 1)"
		" redis.call('HSET', KEYS[1], n, string.format("
		" '%015d 60000 - %s dlock1 %032d', now + 60000, ARGV[2], i))"
		" end return 1";

	assert_int_equal(tell(redis.c, "EVAL", fill, "1", QUEUE, n, v[0].what,
			      NULL)
				 ->type,
			 REDIS_REPLY_INTEGER);
}

static void what_is_free_is_granted_behind_a_thousand(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&far, W, 20, 29), 0);
	assert_queues(&v[0], W, 5, 14);
	crowd("1100");
	assert_queues(&v[1], W, 20, 29);
	assert_queues(&v[2], W, 9, 20);
	give_all(&far);
	assert_int_equal(stay(&v[1]), 0);
	assert_claims(&v[1], "W20-29");
	assert_int_equal(stay(&v[2]), DLK_BUSY);
	take_and_give(&v[1]);
	assert_int_equal(stay(&v[2]), DLK_BUSY); /* a's, yet */
	assert_int_equal(tell(redis.c, "DEL", QUEUE, NULL)->integer, 1);
	give_all(&a);
}

/* Nor is it stopped by those before it, with fair, whom it does not meet. */
static void nor_does_fair_hide_it(void **state)
{
	(void)state;
	fair = true;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&far, W, 20, 29), 0);
	assert_queues(&v[0], W, 5, 14);
	crowd("1100");
	assert_queues(&v[1], W, 20, 29);
	assert_queues(&v[2], W, 10, 10);
	give_all(&far);
	assert_int_equal(stay(&v[1]), 0);
	assert_int_equal(stay(&v[2]), DLK_BUSY); /* v[0] is before */
	take_and_give(&v[1]);
	assert_int_equal(tell(redis.c, "DEL", QUEUE, NULL)->integer, 1);
	give_all(&a);
}

/* One that waits for long, while others came and went. */
static void those_who_went_hide_nobody(void **state)
{
	(void)state;
	assert_int_equal(acquire(&a, W, 0, 9), 0);
	assert_int_equal(acquire(&far, W, 20, 29), 0);
	assert_queues(&v[0], W, 5, 14);
	tell_ok(tell(redis.c, "HINCRBY", QUEUE, "tail", "5000", NULL));
	assert_queues(&v[1], W, 20, 29);
	assert_queues(&v[2], W, 20, 29);
	give_all(&far);
	assert_told(".g..");
	take_and_give(&v[1]);
	assert_told("..g.");
	give_all(&a);
	take_and_give(&v[2]);
	assert_told("g...");
	take_and_give(&v[0]);
}

#define queue_test(f) cmocka_unit_test_setup_teardown(f, stage, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(who_is_refused_waits),
		queue_test(a_release_grants),
		queue_test(a_part_is_enough),
		queue_test(what_was_confirmed_is_the_owners),
		queue_test(the_whole_file_is_a_string_again),
		queue_test(readers_are_granted_together),
		queue_test(a_writer_that_reads_lets_readers_in),
		queue_test(ones_own_ranges_are_in_nobodys_way),
		queue_test(who_can_goes_on),
		queue_test(fair_is_in_order),
		queue_test(what_fair_leaves_has_its_ttl),
		queue_test(fair_is_no_deadlock),
		queue_test(what_expired_is_for_those_who_wait),
		queue_test(an_expired_string_is_for_those_who_wait),
		queue_test(who_stays_finds_what_expired),
		queue_test(a_text_serves_nobody),
		queue_test(with_interop_the_first_one_asks),
		queue_test(the_dead_are_passed_by),
		queue_test(the_stale_are_passed_by),
		queue_test(a_claim_expires),
		queue_test(who_leaves_a_claim_serves_the_next),
		queue_test(who_rests_keeps_its_place),
		queue_test(who_passes_is_first_again),
		queue_test(proof_replaces_no_claim),
		queue_test(a_claim_is_in_no_way_of_its_process),
		queue_test(a_claim_is_no_lock),
		queue_test(a_late_ask_takes_no_claim),
		queue_test(a_claim_of_nobody_is_the_next_ones),
		queue_test(a_claim_ends_where_a_holder_is_put_back),
		queue_test(who_has_a_claim_as_well_is_seen),
		queue_test(what_is_free_is_granted_behind_a_thousand),
		queue_test(nor_does_fair_hide_it),
		queue_test(those_who_went_hide_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
