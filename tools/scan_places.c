/* SPDX-License-Identifier: MIT */
/*
 * ZRANGEBYLEX over the ranges of a lease; see scan_places.h.
 *
 * A page is asked for from behind the last member of the one before, so what
 * comes and goes meanwhile moves nothing.  One that is too large for a reply
 * (DLK_REPLY_MAX) holds members that no dlock wrote: the walk ends there.
 */
#include "tools/scan_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "lease/records.h"
#include "tools/common.h"
#include "tools/scan_keys.h"

#define PAGE "500"

enum { PAGE_LEN = 500 };

/* The walk over one set. */
struct walk {
	struct dlk_conn *c;
	char name[DLK_KEY_MAX + 8];
	size_t name_len;
	char from[1 + DLK_TOKEN_MAX]; /* "[O", or "(" and the last member */
	size_t from_len;
	struct scan_places *places;
};

bool scan_places_add(struct scan_places *p, const char *member, size_t len)
{
	struct scan_place *place;
	struct dlk_range range;

	if (p->read == SCAN_PLACES_MAX)
		return false;
	p->read++;
	if (!dlk_records_read_place(member, len, &range))
		return true;
	p->places = tool_grow(p->places, p->n, &p->room, sizeof(*place));
	place = &p->places[p->n++];
	memcpy(place->owner, member + 1, DLK_RANDOM_LEN);
	place->range = range;
	return true;
}

/* One command on the set. */
static int call(struct walk *w, int argc, const struct dlk_arg *args, int type,
		const redisReply **reply)
{
	int err = scan_call(w->c, argc, args, type, reply);

	if (!err && (*reply)->type != type) {
		w->places->odd = true;
		return -EILSEQ;
	}
	return err;
}

static int take(struct walk *w, const redisReply *page)
{
	const redisReply *m = NULL;

	for (size_t i = 0; i < page->elements; i++) {
		m = page->element[i];
		if (m->type != REDIS_REPLY_STRING)
			return -EPROTO;
		if (!scan_places_add(w->places, m->str, m->len))
			return -E2BIG;
	}
	if (!m || page->elements < PAGE_LEN)
		return 0;
	if (m->len >= sizeof(w->from))
		return -E2BIG;
	w->from[0] = '(';
	memcpy(w->from + 1, m->str, m->len);
	w->from_len = 1 + m->len;
	return 1;
}

/* 1: there is more. */
static int page(struct walk *w)
{
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("ZRANGEBYLEX") }, { w->name, w->name_len },
		{ w->from, w->from_len },       { DLK_LITERAL("(P") },
		{ DLK_LITERAL("LIMIT") },       { DLK_LITERAL("0") },
		{ DLK_LITERAL(PAGE) },
	};
	const redisReply *reply;
	int err = call(w, 7, args, REDIS_REPLY_ARRAY, &reply);

	if (!err)
		err = take(w, reply);
	dlk_conn_reset(w->c);
	return err;
}

/* How many there are, less those that were read. */
static int count_rest(struct walk *w)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("ZLEXCOUNT") },
					{ w->name, w->name_len },
					{ DLK_LITERAL("[O") },
					{ DLK_LITERAL("(P") } };
	const redisReply *reply;
	int err = call(w, 4, args, REDIS_REPLY_INTEGER, &reply);
	struct scan_places *p = w->places;

	if (!err)
		p->rest = reply->integer > (long long)p->read
				  ? (size_t)reply->integer - p->read
				  : 1;
	dlk_conn_reset(w->c);
	return err;
}

/*
 * The scripts write both keys, and remove both, at once: a hash of which one
 * look at both finds no companion has lost it.
 */
static int look_for_loss(struct walk *w, const char *key, size_t len)
{
	const struct dlk_arg both[] = { { DLK_LITERAL("EXISTS") },
					{ key, len },
					{ w->name, w->name_len } };
	const struct dlk_arg type[] = { { DLK_LITERAL("TYPE") }, { key, len } };
	const redisReply *n, *kind;
	int err = scan_call(w->c, 3, both, REDIS_REPLY_INTEGER, &n);

	if (!err)
		err = scan_call(w->c, 2, type, REDIS_REPLY_STATUS, &kind);
	if (!err)
		w->places->lost = n->integer == 1 && !strcmp(kind->str, "hash");
	dlk_conn_reset(w->c);
	return err;
}

int scan_places(struct dlk_conn *c, const char *key, size_t len,
		struct scan_places *p)
{
	struct walk w = { .c = c, .from = "[O", .from_len = 2, .places = p };
	ssize_t n = dlk_records_ranges_key(key, len, w.name, sizeof(w.name));
	int err;

	*p = (struct scan_places){ 0 };
	if (n < 0)
		return (int)n;
	w.name_len = (size_t)n;
	do {
		err = page(&w);
	} while (err > 0);
	if (err == -EPROTO || err == -E2BIG)
		err = count_rest(&w);
	else if (!err && !p->n)
		err = look_for_loss(&w, key, len);
	return p->odd ? 0 : err;
}

void scan_places_free(struct scan_places *p)
{
	free(p->places);
	*p = (struct scan_places){ 0 };
}
