/* SPDX-License-Identifier: MIT */
/*
 * The lock calls.  Each wrapper: may we, is it ours, act, errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/hints.h"
#include "entry/real.h"
#include "lock/state.h"

int dlk_entry_flock(int fd, int op)
{
	struct dlk_call call;
	int r = DLK_PASS, saved = errno;

	if (dlk_alive())
		r = dlk_flock(&call, fd, op);
	/* In a destructor that runs after ours. */
	if (r <= 0 && atomic_load(&dlk.ending))
		dlk_before_exit();
	errno = r < 0 ? -r : saved;
	return r < 0 ? -1 : r;
}

DLK_EXPORT int flock(int fd, int op)
{
	int r = dlk_entry_flock(fd, op);

	return r == DLK_PASS ? real.flock(fd, op) : r;
}

/* Does this fcntl command take a lock?  Others pass untouched. */
static bool locks(int cmd)
{
	return cmd == F_SETLK || cmd == F_SETLKW || cmd == F_OFD_SETLK ||
	       cmd == F_OFD_SETLKW;
}

/* errno is ENOLCK then, and as it was otherwise. */
static bool refused(int fd, const char *call, const struct flock *lock)
{
	int saved = errno;
	bool r = dlk_alive() && dlk_refuses(fd, call, lock);

	errno = r ? ENOLCK : saved;
	return r;
}

/* Whatever the command, it has one argument of a word at most (musl). */
int dlk_entry_fcntl(int (*next)(int, int, ...), int fd, int cmd, long arg)
{
	if (locks(cmd) && arg &&
	    refused(fd, "fcntl", (const struct flock *)arg))
		return -1;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		atomic_store(&dlk.dups, true);
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

static bool lockf_refused(int fd, int cmd)
{
	return (cmd == F_LOCK || cmd == F_TLOCK) && refused(fd, "lockf", NULL);
}

DLK_EXPORT int lockf(int fd, int cmd, off_t len)
{
	if (!real.lockf)
		dlk_resolve_real();
	return lockf_refused(fd, cmd) ? -1 : real.lockf(fd, cmd, len);
}

DLK_EXPORT int lockf64(int fd, int cmd, off64_t len)
{
	if (!real.lockf64)
		dlk_resolve_real();
	return lockf_refused(fd, cmd) ? -1 : real.lockf64(fd, cmd, len);
}
