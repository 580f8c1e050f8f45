/* SPDX-License-Identifier: MIT */
/*
 * The lock calls.  Each wrapper: may we, is it ours, act, errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/hints.h"
#include "entry/lifecycle.h"
#include "entry/start.h"
#include "os/real.h"
#include "model/narrow.h"
#include "hold/self.h"
#include "lock/borrowed.h"
#include "lock/flock.h"
#include "lock/record.h"

/* As the call's result; errno is set on failure only. */
static int result(int r, int saved)
{
	/* In a destructor that runs after ours. */
	if (r <= 0 && atomic_load(&dlk_self.ending))
		dlk_before_exit();
	errno = r < 0 ? -r : saved;
	return r < 0 ? -1 : r;
}

int dlk_entry_flock(int fd, int op)
{
	int r = DLK_PASS, saved = errno;
	const enum dlk_presence presence = dlk_presence();

	if (presence == DLK_PRESENT)
		r = dlk_flock(fd, op);
	else if (presence == DLK_BORROWED)
		r = dlk_borrowed_flock(fd, op);
	return result(r, saved);
}

DLK_EXPORT int flock(int fd, int op)
{
	int r = dlk_entry_flock(fd, op);

	return r == DLK_PASS ? real.flock(fd, op) : r;
}

static int record(int fd, int cmd, struct flock64 *lock)
{
	const enum dlk_presence presence = dlk_presence();

	if (presence == DLK_PRESENT)
		return dlk_record("fcntl", fd, cmd, lock);
	return presence == DLK_BORROWED ? dlk_borrowed_record("fcntl", fd, lock)
					: DLK_PASS;
}

/* One of a program whose off_t has 32 bits. */
static int record32(int fd, int cmd, struct dlk_flock32 *lock)
{
	const bool ofd = cmd == F_OFD_GETLK;
	struct dlk_flock32 own;
	struct flock64 wide;
	int r;

	if (!dlk_record_read(lock, &own, sizeof(own)))
		return DLK_PASS;
	dlk_flock_widen(&own, &wide);
	r = record(fd, cmd, &wide);
	if (r || (cmd != F_GETLK && !ofd))
		return r;
	r = dlk_flock_narrow(&wide, ofd, &own);
	return r ? r : dlk_record_write(&own, lock, sizeof(own));
}

static int any_record(enum dlk_fcntl who, int fd, int cmd, long arg)
{
	switch (dlk_flock_size(who, &cmd)) {
	case DLK_FLOCK32:
		return record32(fd, cmd, (struct dlk_flock32 *)arg);
	case DLK_FLOCK64:
		return record(fd, cmd, (struct flock64 *)arg);
	case DLK_NO_FLOCK:
		break;
	}
	return DLK_PASS;
}

/* Whatever the command, it has one argument of a word at most (musl). */
int dlk_entry_fcntl(enum dlk_fcntl who, int (*next)(int, int, ...), int fd,
		    int cmd, long arg)
{
	int r = DLK_PASS, saved = errno;

	if (arg)
		r = any_record(who, fd, cmd, arg);
	if (r != DLK_PASS)
		return result(r, saved);
	errno = saved;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		atomic_store(&dlk_self.dups, true);
	return next(fd, cmd, arg);
}

/* `called` in C, for a header may make fcntl64 of fcntl (export.h). */
#define DLK_FCNTL_AS(called, who, next, name)                                  \
	DLK_EXPORT int called(int fd, int cmd, ...) DLK_NAMED(name);           \
	DLK_LIKE_FCNTL(DLK_EXPORT int called,                                  \
		       dlk_entry_fcntl(who, real.next, fd, cmd, arg))

DLK_FCNTL_AS(dlk_called_fcntl, DLK_FCNTL, fcntl, fcntl)
DLK_FCNTL_AS(dlk_called_fcntl64, DLK_FCNTL64, fcntl64, fcntl64)
DLK_FCNTL_AS(dlk_called__fcntl, DLK_FCNTL, __fcntl, __fcntl)

#ifdef __i386__
/*
 * Before glibc 2.28 there was one fcntl() for both sizes of off_t, and what it
 * was given went to the kernel as it was; a program of then has this one.
 */
DLK_FCNTL_AS(dlk_fcntl_2_0, DLK_FCNTL64, fcntl64, dlk_fcntl_2_0)
__asm__(".symver dlk_fcntl_2_0, fcntl@GLIBC_2.0");
DLK_FCNTL_AS(dlk_fcntl_time64, DLK_FCNTL64, __fcntl_time64, __fcntl_time64)
#endif

/* `narrow`: the caller's off_t has 32 bits. */
static int any_lockf(int fd, int cmd, off64_t len, bool narrow)
{
	int r = DLK_PASS, saved = errno;
	const enum dlk_presence presence = dlk_presence();

	if (presence == DLK_PRESENT)
		r = dlk_lockf(fd, cmd, len, narrow);
	else if (presence == DLK_BORROWED)
		r = dlk_borrowed_lockf(fd, cmd);
	return result(r, saved);
}

DLK_EXPORT int dlk_called_lockf(int fd, int cmd, __off_t len) DLK_NAMED(lockf);
DLK_EXPORT int dlk_called_lockf(int fd, int cmd, __off_t len)
{
	int r = any_lockf(fd, cmd, len, sizeof(len) < sizeof(off64_t));

	return r == DLK_PASS ? DLK_REAL(lockf)(fd, cmd, len) : r;
}

DLK_EXPORT int lockf64(int fd, int cmd, off64_t len)
{
	int r = any_lockf(fd, cmd, len, false);

	return r == DLK_PASS ? DLK_REAL(lockf64)(fd, cmd, len) : r;
}
