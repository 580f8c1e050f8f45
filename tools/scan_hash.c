/* SPDX-License-Identifier: MIT */
/* A hash, field by field; see scan_hash.h. */
#include "tools/scan_hash.h"

#include <errno.h>
#include <string.h>

#include "model/text.h"
#include "tools/scan_keys.h"

int64_t scan_number(const char *text)
{
	uint64_t n = 0;
	const char *end = dlk_number(text, 10, &n);

	return end && !*end && n <= INT64_MAX ? (int64_t)n : -1;
}

int scan_hash_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
		   int type, const redisReply **reply)
{
	int err = scan_call(c, argc, args, type, reply);

	return !err && (*reply)->type != type ? SCAN_GONE : err;
}

static int take_time(const redisReply *reply, int64_t *now_ms)
{
	int64_t s, us;

	if (reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return -EPROTO;
	s = scan_number(reply->element[0]->str);
	us = scan_number(reply->element[1]->str);
	if (s < 0 || us < 0 || s > INT64_MAX / 2000)
		return -EPROTO;
	*now_ms = s * 1000 + us / 1000;
	return 0;
}

static int take_pairs(const redisReply *pairs, int64_t now_ms,
		      struct scan_hash *h)
{
	for (size_t i = 0; i + 1 < pairs->elements; i += 2) {
		const redisReply *field = pairs->element[i];
		const redisReply *value = pairs->element[i + 1];

		if (field->type != REDIS_REPLY_STRING ||
		    value->type != REDIS_REPLY_STRING)
			return -EPROTO;
		if (!h->take(h->arg, now_ms,
			     (struct scan_text){ field->str, field->len },
			     (struct scan_text){ value->str, value->len }))
			return -E2BIG;
	}
	return 0;
}

static int take_page(const redisReply *reply, int64_t now_ms,
		     struct scan_hash *h)
{
	if (reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= sizeof(h->cursor) ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY)
		return -EPROTO;
	strcpy(h->cursor, reply->element[0]->str);
	return take_pairs(reply->element[1], now_ms, h);
}

/* The clock first: what has expired by then has expired. */
static int page(struct scan_hash *h)
{
	const struct dlk_arg time[] = { { DLK_LITERAL("TIME") } };
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("HSCAN") },         { h->key, h->len },
		{ h->cursor, strlen(h->cursor) }, { DLK_LITERAL("COUNT") },
		{ DLK_LITERAL("128") },
	};
	const redisReply *reply;
	int64_t now_ms = 0;
	int err = scan_hash_call(h->c, 1, time, REDIS_REPLY_ARRAY, &reply);

	if (!err)
		err = take_time(reply, &now_ms);
	if (!err)
		err = scan_hash_call(h->c, 5, args, REDIS_REPLY_ARRAY, &reply);
	if (!err)
		err = take_page(reply, now_ms, h);
	dlk_conn_reset(h->c);
	return err;
}

int scan_hash(struct scan_hash *h)
{
	int err;

	strcpy(h->cursor, "0");
	do {
		err = page(h);
	} while (!err && strcmp(h->cursor, "0"));
	return err == -EPROTO ? -E2BIG : err;
}
