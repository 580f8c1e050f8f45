/* SPDX-License-Identifier: MIT */
/* What a file is known by; see file_id.h. */
#include "os/file_id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

uint64_t dlk_hash(const void *bytes, size_t len)
{
	uint64_t h = 0xcbf29ce484222325U; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3U;
	return h;
}

/* --- its handle ----------------------------------------------------------- */

union handle {
	struct file_handle h;
	char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

static bool get_handle(int fd, union handle *u)
{
	int mount;

	u->h.handle_bytes = MAX_HANDLE_SZ;
	return name_to_handle_at(fd, "", &u->h, &mount, AT_EMPTY_PATH) == 0;
}

static uint64_t hash_handle(const union handle *u)
{
	return dlk_hash(u->h.f_handle, u->h.handle_bytes) ?: 1;
}

uint64_t dlk_handle_hash(int fd)
{
	union handle u;

	return get_handle(fd, &u) ? hash_handle(&u) : 0;
}

uint64_t dlk_fuse_node(int fd, dev_t dev)
{
	return dlk_fs_of(fd, dev) == DLK_FS_FUSE ? dlk_handle_hash(fd) : 0;
}

/* A long handle is cut and a hash of the whole added. */
void dlk_handle_put(struct dlk_text *t, int fd)
{
	union handle u;

	if (!get_handle(fd, &u)) {
		dlk_text_str(t, "-");
		return;
	}
	dlk_text_hex(t, (uint64_t)(unsigned)u.h.handle_type);
	dlk_text_str(t, ".");
	dlk_text_hex_bytes(t, u.h.f_handle,
			   u.h.handle_bytes < 32 ? u.h.handle_bytes : 32);
	if (u.h.handle_bytes > 32) {
		dlk_text_str(t, ".");
		dlk_text_hex(t, hash_handle(&u));
	}
}

/* --- its name on every host ----------------------------------------------- */

/*
 * File systems whose files have the same numbers on every host, by the type in
 * /proc/PID/mountinfo.  One that is missing here is not known to: then a key
 * by inode could be two keys, and two owners.
 *
 * A file handle is more than a number, for no later file has it, but it must
 * be equal on all hosts as well.  That of NFS need not be: of two that differ
 * no conclusion may be drawn (RFC 1813, 2.5 nfs_fh3; RFC 7530, 4.2.1), and a
 * server gives other ones for other exports of a directory.  That of FUSE is
 * the node's number in the one mount [m].
 *
 * Missing for a reason: sshfs, s3fs and all that leave it to libfuse number
 * files in the order they are looked up; rclone counts by itself; ceph-fuse
 * adds a tag of its own; mergerfs hashes paths and devices; 9p has what its
 * server makes up; a disk's file system (ext4, XFS, Btrfs, tmpfs, overlayfs)
 * has numbers of its own host.
 */
static const struct {
	const char *type;
	enum dlk_numbering numbering;
	const char *why;
} shares[] = {
	{ "nfs", DLK_SAME_INODE, "the server's fileid (RFC 1813, fattr3)" },
	{ "nfs4", DLK_SAME_INODE, "the same (RFC 7530, 5)" },
	{ "cifs", DLK_CLIENT_NUMBERS, "with serverino the server's" },
	{ "smb3", DLK_CLIENT_NUMBERS, "the same" },
	{ "ceph", DLK_SAME_INODE, "the metadata servers'; never used again" },
	{ "lustre", DLK_SAME_INODE, "made of the FID; never used again" },
	{ "gpfs", DLK_SAME_INODE, "the cluster's" },
	{ "beegfs", DLK_SAME_INODE, "a hash of the entry's id" },
	{ "gfs2", DLK_SAME_HANDLE, "on the shared disk, and a formal number" },
	{ "ocfs2", DLK_SAME_HANDLE, "on the shared disk, and a generation" },
	{ "virtiofs", DLK_SAME_INODE, "those of the directory on the host" },
	{ "fuse.glusterfs", DLK_SAME_INODE, "made of the gfid" },
	{ "fuse.juicefs", DLK_SAME_INODE, "the metadata engine's" },
	{ "fuse.bindfs", DLK_SAME_INODE, "those of the directory below [m]" },
};

/* CIFS gives up serverino by itself where the server's are no good. */
enum dlk_numbering dlk_numbering_of(const struct dlk_mount *mount)
{
	for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		if (strcmp(mount->type, shares[i].type) != 0)
			continue;
		return shares[i].numbering == DLK_CLIENT_NUMBERS &&
				       mount->serverino
			       ? DLK_SAME_INODE
			       : shares[i].numbering;
	}
	return DLK_OWN_NUMBERS;
}

static int refuse(char *why, const char *one, const char *two,
		  const char *three)
{
	struct dlk_text t;

	dlk_text_init(&t, why, DLK_INODE_WHY_MAX);
	dlk_text_strs(&t, one, two, three, NULL);
	return -ENOTUNIQ;
}

static int check_mount(const struct dlk_mount *mount, size_t place_len,
		       char *why)
{
	switch (dlk_numbering_of(mount)) {
	case DLK_OWN_NUMBERS:
		return refuse(why, "a file system of type ", mount->type,
			      " is not known to number its files alike on "
			      "every host (use %p, or see %i in "
			      "dlock.conf(5))");
	case DLK_CLIENT_NUMBERS:
		return refuse(why,
			      "this host makes up the inode numbers of "
			      "its mount (noserverino, mount.cifs(8)): "
			      "use serverino, or %p",
			      "", "");
	default:
		break;
	}
	if (mount->point_len > place_len)
		return refuse(why,
			      "its file system is mounted below the "
			      "prefix: give it a path section and a key "
			      "of its own",
			      "", "");
	return 0;
}

int dlk_inode_name(int fd, size_t place_len, char name[DLK_INODE_MAX],
		   char why[DLK_INODE_WHY_MAX])
{
	struct dlk_mount mount;
	struct dlk_text t;
	struct stat st;
	uint64_t handle;

	if (dlk_file_known(fd, &st) < 0 || !dlk_mount_of(fd, &mount))
		return refuse(why,
			      "there is no telling its file system: its "
			      "mount is not in /proc/self/mountinfo",
			      "", "");
	if (check_mount(&mount, place_len, why) < 0)
		return -ENOTUNIQ;
	dlk_text_init(&t, name, DLK_INODE_MAX);
	dlk_text_u64(&t, st.st_ino, 1);
	if (dlk_numbering_of(&mount) != DLK_SAME_HANDLE)
		return 0;
	handle = dlk_handle_hash(fd);
	if (!handle)
		return refuse(why,
			      "it has no file handle "
			      "(name_to_handle_at(2))",
			      "", "");
	dlk_text_str(&t, ".");
	dlk_text_hex(&t, handle);
	return 0;
}
