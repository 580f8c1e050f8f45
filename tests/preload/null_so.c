/* SPDX-License-Identifier: MIT */
/*
 * The null shim: grants every lock and locks nothing.  A test of exclusion
 * that passes under it is blind (DESIGN section 8).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int fd, int operation)
{
	(void)fd;
	(void)operation;
	return 0;
}

int lockf(int fd, int cmd, off_t len)
{
	(void)fd;
	(void)cmd;
	(void)len;
	return 0;
}

int lockf64(int fd, int cmd, off64_t len)
{
	(void)fd;
	(void)cmd;
	(void)len;
	return 0;
}

/* True if the command is a lock's, and answered. */
static bool granted(int cmd, uintptr_t arg)
{
	struct flock *l = (struct flock *)arg;

	switch (cmd) {
#ifdef __i386__
	case F_GETLK64:
#endif
	case F_GETLK:
	case F_OFD_GETLK:
		l->l_type = F_UNLCK;
		return true;
#ifdef __i386__
	case F_SETLK64:
	case F_SETLKW64:
#endif
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return true;
	default:
		return false;
	}
}

#ifdef __i386__
#define NULL_SYS_FCNTL SYS_fcntl64
#else
#define NULL_SYS_FCNTL SYS_fcntl
#endif

/* One word is taken whatever the command, and passed on. */
#define NULL_FCNTL(name)                                                       \
	int name(int fd, int cmd, ...)                                         \
	{                                                                      \
		va_list ap;                                                    \
		uintptr_t arg;                                                 \
                                                                               \
		va_start(ap, cmd);                                             \
		arg = va_arg(ap, uintptr_t);                                   \
		va_end(ap);                                                    \
		if (granted(cmd, arg))                                         \
			return 0;                                              \
		return (int)syscall(NULL_SYS_FCNTL, fd, cmd, arg);             \
	}

int __fcntl(int fd, int cmd, ...);
NULL_FCNTL(fcntl)
NULL_FCNTL(fcntl64)
NULL_FCNTL(__fcntl)
#ifdef __i386__
int __fcntl_time64(int fd, int cmd, ...);
NULL_FCNTL(__fcntl_time64)
#endif
