/* SPDX-License-Identifier: MIT */
/*
 * flock(): the kernel's lock, or its shadow's; see flock.c.  Nothing here
 * gives anything back that was not taken here.
 */
#include "lock/flock_kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/revalidate.h"
#include "os/shadowdir.h"
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
 * For an asker it matters only if both it and we may be answered differently:
 *
 *	asker (EX)	Redis: readers elsewhere	we (SH | LOCK_NB)
 *	lock EX
 *	ask ->						refused: by whom?
 *			refused
 *	unlock						granted
 *
 * A lock that a keeper guards is no asker's.  Another may be one's who has it
 * and no keeper yet.  Within a millisecond most askers are done; then it is
 * Redis that knows, and a slow server, or a core that an asker lost, costs us
 * no more than DLK_SLOW_ASKER_MS of a preloaded one.
 */

/*
 * Does Redis know of a lease of this host, by this file?  1, 0, or -errno.
 * (That we asked changes nothing of what we were told: of a claim, it is when
 * we were refused that counts (queue.h).)
 */
int dlk_flock_has_lease_here(struct request *a)
{
	const uint64_t asked_ns = a->s->answer.asked_ns;
	int err = a->store->ops->find_holder(a->store, &a->attempt, &a->lease,
					     &a->s->answer);
	bool older;

	a->s->answer.asked_ns = asked_ns;
	return err < 0 ? err
		       : err == DLK_BUSY && dlk_request_same_place(a, &older);
}

/* One who has been in a reader's way for a millisecond: does he only ask? */
static bool only_asks(struct request *a)
{
	struct flock_look *l = &a->look;
	const uint64_t now = dlk_now_ns();
	bool asks;

	if (now < l->next_ns)
		return true;
	if (l->pid <= 0 || dlk_acquire_has_waited(&a->acquire, now, 1,
						  DLK_SLOW_ASKER_MS * DLK_MS))
		return false;
	if (l->preloaded != l->pid && !dlk_kernel_is_preloaded(l->pid))
		return false;
	l->preloaded = l->pid;
	asks = dlk_request_new_token(a) == 0 &&
	       dlk_flock_has_lease_here(a) == 0;
	l->next_ns = dlk_now_ns() + 2 * DLK_MS;
	return asks;
}

static uint64_t patience_with(struct request *a)
{
	/* Who asked has let go a moment ago, and may have begun anew. */
	const uint64_t gone =
		(a->look.preloaded ? DLK_SLOW_ASKER_MS : 10) * DLK_MS;
	int mode;

	switch (a->look.who) {
	case DLK_KEEPER:
		/* On a busy machine 9 of 480 were there after 10 ms [m]. */
		return 1000 * DLK_MS;
	case DLK_NOBODY:
		return gone;
	case DLK_ENDED:
		/* A keeper that was in the way and ended is not seen twice. */
		return a->look.ended > 1 ? 0 : gone;
	case DLK_OTHER:
		/* One who asks is refused: the lock is ours at Redis. */
		if (a->slot.word)
			return 20 * DLK_MS;
		if (a->mode == LOCK_SH)
			return !a->acquire.wait && only_asks(a)
				       ? DLK_SLOW_ASKER_MS * DLK_MS
				       : DLK_MS;
		break;
	case DLK_GUARDED:
		break;
	}
	/* Who shares our description was granted what we were refused. */
	mode = dlk_kernel_flock_mode(a->fd);
	return mode == LOCK_SH || mode == LOCK_EX ? 10 * DLK_MS : 0;
}

/* Three tries at least: 10 ms may pass without our running at all. */
bool dlk_flock_is_tentative(struct request *a)
{
	const struct acquire *m = &a->acquire;
	struct flock_look *l = &a->look;

	if (m->holders.n == 1) {
		*l = (struct flock_look){
			.next_ns = m->holders.first_ns + DLK_MS,
		};
	} else {
		if (dlk_acquire_has_waited(m, dlk_now_ns(),
					   l->who == DLK_OTHER ? 2 : 4,
					   l->patience_ns))
			return false;
		dlk_pause_ns(DLK_MS / 10);
	}
	l->who = dlk_kernel_holder(a->fd, &a->file, &l->pid);
	l->ended = l->who == DLK_ENDED ? l->ended + 1 : 0;
	l->patience_ns = patience_with(a);
	return l->patience_ns > 0;
}

void dlk_flock_give_up_old(struct request *a)
{
	if (!a->old)
		return;
	dlk_hold_end(a->old, END_UNLOCKED);
	dlk_unpin(a->old);
	a->old = NULL;
	a->had = LOCK_UN;
}

bool dlk_flock_cannot(int err)
{
	return err == -ENOLCK || err == -ENOSYS || err == -EOPNOTSUPP;
}

static int try_kernel(const struct request *a)
{
	return real.flock(a->fd, a->mode | LOCK_NB) < 0 ? -errno : 0;
}

/* What the description has. */
void dlk_flock_look_at_own(struct request *a)
{
	a->had = dlk_kernel_flock_mode(a->fd);
	if (a->had != LOCK_EX && a->had != LOCK_SH)
		a->had = LOCK_UN;
}

/*
 * Refused on a shadow.  By one that a keeper holds: is its description there
 * still, this very moment?  Or another process that shares our description has
 * locked it by another shadow, which its keeper gets to know as soon as it is
 * granted; then that one it is.
 */
static enum acquire_event try_with_keepers(struct request *a)
{
	const int own = dlk_shadow_ask(a->program_fd);
	enum acquire_event event;

	if (own >= 0 && dlk_kernel_file(own, &a->file) == 0) {
		a->fd = own;
		dlk_flock_look_at_own(a);
	}
	event = dlk_event_of_kernel(a, try_kernel(a));
	return event == EV_BUSY && a->acquire.wait && dlk_shared(a->program_fd)
		       ? EV_LINGER
		       : event;
}

/* A conversion gives up the old lock first: flock(2), NOTES. */
static enum acquire_event take_kernel(struct request *a)
{
	const enum acquire_event event = dlk_event_of_kernel(a, try_kernel(a));

	if (event != EV_BUSY)
		return event;
	dlk_flock_give_up_old(a);
	return dlk_request_by_shadow(a) ? try_with_keepers(a) : event;
}

/* --- by a shadow ---------------------------------------------------------- */

/* 'flock "PATH": ' what why then */
void dlk_flock_say(const struct request *a, enum dlk_level level,
		   const char *what, const char *why, const char *then)
{
	ssize_t n =
		dlk_kernel_path(a->program_fd, a->s->path, sizeof(a->s->path));
	struct dlk_line l;

	dlk_line_begin(&l, level);
	dlk_text_str(&l.text, "flock \"");
	dlk_text_quoted(&l.text, a->s->path, n > 0 ? (size_t)n : 0);
	dlk_text_str(&l.text, "\": ");
	dlk_text_str(&l.text, what);
	dlk_text_quoted(&l.text, why, strlen(why));
	dlk_text_str(&l.text, then);
	dlk_line_end(&l);
}

/* From here on it is the shadow that is locked. */
int dlk_flock_use_shadow(struct request *a)
{
	struct dlk_shadow_why why;
	int own = dlk_shadow_get(a->program_fd, &why);

	if (own == -EBADF)
		return own;
	if (own < 0) {
		dlk_flock_say(a, DLK_ERROR,
			      "no shadow of it can be locked: ", why.text,
			      "; the call fails with ENOLCK");
		return -ENOLCK;
	}
	a->fd = own;
	if (dlk_kernel_file(own, &a->file) < 0)
		return -EBADF;
	a->on_fuse = dlk_kernel_is_fuse(own, &a->file);
	return 0;
}

/* The number may be that of another file, or shadow, by now. */
bool dlk_flock_is_the_same(struct request *a)
{
	struct dlk_file now;

	if (!dlk_request_by_shadow(a))
		return dlk_follow_is_there(a);
	return dlk_kernel_file(a->fd, &now) == 0 &&
	       dlk_same_file(&now, &a->file);
}

void dlk_flock_let_go(struct request *a)
{
	if (dlk_flock_is_the_same(a))
		real.flock(a->fd, LOCK_UN);
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
static enum acquire_event take_shadow(struct request *a)
{
	enum acquire_event event;

	for (;;) {
		if (!dlk_shadow_is_current(a->fd, a->program_fd)) {
			int err;

			if (a->acquire.in_hand)
				dlk_flock_let_go(a);
			err = dlk_flock_use_shadow(a);
			if (err)
				return dlk_event_error(a, err);
		}
		event = take_kernel(a);
		if (event != EV_OK ||
		    dlk_shadow_is_current(a->fd, a->program_fd))
			return event;
		dlk_flock_let_go(a);
	}
}

/* On this file there is no lock to be had: by its shadow, then. */
static enum acquire_event or_by_shadow(struct request *a,
				       enum acquire_event event)
{
	/* (Without scratch, ENOLCK is ours.) */
	if (event != EV_ERROR || dlk_request_by_shadow(a) || !a->s ||
	    a->had != LOCK_UN || !dlk_flock_cannot(a->err))
		return event;
	a->no_flock = true;
	return EV_MOVED;
}

/*
 * A FUSE server that implements flock keeps the locks to itself: the kernel
 * lists none (fs/fuse/file.c, fuse_setlk), so nobody could tell when the lock
 * ends.  What is not listed may also have been unlocked already, by a process
 * that shares the description: so it counts when seen again and again.  The
 * lock of a shadow is listed.
 */
static bool is_listed(const struct request *a)
{
	const int mode = dlk_kernel_flock_mode(a->fd);

	return mode == LOCK_EX || mode == LOCK_SH;
}

static enum acquire_event not_listed(struct request *a)
{
	if (dlk_acquire_may_look_again(&a->acquire))
		return EV_NOT_VISIBLE;
	real.flock(a->fd, LOCK_UN);
	if (!dlk_request_by_shadow(a)) {
		a->no_flock = true;
		return EV_MOVED;
	}
	dlk_flock_say(a, DLK_ERROR, "the file system of state_dir, ",
		      dlk_self.config->state_dir,
		      ", keeps its locks to itself (FUSE); the call fails with "
		      "ENOLCK");
	return dlk_event_error(a, -ENOLCK);
}

/* [KLOCK] */
enum acquire_event dlk_flock_try(struct request *a)
{
	enum acquire_event event;

	if (dlk_request_by_shadow(a))
		event = take_shadow(a);
	else
		event = or_by_shadow(a, take_kernel(a));
	if (event == EV_OK && a->on_fuse && !is_listed(a))
		return not_listed(a);
	return event;
}

/* The kernel has started anew already: we do so, as for a conversion. */
static int start_anew(const struct request *a)
{
	struct dlk_held *h = dlk_flock_owner(a->fd);

	if (h) {
		dlk_hold_end(h, END_UNLOCKED);
		dlk_unpin(h);
	}
	real.flock(a->fd, LOCK_UN);
	return DLK_OTHER_FILE;
}

/* Granted, to the description that the call was made with: has it the lock? */
static int find_granted(struct request *a)
{
	const int fd = a->fd;
	int err = dlk_follow_granted(a);

	if (err == DLK_OTHER_FILE)
		return start_anew(a);
	if (!err && a->fd != fd && dlk_kernel_flock_mode(a->fd) != a->mode)
		return -EBADF;
	return err;
}

enum acquire_event dlk_flock_wait(struct request *a)
{
	int err, then;

	dlk_trace_call(a, "waits in the kernel for");
	dlk_queue_away(a);
	dlk_request_empty_hands(a);
	err = dlk_let_signals_in(a->call);
	if (!err) {
		dlk_unmask(a->call);
		err = real.flock(a->fd, a->mode) < 0 ? -errno : 0;
		dlk_mask();
	}
	if (!err)
		err = find_granted(a);
	then = dlk_request_fill_hands(a, err);
	if (!err && then)
		real.flock(a->fd, LOCK_UN);
	if (then)
		return or_by_shadow(a, dlk_event_of_place(a, then));
	if (!dlk_request_by_shadow(a) ||
	    dlk_shadow_is_current(a->fd, a->program_fd))
		return EV_OK;
	dlk_flock_let_go(a);
	return EV_AGAIN;
}
