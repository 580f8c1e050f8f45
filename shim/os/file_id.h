/* SPDX-License-Identifier: MIT */
/*
 * What a file is known by: its file handle on this host, and on a share a name
 * that every host has for it (%i in a key, dlock.conf(5)).
 *
 * Thread- and async-signal-safe; allocates nothing; errno may change.
 */
#ifndef DLK_FILE_ID_H
#define DLK_FILE_ID_H

#include <stddef.h>
#include <stdint.h>

#include "os/mounts.h"
#include "model/text.h"

uint64_t dlk_hash(const void *bytes, size_t len);

/* A hash of fd's file handle, never 0; 0 where there is none. */
uint64_t dlk_handle_hash(int fd);
/*
 * What the kernel knows a FUSE file by, which is of the one mount: its handle's
 * hash; else 0.  The inode's number is the server's to give, who may give two
 * hard links one, and a file another one: bindfs knows files by their paths, so
 * one that another host has replaced becomes the new one under its holder [m].
 */
uint64_t dlk_fuse_node(int fd, dev_t dev);
/*
 * The handle in words, "-" for none: it tells two hard links on FUSE apart,
 * whose device and inode are one (DESIGN L3).
 */
void dlk_handle_put(struct dlk_text *t, int fd);

/* How the hosts of a file system agree on its files. */
enum dlk_numbering {
	DLK_OWN_NUMBERS,   /* they do not, or it is not known: %i is refused */
	DLK_SAME_INODE,    /* by the inode's number */
	DLK_SAME_HANDLE,   /* and by the file handle, which no later file has */
	DLK_CLIENT_NUMBERS /* CIFS with noserverino: they do not */
};
enum dlk_numbering dlk_numbering_of(const struct dlk_mount *mount);

/*
 * What %i stands for: "1234", or "1234.HANDLE".  `place_len` is that of the
 * rule's place (config.h): a file system that is mounted below the prefix has
 * numbers of its own.  0; or -ENOTUNIQ, and `why` is a sentence's middle.
 */
enum { DLK_INODE_MAX = 48, DLK_INODE_WHY_MAX = 256 };
int dlk_inode_name(int fd, size_t place_len, char name[DLK_INODE_MAX],
		   char why[DLK_INODE_WHY_MAX]);

#endif
