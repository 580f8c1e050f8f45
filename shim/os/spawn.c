/* SPDX-License-Identifier: MIT */
/*
 * Programs that are started, and no child of the program's; see spawn.h.
 *
 * A helper must be no child of the program's: wait(2) would return it, or
 * block for it, and SIGCHLD would come.  An exit signal of 0 (clone(2)) hides
 * a child only until it execs, for execve(2) sets SIGCHLD (fs/exec.c,
 * de_thread).  So there are two: the one between never execs, so only we can
 * reap it; the helper, orphaned at once, is process 1's, or a subreaper's.  One
 * that has not become the helper is reaped by the one between.
 *
 * Both close what they have of ours, and that may take for ever: FUSE tells its
 * server of each close(2) of a copy, NFS writes back, and no signal ends that wait
 * (fs/fuse/file.c, fuse_flush).  Who is suspended by vfork(2) for them renews
 * leases:
 *
 *	we			the helper		a file server
 *	vfork(2)						(dead)
 *				close ->
 *	(the lease ends, and nobody stops its holder)
 *
 *  1. Where a file of ours may be of such a server, the two MUST be a fork(2), in
 *     memory of their own; nobody waits longer than BEGIN_MS for them then.
 *  2. They MUST NOT leave that close to exec(2) (O_CLOEXEC), of which vfork(2) would
 *     not wait for it: whoever reads such a process' /proc/PID/stat, as ps(1) does,
 *     would hang as well (exec_update_lock).
 *  3. Nor may they have our table (CLONE_FILES), and close nothing: an execve(2) by
 *     another thread would lose our POSIX locks with it (fs/exec.c, unshare_files).
 *     The keeper has none, nor ever such a thread.  So its helper has its table, until
 *     it takes the first 64 of that along (CLOSE_RANGE_UNSHARE; of fewer there is no
 *     part, fs/file.c, sane_fdtable_size).
 *  4. Those that are held up MUST NOT become more and more.
 */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/mounts.h"
#include "os/sys.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

enum { BEGIN_MS = 50, HELD_UP = 4 };

/* By what they are in our way, and we in theirs. */
enum way {
	SUSPENDED, /* vfork(2) */
	APART,     /* fork(2) */
	WITHOUT    /* vfork(2), of our table until they have a part of it */
};

/* In pages that both children have, too. */
struct spawn {
	const char *file;
	char *const *argv;
	char *const *envp;
	int keep, log;
	bool stdout_too;
	enum way way;
	char *stack; /* of the second */
	_Atomic pid_t pid;
	_Atomic int err;
};

/* --- may a close take for ever? ------------------------------------------- */

struct look {
	unsigned below; /* only these matter */
	bool found;
	dev_t dev; /* what was told of a device last */
	bool known, hangs;
};

/*
 * By what the kernel has in memory: fstatfs(2), of what is mounted elsewhere, would
 * be a question to the server.
 */
static bool may_hang(struct look *l, int fd)
{
	struct dlk_mount mount;
	struct stat st;

	if (dlk_stat_known(fd, "", &st) < 0)
		return errno != EBADF;
	if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
	    major(st.st_dev) != 0)
		return false;
	if (!l->known || l->dev != st.st_dev)
		l->hangs = !dlk_mount_of(fd, &mount) ||
			   dlk_fs_of_type(mount.type) != DLK_FS_LOCAL;
	l->dev = st.st_dev;
	l->known = true;
	return l->hangs;
}

static bool is_harmless(void *arg, int dir, const char *name)
{
	struct look *l = arg;
	uint64_t fd;

	l->found = dlk_number(name, 10, &fd) && fd < l->below &&
		   fd != (uint64_t)dir && may_hang(l, (int)fd);
	return !l->found;
}

/* Without a list of them there is no telling. */
static bool any_may_hang(unsigned below)
{
	const long dir =
		dlk_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd",
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct look l = { .below = below };
	bool all;

	if (dir < 0)
		return true;
	all = dlk_each_entry((int)dir, is_harmless, &l);
	dlk_close((int)dir);
	return !all || l.found;
}

/* --- the two -------------------------------------------------------------- */

/* Of the table that it is to have without the rest. */
static bool take_part(const struct spawn *s)
{
	return s->way != WITHOUT ||
	       dlk_syscall(SYS_close_range, DLK_SPAWN_WITHOUT, ~0U,
			   CLOSE_RANGE_UNSHARE) == 0;
}

/*
 * Without a /dev/null (chroot) it has no 0, 1 and 2, and not the program's.
 */
static int keep_one(const struct spawn *s)
{
	const bool logs =
		s->log >= 0 && dlk_syscall(SYS_dup3, s->log, 2, 0) == 2;
	long keep = s->keep == 3 ? dlk_syscall(SYS_fcntl, 3, F_SETFD, 0)
				 : dlk_syscall(SYS_dup3, s->keep, 3, 0);
	int err;

	if (keep < 0)
		return -errno;
	for (int fd = 0; fd < (logs ? 2 : 3); fd++)
		dlk_close(fd);
	err = dlk_close_from(4);
	if (err)
		return err;
	dlk_syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	dlk_syscall(SYS_dup3, s->stdout_too ? 3 : 0, 1, 0);
	if (!logs)
		dlk_syscall(SYS_dup3, 0, 2, 0);
	return 0;
}

/*
 * The second runs in the first one's memory (CLONE_VM) until exec, and that one in
 * the parent's, or in a copy of it, each with a descriptor table and signal mask of
 * its own; so only raw system calls.
 */
static int second_child(void *arg)
{
	struct spawn *s = arg;
	int err;

	dlk_syscall(SYS_setsid);
	atomic_store(&s->pid, dlk_pid());
	err = take_part(s) ? 0 : errno;
	if (!err)
		err = -keep_one(s);
	if (!err) {
		dlk_syscall(SYS_chdir, "/");
		dlk_syscall(SYS_execve, s->file, s->argv, s->envp);
		err = errno;
	}
	atomic_store(&s->err, err);
	dlk_syscall(SYS_exit, 127);
	return 127;
}

static int first_child(void *arg)
{
	struct spawn *s = arg;
	const unsigned long table = s->way == WITHOUT ? CLONE_FILES : 0;
	const pid_t pid = dlk_clone(second_child, s->stack,
				    CLONE_VM | CLONE_VFORK | table, s);

	if (pid < 0)
		atomic_store(&s->err, errno);
	else if (atomic_load(&s->err))
		dlk_syscall(SYS_wait4, pid, NULL, __WALL, NULL);
	dlk_syscall(SYS_exit, 0);
	return 0;
}

/* --- those that are held up ----------------------------------------------- */

/* The first ones; each waits for its second one, and is to be reaped. 0: free. */
static _Atomic pid_t held_up[HELD_UP];

static bool is_reaped(pid_t first)
{
	return dlk_syscall(SYS_wait4, first, NULL, __WCLONE | WNOHANG, NULL) !=
	       0;
}

/* (In a child of fork(2) they are none of ours.) */
static bool is_room(void)
{
	bool room = false;

	for (int i = 0; i < HELD_UP; i++) {
		pid_t first = atomic_load(&held_up[i]);

		if (first && is_reaped(first))
			atomic_compare_exchange_strong(&held_up[i], &first, 0);
		room |= atomic_load(&held_up[i]) == 0;
	}
	return room;
}

static void note_held_up(pid_t first)
{
	for (int i = 0; i < HELD_UP; i++) {
		pid_t none = 0;

		if (atomic_compare_exchange_strong(&held_up[i], &none, first))
			return;
	}
}

/* The second one's number comes before it closes anything. */
static void wait_for(struct spawn *s, pid_t first)
{
	uint64_t until = UINT64_MAX;
	bool reaped = false;

	while (!reaped && dlk_now_ns() < until) {
		if (until == UINT64_MAX && atomic_load(&s->pid))
			until = dlk_now_ns() + BEGIN_MS * DLK_MS;
		reaped = is_reaped(first);
		if (!reaped)
			dlk_pause_ns(DLK_MS / 20);
	}
	if (!reaped)
		note_held_up(first);
}

/* --- start ---------------------------------------------------------------- */

static atomic_bool without;

void dlk_spawn_without(void)
{
	atomic_store(&without, dlk_syscall(SYS_close_range, ~0U, ~0U,
					   CLOSE_RANGE_UNSHARE) == 0);
}

/* What it is to keep is ours, and high (sys.h): *low is to be closed again. */
static enum way choose(struct spawn *s, int *low)
{
	if (!any_may_hang(~0U))
		return SUSPENDED;
	if (!atomic_load(&without) || s->log >= DLK_SPAWN_WITHOUT)
		return APART;
	*low = (int)dlk_syscall(SYS_fcntl, s->keep, F_DUPFD_CLOEXEC, 4);
	if (*low < 0 || *low >= DLK_SPAWN_WITHOUT ||
	    any_may_hang(DLK_SPAWN_WITHOUT))
		return APART;
	s->keep = *low;
	return WITHOUT;
}

/* No memory for a copy: at the risk.  (Emulators know no other clone(2).) */
static pid_t clone_first(struct spawn *s, char *stack)
{
	pid_t first = -1;

	if (s->way == WITHOUT)
		first = dlk_clone_wait(first_child, stack, CLONE_FILES, s);
	if (first < 0 && s->way != SUSPENDED) {
		s->way = APART;
		first = dlk_clone(first_child, stack, 0, s);
		if (first > 0)
			wait_for(s, first);
	}
	return first > 0 ? first : dlk_clone_wait(first_child, stack, 0, s);
}

static pid_t begin(struct spawn *s, char *stack)
{
	int low = -1;

	s->way = choose(s, &low);
	if (clone_first(s, stack) < 0)
		s->err = errno;
	dlk_close_all(&low, 1);
	return s->err ? -s->err : s->pid > 0 ? s->pid : -ECHILD;
}

pid_t dlk_spawn(const char *file, char *const argv[], char *const envp[],
		int keep, int log, bool stdout_too)
{
	const size_t size = 65536;
	sigset_t all, old;
	struct spawn *s;
	char *stack;
	pid_t pid;

	if (dlk_children_elsewhere())
		return -EXDEV;
	if (!is_room())
		return -EHOSTDOWN;
	/*
	 * Shared, with what the children say at its bottom: who emulates the
	 * machine makes copies of CLONE_VM's memory (valgrind does), and their
	 * words would be lost.
	 */
	stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;
	s = (struct spawn *)(void *)stack;
	*s = (struct spawn){ .file = file,
			     .argv = argv,
			     .envp = envp,
			     .keep = keep,
			     .log = log,
			     .stdout_too = stdout_too,
			     .stack = stack + size / 2 };
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pid = begin(s, stack + size);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, size);
	return pid;
}

/* --- their end ------------------------------------------------------------ */

static bool is_called(pid_t pid, const char *name)
{
	char path[DLK_NUMBERED_MAX], comm[32];
	ssize_t n = dlk_slurp(dlk_numbered(path, "/proc/", pid, "/comm"), comm,
			      sizeof(comm));

	return n > 0 && strncmp(comm, name, strlen(name)) == 0;
}

bool dlk_reap(pid_t pid, const char *name)
{
	return !is_called(pid, name) ||
	       dlk_syscall(SYS_wait4, pid, NULL, __WALL | WNOHANG, NULL) != 0;
}

bool dlk_reap_group(pid_t group, const char *name)
{
	const int ended = WEXITED | WNOHANG | WNOWAIT | __WALL;

	for (;;) {
		siginfo_t info = { 0 };

		if (dlk_syscall(SYS_waitid, P_PGID, group, &info, ended, NULL) <
		    0)
			return true;
		if (info.si_pid == 0)
			return false;
		if (!is_called(info.si_pid, name))
			return true;
		dlk_syscall(SYS_wait4, info.si_pid, NULL, __WALL | WNOHANG,
			    NULL);
	}
}
