/* SPDX-License-Identifier: MIT */
/*
 * HSCAN over a hash of leases; see scan_owners.h.
 *
 * The mark's length is asked before the mark, and both before any field.  A
 * page too large for a reply (DLK_REPLY_MAX) holds fields that no dlock
 * wrote: the walk ends there, and the rest is counted.
 */
#include "tools/scan_owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/records.h"
#include "model/text.h"
#include "model/token.h"
#include "tools/common.h"
#include "tools/scan_keys.h"
#include "tools/table.h"

#define MARK "dlock"

enum { ARGS_MAX = 5 };

/* The walk over one hash. */
struct walk {
	struct dlk_conn *c;
	const char *key;
	size_t len;
	size_t fields; /* in it, the mark not among them */
	char cursor[24];
	struct scan_owners *owners;
};

/* Milliseconds since the epoch, as the scripts write them; -1: no number. */
static int64_t number(const char *text)
{
	uint64_t n = 0;
	const char *end = dlk_number(text, 10, &n);

	return end && !*end && n <= INT64_MAX ? (int64_t)n : -1;
}

static char *copy(struct scan_text text, size_t *len)
{
	char *bytes;

	*len = text.len < DLK_TOKEN_MAX ? text.len : DLK_TOKEN_MAX;
	bytes = malloc(*len + 1);
	if (!bytes)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	memcpy(bytes, text.bytes, *len);
	return bytes;
}

static void keep(struct scan_owners *o, struct scan_text field,
		 struct scan_text token, int64_t left_ms)
{
	struct scan_owner *owner;

	o->owners = ctl_grow(o->owners, o->n, &o->room, sizeof(*owner));
	owner = &o->owners[o->n++];
	owner->left_ms = left_ms;
	owner->field = owner->token = copy(field, &owner->len);
	owner->token_len = owner->len;
	if (o->records)
		owner->token = copy(token, &owner->token_len);
}

/* Of records: the token in it, and its expiry, or all of it and none. */
static int64_t read_head(struct scan_text *value)
{
	struct dlk_records_owner owner;

	if (!dlk_records_read_owner(value->bytes, value->len, &owner))
		return -1;
	*value = (struct scan_text){ owner.token, owner.token_len };
	return (int64_t)owner.expiry_ms;
}

bool scan_owners_add(struct scan_owners *o, int64_t now_ms,
		     struct scan_text field, struct scan_text value)
{
	int64_t at;

	if (field.len == strlen(MARK) && !memcmp(field.bytes, MARK, field.len))
		return true;
	if (o->read == SCAN_OWNERS_MAX)
		return false;
	o->read++;
	at = o->records ? read_head(&value) : number(value.bytes);
	if (at < 0 || at > now_ms)
		keep(o, field, value, at < 0 ? -1 : at - now_ms);
	return true;
}

static void drop(struct scan_owner *owner)
{
	if (owner->token != owner->field)
		free(owner->token);
	free(owner->field);
}

static int by_field(const void *a, const void *b)
{
	const struct scan_owner *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->field, y->field, len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Two fields that were cut may differ in what is gone: both are kept. */
static bool same(const struct scan_owner *x, const struct scan_owner *y)
{
	return x->len < DLK_TOKEN_MAX && !by_field(x, y);
}

void scan_owners_sort(struct scan_owners *o)
{
	size_t kept = 0;

	if (o->n)
		qsort(o->owners, o->n, sizeof(*o->owners), by_field);
	for (size_t i = 0; i < o->n; i++) {
		if (kept && same(&o->owners[kept - 1], &o->owners[i]))
			drop(&o->owners[i]);
		else
			o->owners[kept++] = o->owners[i];
	}
	o->n = kept;
}

const struct scan_owner *scan_owners_find(const struct scan_owners *o,
					  struct scan_text field)
{
	char bytes[DLK_TOKEN_MAX];
	struct scan_owner key = { .field = bytes, .len = field.len };

	if (!o->n || field.len >= sizeof(bytes))
		return NULL;
	memcpy(bytes, field.bytes, field.len);
	return bsearch(&key, o->owners, o->n, sizeof(key), by_field);
}

/* One command; its reply is of this type, or the key is a hash no more. */
static int call(struct walk *w, int argc, const char *const *argv, int type,
		const redisReply **reply)
{
	struct dlk_arg args[ARGS_MAX];
	uint64_t deadline = tool_deadline(w->c->ep);
	int err = dlk_conn_open(w->c, deadline);

	for (int i = 0; i < argc; i++)
		args[i] = (struct dlk_arg){ argv[i],
					    i == 1 ? w->len : strlen(argv[i]) };
	if (!err)
		err = dlk_conn_call(w->c, deadline, argc, args, reply);
	if (!err)
		err = scan_check(w->c, *reply, type);
	return !err && (*reply)->type != type ? SCAN_GONE : err;
}

/* The mark is a field of fixed name and value. */
static int read_mark(struct walk *w)
{
	const char *const length[] = { "HSTRLEN", w->key, MARK };
	const char *const value[] = { "HGET", w->key, MARK };
	const redisReply *reply;
	int err = call(w, 3, length, REDIS_REPLY_INTEGER, &reply);

	if (err || reply->integer != 1)
		return err;
	err = call(w, 3, value, REDIS_REPLY_STRING, &reply);
	if (!err)
		w->owners->marked = !strcmp(reply->str, "1");
	return err;
}

/* After the mark: what has none may be gone. */
static int read_count(struct walk *w)
{
	const char *const argv[] = { "HLEN", w->key };
	const redisReply *reply;
	int err = call(w, 2, argv, REDIS_REPLY_INTEGER, &reply);

	if (err)
		return err;
	if (reply->integer <= 0)
		return SCAN_GONE;
	w->fields = (size_t)reply->integer - 1;
	return 0;
}

static int take_time(const redisReply *reply, int64_t *now_ms)
{
	int64_t s, us;

	if (reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return -EPROTO;
	s = number(reply->element[0]->str);
	us = number(reply->element[1]->str);
	if (s < 0 || us < 0 || s > INT64_MAX / 2000)
		return -EPROTO;
	*now_ms = s * 1000 + us / 1000;
	return 0;
}

static int take_pairs(const redisReply *pairs, int64_t now_ms, struct walk *w)
{
	for (size_t i = 0; i + 1 < pairs->elements; i += 2) {
		const redisReply *field = pairs->element[i];
		const redisReply *value = pairs->element[i + 1];

		if (field->type != REDIS_REPLY_STRING ||
		    value->type != REDIS_REPLY_STRING)
			return -EPROTO;
		if (!scan_owners_add(
			    w->owners, now_ms,
			    (struct scan_text){ field->str, field->len },
			    (struct scan_text){ value->str, value->len }))
			return -E2BIG;
	}
	return 0;
}

static int take_page(const redisReply *reply, int64_t now_ms, struct walk *w)
{
	if (reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= sizeof(w->cursor) ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY)
		return -EPROTO;
	strcpy(w->cursor, reply->element[0]->str);
	return take_pairs(reply->element[1], now_ms, w);
}

/* The clock first: what has expired by then has expired. */
static int page(struct walk *w)
{
	const char *const time[] = { "TIME" };
	const char *const argv[] = { "HSCAN", w->key, w->cursor, "COUNT",
				     "128" };
	const redisReply *reply;
	int64_t now_ms = 0;
	int err = call(w, 1, time, REDIS_REPLY_ARRAY, &reply);

	if (!err)
		err = take_time(reply, &now_ms);
	if (!err)
		err = call(w, ARGS_MAX, argv, REDIS_REPLY_ARRAY, &reply);
	if (!err)
		err = take_page(reply, now_ms, w);
	dlk_conn_reset(w->c);
	return err;
}

/* Too many fields, or too large ones: then the rest is counted. */
static int walk(struct walk *w)
{
	struct scan_owners *o = w->owners;
	int err;

	strcpy(w->cursor, "0");
	do {
		err = page(w);
	} while (!err && strcmp(w->cursor, "0"));
	if (err != -EPROTO && err != -E2BIG)
		return err;
	o->rest = w->fields > o->read ? w->fields - o->read : 1;
	return 0;
}

int scan_owners(struct dlk_conn *c, const char *key, size_t len,
		struct scan_owners *o)
{
	struct walk w = { .c = c, .key = key, .len = len, .owners = o };
	int err;

	err = read_mark(&w);
	if (!err)
		err = read_count(&w);
	dlk_conn_reset(c);
	if (!err && o->marked)
		err = walk(&w);
	scan_owners_sort(o);
	return err;
}

void scan_owners_free(struct scan_owners *o)
{
	for (size_t i = 0; i < o->n; i++)
		drop(&o->owners[i]);
	free(o->owners);
	*o = (struct scan_owners){ 0 };
}
