/* SPDX-License-Identifier: MIT */
/*
 * A descriptor is about to be closed, and with it locks may end.
 *
 * Closing the last descriptor of a description ends its flock and OFD locks;
 * closing any descriptor of a file all the process's POSIX locks on it
 * (fcntl(2)).  What is seen to be closed is given back before the kernel's
 * locks go, for after that another host may wait.
 */
#include "lock/close.h"

#include <stdatomic.h>

#include "os/proc.h"
#include "os/revalidate.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/end.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/self.h"
#include "hold/shadow.h"

/* --- flock(2) ------------------------------------------------------------- */

struct closing {
	int fd;
	const struct dlk_hold *h;
};

/* Another descriptor of the description that is about to lose one. */
static bool survives(void *arg, int fd)
{
	const struct closing *c = arg;
	const struct dlk_hold *other = NULL;
	int same;

	if (fd == c->fd)
		return false;
	same = dlk_kernel_same(c->fd, fd);
	if (same >= 0)
		return same;
	dlk_holds_lock();
	do {
		other = dlk_hold_find(&c->h->file, other);
	} while (other && (other == c->h || other->fd != fd));
	dlk_holds_unlock();
	return !other;
}

/* Which lease goes with the shadow, and does anything end at all? */
static void closing(int fd)
{
	struct closing c = { .fd = fd };
	int other = -1, shadow = dlk_shadow_of(fd);
	struct dlk_hold *h;

	if (shadow >= 0 && dlk_shadow_moves(fd))
		return;
	c.h = h = dlk_flock_owner(shadow >= 0 ? shadow : fd);
	if (h && shadow < 0 && atomic_load(&dlk_self.dups))
		other = dlk_kernel_find(&h->file, dlk_hold_mode(h), survives,
					&c);
	if (h && other >= 0) {
		dlk_holds_lock();
		h->fd = other;
		dlk_holds_unlock();
	} else if (h && other == -1 && !dlk_shared(fd) &&
		   !dlk_is_delegated(h)) {
		if (h->revalidates)
			dlk_coherence_flush(fd);
		dlk_hold_end(h, END_UNLOCKED);
	} else if (h) {
		dlk_leave_to_keeper(h, other == -1);
	}
	if (h)
		dlk_unpin(h);
	if (shadow >= 0)
		dlk_shadow_drop(fd);
}

void dlk_closing(int fd)
{
	struct dlk_call call;

	if ((!dlk_any_held() && !dlk_shadow_any()) || dlk_own_is(fd))
		return;
	dlk_enter(&call);
	closing(fd);
	dlk_leave(&call);
}

/* --- record locks --------------------------------------------------------- */

static bool other_of_description(void *arg, int fd)
{
	const int *closing = arg;

	return fd != *closing && dlk_kernel_same(*closing, fd) == 1;
}

/* (file_lock) The description loses a descriptor: its last one? */
static void close_description(struct dlk_hold *h, int fd)
{
	int other = -1;

	if (atomic_load(&dlk_self.dups))
		other = dlk_kernel_find(&h->file, DLK_ANY_MODE,
					other_of_description, &fd);
	if (other >= 0) {
		dlk_holds_lock();
		h->fd = other;
		dlk_holds_unlock();
		return;
	}
	if (h->revalidates)
		dlk_coherence_flush(fd);
	if (other == -1 && !dlk_shared(fd) && !dlk_is_delegated(h))
		dlk_hold_end(h, END_UNLOCKED);
	else
		dlk_leave_to_keeper(h, other == -1);
}

static void close_record(struct dlk_call *call, int fd,
			 const struct dlk_file *file)
{
	struct dlk_hold *h;

	dlk_file_lock(call, file, NULL, NULL);
	h = dlk_record_owner(file, DLK_POSIX, fd);
	if (h) {
		if (h->revalidates)
			dlk_coherence_flush(fd);
		dlk_hold_end(h, END_UNLOCKED);
		dlk_unpin(h);
	}
	h = dlk_record_owner(file, DLK_OFD, fd);
	if (h) {
		close_description(h, fd);
		dlk_unpin(h);
	}
	dlk_file_unlock(file);
}

/* Sent before the kernel's locks go, for after that another host may wait. */
void dlk_record_closing(int fd)
{
	struct dlk_call call;
	struct dlk_file file;

	if (!dlk_any_held())
		return;
	dlk_enter(&call);
	if (dlk_kernel_file(fd, &file) == 0 && !dlk_kernel_is_path_only(fd))
		close_record(&call, fd, &file);
	dlk_leave(&call);
}

struct span {
	unsigned first, last;
};

static bool ends_locks(void *arg, int fd)
{
	const struct span *span = arg;
	struct dlk_hold *h = NULL;
	struct dlk_file file;

	if ((unsigned)fd < span->first || (unsigned)fd > span->last ||
	    dlk_kernel_is_path_only(fd) || dlk_kernel_file(fd, &file) < 0)
		return false;
	h = dlk_record_owner(&file, DLK_POSIX, fd);
	if (h)
		dlk_unpin(h);
	return h != NULL;
}

/* Each that is found ends a lease, and so is not found again. */
void dlk_record_closing_span(unsigned first, unsigned last)
{
	struct span span = { first, last };
	struct dlk_call call;
	struct dlk_file file;
	int fd;

	dlk_enter(&call);
	while ((fd = dlk_kernel_find(NULL, DLK_ANY_MODE, ends_locks, &span)) >=
		       0 &&
	       dlk_kernel_file(fd, &file) == 0)
		close_record(&call, fd, &file);
	dlk_leave(&call);
}
