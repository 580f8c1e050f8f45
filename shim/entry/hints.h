/* SPDX-License-Identifier: MIT */
/*
 * What the wrappers do before they pass a call on, for those calls that have
 * several names: the functions of libc, their aliases, and syscall(2) with
 * their number.  All keep errno, unless they answer with -1.
 */
#ifndef DLK_HINTS_H
#define DLK_HINTS_H

#include <stdbool.h>

#include "model/narrow.h"

/* flock(2): 0, -1 and errno, or DLK_PASS. */
int dlk_entry_flock(int fd, int op);
/* fcntl(2), whatever the command; `who` was called, and `next` is who goes on. */
int dlk_entry_fcntl(enum dlk_fcntl who, int (*next)(int, int, ...), int fd,
		    int cmd, long arg);

/* close(2), by `next`; EBADF for what is none of the program's. */
int dlk_entry_close(int fd, int (*next)(int fd));
/* After it, or what else closes: is the lock another's now, or given back? */
void dlk_entry_closed(void);
/* dup2(2), dup3(2): `to` is closed by it.  `to` -1: dup(2). */
void dlk_entry_dup(int from, int to);
/* close_range(2), as a whole. */
int dlk_entry_close_range(unsigned first, unsigned last, int flags);
/* A descriptor that came may be shared, or a second one; one that went is shared. */
void dlk_entry_passing(bool came);

/* unshare(2), setns(2), as a whole. */
int dlk_entry_unshare(int flags);
int dlk_entry_setns(int fd, int type);
/* chroot(2), pivot_root(2). */
int dlk_entry_chroot(const char *path);
int dlk_entry_pivot_root(const char *new_root, const char *old);

#endif
