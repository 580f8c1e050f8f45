/* SPDX-License-Identifier: MIT */
/* The directory of shadows; see shadowdir.h. */
#include "os/shadowdir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "os/number.h"
#include "os/sys.h"
#include "model/text.h"

/* Not libc's, nor stat(2)'s: fakeroot stands in for one without the other. */
static uid_t euid(void)
{
	return (uid_t)dlk_syscall(DLK_SYS_GETEUID);
}

static int stat_in(int dir, const char *name, struct stat *st)
{
	return (int)dlk_syscall(DLK_SYS_FSTATAT, dir, name, st,
				AT_SYMLINK_NOFOLLOW);
}

static int complain(struct dlk_shadow_why *why, const char *dir,
		    const char *name, const char *what, int err)
{
	struct dlk_text t;

	dlk_text_init(&t, why->text, sizeof(why->text));
	dlk_text_str(&t, dir);
	if (name[0])
		dlk_text_str(&t, dir[0] == '/' ? "/" : " ");
	dlk_text_strs(&t, name, " ", what, NULL);
	return err;
}

static int open_dir(int at, const char *name)
{
	long fd = dlk_syscall(SYS_openat, at, name,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* A program's umask of 077 is no reason to shut other users out. */
static int open_or_make(int at, const char *name, bool make, mode_t mode)
{
	int fd = open_dir(at, name);
	bool made;

	if (fd != -ENOENT || !make)
		return fd;
	made = dlk_syscall(SYS_mkdirat, at, name, mode) == 0;
	if (!made && errno != EEXIST)
		return -errno;
	fd = open_dir(at, name);
	if (fd >= 0 && made)
		dlk_syscall(SYS_fchmod, fd, mode);
	return fd;
}

/*
 * Of the base: nobody else can put something else in the place of what is ours
 * in it.  Of the user's own: nobody else can do anything there.
 */
static const char *unsafe(int fd, bool base)
{
	struct stat st;

	if (dlk_fstat(fd, &st) < 0)
		return "cannot be looked at";
	if (!(base && st.st_uid == 0) && st.st_uid != euid())
		return "belongs to another user";
	if (!base && (st.st_mode & 077))
		return "is open to others (mode 700 is wanted)";
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return "can be written by others and is not sticky";
	return NULL;
}

/* base/name, checked; consumes the descriptor of base. */
static int own_below(int base_fd, const char *base, const char *name, bool make,
		     struct dlk_shadow_why *why)
{
	const char *wrong = unsafe(base_fd, true);
	int fd;

	if (wrong) {
		dlk_close(base_fd);
		return complain(why, base, "", wrong, -EPERM);
	}
	fd = open_or_make(base_fd, name, make, 0700);
	dlk_close(base_fd);
	if (fd < 0)
		return complain(why, base, name, strerrordesc_np(-fd), fd);
	wrong = unsafe(fd, false);
	if (!wrong)
		return fd;
	dlk_close(fd);
	return complain(why, base, name, wrong, -EPERM);
}

/* There is no place for this user's directory. */
static bool no_place(int err)
{
	return err == -ENOENT || err == -EACCES || err == -EROFS ||
	       err == -ENOSPC;
}

int dlk_shadowdir_open(const char *base, bool make, struct dlk_shadow_why *why)
{
	char name[DLK_NUMBERED_MAX], run[DLK_NUMBERED_MAX];
	int fd = open_or_make(AT_FDCWD, base, make && euid() == 0, 0755);

	dlk_numbered(name, "", euid(), "");
	if (fd < 0)
		complain(why, base, "", strerrordesc_np(-fd), fd);
	else
		fd = own_below(fd, base, name, make, why);
	if (!no_place(fd) || euid() == 0)
		return fd;
	/* The user's own, made at login (pam_systemd(8)). */
	dlk_numbered(run, "/run/user/", euid(), "");
	fd = open_dir(AT_FDCWD, run);
	return fd < 0 ? fd : own_below(fd, run, "dlock", make, why);
}

static bool exists(const char *path)
{
	return dlk_syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

bool dlk_shadowdir_is_there(const char *base)
{
	char run[DLK_NUMBERED_MAX];

	if (exists(base))
		return true;
	return euid() != 0 &&
	       exists(dlk_numbered(run, "/run/user/", euid(), "/dlock"));
}

static bool may_be_in(const char *dir, const char *below, const char *name)
{
	char path[1024];
	struct dlk_text t = dlk_text_in(path, sizeof(path));

	dlk_text_strs(&t, dir, below, "/", name, NULL);
	return t.cut || exists(path) || (errno != ENOENT && errno != ENOTDIR);
}

bool dlk_shadow_may_be_there(const char *base, const char *name)
{
	char own[DLK_NUMBERED_MAX], run[DLK_NUMBERED_MAX];

	dlk_numbered(own, "/", euid(), "");
	dlk_numbered(run, "/", euid(), "/dlock");
	return may_be_in(base, own, name) ||
	       (euid() != 0 && may_be_in("/run/user", run, name));
}

void dlk_shadow_name(char *name, uint64_t dev, uint64_t ino, uint64_t handle)
{
	struct dlk_text t;

	dlk_text_init(&t, name, DLK_SHADOW_NAME_MAX);
	dlk_text_hex(&t, dev);
	dlk_text_str(&t, "-");
	dlk_text_hex(&t, ino);
	dlk_text_str(&t, "-");
	dlk_text_hex(&t, handle);
}

/* O_NONBLOCK: a FIFO that somebody put there must not hold us up. */
static int open_file(int dir, const char *name, int more)
{
	long fd = dlk_syscall(SYS_openat, dir, name,
			      O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				      O_CLOEXEC | more,
			      0600);

	return fd < 0 ? -errno : (int)fd;
}

/* --- those that are out of use -------------------------------------------- */

enum { UNUSED_S = 60 };

static bool unused(int dir, const char *name)
{
	struct stat st;
	struct timespec now;

	dlk_syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	return stat_in(dir, name, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_mtim.tv_sec + UNUSED_S < now.tv_sec;
}

/* On a description of its own: one of the caller's may have the lock. */
static void remove_unlocked(int dir, const char *name)
{
	struct stat ours, there;
	int fd = open_file(dir, name, 0);

	if (fd < 0)
		return;
	if (dlk_syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0 &&
	    dlk_fstat(fd, &ours) == 0 && stat_in(dir, name, &there) == 0 &&
	    ours.st_ino == there.st_ino)
		dlk_syscall(SYS_unlinkat, dir, name, 0);
	dlk_close(fd);
}

void dlk_shadowdir_list(int dir, dlk_entry_fn *each, void *arg)
{
	dlk_syscall(SYS_lseek, dir, 0L, SEEK_SET);
	dlk_each_entry(dir, each, arg);
}

static bool sweep_one(void *arg, int dir, const char *name)
{
	(void)arg;
	/* Not what we know other files by: a first letter that is no digit. */
	if (strchr("0123456789abcdef", name[0]) && unused(dir, name))
		remove_unlocked(dir, name);
	return true;
}

/* At most once a minute, whoever comes first. */
static void sweep(int dir)
{
	static const char marker[] = ".swept";
	bool due = unused(dir, marker);
	int fd = open_file(dir, marker, O_CREAT);

	if (fd < 0)
		return;
	if (due)
		dlk_syscall(SYS_utimensat, fd, NULL, NULL, 0);
	dlk_close(fd);
	if (due)
		dlk_shadowdir_list(dir, sweep_one, NULL);
}

/* --- shadows -------------------------------------------------------------- */

int dlk_shadow_open(int dir, const char *name, struct dlk_shadow_why *why)
{
	int fd = open_file(dir, name, 0);
	struct stat st;

	if (fd == -ENOENT) {
		sweep(dir);
		fd = open_file(dir, name, O_CREAT);
	}
	if (fd < 0)
		return complain(why, "the shadow", name, strerrordesc_np(-fd),
				fd);
	if (dlk_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_uid == euid() && !(st.st_mode & 022) && st.st_nlink <= 1) {
		dlk_syscall(SYS_utimensat, fd, NULL, NULL, 0); /* in use */
		return fd;
	}
	dlk_close(fd);
	return complain(why, "the shadow", name,
			"is not a file of the user's own", -EPERM);
}

bool dlk_shadow_is_gone(int fd)
{
	struct stat st;

	return dlk_fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* --- a keeper's socket ---------------------------------------------------- */

void dlk_shadowdir_socket(int dir, const char *name, struct sockaddr_un *at)
{
	struct dlk_text t;

	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	dlk_text_init(&t, at->sun_path, sizeof(at->sun_path));
	dlk_text_str(&t, "/proc/thread-self/fd/");
	dlk_text_i64(&t, dir);
	dlk_text_strs(&t, "/", name, NULL);
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

bool dlk_shadowdir_say(int sock, int fd, int flags)
{
	union control control = { .head = { .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len =
						    CMSG_LEN(sizeof(int)) } };
	unsigned char byte = fd < -1 ? (unsigned char)-fd : 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return dlk_syscall(SYS_sendmsg, sock, &msg, MSG_NOSIGNAL | flags) == 1;
}

/* There is room for a second one, which nobody is to send. */
bool dlk_shadowdir_hear(int sock, int *fd, int flags)
{
	union control control;
	unsigned char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	int second;

	*fd = -1;
	if (dlk_syscall(SYS_recvmsg, sock, &msg, MSG_CMSG_CLOEXEC | flags) != 1)
		return false;
	if (byte)
		*fd = -byte;
	c = CMSG_FIRSTHDR(&msg);
	if (!c && msg.msg_flags & MSG_CTRUNC)
		*fd = -EMFILE;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return true;
	memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	if (c->cmsg_len >= CMSG_LEN(2 * sizeof(int))) {
		memcpy(&second, CMSG_DATA(c) + sizeof(int), sizeof(second));
		dlk_close(second);
	}
	return true;
}
