/* SPDX-License-Identifier: MIT */
/* A hash, field by field; see scan_hash.h. */
#include "tools/scan_hash.h"

#include <errno.h>
#include <string.h>

#include "model/text.h"

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

int64_t scan_time(const redisReply *reply)
{
	int64_t s, us;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return -1;
	s = scan_number(reply->element[0]->str);
	us = scan_number(reply->element[1]->str);
	return s < 0 || us < 0 || s > INT64_MAX / 2000 ? -1
						       : s * 1000 + us / 1000;
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

/* The clock first: what has expired by then has expired. */
static int page(struct scan_hash *h)
{
	const struct dlk_arg time[] = { { DLK_LITERAL("TIME") } };
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("HSCAN") },         { h->key, h->len },
		{ h->cursor, strlen(h->cursor) }, { DLK_LITERAL("COUNT") },
		{ DLK_LITERAL("128") },
	};
	const redisReply *reply, *pairs;
	int64_t now_ms = 0;
	int err = scan_hash_call(h->c, 1, time, REDIS_REPLY_ARRAY, &reply);

	if (!err && (now_ms = scan_time(reply)) < 0)
		err = -EPROTO;
	if (!err)
		err = scan_hash_call(h->c, 5, args, REDIS_REPLY_ARRAY, &reply);
	if (!err)
		err = scan_page(reply, h->cursor, &pairs);
	if (!err)
		err = take_pairs(pairs, now_ms, h);
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
