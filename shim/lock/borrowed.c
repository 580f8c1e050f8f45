/* SPDX-License-Identifier: MIT */
/*
 * A lock call of a process that runs in another's memory: a child of vfork(2),
 * or of clone(2) with CLONE_VM and without CLONE_THREAD.
 *
 *  1. It MUST NOT touch what belongs to the process whose memory it is: no
 *     mutex, no connection, no lease, no memory of a thread.  The thread that
 *     made it may hold each of them, and the child may end at any moment.
 *  2. So it cannot ask Redis, and a lock that Redis has not granted is none: on
 *     a managed file it fails with ENOLCK, and F_GETLK, which would answer for
 *     this host only, does too.  A conversion that fails so changes nothing.
 *  3. An unlock passes, for the kernel's word counts.  It frees a lock of the
 *     description (flock, OFD), which the parent has too: its keeper, told
 *     before the child was made, sees the end and releases the lease.  (A
 *     POSIX lock of the parent is not the child's to free: fcntl(2).)
 *  4. A file that no rule manages is none of our business.
 */
#include "lock/borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "config/config.h"
#include "os/log.h"
#include "os/proc.h"
#include "os/revalidate.h"
#include "os/sys.h"
#include "hold/shadow.h"
#include "lock/flock.h"
#include "lock/record.h"
#include "lock/request.h"

static int refuse(const char *name, const char *path)
{
	struct dlk_line l;

	dlk_line_of_path(&l, DLK_ERROR, name, path, strlen(path));
	dlk_text_str(&l.text,
		     ": fails with ENOLCK: a child of vfork(2), or of "
		     "clone(2) with CLONE_VM, runs in its parent's memory and "
		     "cannot ask Redis; lock before, after execve(2), or in a "
		     "child of fork(2)");
	dlk_line_end(&l);
	return -ENOLCK;
}

/* What is dirty goes first (DESIGN L10); a shadow's lock is not reached. */
static int unlock(const char *name, int fd, const struct dlk_rule *rule,
		  const char *path)
{
	struct dlk_file file;

	if (dlk_kernel_file(fd, &file) < 0)
		return DLK_PASS;
	if (dlk_shadow_wanted(rule, file.dev))
		return refuse(name, path);
	if (dlk_revalidation_needed(rule, fd, &file))
		dlk_coherence_flush(fd);
	return DLK_PASS;
}

static int decide(const char *name, int fd, bool unlocks)
{
	/* The stack may be small, and the scratch is the other's. */
	struct dlk_room *room = dlk_pages(sizeof(*room));
	const struct dlk_rule *rule = NULL;
	int err;

	if (!room)
		return unlocks ? DLK_PASS : refuse(name, "(no memory)");
	err = dlk_rule_of(fd, room, &rule);
	if (!rule && (unlocks || !err))
		err = DLK_PASS;
	else if (unlocks)
		err = unlock(name, fd, rule, room->path);
	else
		err = refuse(name, room->path);
	munmap(room, sizeof(*room));
	return err;
}

int dlk_borrowed_flock(int fd, int op)
{
	switch (op & ~LOCK_NB) {
	case LOCK_EX:
	case LOCK_SH:
		return decide("flock", fd, false);
	case LOCK_UN:
		return decide("flock", fd, true);
	default:
		return DLK_PASS; /* EINVAL is the kernel's to say */
	}
}

int dlk_borrowed_record(const char *name, int fd, const struct flock64 *lock)
{
	struct flock64 copy;

	/* What the kernel refuses whatever is held is the kernel's to say. */
	if (dlk_kernel_is_path_only(fd) ||
	    !dlk_record_read(lock, &copy, sizeof(copy)) ||
	    (copy.l_type != F_RDLCK && copy.l_type != F_WRLCK &&
	     copy.l_type != F_UNLCK))
		return DLK_PASS;
	return decide(name, fd, copy.l_type == F_UNLCK);
}

int dlk_borrowed_lockf(int fd, int cmd)
{
	if (cmd != F_LOCK && cmd != F_TLOCK && cmd != F_TEST && cmd != F_ULOCK)
		return DLK_PASS;
	return decide("lockf", fd, cmd == F_ULOCK);
}
