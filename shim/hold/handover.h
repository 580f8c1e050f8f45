/* SPDX-License-Identifier: MIT */
/* Handing leases to the keeper; see handover.c. */
#ifndef DLK_HANDOVER_H
#define DLK_HANDOVER_H

#include "hold/hold.h"

/* Hand to the keeper all leases that it does not carry yet; waits for it. */
void dlk_handover_all(void);
/* (the thread) These are held for long enough; pinned. */
void dlk_handover_some(struct dlk_hold *const *all, unsigned n);
/* One lease, pinned; true when the keeper has it, or it is given back. */
bool dlk_handover(struct dlk_hold *h);
/*
 * (pinned) The descriptor that it is known by is about to be closed, and no
 * other one was found (`last`: there is none).  The keeper has it from here on,
 * or its ttl ends it: the next description of this file, by the same number
 * perhaps, is never taken for it.
 */
void dlk_leave_to_keeper(struct dlk_hold *h, bool last);
enum { DLK_CLOSED_OURS = 1, DLK_CLOSED_LEFT };
/* By the close that this thread is about to make; another's is not it. */
extern __thread unsigned char dlk_closed_how
	__attribute__((tls_model("initial-exec")));

#endif
