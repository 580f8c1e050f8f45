/* SPDX-License-Identifier: MIT */
/*
 * The queue of a flock lease (DESIGN section 4, lease/queue.h): who waits is
 * served in the order of coming, the dead are passed over, and nothing is left
 * at the server when nobody holds or waits (each test ends with that).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/queue.h"
#include "tests/unit/leases.h"

enum mode { EX, SH };
/* (Who is to be served within SHORT is so, beside whatever else runs.) */
enum { N = 8, LIFE = 20000, SHORT = 2000, SOON_MS = 20000 };

#define KEY   "k"
#define QUEUE "{k}%q"

/* Somebody who waits, on a host of its own. */
static struct party {
	struct dlk_waiter w;
	struct dlk_lease lease;
	struct dlk_conn *ear;
	char claim[DLK_TOKEN_MAX], token[DLK_TOKEN_MAX];
} party[N];

/* --- the stage ------------------------------------------------------------ */

static void listen_on(struct party *p)
{
	char name[64];

	snprintf(name, sizeof(name), "dlock%%wake:%s", p->w.channel);
	p->ear = dlk_conn_new(&redis.ep);
	assert_non_null(p->ear);
	assert_int_equal(tell(p->ear, "SUBSCRIBE", name, NULL)->type,
			 REDIS_REPLY_ARRAY);
}

static void set_up(struct party *p, int i)
{
	char host[16];

	memset(p, 0, sizeof(*p));
	snprintf(host, sizeof(host), "host%d", i);
	token_of(p->claim, (char)('k' + i), host, FILE_, UINT64_MAX);
	token_of(p->token, (char)('k' + i), host, FILE_, 5000);
	p->w = (struct dlk_waiter){
		.claim = p->claim,
		.claim_len = strlen(p->claim),
		.request = 7,
		.claim_ttl_ms = LIFE,
	};
	memset(p->w.channel, '0' + i, DLK_CHANNEL_LEN);
	p->lease = (struct dlk_lease){
		.key = KEY,
		.key_len = 1,
		.token = p->token,
		.token_len = strlen(p->token),
		.ttl_ms = TTL,
	};
	listen_on(p);
}

static int begin(void **state)
{
	int err = connect_at_once(state);

	for (int i = 0; i < N; i++)
		set_up(&party[i], i);
	return err;
}

static void deaf(int i)
{
	char name[64];
	const redisReply *r;

	snprintf(name, sizeof(name), "dlock%%wake:%s", party[i].w.channel);
	dlk_conn_delete(party[i].ear);
	party[i].ear = NULL;
	/* The server has noticed. */
	do
		r = tell(redis.c, "PUBSUB", "NUMSUB", name, NULL);
	while (r->elements > 1 && r->element[1]->integer);
}

/* Nothing is left. */
static int end(void **state)
{
	const redisReply *r = tell(redis.c, "KEYS", "*", NULL);
	size_t left = 0;

	for (size_t i = 0; i < r->elements; i++) {
		if (strncmp(r->element[i]->str, "dlock%run:", 10) == 0)
			continue;
		print_error("left at the server: %s\n", r->element[i]->str);
		left++;
	}
	for (int i = 0; i < N; i++)
		dlk_conn_delete(party[i].ear);
	return disconnect(state) || left;
}

/* --- what they do --------------------------------------------------------- */

static void mode(int i, enum mode mode)
{
	party[i].lease.shared = mode == SH;
}

static void all(bool fair, bool interop)
{
	for (int i = 0; i < N; i++) {
		party[i].lease.fair = fair;
		party[i].lease.interop = interop;
	}
}

static int ask_for(int i, bool wait, const struct dlk_lease *superseded)
{
	struct party *p = &party[i];

	dlk_conn_reset(c);
	return dlk_lease_acquire(c, in_ms(SOON_MS), &p->lease, false,
				 superseded, wait ? &p->w : NULL, &answer);
}

/* A call that waits. */
static int ask(int i)
{
	return ask_for(i, true, NULL);
}

/* LOCK_NB */
static int try(int i)
{
	return ask_for(i, false, NULL);
}

static int heartbeat(int i)
{
	dlk_conn_reset(c);
	return dlk_queue_say(c, in_ms(SOON_MS), "heartbeat", &party[i].lease,
			     &party[i].w, &answer);
}

static int yield(int i)
{
	dlk_conn_reset(c);
	return dlk_queue_say(c, in_ms(SOON_MS), "yield", &party[i].lease,
			     &party[i].w, &answer);
}

static const char *look(int i, bool *shared)
{
	struct dlk_waiter w = { .claim = party[i].lease.token,
				.claim_len = party[i].lease.token_len,
				.channel = DLK_NO_CHANNEL };

	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, in_ms(SOON_MS), "look",
				       &party[i].lease, &w, &answer),
			 DLK_BUSY);
	*shared = w.ahead == 1;
	return answer.holder;
}

static const redisReply *reply(void)
{
	const redisReply *r;

	assert_int_equal(dlk_conn_flush(c, in_ms(SOON_MS)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(SOON_MS), &r), 0);
	return r;
}

static void cancel(int i)
{
	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, 0, "cancel", &party[i].lease,
				       &party[i].w, NULL),
			 0);
	party[i].w.queued = false;
	assert_int_equal(reply()->type, REDIS_REPLY_ARRAY);
}

static void suspend(int i)
{
	dlk_conn_reset(c);
	assert_int_equal(dlk_queue_say(c, 0, "suspend", &party[i].lease,
				       &party[i].w, NULL),
			 0);
	assert_int_equal(reply()->type, REDIS_REPLY_ARRAY);
}

static int give_back(int i, bool text)
{
	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_release(c, &party[i].lease, text), 0);
	return dlk_lease_released(reply(), &(uint64_t){ 0 });
}

/* By its lease's token, confirmed or not. */
static void release(int i)
{
	assert_int_equal(give_back(i, false), 0);
}

static int renew(int i)
{
	struct dlk_renewal u = { .lease = &party[i].lease };

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_renew(c, u.lease, false), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(SOON_MS)), 0);
	return dlk_lease_renewed(c, in_ms(SOON_MS), &u);
}

/* --- what there is to see ------------------------------------------------- */

static long long queue_len(void)
{
	long long n = tell(redis.c, "HLEN", QUEUE, NULL)->integer;

	return n ? n - 2 : 0; /* head, tail */
}

static bool exists(const char *key)
{
	return tell(redis.c, "EXISTS", key, NULL)->integer == 1;
}

static void assert_word(int i, const char *word)
{
	struct party *p = &party[i];
	char want[64];
	const redisReply *r;

	snprintf(want, sizeof(want), "%s %.32s %llu", word, p->claim + 7,
		 (unsigned long long)p->w.request);
	dlk_conn_reset(p->ear);
	assert_int_equal(dlk_conn_reply(p->ear, in_ms(SOON_MS), &r), 0);
	assert_int_equal(r->elements, 3);
	assert_string_equal(r->element[2]->str, want);
}

static void assert_silent(int i)
{
	const redisReply *r;

	/* What was published before has come when this is answered. */
	tell_ok(tell(redis.c, "PING", NULL));
	dlk_conn_reset(party[i].ear);
	assert_int_equal(dlk_conn_take(party[i].ear, &r), -EAGAIN);
}

static bool reads(const char *token)
{
	return tell(redis.c, "HEXISTS", KEY, token, NULL)->integer == 1;
}

/* Told, and its claim is at the key, for its life. */
static void assert_served(int i)
{
	const struct party *p = &party[i];
	long long left = ttl_at(redis.c, KEY);

	assert_word(i, "granted");
	if (p->lease.shared)
		assert_true(reads(p->claim));
	else
		assert_string_equal(value_at(redis.c, KEY), p->claim);
	if (!p->lease.shared)
		assert_in_range(left, 1, p->w.claim_ttl_ms);
}

static void assert_held_by(int i)
{
	assert_string_equal(value_at(redis.c, KEY), party[i].token);
	assert_in_range(ttl_at(redis.c, KEY), TTL - 5000, TTL);
}

/* Until what is there by its ttl is gone. */
static void outlive(const char *key)
{
	const uint64_t until = in_ms(SOON_MS);

	while (exists(key)) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(5 * DLK_MS);
	}
}

/* 0 holds, those up to `last` wait in order. */
static void line_up(int last)
{
	assert_int_equal(ask(0), 0);
	for (int i = 1; i <= last; i++)
		assert_int_equal(ask(i), DLK_BUSY);
	assert_int_equal(queue_len(), last);
}

/* --- in order ------------------------------------------------------------- */

static void who_is_refused_and_waits_is_queued(void **state)
{
	(void)state;
	line_up(2);
	assert_true(party[1].w.queued);
	assert_int_equal(party[1].w.ahead, 0);
	assert_int_equal(party[2].w.ahead, 1);
	assert_string_equal(answer.holder, party[0].token);
	assert_in_range(answer.left_ms, TTL - 5000, TTL);
	cancel(1);
	cancel(2);
	assert_false(exists(QUEUE));
	release(0);
}

static void who_does_not_wait_is_never_queued(void **state)
{
	(void)state;
	line_up(0);
	assert_int_equal(try(1), DLK_BUSY);
	assert_false(exists(QUEUE));
	release(0);
}

static void served_in_the_order_of_coming(void **state)
{
	(void)state;
	line_up(N - 1);
	for (int i = 1; i < N; i++) {
		release(i - 1);
		assert_served(i);
		for (int later = i + 1; later < N; later++)
			assert_silent(later);
	}
	assert_false(exists(QUEUE));
	release(N - 1);
}

static void who_stays_keeps_its_place(void **state)
{
	(void)state;
	line_up(3);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(heartbeat(3), DLK_BUSY);
		assert_int_equal(heartbeat(1), DLK_BUSY);
	}
	assert_int_equal(queue_len(), 3);
	release(0);
	assert_served(1);
	release(1);
	assert_served(2);
	release(2);
	assert_served(3);
	release(3);
}

static void who_asks_again_keeps_its_place(void **state)
{
	(void)state;
	line_up(3);
	assert_int_equal(ask(1), DLK_BUSY);
	assert_int_equal(queue_len(), 3);
	for (int i = 0; i < 3; i++) {
		release(i);
		assert_served(i + 1);
	}
	release(3);
}

static void a_newcomer_overtakes_nobody(void **state)
{
	(void)state;
	line_up(1);
	tell_ok(tell(redis.c, "DEL", KEY, NULL)); /* as if it expired */
	assert_int_equal(ask(2), DLK_BUSY);
	assert_served(1);
	assert_int_equal(try(3), DLK_BUSY);
	release(1);
	assert_served(2);
	release(2);
}

static void nor_does_one_that_does_not_wait(void **state)
{
	(void)state;
	line_up(1);
	tell_ok(tell(redis.c, "DEL", KEY, NULL));
	assert_int_equal(try(2), DLK_BUSY);
	assert_served(1);
	release(1);
}

static void the_first_one_that_asks_itself_is_granted(void **state)
{
	(void)state;
	line_up(2);
	tell_ok(tell(redis.c, "DEL", KEY, NULL));
	assert_int_equal(ask(1), 0);
	assert_held_by(1);
	assert_int_equal(queue_len(), 1);
	release(1);
	assert_served(2);
	release(2);
}

static void who_leaves_is_passed_over(void **state)
{
	(void)state;
	line_up(3);
	cancel(1);
	assert_false(party[1].w.queued);
	release(0);
	assert_silent(1);
	assert_served(2);
	cancel(3);
	release(2);
	assert_silent(3);
	assert_false(exists(KEY));
}

static void who_leaves_what_it_was_granted_serves_the_next(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	assert_served(1);
	cancel(1);
	assert_served(2);
	cancel(2);
}

static void who_has_left_disturbs_nobody(void **state)
{
	(void)state;
	line_up(2);
	cancel(1);
	cancel(1);
	cancel(3); /* which was never there */
	assert_int_equal(queue_len(), 1);
	assert_held_by(0);
	release(0);
	cancel(1);
	assert_served(2);
	release(2);
}

/* --- the dead ------------------------------------------------------------- */

static void the_dead_are_skipped_at_once(void **state)
{
	(void)state;
	line_up(4);
	deaf(1);
	deaf(2);
	deaf(3);
	release(0);
	assert_served(4);
	assert_int_equal(queue_len(), 0);
	release(4);
}

static void if_all_are_dead_the_lock_is_free(void **state)
{
	(void)state;
	line_up(3);
	deaf(1);
	deaf(2);
	deaf(3);
	release(0);
	assert_false(exists(KEY));
	assert_false(exists(QUEUE));
}

static void who_has_no_channel_is_served_and_finds_it(void **state)
{
	(void)state;
	deaf(1);
	strcpy(party[1].w.channel, DLK_NO_CHANNEL);
	line_up(2);
	release(0);
	assert_silent(2);
	assert_int_equal(heartbeat(1), 0);
	release(1);
	assert_served(2);
	release(2);
}

/* Alone it gets the same ticket once more. */
static void who_was_skipped_is_told_that_its_place_is_lost(void **state)
{
	(void)state;
	line_up(1);
	assert_false(party[1].w.lost);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_false(party[1].w.lost);
	deaf(1);
	release(0);
	assert_false(exists(QUEUE));
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_true(party[1].w.lost);
	assert_int_equal(party[1].w.ticket, 1);
	assert_int_equal(party[1].w.ahead, 0);
	cancel(1);
}

static void the_stale_are_skipped(void **state)
{
	(void)state;
	party[1].w.claim_ttl_ms = SHORT;
	line_up(2);
	dlk_pause_ns((SHORT + 20) * DLK_MS);
	release(0);
	assert_silent(1);
	assert_served(2);
	party[1].w.claim_ttl_ms = LIFE;
	assert_int_equal(heartbeat(1), DLK_BUSY); /* at the end, now */
	release(2);
	assert_served(1);
	release(1);
}

static void a_claim_that_nobody_takes_ends_with_its_life(void **state)
{
	(void)state;
	party[1].w.claim_ttl_ms = SHORT;
	line_up(2);
	release(0);
	assert_served(1);
	outlive(KEY);
	assert_int_equal(heartbeat(2), 0);
	assert_string_equal(value_at(redis.c, KEY), party[2].claim);
	assert_int_equal(renew(1), DLK_LOST);
	release(1);
	assert_string_equal(value_at(redis.c, KEY), party[2].claim);
	release(2);
}

static void the_queue_ends_with_those_in_it(void **state)
{
	(void)state;
	for (int i = 1; i < N; i++)
		party[i].w.claim_ttl_ms = SHORT;
	line_up(N - 1);
	outlive(QUEUE);
	release(0);
	for (int i = 1; i < N; i++)
		assert_silent(i);
}

/* Its number may be another's by now. */
static void a_ticket_of_a_queue_that_is_gone(void **state)
{
	(void)state;
	line_up(2);
	tell_ok(tell(redis.c, "DEL", QUEUE, NULL));
	assert_int_equal(ask(3), DLK_BUSY);
	assert_int_equal(party[3].w.ticket, party[1].w.ticket);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_int_not_equal(party[3].w.ticket, party[1].w.ticket);
	cancel(2);
	assert_int_equal(queue_len(), 2);
	release(0);
	assert_served(3);
	release(3);
	assert_served(1);
	release(1);
}

/* One call looks at so many only: the next goes on from there. */
static void many_stale_tickets_are_got_over(void **state)
{
	char ticket[24], entry[DLK_TOKEN_MAX + 80];
	int calls = 0;

	(void)state;
	line_up(0);
	snprintf(entry, sizeof(entry), "%015d 2000 %s.7 EX %s", 1,
		 party[7].w.channel, party[7].claim);
	for (int i = 1; i <= 3500; i++) {
		snprintf(ticket, sizeof(ticket), "%d", i);
		tell_ok(tell(redis.c, "HSET", QUEUE, ticket, entry, NULL));
	}
	tell_ok(tell(redis.c, "HSET", QUEUE, "head", "1", "tail", "3500",
		     NULL));
	assert_int_equal(ask(1), DLK_BUSY);
	assert_int_equal(ask(2), DLK_BUSY);
	release(0);
	while (heartbeat(1) == DLK_BUSY)
		assert_true(++calls < 5);
	assert_word(1, "granted");
	release(1);
	assert_served(2);
	assert_silent(7);
	release(2);
}

/* Of those who left, there are but holes. */
static void many_holes_are_got_over(void **state)
{
	int calls = 0;

	(void)state;
	line_up(1);
	for (int i = 0; i < 2500; i++) {
		assert_int_equal(ask(2), DLK_BUSY);
		cancel(2);
		/* (On a busy machine this takes longer than its place lasts.) */
		if (i % 100 == 0)
			assert_int_equal(heartbeat(1), DLK_BUSY);
	}
	assert_int_equal(ask(3), DLK_BUSY);
	release(0);
	assert_served(1);
	release(1);
	while (!exists(KEY)) {
		assert_true(++calls < 5);
		assert_int_equal(try(4), DLK_BUSY); /* overtakes nobody */
	}
	assert_served(3);
	release(3);
}

/* --- the claim ------------------------------------------------------------ */

static void nobody_proves_a_claim_dead(void **state)
{
	struct party *p = &party[2];
	char token[DLK_TOKEN_MAX];

	(void)state;
	line_up(1);
	release(0);
	assert_served(1);
	/* Of the claim's own host and file, and newer than all. */
	p->lease.token = token_of(token, 'z', "host1", FILE_, UINT64_MAX - 1);
	p->lease.token_len = strlen(token);
	for (int shared = 0; shared < 2; shared++) {
		mode(2, shared ? SH : EX);
		dlk_conn_reset(c);
		assert_int_equal(dlk_lease_acquire(c, in_ms(SOON_MS), &p->lease,
						   true, NULL, NULL, &answer),
				 DLK_BUSY);
	}
	assert_string_equal(value_at(redis.c, KEY), party[1].claim);
	release(1);
}

static void the_first_renewal_confirms(void **state)
{
	(void)state;
	line_up(1);
	release(0);
	assert_served(1);
	assert_int_equal(renew(1), 0);
	assert_held_by(1);
	assert_int_equal(renew(1), 0);
	release(1);
}

static void an_unconfirmed_claim_is_released(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	release(1);
	assert_word(1, "granted");
	assert_served(2);
	release(2);
	assert_false(exists(KEY));
}

static void a_confirmation_after_the_release_does_nothing(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	release(1);
	assert_int_equal(renew(1), DLK_LOST);
	assert_string_equal(value_at(redis.c, KEY), party[2].claim);
	release(2);
	assert_int_equal(renew(1), DLK_GONE);
	assert_int_equal(renew(2), DLK_GONE);
	assert_false(exists(KEY));
}

/* The word that is late is not taken for that of a later grant. */
static void the_word_has_the_number_of_the_last_request(void **state)
{
	(void)state;
	line_up(2);
	party[1].w.request++;
	assert_int_equal(heartbeat(1), DLK_BUSY);
	release(0);
	assert_served(1);
	release(1);
	assert_served(2);
	release(2);
}

static void who_missed_the_word_is_told_when_it_stays(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	assert_int_equal(heartbeat(1), 0);
	assert_string_equal(value_at(redis.c, KEY), party[1].claim);
	assert_in_range(ttl_at(redis.c, KEY), LIFE / 2, LIFE);
	assert_int_equal(queue_len(), 1);
	release(1);
	assert_served(2);
	release(2);
}

static void who_asks_with_its_claim_there_has_it(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	assert_int_equal(ask(1), 0);
	assert_held_by(1);
	release(1);
	assert_served(2);
	release(2);
}

/* --- rest, pass ----------------------------------------------------------- */

static void who_rests_is_not_served(void **state)
{
	(void)state;
	line_up(2);
	suspend(1);
	release(0);
	assert_silent(1);
	assert_served(2);
	release(2);
	cancel(1);
}

static void who_rests_keeps_its_place(void **state)
{
	(void)state;
	line_up(2);
	suspend(1);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_int_equal(queue_len(), 2);
	release(0);
	assert_served(1);
	release(1);
	assert_served(2);
	release(2);
}

static void who_rests_alone_leaves_nothing(void **state)
{
	(void)state;
	line_up(1);
	suspend(1);
	assert_false(exists(QUEUE));
	release(0);
	assert_false(exists(KEY));
}

static void who_rests_gives_back_what_it_was_granted(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	assert_served(1);
	suspend(1);
	assert_served(2);
	release(2);
}

static void who_passes_is_the_first_again(void **state)
{
	(void)state;
	line_up(3);
	release(0);
	assert_served(1);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_silent(1);
	assert_served(2);
	assert_int_equal(queue_len(), 2);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_int_equal(queue_len(), 2);
	release(2);
	assert_served(1);
	assert_int_equal(queue_len(), 1);
	release(1);
	assert_silent(1);
	assert_served(3);
	release(3);
}

static void who_passes_twice_is_the_first_again(void **state)
{
	(void)state;
	line_up(3);
	release(0);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_word(1, "granted");
	assert_served(2);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	release(2);
	assert_served(1);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_served(3);
	assert_int_equal(queue_len(), 1);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	release(3);
	assert_served(1);
	release(1);
	assert_false(exists(QUEUE));
}

/* A queue begins at 1, so there are places below 0. */
static void the_last_who_passes_is_the_first(void **state)
{
	(void)state;
	line_up(3);
	release(0);
	for (int i = 1; i <= 3; i++) {
		assert_served(i);
		assert_int_equal(yield(i), DLK_BUSY);
	}
	assert_int_equal(try(4), 0);
	for (int i = 1; i <= 3; i++)
		assert_int_equal(heartbeat(i), DLK_BUSY);
	for (int i = 4; i >= 1; i--) {
		release(i);
		if (i > 1)
			assert_served(i - 1);
	}
}

/* It sleeps in the kernel, and would let the claim expire. */
static void who_passes_is_not_served_before_it_is_back(void **state)
{
	(void)state;
	line_up(3);
	release(0);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_word(1, "granted");
	assert_served(2);
	release(2);
	assert_silent(1);
	assert_served(3);
	assert_int_equal(ask(4), DLK_BUSY);
	assert_int_equal(ask(1), DLK_BUSY);
	release(3);
	assert_served(1);
	release(1);
	assert_served(4);
	release(4);
}

static void who_is_away_keeps_nobody_waiting(void **state)
{
	(void)state;
	line_up(2);
	release(0);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_word(1, "granted");
	assert_served(2);
	release(2);
	assert_false(exists(KEY));
	assert_int_equal(try(3), 0);
	release(3);
	assert_int_equal(ask(4), 0);
	release(4);
	cancel(1);
}

static void who_rests_and_is_passed_is_the_first_again(void **state)
{
	(void)state;
	line_up(3);
	suspend(1);
	release(0);
	assert_served(2);
	assert_int_equal(heartbeat(1), DLK_BUSY);
	release(2);
	assert_served(1);
	release(1);
	assert_served(3);
	release(3);
}

static void who_passes_alone_leaves_it_free(void **state)
{
	(void)state;
	line_up(1);
	release(0);
	assert_served(1);
	assert_int_equal(yield(1), DLK_BUSY);
	assert_false(exists(KEY));
	assert_int_equal(queue_len(), 1);
	assert_int_equal(ask(1), 0);
	assert_false(exists(QUEUE));
	release(1);
}

/* --- readers -------------------------------------------------------------- */

static void readers_are_served_together(void **state)
{
	(void)state;
	for (int i = 1; i <= 3; i++)
		mode(i, SH);
	line_up(3);
	release(0);
	for (int i = 1; i <= 3; i++)
		assert_served(i);
	assert_false(exists(QUEUE));
	for (int i = 1; i <= 3; i++)
		assert_int_equal(renew(i), 0);
	for (int i = 1; i <= 3; i++)
		release(i);
}

static void a_reader_claim_is_one_lease(void **state)
{
	(void)state;
	mode(1, SH);
	line_up(1);
	release(0);
	assert_served(1);
	assert_int_equal(renew(1), 0);
	assert_true(reads(party[1].token));
	assert_false(reads(party[1].claim));
	release(1);
	assert_false(exists(KEY));
}

/* 1 reads, 2 writes, 3 reads. */
static void mixed(bool fair)
{
	all(fair, false);
	mode(1, SH);
	mode(3, SH);
	line_up(3);
	release(0);
	assert_served(1);
}

static void a_reader_passes_a_writer_that_waits(void **state)
{
	(void)state;
	mixed(false);
	assert_served(3);
	mode(4, SH);
	assert_int_equal(ask(4), 0);
	assert_silent(2);
	release(1);
	release(3);
	assert_silent(2);
	release(4);
	assert_served(2);
	release(2);
}

static void but_not_if_the_rule_is_fair(void **state)
{
	(void)state;
	mixed(true);
	assert_silent(3);
	mode(4, SH);
	assert_int_equal(ask(4), DLK_BUSY);
	assert_int_equal(try(4), DLK_BUSY);
	release(1);
	assert_served(2);
	release(2);
	assert_served(3);
	assert_served(4);
	release(3);
	release(4);
}

static void if_fair_readers_before_the_writer_are_served(void **state)
{
	(void)state;
	all(true, false);
	mode(1, SH);
	mode(2, SH);
	mode(4, SH);
	line_up(4);
	release(0);
	assert_served(1);
	assert_served(2);
	assert_silent(3);
	assert_silent(4);
	release(1);
	release(2);
	assert_served(3);
	release(3);
	assert_served(4);
	release(4);
}

static void a_downgrade_serves_readers(void **state)
{
	struct dlk_lease before;

	(void)state;
	mode(1, SH);
	mode(3, SH);
	line_up(3);
	before = party[0].lease;
	mode(0, SH);
	assert_int_equal(ask_for(0, true, &before), 0);
	assert_served(1);
	assert_served(3);
	assert_silent(2);
	release(0);
	release(1);
	release(3);
	assert_served(2);
	release(2);
}

static void an_upgrade_waits_behind_those_who_wait(void **state)
{
	struct dlk_lease before;

	(void)state;
	mode(0, SH);
	line_up(2);
	before = party[0].lease;
	set_up(&party[5], 5);
	assert_int_equal(ask_for(5, true, &before), DLK_BUSY);
	assert_string_equal(answer.holder, party[1].claim);
	release(0); /* who is refused gives up what he had by himself */
	assert_served(1);
	release(1);
	assert_served(2);
	release(2);
	assert_served(5);
	release(5);
}

/* --- others --------------------------------------------------------------- */

static void with_interop_it_is_free_and_the_first_is_told(void **state)
{
	(void)state;
	all(false, true);
	line_up(2);
	release(0);
	assert_false(exists(KEY));
	assert_word(1, "try");
	assert_silent(2);
	assert_int_equal(queue_len(), 2);
	assert_int_equal(try(3), DLK_BUSY); /* no newcomer of ours */
	assert_false(exists(KEY));
	assert_word(1, "try");
	assert_int_equal(ask(1), 0);
	assert_held_by(1);
	release(1);
	assert_word(2, "try");
	assert_int_equal(ask(2), 0);
	release(2);
}

static void with_interop_a_foreign_poller_may_be_first(void **state)
{
	(void)state;
	all(false, true);
	line_up(1);
	release(0);
	assert_word(1, "try");
	tell_ok(tell(redis.c, "SET", KEY, "theirs", "NX", "PX", "9000", NULL));
	assert_int_equal(ask(1), DLK_BUSY);
	assert_string_equal(answer.holder, "theirs");
	assert_int_equal(queue_len(), 1);
	tell_ok(tell(redis.c, "DEL", KEY, NULL));
	assert_int_equal(heartbeat(1), DLK_BUSY);
	assert_word(1, "try");
	assert_int_equal(ask(1), 0);
	release(1);
}

static void a_foreign_holder_is_found_gone_by_who_stays(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SET", KEY, "theirs", "PX", "9000", NULL));
	assert_int_equal(ask(1), DLK_BUSY);
	assert_int_equal(ask(2), DLK_BUSY);
	tell_ok(tell(redis.c, "DEL", KEY, NULL));
	assert_int_equal(heartbeat(2), DLK_BUSY);
	assert_served(1);
	release(1);
	assert_served(2);
	release(2);
}

/* --- what should not be --------------------------------------------------- */

static void who_releases_by_text_serves_nobody(void **state)
{
	(void)state;
	line_up(1);
	assert_int_equal(give_back(0, true), 0);
	assert_false(exists(KEY));
	assert_silent(1);
	assert_int_equal(heartbeat(1), 0);
	assert_word(1, "granted");
	release(1);
}

static void entries_that_are_none_of_ours_are_skipped(void **state)
{
	(void)state;
	line_up(0);
	tell_ok(tell(redis.c, "HSET", QUEUE, "1", "nonsense", "2", "", "3",
		     "12 x y", "head", "1", "tail", "3", NULL));
	assert_int_equal(ask(1), DLK_BUSY);
	assert_int_equal(party[1].w.ticket, 4);
	release(0);
	assert_served(1);
	release(1);
}

static void a_queue_without_ends_is_none(void **state)
{
	(void)state;
	line_up(0);
	tell_ok(tell(redis.c, "HSET", QUEUE, "1", "nonsense", NULL));
	release(0);
	assert_false(exists(QUEUE));
}

static void a_queue_of_another_type_is_an_error(void **state)
{
	(void)state;
	line_up(0);
	tell_ok(tell(redis.c, "SET", QUEUE, "somebody's", NULL));
	assert_int_equal(ask(1), -EREMOTEIO);
	assert_non_null(strstr(c->error, "WRONGTYPE"));
	assert_non_null(strstr(c->error, QUEUE));
	assert_int_equal(heartbeat(1), -EREMOTEIO);
	assert_int_equal(try(2), DLK_BUSY);
	assert_held_by(0);
	assert_int_equal(renew(0), 0);
	release(0);
	assert_false(exists(KEY));
	assert_int_equal(ask(1), -EREMOTEIO);
	assert_false(exists(KEY));
	assert_string_equal(value_at(redis.c, QUEUE), "somebody's");
	tell_ok(tell(redis.c, "DEL", QUEUE, NULL));
	assert_int_equal(ask(1), 0);
	release(1);
}

static void a_server_that_forgot_serves_nobody(void **state)
{
	(void)state;
	line_up(1);
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	assert_int_equal(give_back(0, false), -ENOENT);
	assert_held_by(0);
	assert_int_equal(give_back(0, true), 0);
	assert_silent(1);
	assert_int_equal(heartbeat(1), 0);
	release(1);
}

static void a_server_that_is_young_queues_nobody(void **state)
{
	(void)state;
	assert_int_equal(ask(1), DLK_GRACE);
	assert_int_equal(heartbeat(1), DLK_GRACE);
	assert_false(party[1].w.queued);
}

static void who_looks_changes_nothing(void **state)
{
	bool shared = true;

	(void)state;
	assert_string_equal(look(1, &shared), "");
	assert_false(shared);
	assert_int_equal(try(0), 0);
	assert_int_equal(ask(2), DLK_BUSY);
	assert_string_equal(look(1, &shared), party[0].token);
	assert_false(shared);
	assert_int_equal(queue_len(), 1);
	release(0);
	/* A claim: it can be told from a lease. */
	assert_string_equal(look(1, &shared), party[2].claim);
	assert_int_equal(heartbeat(2), 0);
	release(2);
	mode(0, SH);
	assert_int_equal(try(0), 0);
	assert_string_equal(look(1, &shared), party[0].token);
	assert_true(shared);
	release(0);
}

/* So many writers more, who look for themselves. */
static void crowd(const char *n)
{
	static const char fill[] =
		"local now = redis.call('TIME')[1] * 1000"
		" for i = 1, ARGV[1] do"
		" local n = redis.call('HINCRBY', KEYS[1], 'tail', 1)"
		" redis.call('HSET', KEYS[1], n, string.format("
		" '%015d 60000 - EX dlock1 %032d', now + 60000, i))"
		" end return 1";

	assert_int_equal(tell(redis.c, "EVAL", fill, "1", QUEUE, n, NULL)->type,
			 REDIS_REPLY_INTEGER);
}

/* Readers hold it, whom it may join, and a thousand writers are before it. */
static void a_reader_is_granted_behind_a_thousand(void **state)
{
	(void)state;
	line_up(1);
	crowd("1100");
	mode(2, SH);
	mode(3, SH);
	assert_int_equal(ask(2), DLK_BUSY);
	assert_int_equal(tell(redis.c, "DEL", KEY, NULL)->integer, 1);
	tell_ok(tell(redis.c, "HSET", KEY, "dlock", "1", party[3].token,
		     "99999999999999", NULL));
	assert_int_equal(heartbeat(2), 0);
	assert_true(reads(party[2].claim));
	assert_int_equal(heartbeat(1), DLK_BUSY);
	tell_ok(tell(redis.c, "DEL", KEY, QUEUE, NULL));
}

static int begin_young(void **state)
{
	int err = begin(state);

	dlk_conn_delete(c);
	return err ? err : connect_young(state);
}

#define queue_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(who_is_refused_and_waits_is_queued),
		queue_test(who_does_not_wait_is_never_queued),
		queue_test(served_in_the_order_of_coming),
		queue_test(who_stays_keeps_its_place),
		queue_test(who_asks_again_keeps_its_place),
		queue_test(a_newcomer_overtakes_nobody),
		queue_test(nor_does_one_that_does_not_wait),
		queue_test(the_first_one_that_asks_itself_is_granted),
		queue_test(who_leaves_is_passed_over),
		queue_test(who_leaves_what_it_was_granted_serves_the_next),
		queue_test(who_has_left_disturbs_nobody),
		queue_test(the_dead_are_skipped_at_once),
		queue_test(if_all_are_dead_the_lock_is_free),
		queue_test(who_has_no_channel_is_served_and_finds_it),
		queue_test(who_was_skipped_is_told_that_its_place_is_lost),
		queue_test(the_stale_are_skipped),
		queue_test(a_claim_that_nobody_takes_ends_with_its_life),
		queue_test(the_queue_ends_with_those_in_it),
		queue_test(a_ticket_of_a_queue_that_is_gone),
		queue_test(many_stale_tickets_are_got_over),
		queue_test(many_holes_are_got_over),
		queue_test(nobody_proves_a_claim_dead),
		queue_test(the_first_renewal_confirms),
		queue_test(an_unconfirmed_claim_is_released),
		queue_test(a_confirmation_after_the_release_does_nothing),
		queue_test(the_word_has_the_number_of_the_last_request),
		queue_test(who_missed_the_word_is_told_when_it_stays),
		queue_test(who_asks_with_its_claim_there_has_it),
		queue_test(who_rests_is_not_served),
		queue_test(who_rests_keeps_its_place),
		queue_test(who_rests_alone_leaves_nothing),
		queue_test(who_rests_gives_back_what_it_was_granted),
		queue_test(who_passes_is_the_first_again),
		queue_test(who_passes_twice_is_the_first_again),
		queue_test(who_passes_is_not_served_before_it_is_back),
		queue_test(the_last_who_passes_is_the_first),
		queue_test(who_is_away_keeps_nobody_waiting),
		queue_test(who_rests_and_is_passed_is_the_first_again),
		queue_test(who_passes_alone_leaves_it_free),
		queue_test(readers_are_served_together),
		queue_test(a_reader_claim_is_one_lease),
		queue_test(a_reader_passes_a_writer_that_waits),
		queue_test(but_not_if_the_rule_is_fair),
		queue_test(if_fair_readers_before_the_writer_are_served),
		queue_test(a_downgrade_serves_readers),
		queue_test(an_upgrade_waits_behind_those_who_wait),
		queue_test(with_interop_it_is_free_and_the_first_is_told),
		queue_test(with_interop_a_foreign_poller_may_be_first),
		queue_test(a_foreign_holder_is_found_gone_by_who_stays),
		queue_test(who_releases_by_text_serves_nobody),
		queue_test(entries_that_are_none_of_ours_are_skipped),
		queue_test(a_queue_without_ends_is_none),
		queue_test(a_queue_of_another_type_is_an_error),
		queue_test(a_server_that_forgot_serves_nobody),
		queue_test(who_looks_changes_nothing),
		queue_test(a_reader_is_granted_behind_a_thousand),
		cmocka_unit_test_setup_teardown(
			a_server_that_is_young_queues_nobody, begin_young, end),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
