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

bool dlk_hold_end(struct dlk_hold *h, enum end_cause cause)
{
	bool ours, ends, carried;
	uint32_t told = 0;

	dlk_holds_lock();
	/* What is converted ends by the call that converts it. */
	ends = cause == END_GONE ? h->state == HOLD_HELD : dlk_hold_is_held(h);
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

bool dlk_hold_is_there(struct dlk_hold *h)
{
	bool held;

	dlk_holds_lock();
	held = dlk_hold_is_held(h);
	dlk_holds_unlock();
	if (held && dlk_lock_is_there(h))
		return true;
	if (held)
		dlk_hold_end(h, END_GONE);
	return false;
}
