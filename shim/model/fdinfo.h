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
#include <stdint.h>
#include <sys/file.h>

/* The flock lock in a text of fdinfo: LOCK_EX, LOCK_SH, or LOCK_UN for none. */
int dlk_fdinfo_flock(const char *text);

/*
 * One line of /proc/locks: true if it is a flock lock that is held (not a
 * waiter, "->") on inode `ino`; *pid is its holder's number.
 */
bool dlk_locks_line(const char *line, uint64_t ino, uint64_t *pid);

#endif
