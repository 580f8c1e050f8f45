/* SPDX-License-Identifier: MIT */
/*
 * What libc's and the kernel's headers have not on older systems than Debian
 * 12's, down to glibc 2.31 and Linux 5.10; every file of ours has it before all
 * others (the Makefile's -include).  Nothing of it is there on newer ones.
 */
#ifndef DLK_OLDER_H
#define DLK_OLDER_H

#include <features.h>

#if !__GLIBC_PREREQ(2, 32)
#include <stdio.h>
/* Untranslated, too, and without memory of a thread (errno 0 .. 133). */
static inline const char *strerrordesc_np(int err)
{
	return err >= 0 && err < _sys_nerr ? _sys_errlist[err] : NULL;
}
/* Whether there is one thread only is not told: there may be more. */
#define __libc_single_threaded 0
#endif

#if __GLIBC_PREREQ(2, 32)
#include <sys/single_threaded.h>
#endif

#if !__GLIBC_PREREQ(2, 34)
#include <sys/types.h>
#include <sys/syscall.h>
#define CLOSE_RANGE_UNSHARE (1U << 1)
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int lowest);
pid_t _Fork(void);
int execveat(int dir, const char *path, char *const argv[], char *const envp[],
	     int flags);
#endif

#endif
