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
#include "lock/wait_slot.h"
#include "model/outbox.h"
#include "model/token.h"

/* --- Redis' part ---------------------------------------------------------- */

static bool downgrades(const struct request *a)
{
	return a->old && a->had == LOCK_EX && a->mode == LOCK_SH;
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
static int new_token(struct request *a)
{
	size_t n;

	if (!downgrades(a))
		return dlk_request_new_token(a);
	n = a->old->lease.token_len;
	memcpy(a->s->token, a->old->lease.token, n + 1);
	a->lease.token = a->s->token;
	a->lease.token_len = n;
	return 0;
}

static void disown(const struct request *a)
{
	dlk_release_token(a->rule, &a->lease);
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
static int ask_with_proof(struct request *a, uint64_t until_ns)
{
	const bool had = !a->old && a->had == LOCK_EX && a->mode == LOCK_EX;
	struct dlk_lease its = { .token = a->s->answer.holder };
	struct dlk_ask ask = { .proof = true, .superseded = &its };
	int err = DLK_BUSY;
	bool older;

	if (!had)
		ask.superseded = a->old ? &a->old->lease : NULL;
	while (err == DLK_BUSY && dlk_request_same_place(a, &older) &&
	       dlk_now_ns() < until_ns) {
		if (!older && (downgrades(a) || new_token(a) < 0))
			break;
		if (dlk_kernel_flock_mode(a->fd) != a->mode)
			break;
		its.token_len = a->s->answer.holder_len;
		ask.waiter = dlk_queue_waiter(a);
		err = a->store->ops->acquire(a->store, &a->attempt, &a->lease,
					     &ask, &a->s->answer);
	}
	return err;
}

/*
 * With `fair`, who has a lock already is behind nobody who waits for that: so
 * neither is who shares its description.
 */
static int ask_for_lease(struct request *a)
{
	const uint64_t until = dlk_now_ns() + a->attempt.timeout_ns;
	const struct dlk_ask ask = {
		.superseded = a->old ? &a->old->lease : NULL,
		.waiter = dlk_queue_waiter(a),
	};
	const bool fair = a->lease.fair;
	int err;

	a->lease.fair = fair && (a->old || a->had == LOCK_UN);
	err = a->store->ops->acquire(a->store, &a->attempt, &a->lease, &ask,
				     &a->s->answer);
	if (err == DLK_BUSY)
		err = ask_with_proof(a, until);
	a->lease.fair = fair;
	return err;
}

static int ask_redis(struct request *a)
{
	int err;

	a->attempt.unsure = false;
	err = ask_for_lease(a);
	if (err && a->attempt.unsure) {
		if (!downgrades(a))
			disown(a);
		dlk_queue_rename(a);
	}
	return err;
}

/*
 * (mutex held) What the table still says of this file and cannot be true any
 * more, now that the kernel has granted: with an exclusive lock nobody else
 * has any; with a shared one nobody has an exclusive one, and this description
 * had none.  Others may have the lock that a lease of ours was for: the keeper
 * knows.
 */
static void drop_stale(const struct request *a)
{
	struct dlk_held *h = NULL, *next;

	for (h = dlk_held_find(&a->file, NULL); h; h = next) {
		next = dlk_held_find(&a->file, h);
		/* Another thread weakens it just now: it keeps its token. */
		if (h->state == HOLD_CONVERTING && h != a->old &&
		    a->mode == LOCK_SH)
			continue;
		if (a->mode == LOCK_EX || h == a->old || dlk_is_delegated(h)) {
			if (a->mode == LOCK_EX || h == a->old || h->fd == a->fd)
				dlk_hold_drop(h);
		} else if (dlk_hold_mode(h) == LOCK_EX || h->fd == a->fd) {
			dlk_hold_release(h);
			dlk_outbox_put(&h->out, OUTBOX_RELEASE, dlk_now_ns());
			dlk_schedule(h);
		}
	}
}

/* [LATE] A lease that nobody will renew, or that was never held, is none. */
static int settle(struct request *a, struct dlk_held *h, bool late,
		  uint64_t look_ns)
{
	if (late) {
		dlk_release_send(h);
		strcpy(a->attempt.why, "the grant came after its own deadline");
		return -ETIMEDOUT;
	}
	/* Those who share the description have only the keeper to ask. */
	if (dlk_request_by_shadow(a) && dlk_shared(a->program_fd))
		dlk_handover(h);
	if (dlk_thread_need(look_ns) || dlk_handover(h) || dlk_thread_comes())
		return 0;
	dlk_hold_end(h, END_UNLOCKED);
	strcpy(a->attempt.why,
	       "no thread and no keeper can be started to renew it");
	return -EREMOTEIO;
}

/* [GRANT] The kernel has granted and so has Redis: it is ours, if in time. */
static int keep(struct request *a)
{
	const bool by_claim = a->slot.by_claim;
	struct dlk_held *h = dlk_held_new(&a->lease);
	uint64_t look_ns;
	bool late;
	int err;

	if (!h) {
		if (!downgrades(a))
			disown(a);
		strcpy(a->attempt.why, "no memory for a lease");
		return -ENOMEM;
	}
	h->rule = a->rule;
	h->file = a->file;
	h->fd = a->fd;
	h->program_fd = dlk_request_by_shadow(a) ? a->program_fd : -1;
	h->coherent = dlk_coherence_needed(a->rule, a->fd, &a->file);
	dlk_holds_lock();
	drop_stale(a);
	look_ns = dlk_hold_install(h, a->s->answer.asked_ns,
				   by_claim ? a->slot.waiter.life_ms : 0);
	late = h->valid.granted_ns >= h->valid.deadline_ns;
	if (late)
		dlk_hold_release(h);
	/* The conversion is done: Redis forgot the old token by the way. */
	if (a->old)
		dlk_hold_unpin(a->old);
	a->old = NULL;
	dlk_holds_unlock();
	err = settle(a, h, late, look_ns);
	if (!err && by_claim)
		dlk_queue_confirm(a);
	/* The kernel may have granted long before Redis did. */
	if (!err && h->coherent)
		dlk_coherence_refresh(a->fd);
	if (!err && h->coherent && dlk_now_ns() >= h->valid.deadline_ns) {
		dlk_hold_end(h, END_UNLOCKED);
		strcpy(a->attempt.why,
		       "the lease ended before the file was fresh");
		err = -ETIMEDOUT;
	}
	dlk_unpin(h);
	return err;
}

/* --- both ----------------------------------------------------------------- */

/* Before a conversion is asked for: nobody may miss the old token then. */
static void prepare_conversion(struct request *a)
{
	uint32_t told;

	if (!a->old)
		return;
	if (a->old->coherent)
		dlk_coherence_flush(a->fd);
	dlk_holds_lock();
	told = dlk_take_from_keeper(a->old);
	dlk_holds_unlock();
	dlk_delegation_drop(told);
}

/*
 * A downgrade never fails for Redis' sake (DESIGN L1): the kernel's lock is
 * shared from here on; the lease may stay exclusive, which is more than was
 * asked for, until the thread has told Redis.  One that is not ours is its
 * taker's, or the keeper's.
 */
static enum acquire_event weakened_here_only(struct request *a)
{
	bool lost = false;

	if (a->old) {
		dlk_holds_lock();
		lost = !dlk_hold_weaken(a->old, dlk_now_ns());
		dlk_holds_unlock();
		/* The keeper was told to drop it. */
		if (!dlk_thread_need(dlk_now_ns()))
			dlk_handover(a->old);
		dlk_unpin(a->old);
		a->old = NULL;
	}
	if (lost) {
		dlk_flock_let_go(a);
		a->had = LOCK_UN;
		return dlk_event_error(a, -ENOLCK);
	}
	dlk_request_line(
		a, DLK_WARNING,
		"cannot weaken the lease to a shared one yet: ", a->attempt.why,
		"; it may stay exclusive until the unlock");
	return EV_COVERED;
}

/*
 * Not granted: what this call obtained goes back, and nothing else.  What the
 * description had before without a lease of ours is a sharer's, who may be
 * asking just now, as we are: so look again each time.
 */
static enum acquire_event undo(struct request *a)
{
	const enum acquire_event cause = a->acquire.cause;

	if (a->had == LOCK_EX && a->mode == LOCK_SH && cause != EV_BUSY &&
	    cause != EV_WRONG_TYPE &&
	    (a->old || dlk_kernel_holder(a->fd, &a->file, NULL) == DLK_GUARDED))
		return weakened_here_only(a);
	dlk_flock_give_up_old(a);
	if (a->had == a->mode)
		return EV_OK;
	a->had = LOCK_UN;
	return dlk_sharers_unlock_refused(a) ? EV_OVERTAKEN : EV_OK;
}

/* The kernel's lock is ours: now Redis [ASK].  0, DLK_BUSY, ..., -errno. */
static int ask_and_keep(struct request *a)
{
	int err = DLK_BUSY;

	a->slot.by_claim = false;
	if (a->slot.word == 'g') {
		err = dlk_queue_claim(a);
		a->slot.word = 0;
	}
	if (err < 0)
		disown(a);
	/* Refused: the claim came too late, and everybody else may ask. */
	if (err == DLK_BUSY)
		err = new_token(a) ?: ask_redis(a);
	if (!err)
		err = keep(a);
	if (!err)
		dlk_trace_call(a, "granted");
	return err;
}

static void resume(struct request *a)
{
	if (a->had != LOCK_UN)
		dlk_flock_look_at_own(a);
}

static enum acquire_event prepare(struct request *a)
{
	dlk_sharers_note(a);
	return EV_OK;
}

/* [ASK] */
static enum acquire_event ask(struct request *a)
{
	int err;

	prepare_conversion(a);
	err = ask_and_keep(a);
	if (err ? dlk_sharers_overtaken(a, err) : dlk_sharers_was_unlocked(a))
		return EV_OVERTAKEN;
	return dlk_event_of_redis(a, err);
}

static const struct lock_kind flock_kind = {
	.resume = resume,
	.prepare = prepare,
	.kernel_try = dlk_flock_try,
	.ask = ask,
	.rollback = undo,
	.holder_is_tentative = dlk_flock_is_tentative,
	.kernel_wait = dlk_flock_wait,
};

/*
 * (pinned) A process that was stopped may be here before its thread: the lease
 * may be another's by now.  What the keeper alone renews, only it knows.
 */
static bool has_lapsed(const struct dlk_held *h)
{
	return dlk_now_ns() >= h->valid.deadline_ns &&
	       !(h->keeper.carried &&
		 (atomic_load(&dlk_self.away) || !dlk_thread_here()));
}

/*
 * Before the kernel's lock changes its mode: the thread, and others who lock
 * this file, must not take the lease for one whose lock has ended.
 */
static void begin_conversion(struct request *a)
{
	dlk_holds_lock();
	dlk_hold_convert(a->old);
	dlk_holds_unlock();
}

/*
 * What the description had before the call.  If it is what is asked for, and
 * the lease is ours, there is nothing to do.
 */
static bool have_it(struct request *a)
{
	bool known;

	a->had = LOCK_UN;
	dlk_holds_lock();
	known = dlk_held_find(&a->file, NULL);
	dlk_holds_unlock();
	if (!known && !dlk_shared(a->program_fd))
		return false; /* who should have locked it? */
	dlk_flock_look_at_own(a);
	if (a->had != LOCK_UN)
		a->old = dlk_flock_owner(a->fd);
	if (!a->old)
		return false;
	if (a->had != a->mode || has_lapsed(a->old)) {
		begin_conversion(a);
		return false;
	}
	dlk_unpin(a->old);
	a->old = NULL;
	return true;
}

/* A key once resolved stays with the owner, whatever renames (DESIGN L2). */
static void stay_with_key(struct request *a)
{
	if (!a->old)
		return;
	a->lease.key = a->old->lease.key;
	a->lease.key_len = a->old->lease.key_len;
	a->lease.ttl_ms = a->old->lease.ttl_ms;
	a->rule = a->old->rule;
	a->store = dlk_store_of(a->rule->redis);
}

/* On the stack, for a call that never comes back must leave no key behind. */
static int lock_by_key(struct request *a)
{
	size_t size = a->lease.key_len + 1;
	char claim[DLK_TOKEN_MAX];
	int err;

	a->lease.key = memcpy(alloca(size), a->lease.key, size);
	a->slot.claim = claim;
	err = dlk_engine_run(a, &flock_kind);
	dlk_queue_end(a);
	a->slot.claim = NULL;
	a->lease.key = NULL;
	return err;
}

/* flock(2) does not work on this file system: once said, then no matter. */
static void say_by_shadow(const struct request *a, dev_t dev)
{
	enum dlk_level level = dlk_shadow_note(dev) ? DLK_WARNING : DLK_INFO;

	dlk_flock_say(
		a, level,
		"its file system has no locks that the kernel lists; from here "
		"on shadows of its files are locked, in ",
		dlk_self.config->state_dir, " (local = \"shadow\")");
}

static int choose_what_to_lock(struct request *a)
{
	const dev_t dev = a->file.dev;
	int err;

	if (!a->no_flock && !dlk_shadow_wanted(a->rule, dev))
		return 0;
	err = dlk_flock_use_shadow(a);
	if (!err && a->no_flock)
		say_by_shadow(a, dev);
	a->no_flock = false;
	return err;
}

static int lock_managed(struct request *a)
{
	int err = dlk_request_begin(a, "");

	if (!err)
		err = choose_what_to_lock(a);
	if (err)
		return err;
	dlk_follow_threads(a);
	a->lease.shared = a->mode == LOCK_SH;
	a->began_ns = dlk_now_ns();
	if (have_it(a))
		return 0;
	stay_with_key(a);
	err = lock_by_key(a);
	/* A wait that was interrupted, or refused, has lost it all the same. */
	dlk_flock_give_up_old(a);
	return err;
}

/* --- unlock ----------------------------------------------------------- */

static bool is_managed(int fd)
{
	const struct dlk_rule *rule;
	struct dlk_scratch *s;

	if (dlk_self.broken.text[0] || dlk_path_cache_has(fd))
		return false;
	s = dlk_scratch_get();
	if (!s)
		return false;
	dlk_rule_of(fd, s->path, sizeof(s->path), &rule);
	if (!rule && s->path[0] == '/')
		dlk_path_cache_add(fd, s->path, strlen(s->path));
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
static int unlock_kernel(struct dlk_call *call, int fd)
{
	int err = real.flock(fd, LOCK_UN) < 0 ? -errno : 0;

	if (!dlk_flock_cannot(err))
		return err;
	dlk_enter(call);
	if (is_managed(fd))
		err = 0;
	dlk_leave(call);
	return err;
}

static int unlock(struct dlk_call *call, int fd)
{
	struct dlk_held *h;
	int r, shadow;

	dlk_enter(call);
	shadow = dlk_shadow_of(fd);
	h = dlk_flock_owner(shadow >= 0 ? shadow : fd);
	if (h) {
		if (h->coherent)
			dlk_coherence_flush(fd);
		dlk_hold_end(h, END_UNLOCKED);
		dlk_unpin(h);
	} else if (perhaps_by_shadow(fd) && is_managed(fd)) {
		shadow = dlk_shadow_locked(fd);
	}
	if (shadow >= 0)
		fd = shadow;
	r = real.flock(fd, LOCK_UN) < 0 ? -errno : 0;
	if (dlk_flock_cannot(r) && is_managed(fd))
		r = 0;
	dlk_thread_catch_up();
	dlk_leave(call);
	return r;
}

/* --- flock ---------------------------------------------------------------- */

/* One attempt by the file, or by its shadow. */
static int lock_it(struct request *a)
{
	int err = dlk_classify(a->fd, a->s->path, sizeof(a->s->path), "flock",
			       &a->rule);

	if (err)
		return err;
	return a->rule ? lock_managed(a) : DLK_PASS;
}

static int lock(struct dlk_call *call, int fd, int mode, bool wait)
{
	struct request a = {
		.call = call,
		.name = "flock",
		.fd = fd,
		.mode = mode,
		.program_fd = fd,
	};
	int err;

	if (dlk_path_cache_has(fd))
		return DLK_PASS;
	dlk_enter(call);
	call->wait = wait;
	err = dlk_request_fill_hands(&a, 0);
	if (!a.s)
		dlk_log(DLK_ERROR, "flock: fails with ENOLCK: no memory", NULL);
	if (!err)
		err = lock_it(&a);
	while (err == DLK_OTHER_FILE)
		err = lock_it(&a);
	dlk_request_end(&a);
	if (a.rule)
		dlk_thread_catch_up();
	dlk_leave(call);
	return err;
}

int dlk_flock(struct dlk_call *call, int fd, int op)
{
	switch (op & ~LOCK_NB) {
	case LOCK_EX:
	case LOCK_SH:
		return lock(call, fd, op & ~LOCK_NB, !(op & LOCK_NB));
	case LOCK_UN:
		if (dlk_any_held() || perhaps_by_shadow(fd))
			return unlock(call, fd);
		return unlock_kernel(call, fd);
	default:
		return DLK_PASS; /* EINVAL is the kernel's to say */
	}
}
