/* SPDX-License-Identifier: MIT */
/*
 * What is asked of Redis about a lease: acquire, release, renew, restore.
 *
 * Each call works on one connection that is open (dlk_conn_open), in one
 * thread, within a deadline (CLOCK_BOOTTIME ns), without malloc.
 *
 * 0 is done; positive: a condition the caller decides on; negative:
 *	-EAGAIN		the server cannot answer now (loading, busy, a replica
 *			without its master, ...): ask again
 *	-EREMOTEIO	the server refuses (an error reply): asking again is
 *			of no use
 *	else		the connection failed and is closed; what was asked
 *			may have been done
 * and dlk_lease_why() says it in words.
 */
#ifndef DLK_LEASE_H
#define DLK_LEASE_H

#include <stdbool.h>

#include "redis/conn.h"
#include "model/range.h"
#include "model/token.h"

enum {
	DLK_BUSY = 1,  /* somebody holds it */
	DLK_ODD,       /* the key is no lease: wrong type */
	DLK_YOUNG,     /* the server is too young to grant (delayed restart) */
	DLK_LOST,      /* another token is there */
	DLK_GONE,      /* no token is there */
	DLK_REPLACED,  /* another token, newer, of this host and file */
	DLK_STALE,     /* records: ask again with a greater number */
	DLK_SUSPECTED, /* a deadlock, if it is seen once more */
};

/* One lease, as Redis knows it.  The texts are the caller's. */
struct dlk_lease {
	const char *key;
	size_t key_len;
	const char *token;
	size_t token_len;
	uint32_t ttl_ms;
	bool shared;
	bool fair;    /* no reader passes a writer that waits */
	bool interop; /* others than us ask for it, and must have a chance */
	const char *places; /* records: dlk_records_places(); else NULL */
	size_t places_len;
};

/*
 * A place in the queue of a lease (DESIGN 4), of one waiting call.  The claim
 * is the token that the lease gets when the waiter is served; see queue.h.
 */
struct dlk_waiter {
	const char *claim;
	const char *channel; /* "HEX.NUMBER": where it listens, and the number
				of this request; "": it does not queue */
	size_t claim_len;
	const char *what; /* records: DLK_WHAT_LEN, see records.h; else NULL */
	uint32_t life_ms; /* of the claim, and of a place not heard of */
	bool queued;
	bool lost;             /* the ticket that it had is of no use */
	int64_t ticket, ahead; /* if queued; `ahead` at most before it */
};

/* As the scripts say it. */
static inline void dlk_waiter_ahead(struct dlk_waiter *w, int64_t ahead)
{
	w->lost = ahead < 0;
	w->ahead = w->lost ? ~ahead : ahead;
}

struct dlk_answer {
	uint64_t asked_ns; /* before the request left */
	int64_t left_ms;   /* BUSY: the holder's ttl, -1 for none, 0: ask again
			      at once; YOUNG: how long until the server is old */
	bool replaced;     /* a dead lease of this file was there */
	uint64_t seq;      /* records, STALE: the server's */
	struct dlk_range range; /* records, BUSY: what is in the way */
	size_t holder_len;
	char holder[DLK_TOKEN_MAX]; /* BUSY: its token, "" if odd;
				       ODD: the key's type */
};

/*
 * Ask for the lease.  `proof`: the caller holds the kernel's lock now, looked
 * at it after reading the token's `since`, and so knows that any older lease
 * of its host and file is dead (DESIGN L3).  `instead`: a lease that its owner
 * gives up first, whatever the answer (a conversion), or NULL.  `waiter`: its
 * place in the queue, taken when the answer is DLK_BUSY and left when it is 0;
 * NULL for who does not wait.
 *
 * 0 (the deadline counts from answer->asked_ns), DLK_BUSY, DLK_ODD,
 * DLK_YOUNG, -errno.
 */
int dlk_lease_acquire(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease, bool proof,
		      const struct dlk_lease *instead,
		      struct dlk_waiter *waiter, struct dlk_answer *answer);

/*
 * Queue a release, by the script's name or (text) as a whole, for a server
 * that was restarted does not know the name: that one wakes nobody.  Flush it;
 * its reply is judged by dlk_lease_released(): 0 for "the lease is not there
 * any more", -ENOENT for "again, with text", -EAGAIN, -EREMOTEIO; NULL (never
 * came) -EPIPE.
 */
int dlk_lease_release(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool text);
int dlk_lease_released(const redisReply *reply);

/* The same in two steps for renewals, so that many share a round trip. */
int dlk_lease_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool text);
/* 0, DLK_LOST, DLK_GONE, DLK_REPLACED, -ENOENT (again, with text), -errno */
int dlk_lease_renewed(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease);

/*
 * After DLK_GONE, within the lease's own deadline: if the server is in its
 * restart window, nobody else can have been granted it; put it back.
 * 0, DLK_GONE, DLK_LOST, -errno.
 */
int dlk_lease_restore(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease);

/*
 * The lease, held exclusively so far, becomes a shared one if it is there; one
 * that is shared already stays so.  It may come twice, or late.
 * 0, DLK_GONE, -errno.
 */
int dlk_lease_weaken(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease);

/*
 * Words in brackets, here and in the scripts, are the transitions of the
 * models in tests/model.
 */

/* Why the last call on this connection failed. */
const char *dlk_lease_why(const struct dlk_conn *c);

#endif
