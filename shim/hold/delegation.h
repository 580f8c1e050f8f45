/* SPDX-License-Identifier: MIT */
/* What the keeper was asked to carry on, and what it is told; delegation.c. */
#ifndef DLK_DELEGATION_H
#define DLK_DELEGATION_H

#include "hold/hold.h"
#include "keeper/protocol.h"

/* Is the keeper, or will it be, one who carries it? */
static inline bool dlk_is_delegated(const struct dlk_hold *h)
{
	return h->keeper.carried || h->keeper.number;
}
/*
 * It is the keeper's no more; the number to tell it so by, or 0.
 */
uint32_t dlk_take_from_keeper(struct dlk_hold *h);
/*
 * Tell the keeper what becomes of a lease (0: of none): DLK_KEEP_DROP, _OWE,
 * _LEFT or _READY (keeper/protocol.h); false: it cannot be told.
 */
bool dlk_delegation_tell(uint32_t told, uint32_t type);
/* Tell it that the holders are its to stop now: the timer here stands back. */
void dlk_delegation_ready(const struct dlk_hold *h);
/* Tell it that the process ends, and by which ttl it renews till then. */
void dlk_delegation_cut(uint32_t told, uint32_t ttl_ms);
/* Have a keeper now, and for as long as this process lives; or end it again. */
void dlk_delegation_stay(void);
void dlk_delegation_dismiss(void);
/*
 * After a close: wait, not for long, until what ended by it is given back; of
 * what was `left` to the keeper, by that.
 */
void dlk_delegation_closed(bool left);
/* This process has other rights now, or is in another user namespace. */
void dlk_delegation_privileges(bool other_namespace);
/* (the thread) Tell the keeper of those that are renewed; pinned. */
void dlk_delegation_renewed(struct dlk_hold *const *all, unsigned n);
/* (the thread) Hear the keeper; when to do so again. */
uint64_t dlk_delegation_tick(void);

/* --- for handover.c: with dlk_keeper_mutex ------------------------------- */

/* So many keepers may end over one hand-over. */
enum { DLK_DEATHS = 2 };

/*
 * Ask for a lease.  What has no room yet (false), or was meant for a keeper
 * that has just ended, is asked for at the next try.
 */
bool dlk_delegation_ask(struct dlk_hold *h, bool wait);
/* Hear all that it has said; false if there is none any more. */
bool dlk_delegation_listen(void);
/* (pinned) No keeper carries it; said once. */
void dlk_delegation_refused(struct dlk_hold *h, int err);
/* How many keepers were lost, wherever that was noticed; and why there is none:
 * -ETIMEDOUT, it hangs, -ESRCH, it has ended. */
unsigned dlk_delegation_lost(void);
int dlk_delegation_lost_by(void);

#endif
