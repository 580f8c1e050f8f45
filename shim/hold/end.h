/* SPDX-License-Identifier: MIT */
/* The end of a hold, and who is told of it; see end.c. */
#ifndef DLK_END_H
#define DLK_END_H

#include "hold/hold.h"

enum end_cause {
	END_UNLOCKED, /* or closed, and by us: nobody else has the lock */
	END_GONE,     /* none of our descriptors shows the lock any more */
	END_LEFT,     /* the last of them is closed; others may have it */
};

/*
 * (pinned) It ends, unless another thread was quicker: true if a keeper has it
 * from here on.
 */
bool dlk_hold_end(struct dlk_hold *h, enum end_cause cause);
/*
 * (pinned) Is it held yet, and how often was it converted?  Who looks at the
 * kernel then and sees that it is GONE ends it by that: if a call has begun to
 * convert it meanwhile, what was seen is not of the lock there is.
 */
bool dlk_hold_is_known(const struct dlk_hold *h, unsigned *conversions);
void dlk_hold_end_seen(struct dlk_hold *h, unsigned conversions);
/*
 * (pinned) Does the kernel show its lock?  1; 0: it does not, and so the hold has
 * ended; -1: there is no telling, or the lock was converted meanwhile.
 */
int dlk_hold_look(struct dlk_hold *h);
/*
 * (pinned) It is held, and the kernel shows its lock, or cannot tell.  A lock
 * that is gone ends the hold.  What is not held any more is not looked for:
 * that would be a look at every descriptor of the process.
 */
bool dlk_hold_is_there(struct dlk_hold *h);

#endif
