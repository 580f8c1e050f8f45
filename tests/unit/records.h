/* SPDX-License-Identifier: MIT */
/*
 * The stage of the tests of record locks at Redis: owners, what each holds by
 * its own account, what it asks, and what the server has of it.
 */
#ifndef DLK_TEST_RECORDS_H
#define DLK_TEST_RECORDS_H

#include "lease/records.h"
#include "tests/unit/leases.h"

#define MAX    DLK_RANGE_MAX
#define PLACES "{k}%r"
#define U      DLK_UNLOCKED
#define R      DLK_READ
#define W      DLK_WRITE

static struct dlk_answer got;
static uint32_t pause_ms; /* of lease_of() */

/* An owner, with what it holds by its own account. */
struct holder {
	char token[DLK_TOKEN_MAX];
	uint64_t seq, since;
	struct dlk_range room[64];
	struct dlk_ranges held;
};

static inline void reset(struct holder *h, char tag, const char *host,
			 uint64_t since)
{
	token_of(h->token, tag, host, FILE_, since);
	h->seq = 0;
	h->since = since;
	h->held = (struct dlk_ranges){ .v = h->room, .room = 64 };
}

static inline struct dlk_lease lease_of(const struct holder *h)
{
	return (struct dlk_lease){ .key = "k",
				   .key_len = 1,
				   .ranges_key = PLACES,
				   .ranges_key_len = sizeof(PLACES) - 1,
				   .token = h->token,
				   .token_len = strlen(h->token),
				   .ttl_ms = TTL,
				   .pause_ms = pause_ms };
}

static inline int ask(struct holder *h, const struct dlk_records_ask *q)
{
	struct dlk_lease lease = lease_of(h);

	dlk_conn_reset(c);
	return dlk_records_acquire(c, in_ms(5000), &lease, q, &got);
}

/* Say what is held in a window. */
static inline int say_window(struct holder *h, uint64_t seq, uint64_t start,
			     uint64_t end)
{
	struct dlk_lease lease = lease_of(h);
	struct dlk_range window = { start, end, U };
	const redisReply *r;

	dlk_conn_reset(c);
	assert_int_equal(
		dlk_records_set(c, &lease, seq, &window, &h->held, true), 0);
	assert_true(window.start > window.end);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	return dlk_lease_released(r, &got.seq);
}

/* Its kernel, asked at since_ns (0: not asked), knows of nobody. */
static inline int look_since(struct holder *h, uint64_t since_ns,
			     enum dlk_range_type type, uint64_t start,
			     uint64_t end)
{
	struct dlk_lease lease = lease_of(h);
	struct dlk_range range = { start, end, type };

	dlk_conn_reset(c);
	return dlk_records_get(c, in_ms(5000), &lease, &range, since_ns, &got);
}

static inline int look(struct holder *h, enum dlk_range_type type,
		       uint64_t start, uint64_t end)
{
	return look_since(h, 0, type, start, end);
}

static inline int renew(struct holder *h)
{
	struct dlk_lease lease = lease_of(h);
	struct dlk_renewal u = { .lease = &lease };

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_renew(c, &lease, true), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	return dlk_lease_renewed(c, in_ms(5000), &u);
}

static inline int reclaim_all(struct holder *h, uint64_t seq, uint64_t since,
			      const struct dlk_ranges *held)
{
	struct dlk_lease lease = lease_of(h);
	struct dlk_renewal u = { .lease = &lease, .sent_seq = seq };

	dlk_conn_reset(c);
	dlk_records_reclaim(c, in_ms(5000), &u, since, held);
	return u.result;
}

static inline int reclaim(struct holder *h)
{
	return reclaim_all(h, h->seq, h->since, &h->held);
}

static inline void id_of(const struct holder *h, char id[DLK_RANDOM_LEN + 1])
{
	snprintf(id, DLK_RANDOM_LEN + 1, "%s", h->token + 7);
}

/* It is to expire in so long. */
static inline void expire_in(const struct holder *h, int ms)
{
	char id[DLK_RANDOM_LEN + 1], head[2 * DLK_TOKEN_MAX];
	const redisReply *r;

	id_of(h, id);
	r = tell(redis.c, "HGET", "k", id, NULL);
	assert_int_equal(r->type, REDIS_REPLY_STRING);
	snprintf(head, sizeof(head), "%.20s %015lld%s", r->str,
		 server_ms() + ms, r->str + 36);
	tell_ok(tell(redis.c, "HSET", "k", id, head, NULL));
}

/* Its ttl is over, and nobody has swept it. */
static inline void expire(const struct holder *h)
{
	expire_in(h, -1);
}

/* An owner's ranges as the server lists them. */
static inline void read_ranges(const struct holder *h, struct dlk_ranges *set)
{
	char from[64], to[64];
	const redisReply *r;

	snprintf(from, sizeof(from), "[O%.32s", h->token + 7);
	snprintf(to, sizeof(to), "[O%.32s:", h->token + 7);
	r = tell(redis.c, "ZRANGEBYLEX", PLACES, from, to, NULL);
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_true(r->elements <= set->room);
	for (set->n = 0; set->n < r->elements; set->n++)
		assert_true(dlk_records_read_place(r->element[set->n]->str,
						   r->element[set->n]->len,
						   &set->v[set->n]));
}

/*
 * What the queue has granted, for a while, to somebody of that host who has not
 * confirmed it (claim_range() of records_queue.inc).
 */
static inline void put_claim(struct holder *h, char tag, const char *host,
			     struct dlk_range r)
{
	char id[DLK_RANDOM_LEN + 1], head[2 * DLK_TOKEN_MAX], m[3][128];
	const unsigned long long s = r.start, e = r.end;
	const char type = "URW"[r.type];

	reset(h, tag, host, UINT64_MAX);
	id_of(h, id);
	snprintf(head, sizeof(head), "%020d %015lld %s %s", 0,
		 server_ms() + TTL, DLK_NEVER, h->token);
	snprintf(m[0], sizeof(m[0]), "O%s%019llu%019llu%c", id, s, e, type);
	snprintf(m[1], sizeof(m[1]), "S%c%019llu%019llu%s", type, s, e, id);
	snprintf(m[2], sizeof(m[2]), "E%c%019llu%019llu%s", type, e, s, id);
	tell_ok(tell(redis.c, "HSET", "k", "dlock", "1", id, head, NULL));
	tell_ok(tell(redis.c, "ZADD", PLACES, "0", m[0], "0", m[1], "0", m[2],
		     NULL));
	tell_ok(tell(redis.c, "PEXPIRE", "k", "30000", NULL));
	tell_ok(tell(redis.c, "PEXPIRE", PLACES, "30000", NULL));
}

static inline void text_of(const struct dlk_ranges *set, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < set->n && len < size; i++) {
		const struct dlk_range *r = &set->v[i];

		len += (size_t)snprintf(buf + len, size - len, "%s%c%llu-%llu",
					i ? " " : "", "URW"[r->type],
					(unsigned long long)r -> start,
					(unsigned long long)r -> end);
	}
}

#endif
