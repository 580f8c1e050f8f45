/* SPDX-License-Identifier: MIT */
/*
 * Waiting at Redis: the queue of a lease (DESIGN section 4).
 *
 *	waiter			server			holder
 *	[ASK] refused, queued
 *	lets go of the kernel
 *	listens to its channel
 *						[RELEASE] <-
 *				key gone: [GRANT NEXT]
 *				key = claim
 *	[WAKE] <- "granted"
 *	takes the kernel's lock
 *	holds it
 *				[CONFIRM] <- its first renewal
 *				key = token, the full ttl
 *
 * One hand-off is one script of the holder's and one message.  A claim is the
 * token that the waiter's lease will have, with a `since` that no proof of
 * death reaches (DESIGN L3), and a life that is short: a waiter that dies on
 * its way costs the others no more than that.
 *
 *  1. A waiter's place is believed for one life; it is told of again four
 *     times in that time [HEARTBEAT].  Who tells of it also looks whether the lease
 *     has ended without a release, and serves the first one.
 *  2. A message is believed only if it was said after the last request whose
 *     answer was "not yet": it has that one's number.  Else what counts is the
 *     claim at the key, by another request.
 *  3. The deadline of a claim counts from the sending of the last request whose
 *     answer was "not yet", for it was granted after that (DESIGN L5); never
 *     from the wake-up.
 *  4. Who stops waiting says so [CANCEL], and before a signal handler runs,
 *     which may never come back [SUSPEND]; if that is lost, the life ends.
 *
 * A channel is a name, "dlock%wake:" and 32 hex digits: nothing of it is left
 * at the server when nobody listens.  Connections, deadlines and errors are
 * those of lease.h.
 */
#ifndef DLK_QUEUE_H
#define DLK_QUEUE_H

#include "lease/lease.h"

/* Its place, if it has taken one, as the scripts say it. */
static inline void dlk_waiter_place(struct dlk_waiter *w, bool waits,
				    int64_t ticket, int64_t ahead)
{
	w->queued = waits && w->channel[0];
	if (!w->queued)
		return;
	w->ticket = ticket;
	w->lost = ahead < 0;
	w->ahead = w->lost ? ~ahead : ahead;
}

/*
 * It waits, for the first time or still.  0: it is granted, the claim is there
 * (the deadline counts from answer->asked_ns, by its life); DLK_BUSY: it is in
 * the queue; DLK_WRONG_TYPE, DLK_GRACE, -errno.
 */
int dlk_queue_heartbeat(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease, struct dlk_waiter *w,
			struct dlk_answer *answer);

/*
 * It was granted, but a local program that knows nothing of us is first: the
 * next one is served, and w is the first one again if it asks or stays within
 * its life.  DLK_BUSY, DLK_WRONG_TYPE, -errno.
 */
int dlk_queue_yield(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease, struct dlk_waiter *w,
		    struct dlk_answer *answer);

/*
 * Append: it may never come back, and is not to be served meanwhile; if it
 * stays again within its life, it has its place.
 */
int dlk_queue_suspend(struct dlk_conn *c, const struct dlk_lease *lease,
		      struct dlk_waiter *w);

/* Append: it waits no more, nor wants what it was granted. */
int dlk_queue_cancel(struct dlk_conn *c, const struct dlk_lease *lease,
		     struct dlk_waiter *w);

/*
 * Who holds the lease: in answer->holder, one of the lease's host and file if
 * there is one among readers; "" if nobody does.  DLK_BUSY, DLK_WRONG_TYPE,
 * -errno.
 */
int dlk_queue_look(struct dlk_conn *c, uint64_t deadline_ns,
		   const struct dlk_lease *lease, bool *shared,
		   struct dlk_answer *answer);

#endif
