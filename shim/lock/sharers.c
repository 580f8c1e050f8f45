/* SPDX-License-Identifier: MIT */
/*
 * flock(): what other processes do to the lock of a description that they share
 * with us (DESIGN 11.2).  The threads of this one take turns (turn.c).
 */
#include "lock/sharers.h"

#include <string.h>
#include <sys/file.h>

#include "config/config.h"
#include "os/proc.h"
#include "os/real.h"
#include "lease/store.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/owner.h"
#include "lock/flock_kernel.h"
#include "model/token.h"

/*
 * With hold_at_least a lease outlives its lock: so an older one is dead, or of a
 * process that was killed a moment ago, and neither is ours to take.  But for what
 * our own description had, or was found to be a sharer's.
 */
bool dlk_sharers_no_proof(const struct request *r)
{
	return r->rule->hold_at_least_ms && r->old_mode == LOCK_UN &&
	       !r->others;
}

/*
 * Was it another process that locked the description?  (The kernel is asked for
 * that where it counts, and not at each refusal.)
 */
static bool taken_by_other(const struct request *r)
{
	return r->rule->hold_at_least_ms && dlk_kernel_taken_by_other(r->fd);
}

/* (What is told of its number is of the holder's pid namespace.) */
static bool holder_shares(const struct request *r)
{
	const struct dlk_answer *a = &r->s->answer;
	struct dlk_token t;

	return dlk_token_parse(a->holder, a->holder_len, &t) &&
	       dlk_kernel_shares((pid_t)t.pid, r->program_fd);
}

/*
 * (BUSY) May it be a sharer's?  With hold_at_least it is what a lock has left, if
 * it is older than ours, it was we who locked the description, and no holder is
 * there who has it:
 *
 *	we			server			the sharer
 *	lock; ask ->
 *				refused			lock: granted (both)
 *	unlock						[CONFIRM] ->
 *	lock, once more; ask ->
 *				refused, for him	has the lock, as he sees
 */
static bool may_be_a_sharers(const struct request *r, bool by_other)
{
	bool older;

	return dlk_request_same_place(r, &older) &&
	       (!dlk_sharers_no_proof(r) ||
		(dlk_shared(r->program_fd) &&
		 (by_other || !older || holder_shares(r))));
}

/*
 * Has a process of this host a lease, by this description or another?  (An
 * older one was a claim when we were refused, or we would have proved it.)
 */
static bool others_have(struct request *r, bool by_other)
{
	return r->acquire.cause == EV_BUSY && dlk_shared(r->program_fd) &&
	       dlk_acquire_may_be_overtaken(&r->acquire) &&
	       dlk_flock_has_lease_here(r) == 1 &&
	       may_be_a_sharers(r, by_other);
}

/*
 * Refused, but who shares the description may be granted the lock of both just
 * now:
 *
 *	we			server			the sharer
 *	lock; ask ->
 *				refused, for another host has it
 *				[RELEASE], [GRANT NEXT]	[WAKE]
 *							lock: granted
 *							[CONFIRM] ->
 *	unlock
 *
 * So we look for its lease.  While the exclusive lock is there, nobody else of
 * this host can have one.  If it is granted after that, either it finds the
 * lock gone, or we find its lease when the lock is gone.
 *
 * What is at Redis may also be what is left of one that has ended, or has
 * unlocked a moment ago, by a description of its own; then nobody has the lock
 * that we would leave there.  So with the lock in hand we ask once more, which
 * proves whose it is (ask_with_proof): true.
 *
 * Where Redis does not say, the kernel does: what another process has taken,
 * between two attempts of ours, is its own to give back.  So is what the
 * description may have had before, where that cannot be read.
 */
bool dlk_sharers_unlock_refused(struct request *r)
{
	bool by_other;

	/* Nor, without an answer, what was found to be others': better a lock
	 * too many than one that is lost. */
	if (r->acquire.cause != EV_BUSY &&
	    (r->others ||
	     (dlk_shared(r->program_fd) && (dlk_kernel_flock_mode(r->fd) < 0 ||
					    dlk_kernel_taken_by_other(r->fd)))))
		return false;
	by_other = taken_by_other(r);
	r->others = false; /* what was found before is looked for anew */
	r->others = r->mode == LOCK_EX && others_have(r, by_other);
	if (!r->others)
		r->others = !dlk_flock_leave_to_threads(r, r->mode) &&
			    others_have(r, by_other) &&
			    dlk_flock_is_the_same(r) &&
			    real.flock(r->fd, LOCK_EX | LOCK_NB) == 0;
	return r->others;
}

/*
 * The conflicting lease belonged to a sharer of our description that has
 * unlocked or converted since, or there would have been proof.  Nothing is ours
 * to undo: start over, a bounded number of times.
 */
bool dlk_sharers_overtaken(struct request *r, int err)
{
	if (err != DLK_BUSY || !may_be_a_sharers(r, taken_by_other(r)) ||
	    dlk_kernel_flock_mode(r->fd) < 0 ||
	    !dlk_acquire_may_be_overtaken(&r->acquire))
		return false;
	dlk_flock_give_up_old(r);
	dlk_flock_look_at_own(r);
	return true;
}

/* (mutex held) What was kept just now, or NULL: it is gone already. */
static struct dlk_hold *find_kept(const struct request *r)
{
	struct dlk_hold *h = NULL;

	while ((h = dlk_hold_find(&r->file, h)))
		if (h->lease.token_len == r->lease.token_len &&
		    memcmp(h->lease.token, r->lease.token,
			   r->lease.token_len) == 0)
			break;
	return h;
}

/*
 * Granted, but who shares the description was refused before, and unlocked
 * what is both's:
 *
 *	we			server			the sharer
 *							lock; ask ->
 *				refused, for another host has it
 *	[WAKE]			[RELEASE], [GRANT NEXT]
 *	lock: granted
 *	[CONFIRM] ->
 *							unlock
 *
 * Lock anew, and ask in place of that lease: who saw the lock free may have
 * proved it dead.
 */
bool dlk_sharers_was_unlocked(struct request *r)
{
	if (!dlk_shared(r->program_fd) ||
	    dlk_kernel_flock_mode(r->fd) != LOCK_UN ||
	    !dlk_acquire_may_be_overtaken(&r->acquire))
		return false;
	r->old_mode = LOCK_UN;
	DLK_GUARD(&dlk_holds_mutex);
	r->own = dlk_hold_pin(find_kept(r));
	if (r->own)
		dlk_hold_convert(r->own);
	return true;
}
