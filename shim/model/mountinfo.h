/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of a mount, in a line of /proc/PID/mountinfo (proc(5)):
 *
 *	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=c
 *
 * Pure.
 */
#ifndef DLK_MOUNTINFO_H
#define DLK_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DLK_FS_TYPE_MAX = 48 };

struct dlk_mount_line {
	uint64_t id, major, minor;  /* of the superblock, as in /proc/locks */
	const char *point;          /* the mount point, as the line has it */
	size_t point_len;           /* of its path, in bytes */
	char type[DLK_FS_TYPE_MAX]; /* "nfs4", "fuse.bindfs"; "" if longer */
	const char *options;        /* of the superblock, in the line; or "" */
};

/* False if it is no such line. */
bool dlk_mount_line(const char *line, struct dlk_mount_line *m);

/* The path of the mount point, of point_len bytes; false if it is longer. */
bool dlk_mount_point(const struct dlk_mount_line *m, char *path, size_t size);

/* Is `name` one of the options "a,b=c,..."? */
bool dlk_mount_option(const char *options, const char *name);

#endif
