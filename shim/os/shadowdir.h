/* SPDX-License-Identifier: MIT */
/*
 * The directory of shadows: files of ours that stand for the program's where
 * those cannot be locked (local = "shadow").  For the shim and its keeper.
 *
 *	state_dir/UID/		mode 700, of the user's own
 *		NAME		a shadow, mode 600, empty
 *		NAME.RANDOM	the socket of a keeper that holds it
 *
 *  1. Nothing is followed, and what is not the user's own is not used.
 *  2. The environment is never asked.
 *  3. A shadow that has not been opened for a minute is removed by whoever
 *     makes another and finds it unlocked, with its lock in hand; so whoever
 *     gets the lock of one MUST look whether it is still there (st_nlink),
 *     and else begin anew.  Not earlier: it is by its inode that a lease is
 *     known to be of the same file (DESIGN L3).
 *
 * Descriptors are low and close-on-exec; the caller closes them, by
 * dlk_close().  Async-signal-safe, no malloc.
 */
#ifndef DLK_SHADOWDIR_H
#define DLK_SHADOWDIR_H

#include <stdbool.h>
#include <stdint.h>

#include "os/sys.h"

/* "DEV-INO-HANDLE" in hex; of a socket, with "." and 16 digits. */
enum { DLK_SHADOW_NAME_MAX = 80 };

/*
 * The caller's directory below `base`; missing, it is made if `make`.  Or
 * -errno, and *why names what is wrong with which directory.
 */
struct dlk_shadow_why {
	char text[400];
};
int dlk_shadowdir_open(const char *base, bool make, struct dlk_shadow_why *why);

/* May there be one? */
bool dlk_shadowdir_is_there(const char *base);

/* Each name in it, until false. */
void dlk_shadowdir_list(int dir, dlk_entry_fn *each, void *arg);

void dlk_shadow_name(char *name, uint64_t dev, uint64_t ino, uint64_t handle);

/* The shadow of that name, made if it is not there; or -errno and *why. */
int dlk_shadow_open(int dir, const char *name, struct dlk_shadow_why *why);

/* May there be a shadow of that name?  It takes no descriptor to see that. */
bool dlk_shadow_may_be_there(const char *base, const char *name);

/* Is the shadow behind fd removed? */
bool dlk_shadow_is_gone(int fd);

/* Where a keeper listens, by the name of its socket. */
struct sockaddr_un;
void dlk_shadowdir_socket(int dir, const char *name, struct sockaddr_un *at);
/*
 * One byte by that, with a descriptor (-1: with none; less: the -errno for which there
 * is none); sendmsg(2)'s flags but for MSG_NOSIGNAL.  And what comes: *fd is -1 if none
 * came with it, or why; -EMFILE if there was no descriptor left for it.
 */
bool dlk_shadowdir_say(int sock, int fd, int flags);
bool dlk_shadowdir_hear(int sock, int *fd, int flags);

#endif
