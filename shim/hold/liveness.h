/* SPDX-License-Identifier: MIT */
/* Is the kernel's lock of a lease still there?  See liveness.c. */
#ifndef DLK_LIVENESS_H
#define DLK_LIVENESS_H

#include "hold/hold.h"

/*
 * Is the kernel's lock of a pinned lease still there?  1, 0, or -1: there is
 * no telling, and so it must be taken for there.  Of records: with the file_lock.
 */
int dlk_lock_is_there(struct dlk_hold *h);
/*
 * Of a description's: may h be known by this descriptor, too?  Not where another
 * lease is: that is another lock.
 */
bool dlk_lock_may_have(void *h, int fd);
/*
 * (file_lock) Of record locks: take off what the kernel does not show.  The
 * same answers; what is gone is given back.
 */
int dlk_record_compare(struct dlk_hold *h);
/*
 * (file_lock) Its server does not know it: is it an OFD lock that a sharer of the
 * description has unlocked, and locked for himself since?  *answer is room.
 */
struct dlk_attempt;
struct dlk_answer;
bool dlk_record_is_sharers(struct dlk_hold *h, struct dlk_attempt *at,
			   struct dlk_answer *answer);

#endif
