/* SPDX-License-Identifier: MIT */
/*
 * Record locks: the kernel's part (see record.c).  What a refused call gives
 * back follows from what is granted at that moment, byte by byte.
 */
#include "lock/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/signals.h"
#include "lease/store.h"
#include "hold/file_lock.h"
#include "hold/holds.h"
#include "hold/local.h"
#include "hold/owner.h"
#include "lock/deadlock.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "model/range.h"

static const struct dlk_ranges nothing;

const struct dlk_ranges *dlk_record_granted(const struct request *r)
{
	return r->own ? &r->own->ranges : &nothing;
}

static int set_kernel_by(int fd, enum dlk_kind kind,
			 const struct dlk_range *range)
{
	struct flock64 l = { 0 }; /* of an OFD lock l_pid must be 0 */

	dlk_range_to(range, &l);
	return real.fcntl64(fd, kind == DLK_OFD ? F_OFD_SETLK : F_SETLK, &l) < 0
		       ? -errno
		       : 0;
}

int dlk_record_set(const struct request *r, const struct dlk_range *range)
{
	return set_kernel_by(r->fd, r->kind, range);
}

bool dlk_record_is_open_for(const struct request *r)
{
	const int mode = real.fcntl64(r->fd, F_GETFL) & O_ACCMODE;

	return mode == O_RDWR ||
	       mode == (r->want.type == DLK_READ ? O_RDONLY : O_WRONLY);
}

static bool is_readable(void *unused, int fd)
{
	(void)unused;
	return (real.fcntl64(fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
}

/*
 * What was taken by another descriptor may be none that this one could take:
 *
 *	lock READ through one that reads; the same bytes, WRITE, through one
 *	that only writes; Redis refuses: READ again, but not through the latter
 */
static void restore_piece(const struct request *r,
			  const struct dlk_range *piece)
{
	int fd;

	if (dlk_record_set(r, piece) != -EBADF || piece->type != DLK_READ)
		return;
	fd = dlk_kernel_find(&r->file, DLK_ANY_MODE, is_readable, NULL);
	if (fd >= 0)
		set_kernel_by(fd, r->kind, piece);
}

struct before {
	struct request *r;
	int err;
};

/* What our own list has is told by that, and by no look at the kernel. */
static void add_within(struct before *b, const struct dlk_range *range,
		       uint64_t start, uint64_t last)
{
	uint64_t at = range->start > start ? range->start : start;
	uint64_t end = range->end < last ? range->end : last;
	struct dlk_range piece;

	while (at <= end && !b->err) {
		piece = dlk_ranges_piece(dlk_record_granted(b->r), at, end);
		if (piece.type < range->type) {
			piece.type = range->type;
			b->err = dlk_ranges_set(&b->r->before, piece);
		}
		if (piece.end == end)
			break;
		at = piece.end + 1;
	}
}

/* What a wait has brought was not there before the call either. */
static int add_before(void *arg, const struct dlk_range *range)
{
	struct before *b = arg;
	const struct dlk_range *want = &b->r->want, *got = &b->r->blocked;

	if (!b->r->acquire.in_hand) {
		add_within(b, range, want->start, want->end);
		return b->err;
	}
	if (got->start > want->start)
		add_within(b, range, want->start, got->start - 1);
	if (got->end < want->end)
		add_within(b, range, got->end + 1, want->end);
	return b->err;
}

/* What the owner has from `at` on, by its list or by the look before. */
static struct dlk_range piece_had(const struct request *r, uint64_t at,
				  uint64_t end)
{
	struct dlk_range piece, was;

	piece = dlk_ranges_piece(dlk_record_granted(r), at, end);
	was = dlk_ranges_piece(&r->before, at, piece.end);
	if (was.type < piece.type)
		was.type = piece.type;
	return was;
}

/* Every byte as it is granted: what this call took is undone. */
static void restore_range(const struct request *r,
			  const struct dlk_range *range)
{
	struct dlk_range piece;

	for (uint64_t at = range->start;; at = piece.end + 1) {
		piece = piece_had(r, at, range->end);
		restore_piece(r, &piece);
		if (piece.end == range->end)
			return;
	}
}

enum acquire_event dlk_record_roll_back(struct request *r)
{
	if (dlk_follow_is_there(r))
		restore_range(r, &r->want);
	return EV_OK;
}

/*
 * Clear the snapshot, except for the range we waited for: keep its state from
 * before the wait.
 */
static void forget_before(struct request *r)
{
	struct dlk_range was = r->blocked;

	if (r->acquire.in_hand)
		was = dlk_ranges_piece(&r->before, was.start, was.end);
	r->before = (struct dlk_ranges){
		.v = r->before_room,
		.room = sizeof(r->before_room) / sizeof(r->before_room[0]),
	};
	if (r->acquire.in_hand && was.type != DLK_UNLOCKED)
		dlk_ranges_set(&r->before, was);
}

bool dlk_record_shares(const struct request *r)
{
	return r->kind == DLK_OFD && dlk_shared(r->fd);
}

/* Its owner may have what no list of ours has. */
static bool has_unlisted(const struct request *r)
{
	return dlk_record_shares(r) || dlk_local_perhaps(&r->file);
}

static int look_at_kernel(struct request *r)
{
	struct before b = { .r = r };

	return r->kind == DLK_OFD
		       ? dlk_kernel_records(r->fd, DLK_OFD, add_before, &b)
		       : dlk_kernel_own_records(&r->file, add_before, &b);
}

/*
 * A description that another process shares may have what only that knows, and
 * an owner what was granted without Redis.  It is the one thing that is told by
 * a look before (L1): the other way was to unlock it with what is undone.
 */
int dlk_record_look_before(struct request *r)
{
	forget_before(r);
	if (!has_unlisted(r))
		return 0;
	if (look_at_kernel(r) == 0)
		return 0;
	/* By the kernel alone it is taken at one stroke, and never undone. */
	if (r->acquire.local && !r->acquire.in_hand && !r->own) {
		r->before.n = 0;
		return 0;
	}
	dlk_request_line(r, DLK_ERROR, "not asked: other processes share the ",
			 "description, or it was locked without Redis, and "
			 "its locks are too many, or cannot be read",
			 "; the call fails with ENOLCK");
	if (r->acquire.in_hand)
		restore_range(r, &r->blocked);
	return -ENOLCK;
}

static bool is_weaker_than(const struct request *r,
			   const struct dlk_ranges *set)
{
	struct dlk_range reads = r->want;

	reads.type = DLK_READ;
	return r->want.type < DLK_WRITE && dlk_ranges_conflict(set, &reads);
}

bool dlk_record_weakens_granted(const struct request *r)
{
	return is_weaker_than(r, dlk_record_granted(r));
}

bool dlk_record_weakens(const struct request *r)
{
	return dlk_record_weakens_granted(r) || is_weaker_than(r, &r->before);
}

/* The next part of `rest` that the owner has not, as dlk_ranges_lacks(). */
static bool is_lacking(const struct request *r, struct dlk_range *rest,
		       struct dlk_range *part)
{
	while (rest->start <= rest->end) {
		*part = piece_had(r, rest->start, rest->end);
		rest->start = part->end + 1;
		if (part->type < rest->type) {
			part->type = rest->type;
			return true;
		}
	}
	return false;
}

/*
 * Without a wait.  A READ over a WRITE of the owner's waits until Redis has
 * granted the rest, or it could not be undone: a local reader may be quicker.  (So
 * the kernel may not be asked for any of it before Redis is.)
 */
int dlk_record_take(struct request *r)
{
	struct dlk_range rest = r->want, part = r->want;
	int err = 0;

	if (!dlk_record_weakens(r)) {
		err = dlk_record_set(r, &part);
	} else if (!dlk_record_is_open_for(r)) {
		return -EBADF;
	} else {
		while (!err && is_lacking(r, &rest, &part))
			err = dlk_record_set(r, &part);
	}
	if (!err)
		return 0;
	r->blocked = part;
	if (dlk_record_weakens(r) || r->acquire.in_hand)
		dlk_record_roll_back(r);
	return err;
}

/* (outside) What the kernel has granted to a wait, of whichever file. */
static void undo_wait(struct request *r)
{
	const struct dlk_file was = r->file;

	if (dlk_kernel_file(r->fd, &r->file) < 0)
		return;
	if (!dlk_same_file(&was, &r->file))
		r->before.n = 0;
	dlk_file_lock(NULL, &r->file, UINT64_MAX, NULL, NULL);
	r->own = dlk_record_owner(&r->file, r->kind, r->fd);
	restore_range(r, &r->blocked);
	dlk_request_let_go(r);
	dlk_file_unlock(&r->file);
}

/*
 * What is waited for by a shared description, or beside what was granted without
 * Redis, is no more than what is in the way now, and of one state before: others
 * may change the rest meanwhile, and what they have in that is none before it is
 * free.
 *
 *	we: 0-19, where a third has 10		who shares the description
 *	wait for 10
 *						lock 0-3: granted
 *	10 granted
 *	look at the rest; lock 0-19
 *	Redis refuses: 0-3 stays
 */
static void narrow(struct request *r)
{
	const int cmd = r->kind == DLK_OFD ? F_OFD_GETLK : F_GETLK;
	struct dlk_range *part = &r->blocked, hit;
	struct flock64 l = { 0 };

	if (!has_unlisted(r))
		return;
	dlk_range_to(part, &l);
	if (real.fcntl64(r->fd, cmd, &l) == 0 && l.l_type != F_UNLCK &&
	    dlk_range_of(&l, 0, 0, &hit) == 0) {
		part->start = hit.start > part->start ? hit.start : part->start;
		part->end = hit.end < part->end ? hit.end : part->end;
	}
	hit = dlk_ranges_piece(&r->before, part->start, part->end);
	part->end = hit.end;
}

/*
 * Granted, to the description that the call was made with: has it the lock?
 * (Of what is closed it went with the description.)
 */
static enum acquire_event find_granted(struct request *r, int err)
{
	int then = dlk_follow_granted(r);

	if (then != -EBADF && (err || then))
		undo_wait(r);
	return err ? dlk_event_error(r, err) : dlk_event_of_place(r, then);
}

/*
 * fcntl(F_SETLKW) is a cancellation point, with nothing of ours in hand.  The
 * kernel restarts it with the number, whatever a handler has put there.
 */
enum acquire_event dlk_record_wait(struct request *r)
{
	struct flock64 l = { 0 }; /* of an OFD lock l_pid must be 0 */
	bool granted = false;
	int err;

	narrow(r);
	dlk_trace_call(r, "waits in the kernel for", NULL);
	dlk_queue_away(r);
	dlk_deadlock_in_kernel(r, &l);
	dlk_request_empty_hands(r);
	err = dlk_let_signals_in(r->call);
	if (!err) {
		dlk_range_to(&r->blocked, &l);
		dlk_unmask(r->call);
		err = real.fcntl64(r->fd,
				   r->kind == DLK_OFD ? F_OFD_SETLKW : F_SETLKW,
				   &l) < 0
			      ? -errno
			      : 0;
		dlk_mask(r->call);
		granted = err == 0;
	}
	dlk_deadlock_in_kernel(r, NULL);
	err = dlk_request_fill_hands(r, err);
	if (granted)
		return find_granted(r, err);
	return err == -EDEADLK ? EV_DEADLOCK : dlk_event_error(r, err);
}

/*
 * By its own descriptor; or, of a process's locks, by any.  *stronger: there is
 * more of it than is asked for.
 */
static bool is_listed(const struct request *r, bool by_any, bool *stronger)
{
	struct dlk_ranges kernel = { .grow = dlk_ranges_grow };
	struct dlk_range rest = r->want, part;
	const int err =
		by_any ? dlk_kernel_own_records(&r->file, dlk_kernel_collect,
						&kernel)
		       : dlk_kernel_records(r->fd, r->kind, dlk_kernel_collect,
					    &kernel);
	const bool listed = !err && !dlk_ranges_lacks(&kernel, &rest, &part);

	*stronger = is_weaker_than(r, &kernel);
	dlk_ranges_free(&kernel);
	return listed;
}

/* What joins a lock taken by another descriptor may be shown by that one. */
bool dlk_record_is_listed(const struct request *r)
{
	bool unused;

	return is_listed(r, false, &unused) ||
	       (r->kind == DLK_POSIX && is_listed(r, true, &unused));
}

bool dlk_record_is_listed_stronger(const struct request *r)
{
	bool stronger;

	return r->want.type == DLK_READ &&
	       is_listed(r, r->kind == DLK_POSIX, &stronger) && stronger;
}
