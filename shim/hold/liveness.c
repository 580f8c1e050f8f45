/* SPDX-License-Identifier: MIT */
/*
 * Is the kernel's lock of a lease still there?  The kernel is the truth (DESIGN
 * L4): what it does not show any more has ended without our seeing it, and is
 * given back; what it shows and we were not granted is nothing.
 *
 * No telling (no /proc, threads with tables of their own) is "there".
 */
#include "hold/liveness.h"

#include <stdatomic.h>

#include "os/proc.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "lease/store.h"
#include "model/range.h"
#include "model/token.h"

/* Each is a question. */
enum { SHARERS_RANGES = 16 };

/* --- record locks --------------------------------------------------------- */

/* (file_lock) What the kernel does not show any more is taken off the list. */
static bool intersect(struct dlk_ranges *list, const struct dlk_ranges *kernel)
{
	struct dlk_range want, piece;
	bool changed = false;

	for (size_t i = 0; i < list->n;
	     i = dlk_ranges_find(list, want.end + 1)) {
		want = list->v[i];
		for (uint64_t at = want.start;; at = piece.end + 1) {
			piece = dlk_ranges_piece(kernel, at, want.end);
			if (piece.type < want.type) {
				changed = true;
				dlk_ranges_set(list, piece);
			}
			if (piece.end == want.end)
				break;
		}
		if (want.end == DLK_RANGE_MAX)
			break;
	}
	return changed;
}

/* Not another lease's description, nor one that has no lock of this kind. */
static bool is_lost_description(void *arg, int fd)
{
	const struct dlk_hold *h = arg, *other = NULL;
	bool claimed = false;

	dlk_holds_lock();
	while (!claimed && (other = dlk_hold_find_records(&h->file, other)))
		claimed = other != h && dlk_record_is_owner(other, DLK_OFD, fd);
	dlk_holds_unlock();
	return !claimed && dlk_kernel_has_records(fd, DLK_OFD) != 0;
}

/* (file_lock) If its number is another's by now: has it a second one? */
static int find_description(struct dlk_hold *h)
{
	int fd;

	if (dlk_kernel_is_file(h->fd, &h->file) &&
	    dlk_kernel_has_records(h->fd, DLK_OFD) == 1)
		return 1;
	fd = dlk_kernel_find(&h->file, DLK_ANY_MODE, is_lost_description, h);
	/* Another thread's table may have what this one's has not. */
	if (fd < 0)
		return fd == -1 && !atomic_load(&dlk_self.tables) ? 0 : -1;
	if (dlk_kernel_has_records(fd, DLK_OFD) != 1)
		return -1;
	DLK_GUARD(&dlk_holds_mutex);
	h->fd = fd;
	return 1;
}

/*
 * (file_lock) All that the kernel shows of the owner: 1, 0 if that is nothing.
 */
static int read_kernel(struct dlk_hold *h, struct dlk_ranges *kernel)
{
	int there = 1;

	if (h->kind == DLK_OFD) {
		there = find_description(h);
		if (there == 1 &&
		    dlk_kernel_records(h->fd, DLK_OFD, dlk_kernel_collect,
				       kernel) < 0)
			return -1;
	} else if (dlk_kernel_own_records(&h->file, dlk_kernel_collect,
					  kernel) < 0) {
		return -1;
	}
	if (kernel->n || there < 1)
		return there;
	return atomic_load(&dlk_self.tables) ? -1 : 0;
}

/* (file_lock) */
int dlk_record_compare(struct dlk_hold *h)
{
	struct dlk_ranges kernel = { .grow = h->ranges.grow };
	int there = read_kernel(h, &kernel);

	if (there == 1 && intersect(&h->ranges, &kernel))
		dlk_list_send(h, NULL);
	dlk_ranges_free(&kernel);
	return there == 1 ? h->ranges.n != 0 : there;
}

/*
 * (Who else of this host could have it there, where the kernel shows our description's
 * lock?  Of what is to read any reader.)
 */
bool dlk_record_is_sharers(struct dlk_hold *h, struct dlk_attempt *at,
			   struct dlk_answer *answer)
{
	struct dlk_store *s = dlk_store_of(h->rule->redis);
	bool older;

	if (h->kind != DLK_OFD || !dlk_shared(h->fd) || h->ranges.n == 0 ||
	    h->ranges.n > SHARERS_RANGES)
		return false;
	for (size_t i = 0; i < h->ranges.n; i++) {
		const struct dlk_range *range = &h->ranges.v[i];

		if (range->type != DLK_WRITE ||
		    s->ops->find_conflict(s, at, &h->lease, range, 0, answer) !=
			    DLK_BUSY ||
		    answer->range.start > range->start ||
		    answer->range.end < range->end ||
		    !dlk_token_same_place(h->lease.token, h->lease.token_len,
					  answer->holder, answer->holder_len,
					  &older))
			return false;
	}
	return dlk_record_compare(h) == 1;
}

/* --- either --------------------------------------------------------------- */

bool dlk_lock_may_have(void *arg, int fd)
{
	const struct dlk_hold *h = arg, *other = NULL;

	DLK_GUARD(&dlk_holds_mutex);
	do {
		other = h->kind == DLK_FLOCK
				? dlk_hold_find(&h->file, other)
				: dlk_hold_find_records(&h->file, other);
	} while (other &&
		 (other == h || other->kind != h->kind || other->fd != fd));
	return !other;
}

/* The descriptor that it is known by may be another file's by now. */
int dlk_lock_is_there(struct dlk_hold *h)
{
	int fd, mode;

	if (h->kind != DLK_FLOCK)
		return dlk_record_compare(h);
	if (h->program_fd >= 0)
		dlk_shadow_look(h->fd);
	fd = h->fd;
	if (fd >= 0 && dlk_kernel_is_file(fd, &h->file)) {
		mode = dlk_kernel_flock_mode(fd);
		if (mode < 0)
			return -1;
		if (mode == dlk_hold_mode(h))
			return 1;
	}
	fd = dlk_kernel_find(&h->file, dlk_hold_mode(h), dlk_lock_may_have, h);
	/* Another thread's table may have what this one's has not. */
	if (fd < 0)
		return fd == -1 && !atomic_load(&dlk_self.tables) ? 0 : -1;
	DLK_GUARD(&dlk_holds_mutex);
	if (dlk_hold_is_held(h))
		h->fd = fd;
	return 1;
}
