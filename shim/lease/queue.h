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
 *     times in that time [HEARTBEAT].  Who says so also looks whether the
 *     lease has ended without a release, and grants it to the first one.
 *  2. A message is believed only if it was said after the last request whose
 *     answer was "not yet": it has that one's number.  Else what counts is the
 *     claim at the key, by another request.
 *  3. The deadline of a claim counts from the sending of the last request whose
 *     answer was "not yet", for it was granted after that (DESIGN L5); never
 *     from the wake-up.
 *  4. Who stops waiting says so [CANCEL], and before a signal handler runs,
 *     which may never come back [SUSPEND]; if that is lost, the life ends.
 *
 * A channel is a name, "dlock%wake:", of a cluster the slot's tag in braces, and
 * 32 hex digits: nothing of it is left at the server when nobody listens.
 * Connections, deadlines and errors are those of lease.h.
 */
#ifndef DLK_QUEUE_H
#define DLK_QUEUE_H

#include "lease/lease.h"

/*
 * What a waiter says, of a whole file or of ranges (lease->ranges_key):
 *
 *	heartbeat	it waits, for the first time or still.  0: it is
 *			granted, the claim is there (the deadline counts from
 *			answer->asked_ns, by its life); DLK_BUSY: it is in the
 *			queue
 *	yield		it was granted, but a local program that knows nothing
 *			of us is first: it is the next one's, and w is the
 *			first one again if it asks or stays within its life
 *	suspend		it may never come back, and is granted nothing
 *			meanwhile; if it stays again within its life, it has its
 *			place
 *	cancel		it waits no more, nor wants what it was granted
 *	look		(of a whole file) who holds the lease: in
 *			answer->holder, one of the claim's host and file if
 *			there is one among readers; "" if nobody does; w->ahead:
 *			1 if readers do
 *
 * 0, DLK_BUSY, DLK_WRONG_TYPE, DLK_GRACE, -errno.  Without an `answer` it is
 * only appended.
 */
int dlk_queue_say(struct dlk_conn *c, uint64_t deadline_ns, const char *verb,
		  const struct dlk_lease *lease, struct dlk_waiter *w,
		  struct dlk_answer *answer);

#endif
