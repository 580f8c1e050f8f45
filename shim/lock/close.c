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
#include "hold/liveness.h"
#include "hold/owner.h"
#include "hold/shadow.h"
#include "model/seeded.h"

struct closing {
	int fd;
	unsigned first, last; /* these are closed along with it */
	int *lost;
	struct dlk_hold *h;
};

/* The first error counts: the next one is of the same pages. */
static void flush(const struct closing *c, const struct dlk_hold *h)
{
	const int err = h->revalidates ? dlk_coherence_flush(c->fd) : 0;

	if (!*c->lost)
		*c->lost = err;
}

/*
 * Another descriptor of the description that is about to lose one.  Where there
 * is no telling, any that no other lease is known by is one.
 */
static bool survives(void *arg, int fd)
{
	const struct closing *c = arg;
	int same;

	if ((unsigned)fd >= c->first && (unsigned)fd <= c->last)
		return false;
	same = c->h->kind == DLK_OFD ? dlk_ofd_same(c->fd, fd)
				     : dlk_kernel_same(c->fd, fd);
	return same < 0 ? dlk_lock_may_have(c->h, fd) : same == 1;
}

/* (pinned) The description loses a descriptor: its last one? */
static void close_description(struct closing c, struct dlk_hold *h,
			      bool by_shadow)
{
	const int fd = c.fd;
	const int mode = h->kind == DLK_FLOCK ? dlk_hold_mode(h) : DLK_ANY_MODE;
	int other = -1;

	c.h = h;
	if (dlk_seeded(10))
		dlk_hold_end(h, END_UNLOCKED);
	if (!by_shadow && dlk_duplicated(fd))
		other = dlk_kernel_find(&h->file, mode, survives, &c);
	if (other >= 0) {
		DLK_GUARD(&dlk_holds_mutex);
		h->fd = other;
		return;
	}
	flush(&c, h);
	if (other == -1 && !dlk_shared(fd) && !dlk_is_delegated(h)) {
		dlk_hold_end(h, END_UNLOCKED);
		if (!dlk_closed_how)
			dlk_closed_how = DLK_CLOSED_OURS;
	} else {
		dlk_leave_to_keeper(h, other == -1);
	}
}

static void close_flock(struct closing c)
{
	const int fd = c.fd, shadow = dlk_shadow_of(fd);
	struct dlk_hold *h;

	if (shadow >= 0 && dlk_shadow_moves(fd, c.first, c.last))
		return;
	h = dlk_flock_owner(shadow >= 0 ? shadow : fd);
	if (h) {
		close_description(c, h, shadow >= 0);
		dlk_unpin(h);
	}
	if (shadow >= 0)
		dlk_shadow_drop(fd);
}

/*
 * Has the process any record lock of the file?  Without one a close waits for no
 * file_lock: a call of another thread may have that for as long as a file server
 * is away, and of another file, too.  (What is being granted just now is found
 * without its lock when it is handed over.)
 */
static bool has_records(const struct dlk_file *file)
{
	DLK_GUARD(&dlk_holds_mutex);
	return dlk_hold_find_records(file, NULL);
}

static void close_record(struct dlk_call *call, struct closing c,
			 const struct dlk_file *file)
{
	const int fd = c.fd;
	struct dlk_hold *h;

	if (!has_records(file))
		return;
	dlk_file_lock(call, file, UINT64_MAX, NULL, NULL);
	h = dlk_record_owner(file, DLK_POSIX, fd);
	if (h) {
		flush(&c, h);
		dlk_hold_end(h, END_UNLOCKED);
		dlk_unpin(h);
	}
	h = dlk_record_owner(file, DLK_OFD, fd);
	if (h) {
		close_description(c, h, false);
		dlk_unpin(h);
	}
	dlk_file_unlock(file);
}

/* Sent before the kernel's locks go, for after that another host may wait. */
int dlk_closing(int fd, unsigned first, unsigned last)
{
	int lost = 0;
	const struct closing c = {
		.fd = fd, .first = first, .last = last, .lost = &lost
	};
	struct dlk_file file;

	if (dlk_own_is(fd))
		return 0;
	DLK_INSIDE(call);
	close_flock(c);
	if (dlk_any_held() && dlk_kernel_file(fd, &file) == 0 &&
	    !dlk_kernel_is_path_only(fd))
		close_record(&call, c, &file);
	return lost;
}

/* (pinned, or NULL) */
static void leave(struct dlk_hold *h)
{
	if (h)
		dlk_leave_to_keeper(h, false);
	dlk_unpin(h);
}

/*
 * By its number it would be taken for what this thread opens next.  (POSIX locks
 * have none, and a shadow is in both tables.)
 */
void dlk_leaving_span(unsigned first, unsigned last)
{
	struct dlk_file file;

	DLK_INSIDE(call);
	for (int fd, from = (int)first; from >= 0; from = fd + 1) {
		fd = dlk_hold_next_fd(from);
		if (fd < 0 || (unsigned)fd > last)
			return;
		if (dlk_own_is(fd) || dlk_kernel_file(fd, &file) < 0)
			continue;
		leave(dlk_flock_owner(fd));
		if (!has_records(&file))
			continue;
		dlk_file_lock(&call, &file, UINT64_MAX, NULL, NULL);
		leave(dlk_record_owner(&file, DLK_OFD, fd));
		dlk_file_unlock(&file);
	}
}

/* --- many descriptors: POSIX locks ---------------------------------------- */

static bool ends_locks(void *arg, int fd)
{
	const struct closing *c = arg;
	struct dlk_hold *h = NULL;
	struct dlk_file file;

	if ((unsigned)fd < c->first || (unsigned)fd > c->last ||
	    dlk_kernel_is_path_only(fd) || dlk_kernel_file(fd, &file) < 0)
		return false;
	h = dlk_record_owner(&file, DLK_POSIX, fd);
	dlk_unpin(h);
	return h != NULL;
}

/* Each that is found ends a lease, and so is not found again. */
void dlk_record_closing_span(unsigned first, unsigned last)
{
	int lost = 0; /* close_range(2) does not say it */
	struct closing c = { .first = first, .last = last, .lost = &lost };
	struct dlk_file file;

	DLK_INSIDE(call);
	while ((c.fd = dlk_kernel_find(NULL, DLK_ANY_MODE, ends_locks, &c)) >=
		       0 &&
	       dlk_kernel_file(c.fd, &file) == 0)
		close_record(&call, c, &file);
}
