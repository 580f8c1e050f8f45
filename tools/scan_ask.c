/* SPDX-License-Identifier: MIT */
/* What is at each key; see scan_ask.h. */
#include "tools/scan_ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/token.h"
#include "tools/common.h"

/* What a batch puts into a connection, which has room for 256 KiB. */
enum { ROOM = 192 * 1024, PER_KEY = 128, COPIES = 4 };

size_t scan_batch(const struct scan_key *keys, size_t n)
{
	size_t used = 0, i = 0;

	for (; i < n && i < SCAN_BATCH; i++) {
		used += COPIES * keys[i].len + PER_KEY;
		if (i && used > ROOM)
			break;
	}
	return i;
}

/* --- what goes out -------------------------------------------------------- */

/*
 * GETRANGE, not GET: a value may be of any size.  A token is shorter than
 * DLK_TOKEN_MAX, so what comes back as long as that is none.
 */
static int ask_value(struct dlk_conn *c, const struct scan_key *key)
{
	char last[16];
	int n = snprintf(last, sizeof(last), "%d", DLK_TOKEN_MAX - 1);
	const struct dlk_arg ttl[] = { { DLK_LITERAL("PTTL") },
				       { key->bytes, key->len } };
	const struct dlk_arg value[] = { { DLK_LITERAL("GETRANGE") },
					 { key->bytes, key->len },
					 { DLK_LITERAL("0") },
					 { last, (size_t)n } };

	return dlk_conn_append(c, 2, ttl) ?: dlk_conn_append(c, 4, value);
}

/* The names of the queues, one after another; for free(3). */
static char *name_queues(const struct scan_key *keys, size_t n,
			 struct dlk_arg *names)
{
	size_t size = 1;
	char *text, *p;

	for (size_t i = 0; i < n; i++)
		size += keys[i].len + strlen("{}%q");
	p = text = tool_room(size, 1);
	for (size_t i = 0; i < n; i++) {
		names[i].text = p;
		*p++ = '{';
		memcpy(p, keys[i].bytes, keys[i].len);
		p = stpcpy(p + keys[i].len, "}%q");
		names[i].len = (size_t)(p - names[i].text);
	}
	return text;
}

static int ask_one(struct dlk_conn *c, const char *verb, struct dlk_arg key)
{
	return dlk_conn_append(
		c, 2, (struct dlk_arg[]){ { verb, strlen(verb) }, key });
}

/* --- what comes back ------------------------------------------------------ */

static int hear(struct dlk_conn *c, uint64_t deadline_ns, int type,
		const redisReply **reply)
{
	int err = dlk_conn_reply(c, deadline_ns, reply);

	return err ?: scan_check(c, *reply, type);
}

/* Of what is no string; and of an empty one, which may be nothing at all. */
static bool is_odd(const struct scan_answer *a)
{
	return a->value->type != REDIS_REPLY_STRING ||
	       (!a->value->len && a->ttl->integer != -2);
}

/* --- the two round trips -------------------------------------------------- */

/* PTTL and GETRANGE of each; and is there any queue? */
static int ask_all(struct dlk_conn *c, const struct scan_key *keys, size_t n,
		   struct scan_answer *a, struct dlk_arg *queues, bool *waits)
{
	uint64_t deadline = tool_deadline(c->ep);
	const redisReply *there;
	int err = dlk_conn_open(c, deadline);

	for (size_t i = 0; i < n && !err; i++)
		err = ask_value(c, &keys[i]);
	/* (Of a cluster they are in slots of their own.) */
	*waits = c->clustered;
	if (!err && !c->clustered)
		err = dlk_conn_append(c, (int)n + 1, queues);
	if (!err)
		err = dlk_conn_flush(c, deadline);
	for (size_t i = 0; i < n && !err; i++) {
		err = hear(c, deadline, REDIS_REPLY_INTEGER, &a[i].ttl);
		if (!err)
			err = hear(c, deadline, REDIS_REPLY_STRING,
				   &a[i].value);
	}
	if (err || c->clustered)
		return err;
	err = hear(c, deadline, REDIS_REPLY_INTEGER, &there);
	if (!err)
		*waits = there->integer > 0;
	return err;
}

static int ask_more(struct dlk_conn *c, const struct scan_key *keys, size_t n,
		    struct scan_answer *a, const struct dlk_arg *queues,
		    bool waits)
{
	uint64_t deadline = tool_deadline(c->ep);
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (is_odd(&a[i]))
			err = ask_one(c, "TYPE",
				      (struct dlk_arg){ keys[i].bytes,
							keys[i].len });
		if (!err && waits)
			err = ask_one(c, "HLEN", queues[i]);
	}
	if (!err)
		err = dlk_conn_flush(c, deadline);
	for (size_t i = 0; i < n && !err; i++) {
		if (is_odd(&a[i]))
			err = hear(c, deadline, REDIS_REPLY_STATUS, &a[i].type);
		if (!err && waits)
			err = hear(c, deadline, REDIS_REPLY_INTEGER,
				   &a[i].queue);
	}
	return err;
}

int scan_ask(struct dlk_conn *c, const struct scan_key *keys, size_t n,
	     struct scan_answer answers[SCAN_BATCH])
{
	struct dlk_arg exists[SCAN_BATCH + 1] = { { DLK_LITERAL("EXISTS") } };
	char *names = name_queues(keys, n, exists + 1);
	bool waits = false;
	int err;

	memset(answers, 0, n * sizeof(*answers));
	err = ask_all(c, keys, n, answers, exists, &waits);
	if (!err)
		err = ask_more(c, keys, n, answers, exists + 1, waits);
	free(names);
	return err;
}
