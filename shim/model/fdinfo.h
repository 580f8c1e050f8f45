/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of a lock, in the text of /proc/PID/fdinfo/N
 * (proc(5), "lock:" lines: only the locks of this very open file description)
 * and of /proc/locks.  Pure.
 *
 *	lock:	1: FLOCK  ADVISORY  WRITE 2730 fe:00:10952755 0 EOF
 */
#ifndef DLK_FDINFO_H
#define DLK_FDINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dlk_line_kind { DLK_LINE_FLOCK, DLK_LINE_POSIX, DLK_LINE_OFD };

/*
 * One line, of either file.  Its pid is the process that took it, in the pid
 * namespace of the /proc that was read, for as long as the lock is there: that
 * process may have ended.  In the first namespace it stays; in others it is 0
 * in fdinfo, and the line is left out of /proc/locks, once the process has
 * ended (fs/locks.c, locks_translate_pid).  A line that waits ("->") waits for
 * the lock on the line above.
 */
struct dlk_lock_line {
	enum dlk_line_kind kind;
	bool waits;  /* it is asked for, not held */
	bool write;  /* or LOCK_EX */
	int64_t pid; /* -1: OFD; 0: not to be seen from here */
	uint64_t major, minor, ino;
	uint64_t start, end; /* bytes, both included; EOF is INT64_MAX */
};

/* False if it is not a line of an advisory lock; it ends at a newline, or NUL. */
bool dlk_lock_line(const char *line, struct dlk_lock_line *l);

/*
 * The first lock of a kind in a text of fdinfo, whole; false for none.  A
 * description has one flock lock at most, which stands before all others
 * (fs/locks.c, show_fd_locks).
 */
bool dlk_fdinfo_lock(const char *text, enum dlk_line_kind kind,
		     struct dlk_lock_line *l);

/*
 * The mode of its flock lock: LOCK_EX, LOCK_SH, or LOCK_UN for none.  A line that
 * is cut behind its mode, or says more than we know, is of a lock all the same:
 * whoever is told of none lets go of a lease.
 */
int dlk_fdinfo_flock(const char *text);

#endif
