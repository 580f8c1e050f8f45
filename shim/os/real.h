/* SPDX-License-Identifier: MIT */
/*
 * The real functions behind the table's names: resolved in the constructor,
 * overridable by tests.  Before the constructor ran (another library's
 * constructor may lock) the few that work without libc's state go to the
 * kernel by raw system calls.
 */
#ifndef DLK_REAL_H
#define DLK_REAL_H

#include <dirent.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <wordexp.h>

#include "os/table.h"
#include "os/table32.h"

struct msghdr;
struct mmsghdr;
struct timespec;

#define X(name, result, args) result(*name) args;
struct dlk_real {
	DLK_TABLE(X)
#ifdef __i386__
	DLK_TABLE32(X)
#endif
};
#undef X

extern struct dlk_real real;

/*
 * A function of fcntl()'s form.  `answer` may use fd, cmd and `arg`, the one word
 * that may follow them: read as a long, as musl does, whatever it is.
 */
#define DLK_LIKE_FCNTL(declared, answer)                                       \
	declared(int fd, int cmd, ...)                                         \
	{                                                                      \
		va_list ap;                                                    \
		long arg;                                                      \
                                                                               \
		va_start(ap, cmd);                                             \
		arg = va_arg(ap, long);                                        \
		va_end(ap);                                                    \
		return answer;                                                 \
	}

/* Fill `real` by dlsym(RTLD_NEXT); called by the constructor. */
void dlk_resolve_real(void);
/* One of it, for a call that may come before the constructor. */
#define DLK_REAL(name) (real.name ?: (dlk_resolve_real(), real.name))

/* Have the clock read by the vDSO; called by the constructor. */
void dlk_resolve_clock(void);

#endif
