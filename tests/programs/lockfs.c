/* SPDX-License-Identifier: MIT */
/*
 * A file system whose flock(2) is not the kernel's:
 *
 *	lockfs DIR MOUNTPOINT ANSWER LOCKDIR
 *
 * Files are those of DIR.  ANSWER is what flock says there: ENOLCK, ENOSYS,
 * EOPNOTSUPP; or `own`: locks that work, among the users of this one mount,
 * but that the kernel does not list (they are of files in LOCKDIR).  Or the locks
 * are the kernel's, and each open(2) by dlock-keeper takes LATE_MS (`late`), or is
 * not permitted (`denied`: EPERM), or the disk is full (`full`): write(2) keeps in the kernel's pages what cannot be
 * written back; or close(2) tells the server (`flush`).  It goes to the background
 * once it is mounted.
 */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LATE_MS = 1000 };

struct handle {
	int fd, lock_fd;
};

static const struct {
	const char *name;
	int error;
} answers[] = {
	{ "ENOLCK", ENOLCK },
	{ "ENOSYS", ENOSYS },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ "own", 0 },
	{ "denied", 0 },
	{ "late", 0 },
	{ "flush", 0 },
	{ "full", 0 },
};
enum {
	FULL = sizeof(answers) / sizeof(*answers) - 1,
	FLUSH = FULL - 1,
	LATE = FLUSH - 1,
	DENIED = LATE - 1
};

static int dir, answer = -1;
static const char *locks;

static const char *below(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	if (answer == FULL)
		conn->want |= FUSE_CAP_WRITEBACK_CACHE;
	cfg->use_ino = 1;
	cfg->attr_timeout = cfg->entry_timeout = cfg->negative_timeout = 0;
	return NULL;
}

static int fs_getattr(const char *path, struct stat *st,
		      struct fuse_file_info *fi)
{
	(void)fi;
	return fstatat(dir, below(path), st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill,
		      off_t off, struct fuse_file_info *fi,
		      enum fuse_readdir_flags flags)
{
	int fd = openat(dir, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	(void)off;
	(void)fi;
	(void)flags;
	while (d && (e = readdir(d)))
		if (fill(buf, e->d_name, NULL, 0, 0))
			break;
	if (d)
		closedir(d);
	return d ? 0 : -ENOENT;
}

static int open_both(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	struct handle *h = calloc(1, sizeof(*h));
	struct stat st;
	char name[4096];

	if (!h)
		return -ENOMEM;
	h->fd = openat(dir, below(path), fi->flags | O_CLOEXEC, mode);
	if (h->fd < 0 || fstat(h->fd, &st)) {
		free(h);
		return -errno;
	}
	snprintf(name, sizeof(name), "%s/%lu", locks, (unsigned long)st.st_ino);
	h->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	fi->fh = (uint64_t)(uintptr_t)h;
	return 0;
}

static bool is_keeper(pid_t who)
{
	char name[64], command[16] = "";
	bool is;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/comm", (int)who);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	is = read(fd, command, sizeof(command)) > 0 &&
	     strncmp(command, "dlock-keeper", 12) == 0;
	close(fd);
	return is;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	if (answer == DENIED && is_keeper(fuse_get_context()->pid))
		return -EPERM;
	if (answer == LATE && is_keeper(fuse_get_context()->pid))
		usleep(LATE_MS * 1000);
	return open_both(path, 0, fi);
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	fi->flags |= O_CREAT;
	return open_both(path, mode, fi);
}

static int fs_release(const char *path, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);

	(void)path;
	close(h->lock_fd);
	close(h->fd);
	free(h);
	return 0;
}

static int fs_read(const char *path, char *buf, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	ssize_t n = pread(handle_of(fi)->fd, buf, size, off);

	(void)path;
	return n < 0 ? -errno : (int)n;
}

static int fs_write(const char *path, const char *buf, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	ssize_t n = pwrite(handle_of(fi)->fd, buf, size, off);

	(void)path;
	return n < 0 ? -errno : (int)n;
}

static int write_none(const char *path, const char *buf, size_t size, off_t off,
		      struct fuse_file_info *fi)
{
	(void)path;
	(void)buf;
	(void)size;
	(void)off;
	(void)fi;
	return -ENOSPC;
}

static int flush_none(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	(void)fi;
	return 0;
}

/* The kernel has the times where it has the pages. */
static int fs_utimens(const char *path, const struct timespec times[2],
		      struct fuse_file_info *fi)
{
	(void)path;
	(void)times;
	(void)fi;
	return 0;
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd = fi ? handle_of(fi)->fd
		    : openat(dir, below(path), O_WRONLY | O_CLOEXEC);
	int err = fd < 0 || ftruncate(fd, size) ? -errno : 0;

	if (!fi && fd >= 0)
		close(fd);
	return err;
}

static int fs_unlink(const char *path)
{
	return unlinkat(dir, below(path), 0) ? -errno : 0;
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	return fchmodat(dir, below(path), mode, 0) ? -errno : 0;
}

static int fs_flock(const char *path, struct fuse_file_info *fi, int op)
{
	(void)path;
	if (answers[answer].error)
		return -answers[answer].error;
	return flock(handle_of(fi)->lock_fd, op) ? -errno : 0;
}

static struct fuse_operations operations = {
	.init = fs_init,
	.getattr = fs_getattr,
	.readdir = fs_readdir,
	.open = fs_open,
	.create = fs_create,
	.release = fs_release,
	.read = fs_read,
	.write = fs_write,
	.utimens = fs_utimens,
	.truncate = fs_truncate,
	.unlink = fs_unlink,
	.chmod = fs_chmod,
	.flock = fs_flock,
};

int main(int argc, char **argv)
{
	char options[] = "-oallow_other,default_permissions";
	char *args[] = { argv[0], options, argc == 5 ? argv[2] : NULL, NULL };

	for (int i = 0; argc == 5 && i <= FULL; i++)
		if (strcmp(argv[3], answers[i].name) == 0)
			answer = i;
	if (answer < 0) {
		fprintf(stderr, "lockfs DIR MOUNTPOINT ANSWER LOCKDIR\n");
		return 64;
	}
	if (answer >= DENIED)
		operations.flock = NULL;
	if (answer == FULL)
		operations.write = write_none;
	if (answer == FLUSH)
		operations.flush = flush_none;
	dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	locks = argv[4];
	if (dir < 0) {
		perror(argv[1]);
		return 1;
	}
	umask(0);
	return fuse_main(3, args, &operations, NULL);
}
