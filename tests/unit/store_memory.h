/* SPDX-License-Identifier: MIT */
/*
 * A store in memory (lease/store.h): what the engine of lock calls can be
 * tested with, at once and without a server.  It knows no `fair` and no
 * `interop`, and one thread.
 *
 *	struct store_memory m;
 *
 *	store_memory_init(&m);
 *	m.store.ops->acquire(&m.store, ...);
 *
 * What is sent is done at once; its `done` is called by the next settle(), or
 * before the next question is answered, as a server's answer is read then.
 * A test makes it misbehave by what stands in `fault`, and reads its account.
 */
#ifndef DLK_TEST_STORE_MEMORY_H
#define DLK_TEST_STORE_MEMORY_H

#include "lease/ranges.h"
#include "lease/store.h"

enum {
	MEMORY_OWNERS = 32,
	MEMORY_RANGES = 16,
	MEMORY_WAITS = 16,
	MEMORY_UNREAD = 64
};

/* Who holds something, or has been granted it: a claim. */
struct memory_owner {
	char key[64], token[DLK_TOKEN_MAX];
	uint64_t until_ns, seq, since_ns;
	struct dlk_ranges ranges; /* a whole file is all of its bytes */
	struct dlk_range room[MEMORY_RANGES];
};

struct memory_place {
	char key[64], claim[DLK_TOKEN_MAX], channel[DLK_CHANNEL_LEN + 1];
	char owner[DLK_RANDOM_LEN + 1]; /* whose ranges are in nobody's way */
	uint64_t until_ns, request;
	uint32_t claim_ttl_ms;
	struct dlk_range want;
	int64_t ticket; /* 0: no place */
	bool away, whole;
};

struct memory_subscription {
	char channel[DLK_CHANNEL_LEN + 1]; /* "": none */
	char claim[DLK_RANDOM_LEN + 1];    /* the last word: to whom */
	uint64_t request;
	bool busy;
};

struct memory_sent {
	dlk_sent_fn *done;
	void *arg;
	int err;
	uint64_t seq;
};

struct store_memory {
	struct dlk_store store;
	uint64_t skew_ns;  /* its clock is so much later than ours */
	uint64_t young_ms; /* it grants nothing, and takes back what it gave */
	struct {
		int err;     /* the next question has this answer, once */
		bool unsure; /* though it was done */
	} fault;
	unsigned asked, sent; /* so often */

	struct memory_owner owners[MEMORY_OWNERS];
	struct memory_place places[MEMORY_OWNERS];
	struct memory_subscription subs[MEMORY_OWNERS];
	struct memory_sent unread[MEMORY_UNREAD];
	unsigned n_unread;
	struct {
		dlk_process process;
		uint64_t id, told;
		char owner[DLK_RANDOM_LEN + 1], key[64];
		struct dlk_range range;
	} waits[MEMORY_WAITS];
	int64_t first_ticket, last_ticket;
	uint64_t clock; /* of waits */
};

void store_memory_init(struct store_memory *m);
/* All that it knew is gone. */
void store_memory_restart(struct store_memory *m, uint64_t young_ms);

#endif
