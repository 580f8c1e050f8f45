/* SPDX-License-Identifier: MIT */
/*
 * Step two of a scan: what is at each key of a batch.
 *
 * Of most keys it is two commands, PTTL and GETRANGE, and of a batch one more,
 * EXISTS of all their queues; only where that finds one, or a value is no string,
 * more is asked.  All of a batch shares two round trips at most.
 */
#ifndef DLK_TOOLS_SCAN_ASK_H
#define DLK_TOOLS_SCAN_ASK_H

#include "redis/conn.h"
#include "tools/scan_keys.h"

enum { SCAN_BATCH = 512 };

/* They live until dlk_conn_reset(). */
struct scan_answer {
	const redisReply *ttl;
	const redisReply *value; /* an error, if it is no string */
	const redisReply *type;  /* NULL: a string */
	const redisReply *queue; /* how many fields it has; NULL: none */
};

/* How many of the keys, at least one, are a batch. */
size_t scan_batch(const struct scan_key *keys, size_t n);

/* Ask about a batch: 0, or -errno as scan_check(). */
int scan_ask(struct dlk_conn *c, const struct scan_key *keys, size_t n,
	     struct scan_answer answers[SCAN_BATCH]);

#endif
