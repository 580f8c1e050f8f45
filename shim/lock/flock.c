/* SPDX-License-Identifier: MIT */
/*
 * flock(): the kernel's lock first, the lease second (DESIGN L1).
 *
 * A flock lock belongs to the open file description: every dup, child and
 * receiver of it shares one lock.  Linux' flock(2), fs/locks.c.
 *
 *  1. The kernel's lock MUST be taken first, on the program's own descriptor,
 *     exactly as asked; a wait for a holder on this host is a wait there.
 *  2. Redis refuses: what this very call obtained is given back at once, and
 *     nobody sleeps with it in hand.  A description that was locked before
 *     the call stays locked.
 *  3. On release, the lease goes first, then the kernel's lock.
 *  4. No answer from Redis is a failure (ENOLCK), never a success (L8).
 *  5. Where the file cannot be locked in the kernel, its shadow (shadow.c) is,
 *     and all of this holds for that.
 *
 * Why 2 [DESIGN L1]: in `exec 9>f; timeout 1 flock 9`, the waiter that is
 * killed would leave a kernel lock with the shell that nobody holds.
 */
#include "lock/flock.h"

#include <alloca.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>

#include "config/config.h"
#include "os/log.h"
#include "os/path_cache.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/revalidate.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/delegation.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/local.h"
#include "hold/schedule.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "hold/thread.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/flock_kernel.h"
#include "lock/follow.h"
#include "lock/sharers.h"
#include "lock/turn.h"
#include "lock/wait.h"
#include "lock/wait_slot.h"
#include "model/outbox.h"
#include "model/seeded.h"
#include "model/timeline.h"

enum { GUARD_MS = 1000 }; /* as patience_with(): a keeper has no core yet */
enum { ASK_MS = 20 };     /* a keeper that did not answer is asked again */

/* --- Redis' part ---------------------------------------------------------- */

static bool downgrades(const struct request *r)
{
	return r->own && r->old_mode == LOCK_EX && r->mode == LOCK_SH;
}

/*
 * Each kernel grant gets a token of its own (DESIGN L3), but for a downgrade,
 * which cannot fail:
 *
 *	holder			server (slow, stopped)
 *	SH, new for old ->
 *	no answer: done, with
 *	the old lease		DEL old, HSET new
 *	release new ->		nothing left, and the holder goes on
 *
 * With the old token the request may be done or not, and late: what is there
 * is ours.  In the kernel a downgrade has no gap either (fs/locks.c,
 * flock_lock_inode), so the old `since` proves what the new one would.
 */
static int new_token(struct request *r)
{
	size_t n;

	if (!downgrades(r))
		return dlk_request_new_token(r);
	n = r->own->lease.token_len;
	memcpy(r->s->token, r->own->lease.token, n + 1);
	r->lease.token = r->s->token;
	r->lease.token_len = n;
	return 0;
}

static void disown(const struct request *r)
{
	dlk_release_token(r->rule, &r->lease);
}

/* What the description has at Redis, by us or another thread. */
static const struct dlk_lease *superseded(const struct request *r)
{
	const struct dlk_hold *h = r->own ?: r->beside;

	return h ? &h->lease : NULL;
}

/*
 * [PROOF] of death (DESIGN L3): we hold the kernel's lock, so an older lease of
 * this host and file has no holder any more.  It counts only if the lock is
 * still ours after `since` was read.
 *
 * A younger lease is one of a process that shares our description:
 *
 *	we				the other
 *					unlock
 *	lock: granted, since = now
 *					lock: granted too, since = now
 *					ask ->		granted
 *	ask ->		refused
 *
 * The kernel's lock is both's: we take the lease over, with a later `since`,
 * which proves the same.  To give the lock back would take it from both.
 *
 * And if the description had the exclusive lock before the call, that lease is
 * of nobody who died: it is given up for ours, or those who wait at Redis would
 * be served with what is locked.
 */
static int ask_with_proof(struct request *r, uint64_t until_ns)
{
	const bool had =
		!r->own && r->old_mode == LOCK_EX && r->mode == LOCK_EX;
	char token[DLK_TOKEN_MAX]; /* (the answer's is written over) */
	struct dlk_lease its = { .token = token };
	struct dlk_ask ask = { .proof = true, .superseded = &its };
	int err = DLK_BUSY;
	bool older;

	if (!had)
		ask.superseded = superseded(r);
	while (err == DLK_BUSY && dlk_request_same_place(r, &older) &&
	       dlk_now_ns() < until_ns) {
		if (!older && (downgrades(r) || new_token(r) < 0))
			break;
		if (dlk_kernel_flock_mode(r->fd) != r->mode)
			break;
		its.token_len = r->s->answer.holder_len;
		memcpy(token, r->s->answer.holder, its.token_len + 1);
		ask.waiter = dlk_queue_waiter(r);
		err = r->store->ops->acquire(r->store, &r->attempt, &r->lease,
					     &ask, &r->s->answer);
	}
	return err;
}

/*
 * With `fair`, who has a lock already is behind nobody who waits for that: so
 * neither is who shares its description.
 */
static int ask_for_lease(struct request *r)
{
	const uint64_t until = dlk_now_ns() + r->attempt.timeout_ns;
	const struct dlk_ask ask = {
		.superseded = superseded(r),
		.waiter = dlk_queue_waiter(r),
	};
	const bool fair = r->lease.fair;
	int err;

	r->lease.fair = fair && (r->own || r->old_mode == LOCK_UN);
	r->lease.rank = dlk_request_rank(r, r->own);
	err = r->store->ops->acquire(r->store, &r->attempt, &r->lease, &ask,
				     &r->s->answer);
	r->lease.rank = DLK_NO_RANK;
	if (err == DLK_BUSY && !dlk_sharers_no_proof(r))
		err = ask_with_proof(r, until);
	r->lease.fair = fair;
	return err;
}

static int ask_redis(struct request *r)
{
	int err;

	r->attempt.unsure = false;
	err = ask_for_lease(r);
	if ((dlk_seeded(3) && err == DLK_BUSY && dlk_now_ns() % 16 == 0) ||
	    (dlk_seeded(4) && err < 0))
		err = 0;
	if (err && r->attempt.unsure) {
		if (!downgrades(r))
			disown(r);
		dlk_queue_rename(r);
	}
	return err;
}

/* (mutex held) By the thread, for a call of the server here would wait. */
static void release_later(struct dlk_hold *h)
{
	dlk_hold_release(h);
	dlk_outbox_put(&h->out, OUTBOX_RELEASE, dlk_now_ns());
	dlk_schedule(h);
}

/*
 * (mutex held) The server has forgotten it by the way, but a renewal under way
 * could put it back (hold/verdict.c).  What goes on by its token, after a
 * downgrade or by the keeper, is not released.
 */
static void drop(const struct request *r, struct dlk_hold *h)
{
	const bool is_own = h == r->own;
	const bool goes_on = r->mode == LOCK_SH && (!is_own || downgrades(r));

	if (goes_on)
		dlk_hold_left(h);
	if (goes_on || h->pins == (is_own || h == r->beside))
		dlk_hold_drop(h);
	else
		release_later(h);
}

/*
 * (mutex held) What the table still says of this file and cannot be true any
 * more, now that the kernel has granted: with an exclusive lock nobody else
 * has any; with a shared one nobody has an exclusive one, and this description
 * had none.  Others may have the lock that a lease of ours was for: the keeper
 * knows.
 */
static void drop_stale(const struct request *r)
{
	struct dlk_hold *h = NULL, *next;

	for (h = dlk_hold_find(&r->file, NULL); h; h = next) {
		next = dlk_hold_find(&r->file, h);
		/* Another thread weakens it just now: it keeps its token. */
		if (h->state == HOLD_CONVERTING && h != r->own &&
		    h != r->beside && r->mode == LOCK_SH)
			continue;
		if (r->mode == LOCK_EX || h == r->own ||
		    (dlk_is_delegated(h) && h->fd == r->fd))
			drop(r, h);
		else if (!dlk_is_delegated(h) &&
			 (dlk_hold_mode(h) == LOCK_EX || h->fd == r->fd))
			release_later(h);
	}
}

/*
 * Those who share the description have only the keeper to ask for its shadow.
 * And where they had the lock, it is by this lease now that they have it: our
 * death must not end theirs.
 */
static bool is_for_sharers(const struct request *r)
{
	return (dlk_request_by_shadow(r) && dlk_shared(r->program_fd)) ||
	       (r->old_mode != LOCK_UN && !r->own);
}

/* [LATE] A lease that nobody will renew, or that was never held, is none. */
static int ensure_renewal(struct request *r, struct dlk_hold *h, bool late,
			  uint64_t look_ns)
{
	if (late) {
		dlk_request_never_held(h);
		dlk_release_send(h);
		strcpy(r->attempt.why, "the grant came after its own deadline");
		return -ETIMEDOUT;
	}
	return dlk_request_ensure_renewal(r, h, look_ns, true);
}

/*
 * A keeper that has what was weakened has it until it has what comes of that, which
 * is the same lease: we may end, or become another program, at any moment.
 *
 *	a thread		the keeper		main
 *	the kernel's is SH
 *	SH, by T ->		has T, as EX
 *				has T, as EX		execve: who has the lock now
 *							has the lease as well
 */
static void pass_to_keeper(struct dlk_hold *h, uint32_t told)
{
	if (!told)
		return;
	/* (Where none takes it, the one that has it goes on.) */
	if (dlk_handover(h))
		dlk_delegation_tell(told, DLK_KEEP_DROP);
}

/* [GRANT] The kernel has granted and so has Redis: it is ours, if in time. */
static int keep(struct request *r)
{
	const bool by_claim = r->slot.by_claim;
	/* (Of readers there are many: a sharer's lease stays his.) */
	const bool supersedes = r->own || r->mode == LOCK_EX;
	const bool for_sharers = is_for_sharers(r);
	struct dlk_hold *h = dlk_request_new_hold(r);
	uint32_t told = 0;
	uint64_t look_ns;
	bool late;
	int err;

	if (!h) {
		if (!downgrades(r))
			disown(r);
		return -ENOMEM;
	}
	if (r->rule->hold_at_least_ms && r->mode == LOCK_EX)
		h->lease.stays_until_ns =
			dlk_now_ns() + r->rule->hold_at_least_ms * DLK_MS;
	if (dlk_request_by_shadow(r))
		h->program_fd = r->program_fd;
	dlk_holds_lock();
	if (downgrades(r))
		told = dlk_take_from_keeper(r->own);
	drop_stale(r);
	look_ns = dlk_hold_install(h, r->s->answer.asked_ns,
				   by_claim ? r->slot.waiter.claim_ttl_ms : 0);
	late = h->valid.granted_ns >= dlk_hold_final_ns(h);
	if (late)
		dlk_hold_release(h);
	/* The conversion is done: Redis forgot the old token by the way. */
	dlk_hold_unpin(r->own);
	r->own = NULL;
	dlk_holds_unlock();
	pass_to_keeper(h, told);
	err = ensure_renewal(r, h, late, look_ns);
	if (!err && for_sharers)
		dlk_handover(h);
	if (!err && by_claim)
		dlk_queue_confirm(r);
	/* The kernel may have granted long before Redis did. */
	if (!err && h->revalidates)
		dlk_coherence_refresh(r->fd);
	if (!err && h->revalidates && dlk_now_ns() >= h->valid.deadline_ns) {
		dlk_request_never_held(h);
		dlk_hold_end(h, END_UNLOCKED);
		strcpy(r->attempt.why,
		       "the lease ended before the file was fresh");
		err = -ETIMEDOUT;
	}
	/* What the description had before is no lease any more. */
	if (err && supersedes)
		r->old_mode = LOCK_UN;
	dlk_unpin(h);
	return err;
}

/* --- both ----------------------------------------------------------------- */

static void take_from_keeper(struct dlk_hold *h)
{
	uint32_t told;

	dlk_holds_lock();
	told = dlk_take_from_keeper(h);
	dlk_holds_unlock();
	dlk_delegation_tell(told, DLK_KEEP_DROP);
}

/*
 * An unlock takes no turn, and may have come before the kernel's lock that is in
 * hand now.  What it gives back is named by nobody any more:
 *
 *	we			server			another thread
 *	SH, for EX by T		(slow)
 *							[RELEASE] T ->
 *							unlock
 *	lock: granted
 *	ask, by T ->		granted, by T
 *				[RELEASE] T, late, or once more
 */
static void forget_what_ended(struct request *r)
{
	bool held;

	dlk_holds_lock();
	held = r->own && dlk_hold_is_held(r->own);
	dlk_holds_unlock();
	if (!r->own || held)
		return;
	dlk_request_let_go(r);
	r->old_mode = LOCK_UN;
}

/*
 * Before a conversion is asked for: nobody may miss the old token then.  A downgrade
 * keeps it, and so does the keeper.
 */
static void prepare_conversion(struct request *r)
{
	forget_what_ended(r);
	if (r->own && !downgrades(r))
		take_from_keeper(r->own);
}

/*
 * A downgrade never fails for Redis' sake (DESIGN L1): the kernel's lock is
 * shared from here on; the lease may stay exclusive, which is more than was
 * asked for, until the thread has told Redis.  One that is not ours is its
 * taker's, or the keeper's.
 */
static enum acquire_event weakened_here_only(struct request *r)
{
	bool lost = false;
	uint32_t told;

	if (r->own) {
		dlk_holds_lock();
		told = dlk_take_from_keeper(r->own);
		lost = !dlk_hold_weaken(r->own, dlk_now_ns());
		dlk_holds_unlock();
		pass_to_keeper(r->own, told);
		if (!dlk_thread_need(dlk_now_ns()))
			dlk_handover(r->own);
		dlk_request_let_go(r);
	}
	if (lost) {
		dlk_flock_let_go(r);
		r->old_mode = LOCK_UN;
		return dlk_event_error(r, -ENOLCK);
	}
	dlk_request_line(
		r, DLK_WARNING,
		"cannot weaken the lease to a shared one yet: ", r->attempt.why,
		"; it may stay exclusive until the unlock");
	return EV_COVERED;
}

/*
 * A keeper waits for the end of what the description has without a lease of ours:
 * then there is one, of a sharer's or of what we were before an execve(2).  A keeper's
 * thread may have had no core yet, and who is asking just now has a keeper a moment
 * after he is granted it.
 */
static bool is_guarded(const struct request *r)
{
	const uint64_t until = dlk_now_ns() + GUARD_MS * DLK_MS;

	while (dlk_kernel_holder(r->fd, &r->file, LOCK_UN, NULL) !=
	       DLK_GUARDED) {
		if (dlk_now_ns() >= until ||
		    dlk_kernel_flock_mode(r->fd) == LOCK_UN)
			return false;
		dlk_pause_ns(DLK_MS);
	}
	return true;
}

/*
 * Not granted: what this call obtained goes back, and nothing else.  What the
 * description had before without a lease of ours is a sharer's, who may be
 * asking just now, as we are: so look again each time.
 */
static enum acquire_event roll_back(struct request *r)
{
	const enum acquire_event cause = r->acquire.cause;
	const bool weakens = r->old_mode == LOCK_EX && r->mode == LOCK_SH &&
			     cause != EV_BUSY && cause != EV_WRONG_TYPE;

	if (weakens && (r->own || is_guarded(r)))
		return weakened_here_only(r);
	/* A keeper's mark may be hidden from us: what fails has obtained
	 * nothing, and what there is may have a lease. */
	if (weakens)
		return EV_OK;
	dlk_flock_give_up_old(r);
	if (r->old_mode == r->mode)
		return EV_OK;
	r->old_mode = LOCK_UN;
	return dlk_sharers_unlock_refused(r) ? EV_OVERTAKEN : EV_OK;
}

/* The kernel's lock is ours: now Redis [ASK].  0, DLK_BUSY, ..., -errno. */
static int ask_and_keep(struct request *r)
{
	int err = DLK_BUSY;

	r->slot.by_claim = false;
	if (r->slot.word == 'g') {
		err = dlk_queue_claim(r);
		r->slot.word = 0;
	}
	if (err < 0)
		disown(r);
	/* Refused: the claim came too late, and everybody else may ask. */
	if (err == DLK_BUSY)
		err = new_token(r) ?: ask_redis(r);
	if (!err)
		err = keep(r);
	if (!err)
		dlk_trace_call(r, "granted", NULL);
	return err;
}

/* [ASK] */
static enum acquire_event ask(struct request *r)
{
	uint64_t patience_ns = r->attempt.timeout_ns;
	int err;

	prepare_conversion(r);
	if (downgrades(r))
		patience_ns = dlk_request_weakens(r);
	err = ask_and_keep(r);
	r->attempt.timeout_ns = patience_ns;
	if (err ? dlk_sharers_overtaken(r, err) : dlk_sharers_was_unlocked(r))
		return EV_OVERTAKEN;
	return dlk_event_of_redis(r, err);
}

/*
 * (pinned) A process that was stopped may be here before its thread: the lease
 * may be another's by now.  What the keeper alone renews, only it knows.
 */
static bool has_lapsed(const struct dlk_hold *h)
{
	return dlk_now_ns() >= h->valid.deadline_ns &&
	       !(h->keeper.carried &&
		 (atomic_load(&dlk_self.away) || !dlk_thread_here()));
}

/*
 * There is no telling what the description has, for want of a descriptor, or
 * by a program that may not read it (Landlock, AppArmor).  What is known by its
 * number is its, if the kernel grants that once more: where it is there, that
 * changes nothing.
 */
static void know_by_number(struct request *r)
{
	r->own = dlk_flock_owner(r->fd);
	if (r->own && real.flock(r->fd, dlk_hold_mode(r->own) | LOCK_NB) == 0 &&
	    dlk_hold_is_there(r->own))
		r->old_mode = dlk_hold_mode(r->own);
	else
		dlk_request_let_go(r);
}

/* What the description had before the call: old_mode, and the lease for it. */
static void look_before(struct request *r)
{
	bool known;

	r->looked_ns = dlk_now_ns();
	dlk_holds_lock();
	known = dlk_hold_find(&r->file, NULL);
	dlk_holds_unlock();
	if (!known && !dlk_shared(r->program_fd) &&
	    !dlk_local_perhaps(&r->file))
		return; /* who should have locked it? */
	if (!dlk_flock_look_at_own(r))
		know_by_number(r);
	else if (r->old_mode != LOCK_UN)
		r->own = dlk_flock_owner(r->fd);
}

/* While the kernel's lock has our mode, nobody must take theirs for ended. */
static void mark_beside(struct request *r, struct dlk_hold *h)
{
	dlk_holds_lock();
	dlk_hold_convert(h);
	dlk_holds_unlock();
	take_from_keeper(h);
	r->beside = h;
}

/* It has its mode in the kernel again, or has ended. */
static void leave_beside(struct request *r)
{
	if (!r->beside)
		return;
	dlk_holds_lock();
	dlk_hold_unchanged(r->beside);
	dlk_hold_unpin(r->beside);
	dlk_holds_unlock();
	r->beside = NULL;
}

/*
 * What a wait has brought is no lock that the description had before.  What it
 * had without a lease of ours is a sharer's, who may be asking just now, as we
 * are: so look again each time.  And while it was not our turn another thread
 * may have been granted what we ask for.  (What it was granted otherwise is no
 * old lock of ours, to be converted: it stays if we are refused.)
 */
static void look_again(struct request *r)
{
	struct dlk_hold *h;

	leave_beside(r);
	if (r->acquire.in_hand)
		r->old_mode = LOCK_UN;
	else if (r->old_mode != LOCK_UN)
		dlk_flock_look_at_own(r);
	h = dlk_flock_of_threads(r);
	if (h && dlk_hold_mode(h) != r->mode) {
		mark_beside(r, h);
	} else if (h) {
		r->own = h;
		r->old_mode = r->mode;
	}
}

/*
 * What this process has locked without Redis stays so until it is unlocked, if
 * no more than that is asked for: refused, it could only be lost.
 */
static bool is_local(const struct request *r)
{
	return r->acquire.may_be_local && !r->own && !r->acquire.in_hand &&
	       (r->old_mode == LOCK_EX || r->old_mode == r->mode) &&
	       dlk_local_perhaps(&r->file) && !dlk_kernel_taken_by_other(r->fd);
}

/* (its turn, from here to the end of roll_back) */
static enum acquire_event prepare(struct request *r)
{
	if (!r->looked_ns)
		look_before(r);
	else if (!r->own)
		look_again(r);
	return !r->acquire.local && is_local(r) ? EV_LOCAL : EV_OK;
}

/* A key once resolved stays with the owner, whatever renames (DESIGN L2). */
static enum acquire_event stay_with_key(struct request *r)
{
	const struct dlk_lease *own = &r->own->lease;

	r->lease.key = memcpy(r->s->key, own->key, own->key_len + 1);
	r->lease.key_len = own->key_len;
	r->lease.ttl_ms = own->ttl_ms;
	r->lease.pause_ms = own->pause_ms;
	r->lease.fair = own->fair;
	r->lease.interop = own->interop;
	r->rule = r->own->rule;
	r->store = dlk_store_of(r->rule->redis);
	r->looked_ns = 0;
	dlk_request_let_go(r);
	return EV_MOVED;
}

/*
 * Where the lease is ours, and for what is asked for, there is nothing to do.
 * Else it is marked before the kernel's lock changes its mode: the thread, and
 * others who lock this file, must not take it for one whose lock has ended.
 */
static enum acquire_event try_kernel(struct request *r)
{
	if (!r->own)
		return dlk_flock_try(r);
	if (!dlk_request_same_key(r, r->own))
		return stay_with_key(r);
	if (r->old_mode == r->mode && !has_lapsed(r->own)) {
		dlk_request_let_go(r);
		return EV_COVERED;
	}
	if (r->acquire.local) {
		dlk_flock_give_up_old(r);
		return dlk_flock_try(r);
	}
	/* It may be long, and what is being converted is not renewed. */
	if (r->own->revalidates)
		dlk_coherence_flush(r->fd);
	dlk_holds_lock();
	if (downgrades(r))
		dlk_hold_convert_weaker(r->own);
	else
		dlk_hold_convert(r->own);
	/* By this one it may be handed over meanwhile. */
	r->own->fd = r->fd;
	dlk_holds_unlock();
	return dlk_flock_try(r);
}

static void leave_turn(struct request *r)
{
	leave_beside(r);
	dlk_turn_leave(r);
}

static const struct lock_kind flock_kind = {
	.enter = dlk_turn_take,
	.leave = leave_turn,
	.steps = {
		[ACQ_PREPARE] = prepare,
		[ACQ_TRY_KERNEL] = try_kernel,
		[ACQ_ASK] = ask,
		[ACQ_ROLLBACK] = roll_back,
		[ACQ_CHECK_HOLDER] = dlk_flock_check_holder,
		[ACQ_WAIT_KERNEL] = dlk_flock_wait,
	},
};

/*
 * The key is on the stack, for a call that never comes back must leave none
 * behind; and once more where the owner's is another one.
 */
static int lock_by_key(struct request *r)
{
	size_t size;
	int err;

	do {
		size = r->lease.key_len + 1;
		r->lease.key = memcpy(alloca(size), r->lease.key, size);
		err = dlk_engine_run(r, &flock_kind);
	} while (err == DLK_OTHER_FILE && r->lease.key == r->s->key);
	r->lease.key = NULL;
	return err;
}

/* flock(2) does not work on this file system: once said, then no matter. */
static void say_by_shadow(const struct request *r, dev_t dev)
{
	enum dlk_level level = dlk_shadow_note(dev) ? DLK_WARNING : DLK_INFO;

	dlk_request_say(
		r, level,
		"its file system has no locks that the kernel lists; from here "
		"on shadows of its files are locked, in ",
		dlk_self.config->state_dir, " (local = \"shadow\")");
}

/*
 * A reader is granted beside the lock of a sharer, by whose shadow that is: then one
 * description has two, of which an unlock ends one.  (Who is refused asks again.)
 * Who does not wait gives a standby the time to take over (9.7), who waits the ttl.
 */
static bool is_to_be_sure(struct request *r)
{
	const uint64_t now = dlk_now_ns();
	const uint32_t ttl_ms = r->rule->ttl_ms;

	if (r->mode != LOCK_SH)
		return false;
	if (!r->keeper_ns)
		r->keeper_ns =
			now + (r->call->wait ? ttl_ms * DLK_MS
					     : dlk_keeper_patience_ns(ttl_ms));
	return now < r->keeper_ns;
}

/* With the program's descriptor, wherever that is now: of another file, too. */
static int begin_anew(struct request *r)
{
	int err;

	r->fd = r->program_fd;
	r->file = r->turn.file;
	err = dlk_follow_up(r);
	if (err == DLK_OTHER_FILE) {
		r->no_flock = false;
		r->keeper_ns = 0;
	}
	return err ? err : DLK_OTHER_FILE;
}

static int ask_keeper_again(struct request *r)
{
	const int err = dlk_request_pause(r, ASK_MS * DLK_MS);

	return err ? err : begin_anew(r);
}

static int choose_what_to_lock(struct request *r)
{
	const dev_t dev = r->file.dev;
	int err;

	if (!r->no_flock && !dlk_shadow_wanted(r->rule, dev))
		return 0;
	err = dlk_flock_use_shadow(r, is_to_be_sure(r));
	if (err == -EAGAIN)
		return ask_keeper_again(r);
	if (dlk_follow_was_taken(r))
		return begin_anew(r);
	if (!err && r->no_flock)
		say_by_shadow(r, dev);
	r->no_flock = false;
	return err;
}

/*
 * A wait that was interrupted, or refused, has lost the old lock all the same.
 * What failed otherwise (NFS's EBADF: the file is not open for writing) has not.
 */
static void leave_old(struct request *r)
{
	int mode;

	if (!r->own)
		return;
	mode = dlk_kernel_flock_mode(r->fd);
	/* (No telling is "there", as in liveness.c.) */
	if (mode >= 0 && mode != dlk_hold_mode(r->own)) {
		dlk_flock_give_up_old(r);
		return;
	}
	dlk_holds_lock();
	dlk_hold_unchanged(r->own);
	dlk_holds_unlock();
	dlk_request_let_go(r);
}

/* One attempt by the file, or by its shadow. */
static int lock_managed(struct request *r)
{
	int err = dlk_kernel_file(r->fd, &r->file) < 0
			  ? -EBADF
			  : dlk_request_begin(r, "");

	r->turn.file = r->file;
	dlk_follow_threads(r);
	if (!err)
		err = choose_what_to_lock(r);
	if (err)
		return err;
	r->lease.shared = r->mode == LOCK_SH;
	r->old_mode = LOCK_UN;
	r->looked_ns = 0;
	err = lock_by_key(r);
	leave_old(r);
	return err;
}

/* --- unlock ----------------------------------------------------------- */

/* NULL: it is not managed. */
static const struct dlk_rule *find_rule(int fd)
{
	const struct dlk_rule *rule;
	struct dlk_scratch *s;

	if (dlk_path_cache_has(fd))
		return NULL;
	s = dlk_scratch_get();
	if (!s)
		return NULL;
	dlk_rule_of(fd, &s->room, &rule);
	if (!rule && s->room.path[0] == '/')
		dlk_path_cache_add(fd, s->room.path, strlen(s->room.path));
	dlk_scratch_put(s);
	return rule;
}

/* May it be by a shadow that another process has locked? */
static bool perhaps_by_shadow(int fd)
{
	return !dlk_self.broken.text[0] && dlk_shadow_perhaps(fd) &&
	       !dlk_path_cache_has(fd);
}

/* What cannot be locked need not be unlocked. */
static int unlock_kernel(int fd)
{
	int err = real.flock(fd, LOCK_UN) < 0 ? -errno : 0;

	if (!dlk_flock_cannot(err))
		return err;
	DLK_INSIDE(call);
	return find_rule(fd) ? 0 : err;
}

static const char *why_unknown(int err)
{
	switch (err) {
	case -EAGAIN:
		return "a dlock-keeper that may have it has not answered for "
		       "the ttl; let it run (SIGCONT)";
	case -ENOSYS:
		return "dlock-keeper may not compare descriptors (kcmp(2), "
		       "refused by seccomp(2))";
	default:
		return strerrordesc_np(-err) ?: "unknown error";
	}
}

static int say_not_unlocked(int fd, int err)
{
	struct dlk_scratch *s = dlk_scratch_get();
	struct dlk_line l;
	ssize_t n = 0;

	if (s)
		n = dlk_kernel_path(fd, s->room.path, sizeof(s->room.path));
	dlk_line_of_path(&l, DLK_ERROR, "flock", s ? s->room.path : "",
			 n > 0 ? (size_t)n : 0);
	dlk_text_strs(
		&l.text, ": it may be locked yet, by a shadow (ENOLCK): ",
		why_unknown(err),
		"; unlock it again, or close the file wherever it is open",
		NULL);
	dlk_line_end(&l);
	dlk_scratch_put(s);
	return -ENOLCK;
}

/*
 * Of fd, which has no lease here, the shadow: our own, or a sharer's, which his keeper
 * has.  -ENOENT: none has; or another error.  A keeper that does not answer has a
 * standby, which takes over before its leases end (9.7): it is asked again for as long,
 * for what is not unlocked here stays locked in silence.
 */
static int find_shadow(struct dlk_call *call, int fd, uint32_t ttl_ms)
{
	const uint64_t until = dlk_now_ns() + ttl_ms * DLK_MS;
	struct dlk_file file;
	int shadow, err = dlk_kernel_file(fd, &file);
	bool last;

	if (err)
		return err;
	for (;;) {
		/* (Who was stopped himself asks once more.) */
		last = dlk_now_ns() >= until;
		shadow = dlk_shadow_locked(fd);
		if (!dlk_kernel_is_file(fd, &file))
			return -EBADF;
		if (shadow != -EAGAIN || last)
			return shadow;
		dlk_sleep(call, ASK_MS * DLK_MS);
	}
}

static void end_lease(struct dlk_hold *h, int fd)
{
	if (h->revalidates)
		dlk_coherence_flush(fd);
	dlk_hold_end(h, END_UNLOCKED);
	dlk_unpin(h);
}

/* By a lease that is not ours; 0, or -errno. */
static int unlock_sharers(struct dlk_call *call, int fd, int *shadow)
{
	const struct dlk_rule *rule =
		perhaps_by_shadow(fd) ? find_rule(fd) : NULL;
	struct dlk_hold *h;
	int found;

	if (!rule)
		return 0;
	found = find_shadow(call, fd, rule->ttl_ms);
	if (found == -EBADF)
		return found;
	/* (Ours of before may have been closed meanwhile, and be another file's.) */
	*shadow = found >= 0 ? found : dlk_shadow_of(fd);
	/* (A handler, or another thread, may have locked it meanwhile.) */
	h = dlk_flock_owner(*shadow >= 0 ? *shadow : fd);
	if (h)
		end_lease(h, fd);
	return found < 0 && found != -ENOENT ? say_not_unlocked(fd, found) : 0;
}

static int unlock(int fd)
{
	struct dlk_hold *h;
	int r, shadow, err = 0;

	DLK_INSIDE(call);
	shadow = dlk_shadow_of(fd);
	h = dlk_flock_owner(shadow >= 0 ? shadow : fd);
	if (h)
		end_lease(h, fd);
	else
		err = unlock_sharers(&call, fd, &shadow);
	if (err == -EBADF)
		return err;
	if (shadow >= 0)
		fd = shadow;
	r = real.flock(fd, LOCK_UN) < 0 ? -errno : 0;
	if (dlk_flock_cannot(r) && find_rule(fd))
		r = 0;
	dlk_thread_catch_up();
	return err ? err : r;
}

/* --- flock ---------------------------------------------------------------- */

static int lock(int fd, int mode, bool wait)
{
	struct request a = {
		.name = "flock",
		.fd = fd,
		.mode = mode,
		.program_fd = fd,
	};

	return dlk_request_run(&a, wait, lock_managed);
}

int dlk_flock(int fd, int op)
{
	switch (op & ~LOCK_NB) {
	case LOCK_EX:
	case LOCK_SH:
		return lock(fd, op & ~LOCK_NB, !(op & LOCK_NB));
	case LOCK_UN:
		if (dlk_any_held() || perhaps_by_shadow(fd))
			return unlock(fd);
		return unlock_kernel(fd);
	default:
		return DLK_PASS; /* EINVAL is the kernel's to say */
	}
}
