/* SPDX-License-Identifier: MIT */
/*
 * The store in memory, inside: who holds which bytes of what, who waits, and
 * what follows from that.  A lease on a whole file is one on all of its bytes,
 * so one rule does for both.
 */
#ifndef DLK_TEST_MEMORY_LEASES_H
#define DLK_TEST_MEMORY_LEASES_H

#include <stdlib.h>
#include <string.h>

#include "model/timeline.h"
#include "os/sys.h"
#include "tests/unit/store_memory.h"

static const struct dlk_range whole = { 0, DLK_RANGE_MAX, DLK_WRITE };

static inline uint64_t now_of(const struct store_memory *m)
{
	return dlk_now_ns() + m->skew_ns;
}

static inline void copy(char *to, size_t size, const char *from, size_t len)
{
	memset(to, 0, size);
	memcpy(to, from, len < size ? len : size - 1);
}

/* Token and claim have the same digits: to a store they are one. */
static inline bool is_same(const char *a, const char *b)
{
	return strncmp(a, b, 7 + DLK_RANDOM_LEN) == 0;
}

/* Of the same host and file, and older than since_ns. */
static inline bool is_dead(const char *theirs, const char *ours,
			   uint64_t since_ns)
{
	struct dlk_token a, b;

	return dlk_token_parse(theirs, strlen(theirs), &a) &&
	       dlk_token_parse(ours, strlen(ours), &b) &&
	       strcmp(a.host, b.host) == 0 && strcmp(a.file, b.file) == 0 &&
	       a.since_ns < since_ns;
}

static inline uint64_t since_of(const char *token)
{
	struct dlk_token t;

	return dlk_token_parse(token, strlen(token), &t) ? t.since_ns : 0;
}

static inline struct dlk_range range_of(const struct dlk_lease *l)
{
	struct dlk_range r = whole;

	r.type = l->shared ? DLK_READ : DLK_WRITE;
	return r;
}

/* --- owners ----------------------------------------------------------------- */

static inline struct memory_owner *find_owner(struct store_memory *m,
					      const char *key,
					      const char *token)
{
	for (int i = 0; i < MEMORY_OWNERS; i++)
		if (m->owners[i].key[0] && !strcmp(m->owners[i].key, key) &&
		    is_same(m->owners[i].token, token))
			return &m->owners[i];
	return NULL;
}

static inline void drop_owner(struct memory_owner *o)
{
	if (o)
		o->key[0] = '\0';
}

static inline void cut(struct memory_owner *o, struct dlk_range r)
{
	r.type = DLK_UNLOCKED;
	dlk_ranges_set(&o->ranges, r);
	if (o->ranges.n == 0)
		drop_owner(o);
}

static inline struct memory_owner *have_owner(struct store_memory *m,
					      const char *key,
					      const char *token,
					      uint64_t until_ns)
{
	struct memory_owner *o = find_owner(m, key, token);

	for (int i = 0; i < MEMORY_OWNERS && !o; i++)
		if (!m->owners[i].key[0]) {
			o = &m->owners[i];
			memset(o, 0, sizeof(*o));
			copy(o->key, sizeof(o->key), key, strlen(key));
			o->ranges =
				(struct dlk_ranges){ .v = o->room,
						     .room = MEMORY_RANGES };
		}
	if (!o)
		abort();
	copy(o->token, sizeof(o->token), token, strlen(token));
	o->until_ns = until_ns;
	return o;
}

/* Who else is in the way of `want`, the first one by its range. */
static inline struct memory_owner *conflict(struct store_memory *m,
					    const char *key, const char *token,
					    const struct dlk_range *want,
					    struct dlk_range *at)
{
	struct memory_owner *found = NULL;

	for (int i = 0; i < MEMORY_OWNERS; i++) {
		struct memory_owner *o = &m->owners[i];
		const struct dlk_range *r;

		if (!o->key[0] || strcmp(o->key, key) != 0 ||
		    (token[0] && is_same(o->token, token)))
			continue;
		r = dlk_ranges_conflict(&o->ranges, want);
		if (!r || (found && at->start <= r->start))
			continue;
		found = o;
		*at = *r;
	}
	return found;
}

/* --- who waits --------------------------------------------------------------- */

static inline void say(struct store_memory *m, const struct memory_place *p)
{
	for (int i = 0; i < MEMORY_OWNERS; i++)
		if (m->subs[i].channel[0] &&
		    strcmp(m->subs[i].channel, p->channel) == 0) {
			copy(m->subs[i].claim, sizeof(m->subs[i].claim),
			     p->claim + 7, DLK_RANDOM_LEN);
			m->subs[i].request = p->request;
		}
}

/* Of a whole file, who cannot be served keeps those behind it waiting. */
static inline bool serve_one(struct store_memory *m, struct memory_place *p)
{
	char own[7 + DLK_RANDOM_LEN + 1] = "dlock1 ";
	struct memory_owner *o;
	struct dlk_range at;

	memcpy(own + 7, p->owner, DLK_RANDOM_LEN);
	o = conflict(m, p->key, p->whole ? p->claim : own, &p->want, &at);
	if (p->away)
		return true;
	if (o && !is_same(o->token, p->claim))
		return !p->whole;
	o = have_owner(m, p->key, p->claim,
		       now_of(m) + p->claim_ttl_ms * DLK_MS);
	dlk_ranges_set(&o->ranges, p->want);
	say(m, p);
	p->ticket = 0;
	return true;
}

static inline struct memory_place *next_place(struct store_memory *m,
					      const char *key, int64_t after)
{
	struct memory_place *next = NULL;

	for (int i = 0; i < MEMORY_OWNERS; i++) {
		struct memory_place *p = &m->places[i];

		if (p->ticket && p->ticket > after &&
		    strcmp(p->key, key) == 0 &&
		    (!next || p->ticket < next->ticket))
			next = p;
	}
	return next;
}

/* What has ended is gone, and who waits for what is free is served. */
static inline void serve(struct store_memory *m, const char *key)
{
	const uint64_t now = now_of(m);
	struct memory_place *p;
	int64_t at = INT64_MIN / 2;

	for (int i = 0; i < MEMORY_OWNERS; i++) {
		if (m->owners[i].until_ns <= now)
			drop_owner(&m->owners[i]);
		if (m->places[i].ticket && m->places[i].until_ns <= now)
			m->places[i].ticket = 0;
	}
	while ((p = next_place(m, key, at))) {
		at = p->ticket;
		if (!serve_one(m, p))
			break;
	}
}

static inline struct memory_place *find_place(struct store_memory *m,
					      const char *claim)
{
	for (int i = 0; i < MEMORY_OWNERS; i++)
		if (m->places[i].ticket && is_same(m->places[i].claim, claim))
			return &m->places[i];
	return NULL;
}

static inline struct memory_place *have_place(struct store_memory *m,
					      const struct dlk_lease *l,
					      struct dlk_waiter *w)
{
	struct memory_place *p = find_place(m, w->claim);

	for (int i = 0; i < MEMORY_OWNERS && !p; i++)
		if (m->places[i].ticket == 0)
			p = &m->places[i];
	if (!p)
		abort();
	w->lost = w->queued && p->ticket != w->ticket;
	if (p->ticket == 0) {
		memset(p, 0, sizeof(*p));
		p->ticket = ++m->last_ticket;
	}
	copy(p->key, sizeof(p->key), l->key, l->key_len);
	copy(p->claim, sizeof(p->claim), w->claim, w->claim_len);
	memcpy(p->channel, w->channel, sizeof(p->channel));
	p->request = w->request;
	p->claim_ttl_ms = w->claim_ttl_ms;
	p->until_ns = now_of(m) + w->claim_ttl_ms * DLK_MS;
	p->whole = !l->ranges_key;
	p->want = range_of(l);
	p->away = false;
	if (w->what) {
		dlk_range_read(w->what[0], w->what + 1, &p->want);
		copy(p->owner, sizeof(p->owner), w->what + DLK_RANGE_LEN,
		     DLK_RANDOM_LEN);
	}
	return p;
}

static inline void queue(struct store_memory *m, const struct dlk_lease *l,
			 struct dlk_waiter *w)
{
	struct memory_place *p, *other = NULL;

	if (!w || !w->channel[0])
		return;
	p = have_place(m, l, w);
	w->queued = true;
	w->ticket = p->ticket;
	w->ahead = 0;
	for (int64_t at = INT64_MIN / 2;
	     (other = next_place(m, p->key, at)) && other != p;
	     at = other->ticket)
		w->ahead++;
}

/* DLK_BUSY, by this one. */
static inline int refuse(struct store_memory *m, struct dlk_answer *answer,
			 const struct memory_owner *o,
			 const struct dlk_range *at)
{
	answer->left_ms = (int64_t)((o->until_ns - now_of(m)) / DLK_MS);
	answer->range = *at;
	answer->holder_len = strlen(o->token);
	strcpy(answer->holder, o->token);
	return DLK_BUSY;
}

/* Those that a proof knows to be dead leave `want`. */
static inline bool bury(struct store_memory *m, const struct dlk_lease *l,
			const struct dlk_range *want, uint64_t since_ns)
{
	struct memory_owner *o;
	struct dlk_range at;
	bool any = false;

	for (int i = 0; i < MEMORY_OWNERS; i++) {
		o = &m->owners[i];
		if (!o->key[0] || strcmp(o->key, l->key) != 0 ||
		    is_same(o->token, l->token) ||
		    !is_dead(o->token, l->token, since_ns) ||
		    !dlk_ranges_conflict(&o->ranges, want))
			continue;
		any = true;
		at = *want;
		at.type = DLK_READ; /* it may have downgraded, and live */
		if (want->type == DLK_READ)
			dlk_ranges_set(&o->ranges, at);
		else
			cut(o, at);
	}
	return any;
}

static inline int grant(struct store_memory *m, const struct dlk_lease *l,
			const struct dlk_range *want, struct dlk_waiter *w,
			struct dlk_answer *answer)
{
	struct memory_owner *o;
	struct memory_place *p = w ? find_place(m, w->claim) : NULL;
	struct dlk_range at;

	if (m->young_ms) {
		answer->left_ms = (int64_t)m->young_ms;
		return DLK_GRACE;
	}
	o = conflict(m, l->key, l->token, want, &at);
	if (o && w && is_same(o->token, w->claim)) {
		drop_owner(o); /* its own claim, of another name */
		o = conflict(m, l->key, l->token, want, &at);
	}
	if (o) {
		queue(m, l, w);
		return refuse(m, answer, o, &at);
	}
	o = have_owner(m, l->key, l->token, now_of(m) + l->ttl_ms * DLK_MS);
	dlk_ranges_set(&o->ranges, *want);
	if (p)
		p->ticket = 0;
	if (w)
		w->queued = false;
	serve(m, l->key);
	return 0;
}

#endif
