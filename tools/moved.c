/* SPDX-License-Identifier: MIT */
/*
 * Which of this host's holders has a file locked that is no more under its
 * name?  A file that is replaced by rename(2) takes its lock along: who locks
 * the new one by a key of its name (%p) waits for a holder of the old one,
 * perhaps for ever.
 *
 *  1. Only what is known is said: of a holder that is not seen from here, or
 *     sees other mounts than we, or another root, or whose file cannot be looked
 *     at, nothing.
 *  2. A share that hangs MUST NOT hang dlockctl: a child looks, and is left
 *     behind after a second; and as long as it is there, no other one looks.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/fdinfo.h"
#include "model/text.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/holder.h"
#include "tools/processes.h"
#include "tools/scan.h"
#include "tools/shadows.h"

enum { PATIENCE_MS = 1000 };

/* A file as a token, or the name of its shadow, has it. */
struct file {
	uint64_t dev, ino;
};

static bool read_file(const char *text, char between, struct file *file)
{
	const char *p = dlk_number(text, 16, &file->dev);

	return p && *p == between && dlk_number(p + 1, 16, &file->ino);
}

static bool is_one(const char *its, const char *own)
{
	struct stat a, b;

	return stat(its, &a) == 0 && stat(own, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* By its names, too: not in a chroot(2). */
static bool sees_our_mounts(unsigned pid)
{
	return is_one(proc_file(pid, "ns/mnt"), "/proc/self/ns/mnt") &&
	       is_one(proc_file(pid, "root"), "/");
}

/* What processes with our mounts have locked; the child's, read once. */
static struct {
	struct file *v;
	size_t n, room;
	bool read;
} ours;

static bool add_lock(void *arg, const char *line)
{
	struct dlk_lock_line l;

	(void)arg;
	if (!dlk_lock_line(line, &l))
		return true;
	ours.v = tool_grow(ours.v, ours.n, &ours.room, sizeof(*ours.v));
	ours.v[ours.n++] =
		(struct file){ makedev((unsigned)l.major, (unsigned)l.minor),
			       l.ino };
	return true;
}

static void read_ours(void)
{
	DIR *d = opendir("/proc");
	unsigned pid;

	ours.read = true;
	while ((pid = proc_next(&d)))
		if (sees_our_mounts(pid))
			proc_each_fdinfo(pid, add_lock, NULL);
}

/* Who took it may have ended: then by who has it now. */
static bool is_by_our_mounts(const struct scan_lock *lock,
			     const struct file *file)
{
	size_t i = 0;

	if (lock->holder)
		return sees_our_mounts(lock->holder->pid);
	if (!ours.read)
		read_ours();
	while (i < ours.n &&
	       (ours.v[i].dev != file->dev || ours.v[i].ino != file->ino))
		i++;
	return i < ours.n;
}

/*
 * The name of a shadow begins with what it stands for (os/shadowdir.h).
 * 1 it is in this directory, 0 it is not, -1 there is no telling.
 */
static int find_shadow(void *arg, const char *dir, dev_t dev)
{
	struct file *file = arg;
	struct dirent *e;
	int found = 0;
	DIR *d;

	if (dev != file->dev)
		return 0;
	d = opendir(dir);
	if (!d)
		return errno == ENOTDIR || errno == ENOENT ? 0 : -1;
	while (!found && (e = readdir(d)))
		found = e->d_ino == file->ino &&
			read_file(e->d_name, '-', file);
	closedir(d);
	return found;
}

/* Mostly the name is that of the file, and nothing else is to be asked. */
static bool has_moved(const struct dlk_config *config,
		      const struct scan_lock *lock)
{
	struct file file;
	struct stat st;
	bool there;

	if (!read_file(lock->token.file, ':', &file))
		return false;
	there = lstat(lock->path, &st) == 0;
	if (there && st.st_dev == file.dev && st.st_ino == file.ino)
		return false;
	if ((!there && errno != ENOENT && errno != ENOTDIR) ||
	    !is_by_our_mounts(lock, &file))
		return false;
	/* What is locked may be a shadow: then what that stands for. */
	if (shadows_each(config->state_dir, find_shadow, &file) < 0)
		return false;
	return !there || st.st_dev != file.dev || st.st_ino != file.ino;
}

static bool may_have_moved(const struct scan_lock *lock)
{
	return lock->of_host && lock->path && lock->path[0] == '/';
}

static bool any_may(const struct scan *scan)
{
	for (size_t i = 0; i < scan->n; i++)
		if (may_have_moved(&scan->locks[i]))
			return true;
	return false;
}

/* That is left behind, or 0. */
static pid_t left;

static bool is_one_left(void)
{
	if (left && waitpid(left, NULL, WNOHANG))
		left = 0;
	return left;
}

static void await(pid_t child)
{
	struct pollfd p = { .events = POLLIN };

	p.fd = (int)syscall(SYS_pidfd_open, child, 0);
	if (p.fd >= 0) {
		poll(&p, 1, PATIENCE_MS);
		close(p.fd);
	}
	kill(child, SIGKILL);
	left = child;
	is_one_left();
}

void ctl_mark_moved(const struct dlk_config *config, struct scan *scan)
{
	bool *moved;
	pid_t child;

	if (is_one_left() || !any_may(scan))
		return;
	moved = mmap(NULL, scan->n, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (moved == MAP_FAILED)
		return;
	child = fork();
	for (size_t i = 0; child == 0 && i < scan->n; i++)
		moved[i] = may_have_moved(&scan->locks[i]) &&
			   has_moved(config, &scan->locks[i]);
	if (child == 0)
		_exit(0);
	if (child > 0)
		await(child);
	for (size_t i = 0; i < scan->n; i++)
		scan->locks[i].moved = moved[i];
	munmap(moved, scan->n);
}
