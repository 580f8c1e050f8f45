/* SPDX-License-Identifier: MIT */
/*
 * flock(): the kernel's lock, or its shadow's; see flock.c.  Nothing here
 * gives anything back that was not taken here.
 */
#include "lock/flock_kernel.h"

#include <errno.h>
#include <sys/file.h>

#include "os/log.h"
#include "os/mounts.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/shadowdir.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/owner.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "model/timeline.h"

/* --- who is in the way? --------------------------------------------------- */

/*
 * Refused with LOCK_NB: by a holder, by a keeper that looks for an instant
 * whether the lock it guards has ended, or by one who asks Redis with the lock
 * in hand, and may be refused?  The latter two pass by themselves.
 *
 * For a tentative holder it matters only if both it and we may be answered
 * differently:
 *
 *	tentative (EX)	Redis: readers elsewhere	we (SH | LOCK_NB)
 *	lock EX
 *	ask ->						refused: by whom?
 *			refused
 *	unlock						granted
 *
 * A lock that a keeper guards is no tentative holder's.  Another may be one's
 * who has it and no keeper yet.  Within a millisecond most of them are done;
 * then it is Redis that knows, and a slow server, or a core that he lost, costs
 * us no more than DLK_SLOW_TENTATIVE_MS of a preloaded one.
 */

/*
 * Does Redis know of a lease of this host, by this file?  1, 0, or -errno.
 * (That we asked changes nothing of what we were told: of a claim, it is when
 * we were refused that counts (queue.h).)
 */
int dlk_flock_has_lease_here(struct request *r)
{
	const uint64_t asked_ns = r->s->answer.asked_ns;
	int err = r->store->ops->find_holder(r->store, &r->attempt, &r->lease,
					     &r->s->answer);
	bool older;

	r->s->answer.asked_ns = asked_ns;
	return err < 0 ? err
		       : err == DLK_BUSY && dlk_request_same_place(r, &older);
}

/* One who has been in a reader's way for a millisecond: does he only ask? */
static bool only_asks(struct request *r)
{
	struct flock_look *l = &r->look;
	const uint64_t now = dlk_now_ns();
	bool asks;

	if (now < l->next_ns)
		return true;
	if (l->pid <= 0 ||
	    dlk_acquire_has_waited(&r->acquire, now, 1,
				   DLK_SLOW_TENTATIVE_MS * DLK_MS))
		return false;
	if (l->preloaded != l->pid && !dlk_kernel_is_preloaded(l->pid))
		return false;
	l->preloaded = l->pid;
	asks = dlk_request_new_token(r) == 0 &&
	       dlk_flock_has_lease_here(r) == 0;
	l->next_ns = dlk_now_ns() + 2 * DLK_MS;
	return asks;
}

/* What the description has. */
static int own_mode(const struct request *r)
{
	const int mode = dlk_kernel_flock_mode(r->fd);

	return mode == LOCK_EX || mode == LOCK_SH ? mode : LOCK_UN;
}

/*
 * Sharers of our description lock and unlock it while we look, and what they have
 * is ours: who is in the way is then found there again.  (On a busy machine, where a
 * keeper may be in the way for long, one who does share it was found three times in
 * a row [m].)
 */
static bool may_be_a_sharer(const struct request *r)
{
	const struct flock_look *l = &r->look;

	return dlk_shared(r->program_fd) &&
	       (l->in_a_row < 3 || (l->in_a_row < 30 && l->pid > 0 &&
				    dlk_kernel_shares(l->pid, r->program_fd)));
}

static uint64_t patience_with(struct request *r)
{
	const struct flock_look *l = &r->look;
	/* Who was in the way has let go a moment ago, and may have begun anew. */
	const bool comes = l->preloaded || l->own != LOCK_UN;
	const bool came = l->patience_ns >= DLK_SLOW_TENTATIVE_MS * DLK_MS;
	const uint64_t gone =
		(comes || came ? DLK_SLOW_TENTATIVE_MS : 10) * DLK_MS;

	switch (l->who) {
	case DLK_KEEPER:
		/* On a busy machine 9 of 480 were there after 10 ms [m]. */
		return 1000 * DLK_MS;
	case DLK_NOBODY:
		return gone;
	case DLK_ENDED:
		/* A keeper that was in the way and ended is not seen twice. */
		return l->in_a_row > 1 ? 0 : gone;
	case DLK_OTHER:
		/* One who asks is refused: the lock is ours at Redis. */
		if (r->slot.word)
			return 20 * DLK_MS;
		if (r->mode == LOCK_SH && !may_be_a_sharer(r))
			return !r->acquire.wait && only_asks(r)
				       ? DLK_SLOW_TENTATIVE_MS * DLK_MS
				       : DLK_MS;
		break;
	case DLK_GUARDED:
		break;
	}
	return may_be_a_sharer(r) ? DLK_SLOW_TENTATIVE_MS * DLK_MS : 0;
}

/* What the description has; and who else has been in its way. */
static void look_at_holder(struct request *r)
{
	struct flock_look *l = &r->look;
	const enum dlk_holder who = l->who;
	const pid_t pid = l->pid;
	const int own = l->own;

	l->own = own_mode(r);
	l->who = dlk_kernel_holder(r->fd, &r->file, l->own, &l->pid);
	if (l->who != who || l->pid != pid || l->own != own)
		l->in_a_row = 0;
	l->in_a_row++;
	l->patience_ns = patience_with(r);
}

/* Three tries at least: 10 ms may pass without our running at all. */
enum acquire_event dlk_flock_check_holder(struct request *r)
{
	const struct acquire *m = &r->acquire;
	struct flock_look *l = &r->look;

	if (m->holders.n == 1)
		*l = (struct flock_look){
			.next_ns = m->holders.first_ns + DLK_MS,
		};
	look_at_holder(r);
	if (l->patience_ns == 0 ||
	    dlk_acquire_has_waited(m, dlk_now_ns(), l->who == DLK_OTHER ? 3 : 5,
				   l->patience_ns))
		return EV_BUSY;
	if (m->holders.n > 1)
		dlk_pause_ns(DLK_MS / 10);
	return EV_AGAIN;
}

void dlk_flock_give_up_old(struct request *r)
{
	if (!r->own)
		return;
	dlk_hold_end(r->own, END_UNLOCKED);
	dlk_request_let_go(r);
	r->old_mode = LOCK_UN;
}

bool dlk_flock_cannot(int err)
{
	return err == -ENOLCK || err == -ENOSYS || err == -EOPNOTSUPP;
}

static int try_kernel(const struct request *r)
{
	return real.flock(r->fd, r->mode | LOCK_NB) < 0 ? -errno : 0;
}

bool dlk_flock_look_at_own(struct request *r)
{
	const int mode = dlk_kernel_flock_mode(r->fd);

	if (mode >= 0)
		r->old_mode = mode;
	return mode >= 0;
}

/*
 * (What is older had been found before, or was closed behind our back.)  By the
 * path's key: that of another name is not asked for here.  What is converted is
 * marked by this call (`beside`), for it is our turn.
 */
struct dlk_hold *dlk_flock_of_threads(const struct request *r)
{
	struct dlk_hold *h = NULL;

	if (!dlk_any_held())
		return NULL;
	DLK_GUARD(&dlk_holds_mutex);
	do {
		h = dlk_hold_find(&r->file, h);
	} while (h &&
		 !(dlk_hold_is_held(h) && h->valid.granted_ns >= r->looked_ns &&
		   (h->fd == r->fd || dlk_kernel_same(r->fd, h->fd) == 1) &&
		   dlk_request_same_key(r, h)));
	return dlk_hold_pin(h);
}

/* An unlock takes no turn: so look again, when it is done. */
bool dlk_flock_leave_to_threads(struct request *r, int mode)
{
	struct dlk_hold *h;
	int theirs;

	for (;; mode = theirs) {
		h = dlk_flock_of_threads(r);
		theirs = h ? dlk_hold_mode(h) : LOCK_UN;
		dlk_unpin(h);
		if (theirs == mode)
			return mode != LOCK_UN;
		if (theirs == LOCK_UN)
			dlk_flock_let_go(r);
		else if (!dlk_flock_is_the_same(r) ||
			 real.flock(r->fd, theirs | LOCK_NB) < 0)
			return true;
	}
}

/* It is another number by now, or that of another file. */
static enum acquire_event start_with_number(struct request *r)
{
	return dlk_event_of_place(r, dlk_follow_up(r) ?: DLK_OTHER_FILE);
}

/*
 * Refused on a shadow.  By one that a keeper holds: is its description there
 * still, this very moment?  Or another process that shares our description has
 * locked it by another shadow, which its keeper gets to know as soon as it is
 * granted; then that one it is.
 */
static enum acquire_event try_with_keepers(struct request *r)
{
	const int own = dlk_shadow_ask(r->program_fd);
	enum acquire_event event;

	if (dlk_follow_was_taken(r))
		return start_with_number(r);
	if (own >= 0 && dlk_kernel_file(own, &r->file) == 0) {
		r->fd = own;
		dlk_flock_look_at_own(r);
	}
	event = dlk_event_of_kernel(r, try_kernel(r));
	return event == EV_BUSY && r->acquire.wait && dlk_shared(r->program_fd)
		       ? EV_LINGER
		       : event;
}

/* A conversion gives up the old lock first: flock(2), NOTES. */
static enum acquire_event take_kernel(struct request *r)
{
	const enum acquire_event event = dlk_event_of_kernel(r, try_kernel(r));

	if (event != EV_BUSY)
		return event;
	dlk_flock_give_up_old(r);
	dlk_flock_leave_to_threads(r, LOCK_UN);
	return dlk_request_by_shadow(r) ? try_with_keepers(r) : event;
}

/* --- by a shadow ---------------------------------------------------------- */

/* From here on it is the shadow that is locked. */
int dlk_flock_use_shadow(struct request *r, bool sure)
{
	struct dlk_shadow_why why;
	int own = dlk_shadow_get(r->program_fd, sure, &why);

	if (own == -EBADF || (own == -EAGAIN && sure))
		return own;
	if (own < 0) {
		dlk_request_say(r, DLK_ERROR,
				"no shadow of it can be locked: ", why.text,
				"; the call fails with ENOLCK");
		return -ENOLCK;
	}
	r->fd = own;
	if (dlk_kernel_file(own, &r->file) < 0)
		return -EBADF;
	r->on_fuse = dlk_fs_of(own, r->file.dev) == DLK_FS_FUSE;
	return 0;
}

/* The number may be that of another file, or shadow, by now. */
bool dlk_flock_is_the_same(struct request *r)
{
	struct dlk_file now;

	if (!dlk_request_by_shadow(r))
		return dlk_follow_is_there(r);
	return dlk_kernel_file(r->fd, &now) == 0 &&
	       dlk_same_file(&now, &r->file);
}

void dlk_flock_let_go(struct request *r)
{
	if (dlk_flock_is_the_same(r))
		real.flock(r->fd, LOCK_UN);
}

/*
 * Is what we were granted what others meet at?
 *
 *	we			whoever makes another shadow
 *	open it
 *				finds it out of use: locks, removes, unlocks
 *	are granted the lock
 *	of what nobody finds
 *
 * And another thread may have changed it for a sharer's while we waited.
 */
static enum acquire_event take_shadow(struct request *r)
{
	enum acquire_event event;

	for (;;) {
		if (!dlk_shadow_is_current(r->fd, r->program_fd)) {
			int err;

			if (r->acquire.in_hand)
				dlk_flock_let_go(r);
			err = dlk_flock_use_shadow(r, false);
			if (dlk_follow_was_taken(r))
				return start_with_number(r);
			if (err)
				return dlk_event_error(r, err);
		}
		event = take_kernel(r);
		if (event != EV_OK ||
		    dlk_shadow_is_current(r->fd, r->program_fd))
			return event;
		dlk_flock_let_go(r);
	}
}

/* On this file there is no lock to be had: by its shadow, then. */
static enum acquire_event or_by_shadow(struct request *r,
				       enum acquire_event event)
{
	/* (Without scratch, ENOLCK is ours.) */
	if (event != EV_ERROR || dlk_request_by_shadow(r) || !r->s ||
	    r->old_mode != LOCK_UN || !dlk_flock_cannot(r->err))
		return event;
	r->no_flock = true;
	return EV_MOVED;
}

/*
 * A FUSE server that implements flock keeps the locks to itself: the kernel
 * lists none (fs/fuse/file.c, fuse_setlk), so nobody could tell when the lock
 * ends.  What is not listed may also have been unlocked already, by a process
 * that shares the description: so it counts when seen again and again.  The
 * lock of a shadow is listed.
 */
static enum acquire_event not_listed(struct request *r)
{
	if (dlk_acquire_may_look_again(&r->acquire))
		return EV_NOT_VISIBLE;
	real.flock(r->fd, LOCK_UN);
	if (!dlk_request_by_shadow(r)) {
		r->no_flock = true;
		return EV_MOVED;
	}
	dlk_request_say(
		r, DLK_ERROR, "the file system of state_dir, ",
		dlk_self.config->state_dir,
		", keeps its locks to itself (FUSE); the call fails with "
		"ENOLCK");
	return dlk_event_error(r, -ENOLCK);
}

/* [KLOCK] */
enum acquire_event dlk_flock_try(struct request *r)
{
	enum acquire_event event;

	if (dlk_request_by_shadow(r))
		event = take_shadow(r);
	else
		event = or_by_shadow(r, take_kernel(r));
	if (event == EV_OK && r->on_fuse && own_mode(r) == LOCK_UN)
		return not_listed(r);
	return event;
}

/* The kernel has started anew already: we do so, as for a conversion. */
static int start_anew(struct request *r)
{
	struct dlk_hold *h = dlk_flock_owner(r->fd);

	if (h) {
		dlk_hold_end(h, END_UNLOCKED);
		dlk_unpin(h);
	}
	if (!dlk_request_by_shadow(r) || dlk_flock_is_the_same(r))
		real.flock(r->fd, LOCK_UN);
	return DLK_OTHER_FILE;
}

/* Granted, to the description that the call was made with: has it the lock? */
static int find_granted(struct request *r)
{
	const int fd = r->fd;
	int err = dlk_follow_granted(r);

	if (err == DLK_OTHER_FILE)
		return start_anew(r);
	if (!err && r->fd != fd && dlk_kernel_flock_mode(r->fd) != r->mode)
		return -EBADF;
	return err;
}

enum acquire_event dlk_flock_wait(struct request *r)
{
	int err, then;

	dlk_trace_call(r, "waits in the kernel for", NULL);
	dlk_queue_away(r);
	dlk_request_empty_hands(r);
	err = dlk_let_signals_in(r->call);
	if (!err) {
		dlk_unmask(r->call);
		err = real.flock(r->fd, r->mode) < 0 ? -errno : 0;
		dlk_mask(r->call);
	}
	if (!err)
		err = find_granted(r);
	else if (err == -EBADF && dlk_request_by_shadow(r))
		/* It is gone with what a handler has put another file for. */
		err = dlk_follow_granted(r) ?: -EBADF;
	then = dlk_request_fill_hands(r, err);
	if (!err && then)
		real.flock(r->fd, LOCK_UN);
	if (then)
		return or_by_shadow(r, dlk_event_of_place(r, then));
	if (!dlk_request_by_shadow(r) ||
	    dlk_shadow_is_current(r->fd, r->program_fd))
		return EV_OK;
	dlk_flock_let_go(r);
	return EV_AGAIN;
}
