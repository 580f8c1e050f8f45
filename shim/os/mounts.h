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
#include <stddef.h>
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
 * Tell fn() of each place where the file system of this device (the superblock's)
 * is mounted, as a directory that ends in '/', until that is false.  `point` is
 * of the caller's memory.
 */
typedef bool dlk_point_fn(void *arg, const char *point);
void dlk_mount_points(dev_t dev, char *point, size_t size, dlk_point_fn *fn,
		      void *arg);

/*
 * The device, inode and mode of fd's file, whoever asks and whatever server is
 * away; where not even statx(2) says, the mode is 0.  0, or -1 and errno.
 */
struct stat;
int dlk_file_known(int fd, struct stat *st);

/* What a file system is to a lock; each is in one table (mounts.c). */
enum dlk_fs {
	DLK_FS_OTHER,  /* it is not known */
	DLK_FS_LOCAL,  /* of this host: no server is asked */
	DLK_FS_CACHED, /* a share whose client keeps caches (DESIGN L10) */
	DLK_FS_FUSE    /* one of those, whose kernel knows a file by its node */
};

/* Of fd's file, which is of this device. */
enum dlk_fs dlk_fs_of(int fd, dev_t dev);
/*
 * By its type in mountinfo, and by f_type of statfs(2): of none with a device.
 */
enum dlk_fs dlk_fs_of_type(const char *name);
enum dlk_fs dlk_fs_of_magic(uint32_t magic);

#endif
