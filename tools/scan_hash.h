/* SPDX-License-Identifier: MIT */
/*
 * HSCAN over a hash that anybody may have written: a page at a time, each with
 * the moment before it by the server's clock.
 *
 * A page too large for a reply (DLK_REPLY_MAX) holds fields that no dlock
 * wrote: the walk ends there.
 */
#ifndef DLK_TOOLS_SCAN_HASH_H
#define DLK_TOOLS_SCAN_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/conn.h"
#include "tools/scan_keys.h"

/* Not NUL-terminated, but what scan_hash_fn is given has one behind it. */
struct scan_text {
	const char *bytes;
	size_t len;
};

/* One field more, seen at `now_ms`; false: it is one too many. */
typedef bool scan_hash_fn(void *arg, int64_t now_ms, struct scan_text field,
			  struct scan_text value);

struct scan_hash {
	struct dlk_conn *c;
	const char *key;
	size_t len;
	scan_hash_fn *take;
	void *arg;
	char cursor[SCAN_CURSOR];
};

/* It is a hash no more. */
enum { SCAN_GONE = 1 };

/* One command on it: 0, and its reply is of this type; SCAN_GONE; -errno. */
int scan_hash_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
		   int type, const redisReply **reply);

/*
 * All fields, some perhaps twice.  0; SCAN_GONE; -E2BIG: not all of them, there
 * are too many or too large ones; -errno.
 */
int scan_hash(struct scan_hash *h);

/* Decimal digits, as the scripts write numbers; -1: none. */
int64_t scan_number(const char *text);
/* The answer to TIME, in ms; -1: it is none. */
int64_t scan_time(const redisReply *reply);

#endif
