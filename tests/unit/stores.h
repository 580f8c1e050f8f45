/* SPDX-License-Identifier: MIT */
/*
 * The stage of the tests of stores (lease/store.h): a single Redis server and
 * one in memory, of which each case gets one, empty; and four who want
 * something of it.
 */
#ifndef DLK_TEST_STORES_H
#define DLK_TEST_STORES_H

#include "lease/queue.h"
#include "tests/unit/redis.h"
#include "tests/unit/store_memory.h"

enum { TTL = 30000, LIFE = 10000, SHORT = 120, SOON_MS = 5000, N = 4 };

#define HERE  "0123456789abcdef0123456789abcdef"
#define FILE_ "fd00:1f:1.00"

static struct own_redis redis;
static struct dlk_redis section;
static struct store_memory memory;

static struct dlk_store *s;
static struct dlk_attempt at;
static struct dlk_answer answer;
static unsigned n_done, n_restarted;
static int last_err;
static uint64_t last_seq;

/* Somebody of a host of its own, but 0 and 1, who are of one. */
static struct party {
	struct dlk_lease lease;
	struct dlk_waiter w;
	struct dlk_subscription *sub;
	char token[DLK_TOKEN_MAX], claim[DLK_TOKEN_MAX];
	char what[DLK_WHAT_LEN + 1];
	uint64_t seq;
} party[N];

/* --- the stage ------------------------------------------------------------ */

static inline void prepare(int i)
{
	struct party *p = &party[i];
	char host[16];

	memset(p, 0, sizeof(*p));
	snprintf(host, sizeof(host), "host%d", i);
	token_of(p->token, (char)('a' + i), i < 2 ? HERE : host, FILE_,
		 1000 + (uint64_t)i);
	token_of(p->claim, (char)('a' + i), i < 2 ? HERE : host, FILE_,
		 UINT64_MAX);
	p->lease = (struct dlk_lease){ .key = "k",
				       .key_len = 1,
				       .token = p->token,
				       .token_len = strlen(p->token),
				       .ttl_ms = TTL };
	p->w = (struct dlk_waiter){ .claim = p->claim,
				    .claim_len = strlen(p->claim),
				    .claim_ttl_ms = LIFE };
}

static inline int stage(struct dlk_store *store)
{
	s = store;
	at = (struct dlk_attempt){ .timeout_ns = SOON_MS * DLK_MS };
	memset(&answer, 0x55, sizeof(answer));
	n_done = n_restarted = 0;
	last_err = 1000;
	for (int i = 0; i < N; i++)
		prepare(i);
	return 0;
}

static inline int with_single(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	return stage(dlk_store_of(&section));
}

static inline int with_memory(void **state)
{
	(void)state;
	store_memory_init(&memory);
	return stage(&memory.store);
}

static inline void restarted(const struct dlk_store *store)
{
	assert_ptr_equal(store, s);
	n_restarted++;
}

static inline int start(void **state)
{
	(void)state;
	own_redis_start(&redis);
	section = (struct dlk_redis){ .name = "test",
				      .endpoints = &redis.ep,
				      .n_endpoints = 1 };
	return dlk_stores_begin(&section, 1, restarted);
}

static inline int stop(void **state)
{
	(void)state;
	dlk_stores_forget();
	own_redis_stop(&redis);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++)
		if (party[i].sub)
			s->ops->unsubscribe(party[i].sub, true);
	while (s->ops->drain(s, in_ms(SOON_MS), NULL))
		;
	return 0;
}

/* --- what they do --------------------------------------------------------- */

static inline void done(void *arg, int err, uint64_t seq)
{
	(void)arg;
	n_done++;
	last_err = err;
	last_seq = seq;
}

static const struct dlk_sending sending = {
	.timeout_ns = SOON_MS * DLK_MS,
	.connects = true,
	.done = done,
};

static inline int ask_with(int i, bool proof,
			   const struct dlk_lease *superseded, bool wait)
{
	const struct dlk_ask ask = { .proof = proof,
				     .superseded = superseded,
				     .waiter = wait ? &party[i].w : NULL };

	return s->ops->acquire(s, &at, &party[i].lease, &ask, &answer);
}

static inline int try(int i)
{
	return ask_with(i, false, NULL, false);
}

static inline void listen_to(int i)
{
	struct party *p = &party[i];

	assert_int_equal(s->ops->subscribe(s, &at, &p->lease, &p->sub), 0);
	strcpy(p->w.channel, s->ops->channel(p->sub));
	assert_int_equal(strlen(p->w.channel), DLK_CHANNEL_LEN);
}

static inline int ask_and_wait(int i)
{
	if (!party[i].sub)
		listen_to(i);
	return ask_with(i, false, NULL, true);
}

static inline int heartbeat(int i)
{
	return s->ops->heartbeat(s, &at, &party[i].lease, &party[i].w, &answer);
}

/* The word comes on another connection than the answers. */
static inline int hear(int i)
{
	const uint64_t until = in_ms(SOON_MS);
	int word = 0;

	while (!word && dlk_now_ns() < until) {
		word = s->ops->heard(party[i].sub, &party[i].w);
		if (!word)
			dlk_pause_ns(DLK_MS);
	}
	return word;
}

static inline bool is_silent(int i)
{
	assert_int_equal(s->ops->ping(s, &at), 0);
	dlk_pause_ns(5 * DLK_MS);
	return s->ops->heard(party[i].sub, &party[i].w) == 0;
}

static inline void settle_all(unsigned n)
{
	while (s->ops->drain(s, in_ms(SOON_MS), NULL))
		;
	assert_int_equal(n_done, n);
}

static inline void release(int i)
{
	unsigned before = n_done;

	assert_int_equal(s->ops->send_release(s, &sending, &party[i].lease), 0);
	settle_all(before + 1);
	assert_int_equal(last_err, 0);
}

static inline int renew(int i)
{
	struct dlk_renewal r = { .lease = &party[i].lease,
				 .deadline_ns = in_ms(TTL) };

	s->ops->renew(s, &at, &r, 1);
	assert_false(r.reclaimed);
	return r.result;
}

#define of_single(f)                                                           \
	{                                                                      \
#f ": a single server", f, with_single, end, NULL              \
	}
#define of_memory(f)                                                           \
	{                                                                      \
#f ": in memory", f, with_memory, end, NULL                    \
	}
#define of_both(f) of_single(f), of_memory(f)

#endif
