/* SPDX-License-Identifier: MIT */
/*
 * Calls that change what the process may do, which namespaces it is in, or what
 * its root is.
 *
 *  1. No thread of ours exists while they run (DESIGN L7), but where it is the
 *     root that changes.  glibc makes every thread of the process call setuid(2)
 *     and its like, and aborts where two answers differ; capset(2) is for the
 *     calling thread alone, so a later setuid() would differ.  unshare(2) and
 *     setns(2) refuse threads.
 *  2. Result and errno are the call's own.
 *  3. What is held is the keeper's before: it stays as it was started, in the
 *     old namespaces, in the old root and with the old ids: in a new root none
 *     may be found, nor what it needs.  It hears nothing new when the
 *     process has given up, for good, what the keeper still may (DESIGN L4).
 */
#include <errno.h>
#include <grp.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/hints.h"
#include "entry/lifecycle.h"
#include "os/real.h"
#include "hold/self.h"

#define DLK_PRIVILEGED(name, parameters, arguments)                            \
	DLK_EXPORT int name parameters                                         \
	{                                                                      \
		struct dlk_privileged p;                                       \
		int r;                                                         \
                                                                               \
		dlk_before_privileged(&p);                                     \
		r = DLK_REAL(name) arguments;                                  \
		dlk_after_privileged(&p);                                      \
		return r;                                                      \
	}

DLK_PRIVILEGED(setuid, (uid_t u), (u))
DLK_PRIVILEGED(seteuid, (uid_t e), (e))
DLK_PRIVILEGED(setreuid, (uid_t r1, uid_t e), (r1, e))
DLK_PRIVILEGED(setresuid, (uid_t r1, uid_t e, uid_t s), (r1, e, s))
DLK_PRIVILEGED(setgid, (gid_t g), (g))
DLK_PRIVILEGED(setegid, (gid_t e), (e))
DLK_PRIVILEGED(setregid, (gid_t r1, gid_t e), (r1, e))
DLK_PRIVILEGED(setresgid, (gid_t r1, gid_t e, gid_t s), (r1, e, s))
DLK_PRIVILEGED(setgroups, (size_t n, const gid_t *list), (n, list))
DLK_PRIVILEGED(initgroups, (const char *user, gid_t group), (user, group))

/* libc exports it, and declares it nowhere: capget(2). */
int capset(void *header, const void *data);
DLK_PRIVILEGED(capset, (void *header, const void *data), (header, data))

/* --- namespaces ----------------------------------------------------------- */

static void before(struct dlk_privileged *p, int kinds)
{
	if (kinds & CLONE_NEWPID)
		dlk_before_pid_namespace();
	dlk_before_privileged(p);
}

static void after(const struct dlk_privileged *p, int kinds, bool done)
{
	if (kinds & CLONE_NEWPID)
		dlk_after_pid_namespace(done);
	/* (What its keeper alone can renew from here on stays that one's.) */
	if (done && (kinds & CLONE_NEWNET))
		dlk_after_net_namespace();
	if (done && (kinds & CLONE_NEWUSER))
		dlk_after_user_namespace();
	if (done && (kinds & CLONE_FILES))
		dlk_after_own_table();
	dlk_after_privileged(p);
}

int dlk_entry_unshare(int flags)
{
	struct dlk_privileged p;
	int r;

	before(&p, flags);
	r = DLK_REAL(unshare)(flags);
	after(&p, flags, r == 0);
	return r;
}

/* What it will be: fd may be of any kind if that is left to it (setns(2)). */
static int kind_of(int fd, int type)
{
	int err = errno;

	if (type == 0)
		type = ioctl(fd, NS_GET_NSTYPE);
	errno = err;
	return type < 0 ? 0 : type;
}

int dlk_entry_setns(int fd, int type)
{
	const int kinds = dlk_self.on ? kind_of(fd, type) : 0;
	struct dlk_privileged p;
	int r;

	before(&p, kinds);
	r = DLK_REAL(setns)(fd, type);
	after(&p, kinds, r == 0);
	if (kinds & CLONE_NEWNS)
		dlk_after_root(r == 0);
	return r;
}

DLK_EXPORT int unshare(int flags)
{
	return dlk_entry_unshare(flags);
}

DLK_EXPORT int setns(int fd, int type)
{
	return dlk_entry_setns(fd, type);
}

/* --- another root --------------------------------------------------------- */

int dlk_entry_chroot(const char *path)
{
	int r;

	dlk_before_root();
	r = DLK_REAL(chroot)(path);
	dlk_after_root(r == 0);
	return r;
}

int dlk_entry_pivot_root(const char *new_root, const char *old)
{
	int r;

	dlk_before_root();
	r = DLK_REAL(pivot_root)(new_root, old);
	dlk_after_root(r == 0);
	return r;
}

DLK_EXPORT int chroot(const char *path)
{
	return dlk_entry_chroot(path);
}

/* libc exports it, and declares it nowhere: pivot_root(2). */
int pivot_root(const char *new_root, const char *old);
DLK_EXPORT int pivot_root(const char *new_root, const char *old)
{
	return dlk_entry_pivot_root(new_root, old);
}
