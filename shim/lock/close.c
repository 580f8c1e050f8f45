/* SPDX-License-Identifier: MIT */
/*
 * Record locks: what the kernel has dropped.
 *
 * Closing any descriptor of a file drops all the process's POSIX locks on it;
 * closing the last one of a description its OFD locks (fcntl(2)).
 *
 *  1. What is seen to be closed is given back before the kernel's locks go,
 *     for after that another host may wait.
 *  2. The kernel is the truth (DESIGN L4): what it does not show any more is
 *     given back when we look, before each renewal; what it shows and we were
 *     not granted is nothing.
 *  3. No telling (no /proc, threads with tables of their own) is "there".
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/real.h"
#include "lease/records.h"
#include "lock/record.h"
#include "model/timeline.h"

static bool other_of_description(void *arg, int fd)
{
	const int *closing = arg;

	return fd != *closing && dlk_kernel_same(*closing, fd) == 1;
}

/* (gate) The description loses a descriptor: its last one? */
static void close_description(struct dlk_held *h, int fd)
{
	int other = -1;

	if (atomic_load(&dlk.dups))
		other = dlk_kernel_find(&h->file, DLK_ANY_MODE,
					other_of_description, &fd);
	if (other >= 0) {
		pthread_mutex_lock(&dlk.mutex);
		h->fd = other;
		pthread_mutex_unlock(&dlk.mutex);
		return;
	}
	if (h->coherent)
		dlk_coherence_flush(fd);
	if (other == -1 && !dlk_shared(fd) && !dlk_is_delegated(h))
		dlk_give_back(h);
	else
		dlk_leave_to_keeper(h, other == -1);
}

/* A descriptor by O_PATH locks nothing, and its close ends nothing: open(2). */
bool dlk_record_is_path_only(int fd)
{
	int flags = real.fcntl64(fd, F_GETFL);

	return flags >= 0 && (flags & O_PATH);
}

static void close_record(struct dlk_call *call, int fd,
			 const struct dlk_file *file)
{
	struct dlk_held *h;

	dlk_gate_enter(call, file, NULL, NULL);
	h = dlk_record_owner(file, DLK_POSIX, fd);
	if (h) {
		if (h->coherent)
			dlk_coherence_flush(fd);
		dlk_give_back(h);
		dlk_unpin(h);
	}
	h = dlk_record_owner(file, DLK_OFD, fd);
	if (h) {
		close_description(h, fd);
		dlk_unpin(h);
	}
	dlk_gate_leave(file);
}

/* Sent before the kernel's locks go, for after that another host may wait. */
void dlk_record_closing(int fd)
{
	struct dlk_call call;
	struct dlk_file file;

	if (atomic_load(&dlk.n_held) == 0)
		return;
	dlk_enter(&call);
	if (dlk_kernel_file(fd, &file) == 0 && !dlk_record_is_path_only(fd))
		close_record(&call, fd, &file);
	dlk_leave(&call);
}

struct span {
	unsigned first, last;
};

static bool ends_locks(void *arg, int fd)
{
	const struct span *span = arg;
	struct dlk_held *h = NULL;
	struct dlk_file file;

	if ((unsigned)fd < span->first || (unsigned)fd > span->last ||
	    dlk_record_is_path_only(fd) || dlk_kernel_file(fd, &file) < 0)
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

/* (gate) What the kernel does not show any more is taken off the list. */
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
	const struct dlk_held *h = arg, *other = NULL;
	bool claimed = false, locked = false;

	pthread_mutex_lock(&dlk.mutex);
	while (!claimed && (other = dlk_held_find_records(&h->file, other)))
		claimed = other != h && dlk_record_is_owner(other, DLK_OFD, fd);
	pthread_mutex_unlock(&dlk.mutex);
	return !claimed &&
	       dlk_kernel_records(fd, DLK_OFD, dlk_record_note_any, &locked) ==
		       0 &&
	       locked;
}

static bool shows_lock(const struct dlk_held *h)
{
	bool locked = false;

	return dlk_kernel_is_file(h->fd, &h->file) &&
	       dlk_kernel_records(h->fd, DLK_OFD, dlk_record_note_any,
				  &locked) == 0 &&
	       locked;
}

/* (gate) If its number is another's by now: has it a second one? */
static int find_description(struct dlk_held *h)
{
	int fd;

	if (shows_lock(h))
		return 1;
	fd = dlk_kernel_find(&h->file, DLK_ANY_MODE, is_lost_description, h);
	/* Another thread's table may have what this one's has not. */
	if (fd < 0)
		return fd == -1 && !atomic_load(&dlk.tables) ? 0 : -1;
	pthread_mutex_lock(&dlk.mutex);
	h->fd = fd;
	pthread_mutex_unlock(&dlk.mutex);
	return 1;
}

/* (gate) All that the kernel shows of the owner: 1, 0 if that is nothing. */
static int read_kernel(struct dlk_held *h, struct dlk_ranges *kernel)
{
	int there = 1;

	if (h->kind == DLK_OFD) {
		there = find_description(h);
		if (there == 1 &&
		    dlk_kernel_records(h->fd, DLK_OFD, dlk_record_collect,
				       kernel) < 0)
			return -1;
	} else if (dlk_kernel_own_records(&h->file, dlk_record_collect,
					  kernel) < 0) {
		return -1;
	}
	if (kernel->n || there < 1)
		return there;
	return atomic_load(&dlk.tables) ? -1 : 0;
}

/* (gate) */
int dlk_record_compare(struct dlk_held *h)
{
	struct dlk_ranges kernel = { .grow = h->ranges.grow };
	int there = read_kernel(h, &kernel);

	if (there == 1 && intersect(&h->ranges, &kernel))
		dlk_list_send(h, NULL);
	dlk_ranges_free(&kernel);
	return there == 1 ? h->ranges.n != 0 : there;
}

int dlk_record_is_there(struct dlk_held *h)
{
	int there;

	if (!dlk_gate_try(&h->file))
		return -1;
	there = dlk_record_compare(h);
	dlk_gate_leave(&h->file);
	return there;
}

/* Within its deadline, by the thread: a restarted server has forgotten it. */
int dlk_record_restore(struct dlk_held *h, struct dlk_conn *c)
{
	const uint64_t now = dlk_now_ns();
	int err = DLK_GONE;

	if (now >= h->deadline_ns)
		return DLK_GONE;
	if (!dlk_gate_try(&h->file))
		return -EAGAIN;
	err = dlk_records_restore(
		c, now + dlk_conn_endpoint(c)->connect_timeout_ms * DLK_MS,
		&h->lease, h->seq, h->since_ns, &h->ranges);
	dlk_gate_leave(&h->file);
	/* In time, or else nobody knows what came in between. */
	return err == 0 && dlk_now_ns() >= h->deadline_ns ? DLK_GONE : err;
}
