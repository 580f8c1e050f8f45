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
#include <sys/file.h>

/* One line, of either file, without its newline. */
struct dlk_lock_line {
	enum { DLK_LINE_FLOCK, DLK_LINE_POSIX, DLK_LINE_OFD } kind;
	bool waits;  /* "->": it is asked for, not held */
	bool write;  /* or LOCK_EX */
	int64_t pid; /* who took it; -1: OFD, or not to be seen from here */
	uint64_t major, minor, ino;
	uint64_t start, end; /* bytes, both included; EOF is INT64_MAX */
};

/* False if it is not a line of an advisory lock. */
bool dlk_lock_line(const char *line, struct dlk_lock_line *l);

/* The flock lock in a text of fdinfo: LOCK_EX, LOCK_SH, or LOCK_UN for none. */
int dlk_fdinfo_flock(const char *text);

/*
 * A flock lock, or one who waits for the lock on the line above ("->").  Its
 * file is "fe:00:10952755" above; its pid is the process that took it, in the
 * pid namespace of the /proc that was read, for as long as the lock is there:
 * that process may have ended.  In the first namespace it stays; in others it
 * is 0 in fdinfo, and the line is left out of /proc/locks, once the process
 * has ended (fs/locks.c, locks_translate_pid).
 */
struct dlk_flock_line {
	bool waits;
	int mode; /* LOCK_EX or LOCK_SH */
	uint64_t pid;
	const char *file; /* in the text */
	size_t file_len;
};

/* A line of /proc/locks; false for another kind of lock, or none. */
bool dlk_flock_line(const char *line, struct dlk_flock_line *l);

/* The flock lock in a text of fdinfo, whole; false for none. */
bool dlk_fdinfo_line(const char *text, struct dlk_flock_line *l);

#endif
