/* SPDX-License-Identifier: MIT */
/*
 * When something is to be done for a hold, by the thread, and for which first
 * (model/due.h).  All with the mutex of the holds held.
 */
#ifndef DLK_SCHEDULE_H
#define DLK_SCHEDULE_H

#include "hold/hold.h"
#include "lease/store.h"

/*
 * What is to be done for it, or when, is another now.  Whoever writes what says
 * so, outside of hold.c, MUST call this, or have it pinned and unpin it after
 * that.
 */
void dlk_schedule(struct dlk_hold *h);
/* Not before then, whatever is due. */
void dlk_schedule_after(struct dlk_hold *h, uint64_t until_ns);
/* Never again: it is about to be freed. */
void dlk_schedule_clear(struct dlk_hold *h);
void dlk_schedule_forget(void); /* in a child */

/* When to renew it; UINT64_MAX: that is not ours. */
uint64_t dlk_schedule_renewal_ns(const struct dlk_hold *h);
/* When to hand it to the keeper; UINT64_MAX: it was asked for that. */
uint64_t dlk_schedule_handover_ns(const struct dlk_hold *h);
/* It is held for longer than the keeper knows. */
bool dlk_schedule_is_news(const struct dlk_hold *h);

/*
 * What comes first.  A renewal that is not due yet, and would only be done
 * along with others, is the last: it may have failed just now, and be as early
 * again, and what is due MUST NOT wait for it.
 */
enum dlk_duty { DLK_NO_DUTY, DLK_RENEW, DLK_HAND_OVER, DLK_TELL };
enum dlk_duty dlk_schedule_duty(const struct dlk_hold *h, uint64_t now_ns);

/*
 * The first of those that are held and that no keeper says to carry;
 * LIST_NEXT(h, undelegated) is the next one.
 */
struct dlk_hold *dlk_schedule_undelegated(void);

/* For the thread: when something is due next; UINT64_MAX: nothing is. */
uint64_t dlk_schedule_ns(void);
/*
 * The next mark of what is held and renewed here: half of its ttl (others must
 * not keep it from being renewed for longer), the warning, the *last one.  Marks
 * that have passed are none.
 */
uint64_t dlk_schedule_mark_ns(uint64_t now_ns, bool *last);
/*
 * The same of what is held at other servers than that: UINT64_MAX if nothing is.
 * It looks at all holds.
 */
uint64_t dlk_schedule_mark_elsewhere_ns(const struct dlk_store *store,
					uint64_t now_ns);
/* The least ttl of those that are held, or were lately. */
uint32_t dlk_schedule_least_ttl(void);
/*
 * If one is to be renewed, handed over or told of, such ones, and those that
 * may be renewed along with it: how many.  Then each is scheduled again.
 */
unsigned dlk_schedule_take(uint64_t now_ns,
			   struct dlk_hold *taken[DLK_RENEW_BATCH]);
/* One of which something is still to be said, and scheduled again; or NULL. */
struct dlk_hold *dlk_schedule_take_unsaid(uint64_t now_ns);

#endif
