/* SPDX-License-Identifier: MIT */
/*
 * Who waits for a lease at Redis, in order (DESIGN 4, 6.6).  An entry has no
 * moment at which it came, only that at which its waiter was last heard of; of
 * record locks there is one where the process told of its wait (DESIGN 4.8).
 */
#ifndef DLK_TOOLS_SCAN_QUEUE_H
#define DLK_TOOLS_SCAN_QUEUE_H

#include "model/range.h"
#include "model/token.h"
#include "tools/scan_hash.h"

enum { SCAN_QUEUE_MAX = 4096 };

struct scan_waiter {
	int64_t ticket;
	int64_t heard_ms;       /* ago */
	int64_t since_ms;       /* ago; -1: nothing tells it */
	bool away;              /* it has its place, and is not served now */
	bool polls;             /* it listens to nothing, and looks by itself */
	bool shared;            /* flock */
	struct dlk_range range; /* records */
	struct dlk_token token;
};

struct scan_queue {
	bool record; /* in: of record locks */
	struct scan_waiter *waiters;
	size_t n, room;
	size_t read; /* entries, expired ones too: SCAN_QUEUE_MAX at most */
	bool cut;    /* there are more, or what is no entry */
};

/*
 * The queue of the lease at `key`; q->record is set, all else zero.  0, or
 * -errno as scan_hash(); in any case scan_queue_free().
 */
int scan_queue(struct dlk_conn *c, const char *key, size_t len,
	       struct scan_queue *q);
/* And since when they wait, as far as they have told. */
void scan_queue_since(struct dlk_conn *c, const char *key,
		      struct scan_queue *q);
void scan_queue_free(struct scan_queue *q);

/*
 * Pure: as scan_owners_add(), to a struct scan_queue.  What is no entry, or an
 * expired one, is none.
 */
scan_hash_fn scan_queue_add;

#endif
