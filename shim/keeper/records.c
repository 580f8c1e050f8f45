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
 * Nothing waits in the kernel here: descriptions that are closed (inotify), a
 * process that has gone (its socket) and ticks are the moments to look.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"

enum { QUESTIONS = 64 };

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
