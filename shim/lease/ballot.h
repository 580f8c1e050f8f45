/* SPDX-License-Identifier: MIT */
/*
 * One question to all masters of a quorum at the same time: what they say is
 * counted (model/tally.h) as it comes, and who is late is not waited for.
 *
 *	we		M1		M2		M3 (stopped)
 *	ask all ->
 *			yes		yes
 *	done
 *	  (release ->	.		.		.)
 *							(goes on) yes
 *							release
 *
 *  1. All requests leave before any answer is read, and no connection is waited
 *     for before they have left: not for a name's address, nor for TLS.
 *  2. What a late master answers is read, and means nothing, by whoever has its
 *     connection next.  On one connection it acts in order: what is said to it
 *     later is done later.
 *  3. A master that cannot be reached, or owes an answer for DLK_SILENT_MS, or
 *     more answers than there is room for, is *away*: it is not asked for
 *     AWAY_MS, unless the others are no majority.
 *     Nobody waits for it, and there is nothing to release where nothing was
 *     asked for.
 *  4. Two URLs of one server have one vote.
 *
 * Threads, signals, memory as in store.h.
 */
#ifndef DLK_BALLOT_H
#define DLK_BALLOT_H

#include <stdatomic.h>

#include "lease/store.h"
#include "model/tally.h"
#include "model/text.h"
#include "redis/pool.h"

struct dlk_master {
	const struct dlk_endpoint *ep;
	_Atomic uint64_t away_ns;   /* it is not asked before */
	_Atomic uint64_t silent_ns; /* it owes an answer since; 0: none */
	_Atomic uint64_t run;       /* a hash of its run id; 0: unknown */
	const char *_Atomic lacks;  /* what it was given up for; or NULL */
	atomic_bool untaught;       /* it knows no scripts, and was not waited
				       for when it said so */
};

struct dlk_masters {
	struct dlk_master v[DLK_MASTERS_MAX];
	unsigned n;
};

/* It cannot be reached, or has owed an answer for too long. */
bool dlk_master_is_away(const struct dlk_master *m, uint64_t now_ns);
/* It has answered; its connection has failed; it owes an answer. */
void dlk_master_heard(struct dlk_master *m);
void dlk_master_failed(struct dlk_master *m);
void dlk_master_owes(struct dlk_master *m, uint64_t since_ns);
/* It is closed, if the master has owed answers on it for too long, or too many.
 */
bool dlk_master_give_up(struct dlk_master *m, struct dlk_conn *c);
/*
 * A connection for one question more, open or not: NULL if there is none, or by
 * it the master turns out to be away.
 */
struct dlk_conn *dlk_master_conn(struct dlk_master *m, enum dlk_wanted wanted,
				 uint64_t mark);

/* What is asked for a lease, to who comes behind it (pool.h); never 0. */
static inline uint64_t dlk_lease_mark(const struct dlk_lease *lease)
{
	return dlk_hash(lease->token, lease->token_len) | 1;
}

struct ballot;

enum { DLK_REPLIES_MAX = 16, DLK_UNREAD_MAX = 8, DLK_SILENT_MS = 200 };

struct ballot {
	/* The question. */
	struct dlk_masters *masters;
	struct dlk_attempt *at;
	/* In halves (conn.h), to the i-th: a vote, see tally.h.  It says in
	 * v[i].replies how many are to come, if not 1. */
	int (*ask)(struct ballot *b, unsigned i, struct dlk_conn *c);
	/* The i-th has voted: it is to be counted. */
	void (*count)(struct ballot *b, unsigned i, int vote);
	void *arg;
	uint64_t mark;    /* of the lease that is asked for; or 0 */
	uint32_t without; /* those who are not asked: a bit each */
	uint64_t linger_ns, linger_no_ns; /* the others are waited for so long,
					     when it is decided: yes, or no */
	bool once; /* a connection that breaks is not replaced */

	/* What comes of it. */
	struct tally tally;
	uint64_t asked_ns, by_ns;
	uint32_t asked;    /* the request may have left */
	uint32_t answered; /* and there is an answer */
	uint32_t twice;    /* that is not counted, for its server has voted */
	bool interrupted;
	unsigned copies[DLK_MASTERS_MAX]; /* the request was sent so often */
	char why[200];                    /* there are votes missing */

	struct {
		struct dlk_conn *c;
		unsigned tries, replies;
		bool was_open, asked;
	} v[DLK_MASTERS_MAX];
};

void dlk_ballot_hold(struct ballot *b);

/*
 * The same of those that have not voted yes, once more: votes and their time
 * stay.
 */
void dlk_ballot_again(struct ballot *b);

/* Of the i-th, for dlk_ballot_explain(): what it says, though it has voted. */
void dlk_ballot_note(struct ballot *b, unsigned i, const char *why);
/* at->why: how many masters are missing, and why. */
void dlk_ballot_explain(const struct ballot *b);

#endif
