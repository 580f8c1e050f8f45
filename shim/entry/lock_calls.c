/* SPDX-License-Identifier: MIT */
/*
 * The lock calls.  Each wrapper: may we, is it ours, act, errno.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/hints.h"
#include "entry/lifecycle.h"
#include "entry/start.h"
#include "os/real.h"
#include "os/signals.h"
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
	struct dlk_call call;
	int r = DLK_PASS, saved = errno;

	switch (dlk_presence()) {
	case DLK_PRESENT:
		r = dlk_flock(&call, fd, op);
		break;
	case DLK_BORROWED:
		r = dlk_borrowed_flock(fd, op);
		break;
	case DLK_ABSENT:
		break;
	}
	return result(r, saved);
}

DLK_EXPORT int flock(int fd, int op)
{
	int r = dlk_entry_flock(fd, op);

	return r == DLK_PASS ? real.flock(fd, op) : r;
}

static bool is_record_lock(int cmd)
{
	return cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK ||
	       cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW || cmd == F_OFD_GETLK;
}

static int record(int fd, int cmd, struct flock64 *lock)
{
	struct dlk_call call;

	switch (dlk_presence()) {
	case DLK_PRESENT:
		return dlk_record(&call, "fcntl", fd, cmd, lock);
	case DLK_BORROWED:
		return dlk_borrowed_record("fcntl", fd, lock);
	case DLK_ABSENT:
		break;
	}
	return DLK_PASS;
}

/*
 * Whatever the command, it has one argument of a word at most (musl).  Only
 * where off_t has 64 bits is struct flock the struct flock64 of dlk_record().
 */
int dlk_entry_fcntl(int (*next)(int, int, ...), int fd, int cmd, long arg)
{
	int r = DLK_PASS, saved = errno;

	static_assert(sizeof(struct flock) == sizeof(struct flock64));
	if (is_record_lock(cmd) && arg)
		r = record(fd, cmd, (struct flock64 *)arg);
	if (r != DLK_PASS)
		return result(r, saved);
	errno = saved;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		atomic_store(&dlk_self.dups, true);
	return next(fd, cmd, arg);
}

#define DLK_FCNTL(name)                                                        \
	DLK_EXPORT int name(int fd, int cmd, ...)                              \
	{                                                                      \
		va_list ap;                                                    \
		long arg;                                                      \
                                                                               \
		va_start(ap, cmd);                                             \
		arg = va_arg(ap, long);                                        \
		va_end(ap);                                                    \
		return dlk_entry_fcntl(real.name, fd, cmd, arg);               \
	}

int __fcntl(int fd, int cmd, ...);
DLK_FCNTL(fcntl)
DLK_FCNTL(fcntl64)
DLK_FCNTL(__fcntl)

static int any_lockf(int fd, int cmd, off64_t len)
{
	struct dlk_call call;
	int r = DLK_PASS, saved = errno;

	switch (dlk_presence()) {
	case DLK_PRESENT:
		r = dlk_lockf(&call, fd, cmd, len);
		break;
	case DLK_BORROWED:
		r = dlk_borrowed_lockf(fd, cmd);
		break;
	case DLK_ABSENT:
		break;
	}
	if (r != DLK_PASS)
		return result(r, saved);
	errno = saved;
	return DLK_REAL(lockf64)(fd, cmd, len);
}

DLK_EXPORT int lockf(int fd, int cmd, off_t len)
{
	return any_lockf(fd, cmd, len);
}

DLK_EXPORT int lockf64(int fd, int cmd, off64_t len)
{
	return any_lockf(fd, cmd, len);
}
