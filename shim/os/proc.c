/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says, through /proc.  It is the truth about which locks
 * are there; what we saw the program do is only a hint (DESIGN L4).
 *
 * thread-self, not self: a thread may have a descriptor table of its own.
 */

#include "os/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/file_id.h"
#include "os/mounts.h"
#include "os/real.h"
#include "os/sys.h"
#include "model/fdinfo.h"
#include "model/range.h"
#include "model/text.h"

static bool names_library(void *found, const char *line)
{
	*(bool *)found = strstr(line, "/libdlock-preload.so") != NULL;
	return !*(bool *)found;
}

bool dlk_kernel_is_preloaded(pid_t pid)
{
	char path[DLK_NUMBERED_MAX];
	bool found = false;

	dlk_each_line(dlk_numbered(path, "/proc/", pid, "/maps"), names_library,
		      &found);
	return found;
}

static const char *fdinfo(char name[DLK_NUMBERED_MAX], int fd)
{
	return dlk_numbered(name, "/proc/thread-self/fdinfo/", fd, "");
}

/*
 * Nothing here asks a server: on a share another host may have unlinked the
 * file, and fstat(2) and fstatfs(2) on our descriptor fail, whose locks are
 * there all the same (ENOENT on FUSE, ESTALE on NFS [m]).
 */
int dlk_kernel_file(int fd, struct dlk_file *file)
{
	struct stat st;

	*file = (struct dlk_file){ 0 };
	if (dlk_file_known(fd, &st) < 0)
		return -errno;
	*file = (struct dlk_file){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.handle = dlk_fuse_node(fd, st.st_dev),
	};
	return 0;
}

/*
 * Its server is not asked, for it may be dead: what is known here says which
 * file it is.
 */
bool dlk_kernel_is_file(int fd, const struct dlk_file *file)
{
	struct stat st;

	if (dlk_file_known(fd, &st) < 0 || st.st_dev != file->dev)
		return false;
	return file->handle ? dlk_handle_hash(fd) == file->handle
			    : st.st_ino == file->ino;
}

bool dlk_same_file(const struct dlk_file *a, const struct dlk_file *b)
{
	return a->dev == b->dev && dlk_node(a) == dlk_node(b);
}

int dlk_kernel_flock(int fd, struct dlk_lock_line *l)
{
	char name[DLK_NUMBERED_MAX], text[1024];
	ssize_t n = dlk_slurp(fdinfo(name, fd), text, sizeof(text));

	return n < 0 ? (int)n : dlk_fdinfo_lock(text, DLK_LINE_FLOCK, l);
}

int dlk_kernel_flock_mode(int fd)
{
	char name[DLK_NUMBERED_MAX], text[1024];
	ssize_t n = dlk_slurp(fdinfo(name, fd), text, sizeof(text));

	return n < 0 ? (int)n : dlk_fdinfo_flock(text);
}

/* --- record locks --------------------------------------------------------- */

struct records {
	enum dlk_kind kind;
	dlk_take_fn *take;
	void *arg;
	int err;
};

static bool take_line(void *arg, const char *line)
{
	struct records *r = arg;
	struct dlk_lock_line l;

	if (dlk_fdinfo_lock(line,
			    r->kind == DLK_OFD ? DLK_LINE_OFD : DLK_LINE_POSIX,
			    &l))
		r->err = r->take(r->arg,
				 &(struct dlk_range){
					 .start = l.start,
					 .end = l.end,
					 .type = l.write ? DLK_WRITE : DLK_READ,
				 });
	return !r->err;
}

/* Of POSIX locks: those taken by this very description (fs/locks.c). */
int dlk_kernel_records(int fd, enum dlk_kind kind, dlk_take_fn *take, void *arg)
{
	struct records r = { kind, take, arg, 0 };
	char name[DLK_NUMBERED_MAX];

	return dlk_each_line(fdinfo(name, fd), take_line, &r) ? r.err : -errno;
}

static int note_any(void *any, const struct dlk_range *range)
{
	(void)range;
	*(bool *)any = true;
	return 0;
}

int dlk_kernel_has_records(int fd, enum dlk_kind kind)
{
	bool any = false;

	return dlk_kernel_records(fd, kind, note_any, &any) ?: any;
}

int dlk_kernel_collect(void *arg, const struct dlk_range *range)
{
	return dlk_ranges_set(arg, *range);
}

/* A descriptor by O_PATH locks nothing, and its close ends nothing: open(2). */
bool dlk_kernel_is_path_only(int fd)
{
	int flags = real.fcntl64(fd, F_GETFL);

	return flags >= 0 && (flags & O_PATH);
}

/* The command, which is the second, may have anything in its brackets. */
const char *dlk_stat_field(const char *stat, unsigned field)
{
	const char *p = strrchr(stat, ')');

	for (unsigned at = 2; p && at < field; at++)
		p = strchr(p + 1, ' ');
	return p ? p + 1 : "";
}

char dlk_kernel_task_state(const char *path)
{
	char text[256] = "";

	dlk_slurp(path, text, sizeof(text));
	return *dlk_stat_field(text, 3);
}

/* One number: /proc shows this process in its own namespace (proc(5)). */
static bool read_nspid(void *ours, const char *line)
{
	const char *p;
	uint64_t pid;

	if (strncmp(line, "NSpid:\t", 7) != 0)
		return true;
	p = dlk_number(line + 7, 10, &pid);
	*(int *)ours =
		p && *p == '\0' && pid == (uint64_t)dlk_syscall(SYS_getpid);
	return false;
}

int dlk_kernel_shows_our_pids(void)
{
	static _Atomic int known = -1;
	int ours = 1; /* (A kernel without such namespaces has no such line.) */

	if (atomic_load(&known) >= 0)
		return atomic_load(&known);
	if (!dlk_each_line("/proc/self/status", read_nspid, &ours))
		return -1;
	atomic_store(&known, ours);
	return ours;
}

enum dlk_death dlk_kernel_death(pid_t pid)
{
	const uint64_t exiting = 4; /* PF_EXITING, include/linux/sched.h */
	char name[DLK_NUMBERED_MAX], text[1024], state;
	uint64_t flags, pending;

	if (dlk_kernel_shows_our_pids() == 0 ||
	    dlk_slurp(dlk_numbered(name, "/proc/", pid, "/stat"), text,
		      sizeof(text)) <= 0)
		return DLK_LIVES;
	state = *dlk_stat_field(text, 3);
	if (state == 'Z' || state == 'X')
		return DLK_DEAD;
	if (!dlk_number(dlk_stat_field(text, 9), 10, &flags))
		return DLK_LIVES;
	if (flags & exiting)
		return DLK_DEAD;
	return dlk_number(dlk_stat_field(text, 31), 10, &pending) &&
			       (pending >> (SIGKILL - 1) & 1)
		       ? DLK_KILLED
		       : DLK_LIVES;
}

/* Our own number, as the /proc that we see has it (proc(5)). */
static bool own_pid(uint64_t *pid)
{
	char name[24];
	long n = dlk_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", name,
			     sizeof(name) - 1);

	name[n < 0 ? 0 : n] = '\0';
	return dlk_number(name, 10, pid);
}

bool dlk_kernel_taken_by_other(int fd)
{
	struct dlk_lock_line l;
	uint64_t pid;

	return dlk_kernel_flock(fd, &l) > 0 && own_pid(&pid) &&
	       (uint64_t)l.pid != pid;
}

/* --- its path ------------------------------------------------------------- */

/* Is `path` with its " (deleted)" a name of this very file? */
static bool literal(const char *path, const struct dlk_file *file)
{
	struct stat st;

	return dlk_stat(path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == file->dev && st.st_ino == file->ino;
}

/*
 * "/" is also what the kernel writes where it knows no path (fs/d_path.c): of a
 * file whose directory nobody has looked up since it was opened by its handle
 * (open_by_handle_at(2)), and of one that was moved out of the tree that is
 * mounted.
 */
static bool is_root(int fd)
{
	struct dlk_file file;

	return dlk_kernel_file(fd, &file) == 0 && literal("/", &file);
}

ssize_t dlk_kernel_path(int fd, char *path, size_t size)
{
	static const char gone[] = " (deleted)";
	const size_t gone_len = sizeof(gone) - 1;
	struct dlk_file file;
	char name[DLK_NUMBERED_MAX];
	ssize_t n;

	dlk_numbered(name, "/proc/thread-self/fd/", fd, "");
	n = dlk_syscall(SYS_readlinkat, AT_FDCWD, name, path, size);
	if (n < 0)
		return -errno;
	if ((size_t)n >= size)
		return -ENAMETOOLONG;
	path[n] = '\0';
	if (n == 1 && path[0] == '/' && !is_root(fd))
		return -ENOENT;
	if ((size_t)n > gone_len && strcmp(path + n - gone_len, gone) == 0 &&
	    dlk_kernel_file(fd, &file) == 0 && !literal(path, &file)) {
		n -= (ssize_t)gone_len;
		path[n] = '\0';
	}
	return n;
}

/* --- which of our descriptors has the lock? ------------------------------- */

struct wanted {
	const struct dlk_file *file;
	int mode;
	dlk_accept_fn *accept;
	void *arg;
	int found;
};

static bool look_at(void *arg, int dir, const char *name)
{
	struct wanted *w = arg;
	uint64_t fd;
	int has;

	(void)dir;
	if (!dlk_number(name, 10, &fd) ||
	    (w->file && !dlk_kernel_is_file((int)fd, w->file)) ||
	    !w->accept(w->arg, (int)fd))
		return true;
	has = w->mode == DLK_ANY_MODE ? w->mode
				      : dlk_kernel_flock_mode((int)fd);
	if (has == w->mode)
		w->found = (int)fd;
	else if (has < 0)
		w->found = -2;
	return w->found == -1;
}

int dlk_kernel_same(int fd1, int fd2)
{
	/* Not the process: its main thread may have ended. */
	pid_t self = (pid_t)dlk_syscall(SYS_gettid);
	long r = dlk_syscall(SYS_kcmp, self, self, KCMP_FILE, (long)fd1,
			     (long)fd2);

	return r < 0 ? -errno : r == 0;
}

bool dlk_kernel_shares(pid_t pid, int fd)
{
	const pid_t self = (pid_t)dlk_syscall(SYS_gettid);

	return dlk_syscall(SYS_kcmp, self, pid, KCMP_FILE, (long)fd,
			   (long)fd) == 0;
}

int dlk_kernel_find(const struct dlk_file *file, int mode,
		    dlk_accept_fn *accept, void *arg)
{
	struct wanted w = { file, mode, accept, arg, -1 };
	int dir = (int)dlk_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd",
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -2;
	if (!dlk_each_entry(dir, look_at, &w))
		w.found = -2;
	dlk_close(dir);
	return w.found;
}

static bool read_on(void *arg, int fd)
{
	struct records *r = arg;
	const int err = dlk_kernel_records(fd, r->kind, r->take, r->arg);

	r->err = err == -ENOENT ? 0 : err; /* closed meanwhile */
	return r->err;
}

/* Neighbours become one lock, which stays with the older one's description. */
int dlk_kernel_own_records(const struct dlk_file *file, dlk_take_fn *take,
			   void *arg)
{
	struct records r = { DLK_POSIX, take, arg, 0 };

	return dlk_kernel_find(file, DLK_ANY_MODE, read_on, &r) == -2 ? -ENOSYS
								      : r.err;
}

/* --- who else has it? ----------------------------------------------------- */

bool dlk_kernel_is_keeper(const char *comm)
{
	return strcmp(comm, "dlock-keeper") == 0 ||
	       strcmp(comm, "dlock-standby") == 0 ||
	       strcmp(comm, "dlock-watchdog") == 0 ||
	       strcmp(comm, "dlock-tls") == 0;
}

bool dlk_next_number(DIR *dir, uint64_t *n)
{
	const struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (dlk_number(e->d_name, 10, n))
			return true;
	return false;
}

enum dlk_holder dlk_holder_of(uint64_t pid)
{
	char name[DLK_NUMBERED_MAX], comm[32];

	dlk_numbered(name, "/proc/", (int64_t)pid, "/comm");
	if (dlk_slurp(name, comm, sizeof(comm)) <= 0)
		return DLK_ENDED;
	comm[strcspn(comm, "\n")] = '\0';
	return dlk_kernel_is_keeper(comm) ? DLK_KEEPER : DLK_OTHER;
}

/*
 * Is a line of /proc/locks about fd's file?  Its device is the superblock's,
 * which on btrfs and overlayfs is not that of stat(2): then the mount is asked.
 */
static bool is_about(const struct dlk_lock_line *l, int fd,
		     const struct dlk_file *file)
{
	const dev_t dev = makedev(l->major, l->minor);
	struct dlk_mount mount;

	if (l->ino != file->ino || dev == file->dev)
		return l->ino == file->ino;
	return !dlk_mount_of(fd, &mount) || mount.dev == dev;
}

struct seen {
	int fd;
	const struct dlk_file *file;
	int own; /* LOCK_EX or LOCK_SH: yet to be left out */
	enum dlk_holder by;
	pid_t pid;    /* his */
	bool guarded; /* a keeper waits for its end */
};

static bool see(void *arg, const char *line)
{
	struct seen *seen = arg;
	enum dlk_holder one;
	struct dlk_lock_line l;

	if (!dlk_lock_line(line, &l) || l.kind != DLK_LINE_FLOCK ||
	    !is_about(&l, seen->fd, seen->file))
		return true;
	if (!l.waits && seen->own == (l.write ? LOCK_EX : LOCK_SH)) {
		seen->own = LOCK_UN;
		return true;
	}
	one = dlk_holder_of((uint64_t)l.pid);
	if (l.waits)
		seen->guarded |= one == DLK_KEEPER;
	else if (one > seen->by) {
		seen->by = one;
		seen->pid = (pid_t)l.pid;
	}
	return true;
}

enum dlk_holder dlk_kernel_holder(int fd, const struct dlk_file *file, int own,
				  pid_t *pid)
{
	struct seen seen = { .fd = fd, .file = file, .own = own };

	dlk_each_line("/proc/locks", see, &seen);
	if (pid)
		*pid = seen.pid;
	return seen.by == DLK_OTHER && seen.guarded ? DLK_GUARDED : seen.by;
}

/* --- who waits? ----------------------------------------------------------- */

struct waits {
	int fd;
	const struct dlk_file *file;
	pid_t self;
	bool found;
};

static bool see_wait(void *arg, const char *line)
{
	struct waits *w = arg;
	struct dlk_lock_line l;

	w->found = dlk_lock_line(line, &l) && l.waits &&
		   l.kind == DLK_LINE_POSIX && l.pid == w->self &&
		   is_about(&l, w->fd, w->file);
	return !w->found;
}

int dlk_kernel_waits(int fd, const struct dlk_file *file)
{
	struct waits w = { .fd = fd, .file = file, .self = dlk_pid() };

	return dlk_each_line("/proc/locks", see_wait, &w) ? w.found : -1;
}
