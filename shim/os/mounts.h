/* SPDX-License-Identifier: MIT */
/*
 * Of which file system is a descriptor's file?  From what the kernel has in
 * memory, so that it can be said when a server is away, or has the file no
 * more.
 *
 * Thread- and async-signal-safe; allocates nothing; errno may change.
 */
#ifndef DLK_MOUNTS_H
#define DLK_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/mountinfo.h"

struct dlk_mount {
	dev_t dev; /* the superblock's, as in /proc/locks */
	size_t point_len;
	char type[DLK_FS_TYPE_MAX];
	bool serverino; /* CIFS: numbers are the server's (mount.cifs(8)) */
};

/* False where there is no telling: no /proc, or a mount not seen from here. */
bool dlk_mount_of(int fd, struct dlk_mount *mount);
/* The same by its id: statx(2), STATX_MNT_ID. */
bool dlk_mount_by_id(uint64_t id, struct dlk_mount *mount);

/*
 * The device, inode and mode of fd's file, whoever asks and whatever server is
 * away; where not even statx(2) says, the mode is 0.  0, or -1 and errno.
 */
struct stat;
int dlk_file_known(int fd, struct stat *st);

/*
 * f_type of statfs(2), for a file of this device, of the file systems that are
 * asked for (mounts.c); of others 0, or what it is.
 */
uint32_t dlk_fs_magic(int fd, dev_t dev);

#endif
