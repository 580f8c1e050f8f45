/* SPDX-License-Identifier: MIT */
/*
 * Which lease is this descriptor's?  A description's, or the process's (DESIGN
 * L2), and not that of another one that has the same number by now.
 */

#include "hold/owner.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "os/proc.h"
#include "os/sys.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/self.h"

static uint64_t open_at_start[4]; /* descriptors 0..255 */

/* Which descriptors we began with: others may have those too (DESIGN L4). */
void dlk_owner_begin(void)
{
	enum { ALL = 256 };
	struct pollfd p[ALL];
	struct rlimit r;
	unsigned n = ALL;

	for (int fd = 0; fd < ALL; fd++)
		p[fd] = (struct pollfd){ .fd = fd };
	/* (No more may be asked for, and what is beyond may be open yet.) */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < n)
		n = (unsigned)r.rlim_cur;
	dlk_poll(p, n, 0);
	for (int fd = 0; fd < ALL; fd++)
		if (!(p[fd].revents & POLLNVAL))
			open_at_start[fd / 64] |= 1ULL << (fd % 64);
}

static bool is_from_start(int fd)
{
	return open_at_start[fd / 64] >> (fd % 64) & 1;
}

/*
 * May somebody else have the description?  Not if it is none that we began
 * with, and we made no child and received no descriptor since (DESIGN L4).
 */
bool dlk_shared(int fd)
{
	if (fd < 0 || fd > 255 || atomic_load(&dlk_self.shares))
		return true;
	return is_from_start(fd);
}

/*
 * Two of those that we began with may be of one description (2>&1).  Above 255 it
 * is not known which those were, and where there are so many to look at each close
 * would be dear: only what was duplicated or received since counts there.
 */
bool dlk_duplicated(int fd)
{
	return atomic_load(&dlk_self.dups) ||
	       (fd >= 0 && fd <= 255 && is_from_start(fd));
}

/* --- flock(2) ------------------------------------------------------------- */

/*
 * The lease that fd's description holds, which has a lock of this mode.  An
 * exclusive one is alone; of several shared ones kcmp(2) tells, and where the
 * kernel will not say, any will do: all are worth the same.
 */
static struct dlk_hold *find_lease(const struct dlk_file *file, int fd,
				   int mode)
{
	struct dlk_hold *h = NULL, *perhaps = NULL;

	while ((h = dlk_hold_find(file, h))) {
		int same;

		/* No telling (mode < 0): by its number. */
		if (dlk_hold_mode(h) != mode && (mode >= 0 || h->fd != fd))
			continue;
		if (h->fd == fd || mode == LOCK_EX)
			return h;
		same = dlk_kernel_same(fd, h->fd);
		if (same == 1)
			return h;
		if (same < 0 && !perhaps)
			perhaps = h;
	}
	return perhaps;
}

struct dlk_hold *dlk_flock_owner(int fd)
{
	struct dlk_hold *h, *more;
	struct dlk_file file;
	int mode;

	if (!dlk_any_held() || dlk_kernel_file(fd, &file) < 0)
		return NULL;
	dlk_holds_lock();
	h = dlk_hold_find(&file, NULL);
	more = h ? dlk_hold_find(&file, h) : NULL;
	/*
	 * One lease, and nobody can have its description but by this number: fd
	 * is of it, or of one that was opened after it was closed behind our
	 * back.
	 */
	if (h && (more || h->fd != fd || atomic_load(&dlk_self.dups) ||
		  dlk_shared(fd))) {
		dlk_holds_unlock();
		/* A description without a lock has none to give. */
		mode = dlk_kernel_flock_mode(fd);
		dlk_holds_lock();
		h = mode == LOCK_UN ? NULL : find_lease(&file, fd, mode);
	}
	dlk_hold_pin(h);
	dlk_holds_unlock();
	return h;
}

/* --- record locks --------------------------------------------------------- */

bool dlk_record_is_owner(const struct dlk_hold *h, enum dlk_kind kind, int fd)
{
	dlk_holds_check();
	if (h->kind != kind)
		return false;
	return kind == DLK_POSIX || h->fd == fd ||
	       dlk_kernel_same(fd, h->fd) == 1;
}

static bool read_locks(int fd, struct dlk_ranges *locks)
{
	*locks = (struct dlk_ranges){ .grow = dlk_ranges_grow };
	return dlk_kernel_records(fd, DLK_OFD, dlk_kernel_collect, locks) == 0;
}

/* 1 if no other description can have them as well; 0: they differ. */
static int compare_locks(const struct dlk_ranges *a, const struct dlk_ranges *b)
{
	bool writes = false;

	if (a->n == 0 || a->n != b->n)
		return 0;
	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i].start != b->v[i].start ||
		    a->v[i].end != b->v[i].end || a->v[i].type != b->v[i].type)
			return 0;
		writes |= a->v[i].type == DLK_WRITE;
	}
	return writes ? 1 : -EPERM;
}

int dlk_ofd_same(int fd1, int fd2)
{
	struct dlk_ranges a, b = { 0 };
	int same = dlk_kernel_same(fd1, fd2);

	if (same >= 0 || same == -EBADF)
		return same == 1;
	if (read_locks(fd1, &a) && read_locks(fd2, &b))
		same = compare_locks(&a, &b);
	dlk_ranges_free(&a);
	dlk_ranges_free(&b);
	return same;
}

static bool is_ofd_of(const struct dlk_hold *h, const void *file)
{
	return dlk_hold_is_held(h) && h->kind == DLK_OFD &&
	       dlk_same_file(&h->file, file);
}

/*
 * (file_lock) The lease of fd's description, which has OFD locks, where kcmp(2)
 * is silent: as a container's filter has it.  Of readers who are alike the only
 * one, if fd can have been copied: else two numbers are two descriptions.  Pinned,
 * or NULL.
 */
static struct dlk_hold *find_by_locks(const struct dlk_file *file, int fd)
{
	struct dlk_hold *h = NULL, *perhaps = NULL;
	unsigned n = 0;
	int same;

	while ((h = dlk_hold_next(h, is_ofd_of, file))) {
		same = dlk_ofd_same(fd, h->fd);
		if (same == 1) {
			dlk_unpin(perhaps);
			return h;
		}
		if (n++ == 0 && same < 0) {
			DLK_GUARD(&dlk_holds_mutex);
			perhaps = dlk_hold_pin(h);
		}
	}
	if (n == 1 && dlk_duplicated(fd))
		return perhaps;
	dlk_unpin(perhaps);
	return NULL;
}

/* The first by its number, or by comparison. */
static struct dlk_hold *find_held(const struct dlk_file *file,
				  enum dlk_kind kind, int fd, bool compare)
{
	struct dlk_hold *h = NULL;

	do {
		h = dlk_hold_find_records(file, h);
	} while (h && !(compare ? dlk_record_is_owner(h, kind, fd)
				: h->kind == kind && h->fd == fd));
	return h;
}

struct dlk_hold *dlk_record_owner(const struct dlk_file *file,
				  enum dlk_kind kind, int fd)
{
	struct dlk_hold *h;
	bool may = false;

	if (!dlk_any_held())
		return NULL;
	dlk_holds_lock();
	h = find_held(file, kind, fd, false);
	if (!h) {
		dlk_holds_unlock();
		/* A description without a lock need not be compared. */
		may = kind == DLK_POSIX || dlk_kernel_has_records(fd, DLK_OFD);
		dlk_holds_lock();
		h = may ? find_held(file, kind, fd, true) : NULL;
	}
	dlk_hold_pin(h);
	dlk_holds_unlock();
	if (!h && may && kind == DLK_OFD && dlk_kernel_same(fd, fd) < 0)
		h = find_by_locks(file, fd);
	return h;
}
