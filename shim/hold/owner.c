/* SPDX-License-Identifier: MIT */
/*
 * Which lease is this descriptor's?  A description's, or the process's (DESIGN
 * L2), and not that of another one that has the same number by now.
 */

#include "hold/owner.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>

#include "os/proc.h"
#include "os/sys.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/self.h"

static uint64_t open_at_start[4]; /* descriptors 0..255 */

/* Which descriptors we began with: others may have those too (DESIGN L4). */
void dlk_owner_begin(void)
{
	enum { LAST = 255 };
	struct pollfd p[LAST + 1];

	for (int fd = 0; fd <= LAST; fd++)
		p[fd] = (struct pollfd){ .fd = fd };
	if (dlk_poll(p, LAST + 1, 0) < 0) /* RLIMIT_NOFILE is less */
		memset(open_at_start, 0xff, sizeof(open_at_start));
	else
		for (int fd = 0; fd <= LAST; fd++)
			if (!(p[fd].revents & POLLNVAL))
				open_at_start[fd / 64] |= 1ULL << (fd % 64);
}

/*
 * May somebody else have the description?  Not if it is none that we began
 * with, and we made no child and received no descriptor since (DESIGN L4).
 */
bool dlk_shared(int fd)
{
	if (fd < 0 || fd > 255 || atomic_load(&dlk_self.shares))
		return true;
	return open_at_start[fd / 64] >> (fd % 64) & 1;
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
	bool may;

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
	return h;
}
