/* SPDX-License-Identifier: MIT */
/*
 * A hold ends: who releases the lease, and what the keeper is told.
 *
 *	UNLOCKED	we do; it is the keeper's no more
 *	GONE		the same, if nobody else can have the lock; else as LEFT
 *	LEFT		the keeper, when it sees the lock's end; without one,
 *			the ttl ends it
 *
 * Where no thread of ours would send the release again, a keeper that has the
 * lease does it in our place.  What is lost, or replaced by proof, is released
 * by nobody (hold.c, verdict.c).
 */
#include "hold/end.h"

#include <stdatomic.h>

#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/holds.h"
#include "hold/liveness.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/trace.h"

static bool is_ours_to_release(const struct dlk_hold *h, enum end_cause cause)
{
	dlk_holds_check();
	if (cause != END_GONE)
		return cause == END_UNLOCKED;
	/* A process's own locks are nobody else's. */
	return h->kind == DLK_POSIX ||
	       (!dlk_is_delegated(h) && !dlk_shared(dlk_hold_program_fd(h)));
}

static void release(struct dlk_hold *h, bool carried, uint32_t told)
{
	dlk_trace_lease(h, "released", NULL);
	/* Nobody here would, or could, send it again. */
	if (carried && (atomic_load(&dlk_self.away) || !dlk_thread_here()) &&
	    dlk_delegation_tell(told, DLK_KEEP_OWE)) {
		DLK_GUARD(&dlk_holds_mutex);
		dlk_hold_drop(h);
		return;
	}
	dlk_delegation_tell(told, DLK_KEEP_DROP);
	dlk_release_send(h);
}

/* What is converted ends by the call that converts it. */
static bool may_end(const struct dlk_hold *h, enum end_cause cause,
		    const unsigned *conversions)
{
	dlk_holds_check();
	if (cause != END_GONE)
		return dlk_hold_is_held(h);
	return h->state == HOLD_HELD &&
	       (!conversions || h->conversions == *conversions);
}

/* If it was converted no more than so often, or (NULL) any number of times. */
static bool end(struct dlk_hold *h, enum end_cause cause,
		const unsigned *conversions)
{
	bool ours, ends, carried;
	uint32_t told = 0;

	dlk_holds_lock();
	ends = may_end(h, cause, conversions);
	ours = ends && is_ours_to_release(h, cause);
	carried = h->keeper.carried;
	if (ends && !ours)
		dlk_hold_left(h);
	if (ends)
		told = dlk_take_from_keeper(h);
	if (ours)
		dlk_hold_release(h);
	else if (ends)
		dlk_hold_drop(h);
	dlk_holds_unlock();
	if (ours)
		release(h, carried, told);
	else
		dlk_delegation_tell(told, DLK_KEEP_LEFT);
	return !ours && told;
}

bool dlk_hold_end(struct dlk_hold *h, enum end_cause cause)
{
	return end(h, cause, NULL);
}

bool dlk_hold_is_known(const struct dlk_hold *h, unsigned *conversions)
{
	DLK_GUARD(&dlk_holds_mutex);
	*conversions = h->conversions;
	return dlk_hold_is_held(h);
}

void dlk_hold_end_seen(struct dlk_hold *h, unsigned conversions)
{
	end(h, END_GONE, &conversions);
}

/*
 * No call is granted more between the look and the end: of records, for it has
 * the file_lock then; of flock's it converts the hold, and is counted.
 *
 *	the thread			a call
 *					its mode is LOCK_EX
 *	the kernel's is LOCK_SH
 *					so is the hold's
 *	LOCK_EX is nowhere: has it ended?
 */
int dlk_hold_look(struct dlk_hold *h)
{
	const bool locks = h->kind != DLK_FLOCK;
	unsigned conversions;
	int there;

	if (!dlk_hold_is_known(h, &conversions))
		return 0;
	if (locks && !dlk_file_trylock(&h->file))
		return -1;
	there = dlk_lock_is_there(h);
	if (there == 0)
		end(h, END_GONE, &conversions);
	if (locks)
		dlk_file_unlock(&h->file);
	return there == 0 && dlk_hold_is_known(h, &conversions) ? -1 : there;
}

bool dlk_hold_is_there(struct dlk_hold *h)
{
	return dlk_hold_look(h) != 0;
}
