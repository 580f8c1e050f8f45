/* SPDX-License-Identifier: MIT */
/* The file systems of descriptors; see mounts.h. */
#include "os/mounts.h"

#include <errno.h>
#include <linux/magic.h>
/* Of those that Linux 5.10 has in headers of their own, or not at all. */
#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif
#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xFE534D42
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

/* --- its mount ------------------------------------------------------------ */

/* "\nmnt_id:" (since Linux 3.15) or "\nino:" (5.14) of fdinfo. */
static bool fdinfo_number(int fd, const char *field, uint64_t *n)
{
	char name[DLK_NUMBERED_MAX], text[1024];
	const char *at = NULL;

	dlk_numbered(name, "/proc/thread-self/fdinfo/", fd, "");
	if (dlk_slurp(name, text, sizeof(text)) > 0)
		at = strstr(text, field);
	if (!at)
		return false;
	at += strlen(field);
	return dlk_number(at + strspn(at, " \t"), 10, n);
}

struct search {
	uint64_t id;
	struct dlk_mount *mount;
	bool found;
};

static bool look_at(void *arg, const char *line)
{
	struct search *s = arg;
	struct dlk_mount_line m;

	if (!dlk_mount_line(line, &m) || m.id != s->id)
		return true;
	*s->mount = (struct dlk_mount){
		.dev = makedev(m.major, m.minor),
		.point_len = m.point_len,
		.serverino = dlk_mount_option(m.options, "serverino"),
	};
	memcpy(s->mount->type, m.type, sizeof(m.type));
	s->found = true;
	return false;
}

/*
 * A host may have thousands of mounts, and a server may be slow: a thread
 * remembers what it looked for last, for a second, and for longer where that
 * cannot be found any more (it was detached, or the root directory changed).
 */
enum { KNOWN = 4, KNOWN_MS = 1000 };

struct memory {
	bool busy; /* a signal handler came while we were here */
	unsigned next;
	struct known {
		uint64_t number, until_ns; /* 0: free */
		union { /* (of file systems' types 256 bytes a thread too many) */
			struct dlk_mount mount;
			enum dlk_fs fs;
		};
	} v[KNOWN];
};

static struct known *known_before(struct memory *m, uint64_t number)
{
	for (unsigned i = 0; i < KNOWN; i++)
		if (m->v[i].until_ns && m->v[i].number == number)
			return &m->v[i];
	return NULL;
}

/* Fills k, of k->number, from memory or by find(); false: neither has it. */
static bool recall(struct memory *m, bool (*find)(int fd, struct known *k),
		   int fd, struct known *k)
{
	struct known *old;

	if (m->busy)
		return find(fd, k);
	m->busy = true;
	old = known_before(m, k->number);
	if ((!old || dlk_now_ns() >= old->until_ns) && find(fd, k)) {
		old = old ?: &m->v[m->next++ % KNOWN];
		k->until_ns = dlk_now_ns() + KNOWN_MS * DLK_MS;
		*old = *k;
	} else if (old) {
		*k = *old;
	}
	m->busy = false;
	return old;
}

static bool find_mount(int fd, struct known *k)
{
	struct search s = { .id = k->number, .mount = &k->mount };

	(void)fd;
	dlk_each_line("/proc/thread-self/mountinfo", look_at, &s);
	return s.found;
}

bool dlk_mount_by_id(uint64_t id, struct dlk_mount *mount)
{
	static __thread struct memory mounts
		__attribute__((tls_model("initial-exec")));
	struct known k = { .number = id };
	const bool found = recall(&mounts, find_mount, -1, &k);

	if (found)
		*mount = k.mount;
	return found;
}

bool dlk_mount_of(int fd, struct dlk_mount *mount)
{
	uint64_t id;

	return fdinfo_number(fd, "\nmnt_id:", &id) &&
	       dlk_mount_by_id(id, mount);
}

struct points {
	dev_t dev;
	char *point;
	size_t size;
	dlk_point_fn *fn;
	void *arg;
};

static bool tell_point(void *arg, const char *line)
{
	struct points *p = arg;
	struct dlk_mount_line m;
	size_t len;

	/* (Room for a slash.) */
	if (!dlk_mount_line(line, &m) || makedev(m.major, m.minor) != p->dev ||
	    !dlk_mount_point(&m, p->point, p->size - 1))
		return true;
	len = m.point_len;
	if (len && p->point[len - 1] != '/')
		memcpy(p->point + len, "/", 2);
	return p->fn(p->arg, p->point);
}

void dlk_mount_points(dev_t dev, char *point, size_t size, dlk_point_fn *fn,
		      void *arg)
{
	struct points p = { dev, point, size, fn, arg };

	dlk_each_line("/proc/thread-self/mountinfo", tell_point, &p);
}

/*
 * FUSE without allow_other tells a process of another user than the mount's
 * nothing of a file that it has open (fs/fuse/dir.c, fuse_getattr); fdinfo
 * does.
 */
int dlk_file_known(int fd, struct stat *st)
{
	struct dlk_mount mount;
	uint64_t ino;
	int err;

	if (dlk_stat_known(fd, "", st) == 0)
		return 0;
	err = errno;
	if (err != EBADF && fdinfo_number(fd, "\nino:", &ino) &&
	    dlk_mount_of(fd, &mount)) {
		*st = (struct stat){ .st_dev = mount.dev, .st_ino = ino };
		return 0;
	}
	errno = err;
	return -1;
}

/* --- its type ------------------------------------------------------------- */

/*
 * By its name in mountinfo, and by f_type of statfs(2); only of those that have
 * no device of their own.
 *
 * CACHED: the client keeps pages or attributes that another host may have
 * changed.  Those of one host's disk have one cache, and those that revalidate
 * their caches by locks of their own (Lustre, GPFS, GFS2, OCFS2) need no help.
 */
static const struct type {
	const char *name;
	uint32_t magic;
	enum dlk_fs fs;
} types[] = {
	/* Pages and attributes are kept by each mount. */
	{ "fuse", FUSE_SUPER_MAGIC, DLK_FS_FUSE },
	{ "virtiofs", FUSE_SUPER_MAGIC, DLK_FS_FUSE },
	/* Close-to-open; its lock drops the cache before the lease is ours. */
	{ "nfs", NFS_SUPER_MAGIC, DLK_FS_CACHED },
	{ "nfs4", NFS_SUPER_MAGIC, DLK_FS_CACHED },
	/* They cache for as long as the server lets them (oplocks). */
	{ "cifs", CIFS_SUPER_MAGIC, DLK_FS_CACHED },
	{ "smb3", SMB2_SUPER_MAGIC, DLK_FS_CACHED },
	{ "smbfs", SMB_SUPER_MAGIC, DLK_FS_CACHED },
	/* cache=loose, mmap and fscache know no coherence. */
	{ "9p", V9FS_MAGIC, DLK_FS_CACHED },
	/* It sees another host's close by callback, late. */
	{ "afs", AFS_FS_MAGIC, DLK_FS_CACHED },
	{ "afs", AFS_SUPER_MAGIC, DLK_FS_CACHED },
	/* With lazy I/O only; it is cheap otherwise. */
	{ "ceph", CEPH_SUPER_MAGIC, DLK_FS_CACHED },
	/* Of this host: no server is asked. */
	{ "tmpfs", TMPFS_MAGIC, DLK_FS_LOCAL },
	{ "devtmpfs", TMPFS_MAGIC, DLK_FS_LOCAL },
	{ "rootfs", TMPFS_MAGIC, DLK_FS_LOCAL },
	{ "ramfs", RAMFS_MAGIC, DLK_FS_LOCAL },
	{ "overlay", OVERLAYFS_SUPER_MAGIC, DLK_FS_LOCAL },
	{ "btrfs", BTRFS_SUPER_MAGIC, DLK_FS_LOCAL },
	{ "zfs", 0x2fc12fc1, DLK_FS_LOCAL },
	{ "bcachefs", 0xca451a4e, DLK_FS_LOCAL },
	{ "ubifs", 0x24051905, DLK_FS_LOCAL },
	{ "aufs", 0x61756673, DLK_FS_LOCAL },
	{ "ecryptfs", ECRYPTFS_SUPER_MAGIC, DLK_FS_LOCAL },
	{ "proc", PROC_SUPER_MAGIC, DLK_FS_LOCAL },
	{ "sysfs", SYSFS_MAGIC, DLK_FS_LOCAL },
	{ "devpts", DEVPTS_SUPER_MAGIC, DLK_FS_LOCAL },
	{ "cgroup2", CGROUP2_SUPER_MAGIC, DLK_FS_LOCAL },
};

/* "fuse.sshfs" is a "fuse". */
static bool has_name(const struct type *t, const char *name)
{
	const size_t len = strlen(t->name);

	return strncmp(name, t->name, len) == 0 &&
	       (name[len] == '\0' || name[len] == '.');
}

enum dlk_fs dlk_fs_of_type(const char *name)
{
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (has_name(&types[i], name))
			return types[i].fs;
	return DLK_FS_OTHER;
}

enum dlk_fs dlk_fs_of_magic(uint32_t magic)
{
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].magic == magic)
			return types[i].fs;
	return DLK_FS_OTHER;
}

/* fstatfs(2) is a question to the server: only where nobody else knows. */
static bool find_fs(int fd, struct known *k)
{
	struct dlk_mount mount;
	struct statfs st;

	if (dlk_mount_of(fd, &mount)) {
		k->fs = dlk_fs_of_type(mount.type);
		return true;
	}
	if (fstatfs(fd, &st) < 0)
		return false;
	k->fs = dlk_fs_of_magic((uint32_t)st.f_type);
	return true;
}

/* The number of a file system that was unmounted may be another's later. */
enum dlk_fs dlk_fs_of(int fd, dev_t dev)
{
	static __thread struct memory systems
		__attribute__((tls_model("initial-exec")));
	struct known k = { .number = dev };

	if (major(dev) != 0)
		return DLK_FS_LOCAL;
	return recall(&systems, find_fs, fd, &k) ? k.fs : DLK_FS_OTHER;
}
