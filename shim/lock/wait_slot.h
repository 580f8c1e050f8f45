/* SPDX-License-Identifier: MIT */
/* A call's place in the queue, and its claim; see wait_slot.c. */
#ifndef DLK_WAIT_SLOT_H
#define DLK_WAIT_SLOT_H

#include "lock/request.h"

/* For a request: the place that it takes if it is refused, or NULL. */
struct dlk_waiter *dlk_queue_waiter(struct request *r);
/*
 * [OWN] Granted, and the kernel's lock is taken: the token, and from when its
 * deadline counts.  0, DLK_BUSY: it was too late, -errno.
 */
int dlk_queue_claim(struct request *r);
/*
 * [STRANGE] The kernel's lock is not to be had.  EV_OK: what was granted is
 * another's now, or the key is free and the others wait for us to ask: wait in
 * the kernel; EV_NOTHING: there was neither, go on waiting.
 */
enum acquire_event dlk_queue_not_now(struct request *r);
/*
 * Held by a claim: make the lease of it, and do not wait for the answer; the
 * thread's first renewal has it.
 */
void dlk_queue_confirm(struct request *r);
/*
 * A request that had the claim's name may be late (r->attempt.unsure): another
 * name, and another place.
 */
void dlk_queue_rename(struct request *r);
/* Before a pause that may never come back: as if it did not wait. */
void dlk_queue_away(struct request *r);
/* However it ended: leave the queue, and let the connection go. */
void dlk_queue_end(struct request *r);

/* --- for wait.c ----------------------------------------------------------- */

/*
 * A channel to be told by, and a name for the claim; *known becomes false if
 * one of them is new.
 */
int dlk_place_have_channel(struct request *r, bool *known);
/* Tell of the place: as the store's heartbeat(). */
int dlk_place_heartbeat(struct request *r);
/* It has no channel, and looks for what it is granted. */
bool dlk_place_is_polling(const struct wait_slot *q);
/* The server has lost the place: true if another connection is to be tried. */
bool dlk_place_is_lost(struct request *r);
/* Let the connection go. */
void dlk_place_hang_up(struct request *r);

#endif
