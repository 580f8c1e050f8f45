/* SPDX-License-Identifier: MIT */
/*
 * Is a guarded record lock still there (DESIGN L4)?
 *
 *  1. A POSIX lock ends with its process, whatever else happens.
 *  2. What conflicts with a write lock of the whole file, asked for on a
 *     description of our own, is told by F_OFD_GETLK: if nothing does, then
 *     the guarded lock is gone too.
 *  3. What does may be another's.  Of a POSIX lock the kernel names the
 *     process; what another's read lock may hide counts as there, and of OFD
 *     locks it names nobody: so the lease may stay for as long as others on
 *     this host have locks of the file, longer than need be, never shorter.
 *
 *  4. A restarted server has forgotten them.  While the shim that took them is
 *     there it puts them back, for it knows what Redis granted.  After an
 *     exec(2) the kernel knows: what it shows of the process, if nobody's read
 *     lock hides it, is put back.
 *
 * Nothing waits in the kernel here: descriptions that are closed (inotify), a
 * process that has gone (its socket) and ticks are the moments to look.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "lease/records.h"
#include "lease/sys.h"
#include "model/timeline.h"
#include "model/token.h"

enum { QUESTIONS = 64, RESTORED_SEQ = 2 };

static bool shim_lived = true; /* when we looked last */

/*
 * Has this process (0: has anybody) a lock in [start, end]?  1, 0; -1: no
 * telling.  What a write lock covers, it has alone.
 */
static int has_lock(int fd, uint32_t pid, off_t start, off_t end, int *left)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = end == INT64_MAX ? 0 : end - start + 1,
	};
	off_t last;
	int has = 0;

	if (fd < 0 || (*left)-- == 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return -1;
	if (lock.l_type == F_UNLCK)
		return 0;
	if (pid == 0 || lock.l_pid == (pid_t)pid)
		return 1;
	if (lock.l_type == F_RDLCK)
		return -1;
	last = lock.l_len ? lock.l_start + lock.l_len - 1 : INT64_MAX;
	if (lock.l_start > start)
		has = has_lock(fd, pid, start, lock.l_start - 1, left);
	if (has == 0 && last < end)
		has = has_lock(fd, pid, last + 1, end, left);
	return has;
}

enum dlk_verdict dlk_records_judge(const struct dlk_kept *k, bool shim_lives)
{
	const bool posix = k->kind == DLK_KEPT_POSIX;
	const int fd = dlk_watch_fd(k->watch);
	int left = QUESTIONS, has;

	shim_lived = shim_lives;
	if (posix && kill((pid_t)k->pid, 0) < 0 && errno == ESRCH)
		return DLK_GONE_NOW;
	has = has_lock(fd, posix ? k->pid : 0, 0, INT64_MAX, &left);
	if (has == 0)
		return DLK_GONE_NOW;
	/* No descriptor, and nobody left to tell its end. */
	if (fd < 0 && !posix && !shim_lives)
		return DLK_UNKNOWN;
	return DLK_THERE;
}

/* --- after a restart of the server ---------------------------------------- */

/* What the process has in [start, end], and all of it: 0; -1: no telling. */
static int collect(int fd, uint32_t pid, off_t start, off_t end,
		   struct dlk_ranges *set, int *left)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = end == INT64_MAX ? 0 : end - start + 1,
	};
	struct dlk_range found;
	int err = 0;

	if ((*left)-- == 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return -1;
	if (lock.l_type == F_UNLCK)
		return 0;
	found.start = (uint64_t)lock.l_start;
	found.end = lock.l_len ? found.start + (uint64_t)lock.l_len - 1
			       : DLK_RANGE_MAX;
	found.type = lock.l_type == F_WRLCK ? DLK_WRITE : DLK_READ;
	if (lock.l_pid == (pid_t)pid)
		err = dlk_ranges_set(set, found);
	else if (found.type == DLK_READ)
		err = -1;
	if (!err && found.start > (uint64_t)start)
		err = collect(fd, pid, start, lock.l_start - 1, set, left);
	if (!err && found.end < (uint64_t)end)
		err = collect(fd, pid, (off_t)found.end + 1, end, set, left);
	return err;
}

int dlk_records_put_back(const struct dlk_kept *k, struct dlk_conn *c)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_range room[2 * QUESTIONS];
	struct dlk_ranges set = { .v = room, .room = 2 * QUESTIONS };
	const int fd = dlk_watch_fd(k->watch);
	int left = QUESTIONS, err;
	struct dlk_token t;

	if (shim_lived || k->kind != DLK_KEPT_POSIX || fd < 0 ||
	    collect(fd, k->pid, 0, INT64_MAX, &set, &left) < 0 || set.n == 0 ||
	    !dlk_token_parse(k->lease.token, k->lease.token_len, &t))
		return -EAGAIN;
	err = dlk_records_restore(c, now + k->ep->connect_timeout_ms * DLK_MS,
				  &k->lease, RESTORED_SEQ, t.since_ns, &set);
	dlk_conn_reset(c);
	return err;
}
