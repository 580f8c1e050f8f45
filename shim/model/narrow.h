/* SPDX-License-Identifier: MIT */
/*
 * The record locks of 32-bit programs, whose off_t may have 32 bits: which
 * struct a call's argument is, and the two made of each other.
 *
 *	                       5, 6, 7       12, 13, 14    F_OFD_*
 *	                       (F_GETLK ...) (F_GETLK64 ...)
 *	fcntl()                struct flock  struct flock64 struct flock
 *	fcntl64(), fcntl() of a program of glibc 2.27 or older, the system
 *	call fcntl64           struct flock  struct flock64 struct flock64
 *	the system call fcntl  struct flock  EINVAL         EINVAL
 *
 * glibc makes a flock64 of a program's flock for the OFD commands, the kernel
 * does it for the others (fs/fcntl.c); both tell a lock that the program's
 * struct has no room for by EOVERFLOW (dlk_flock_narrow()).
 */
#ifndef DLK_NARROW_H
#define DLK_NARROW_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>

/* Who was called. */
enum dlk_fcntl {
	DLK_FCNTL,   /* libc's, for programs whose off_t has 32 bits */
	DLK_FCNTL64, /* libc's for all others, and the system call fcntl64 */
	DLK_FCNTL_1, /* the system call fcntl */
};

enum dlk_flock_size { DLK_NO_FLOCK, DLK_FLOCK32, DLK_FLOCK64 };

/* The program's struct flock with offsets of 32 bits. */
struct dlk_flock32 {
	int16_t l_type, l_whence;
	int32_t l_start, l_len, l_pid;
};

/* One of a description, F_OFD_*. */
bool dlk_is_ofd(int cmd);

/* What the command's argument is; *cmd becomes that which has a flock64. */
enum dlk_flock_size dlk_flock_size(enum dlk_fcntl who, int *cmd);

void dlk_flock_widen(const struct dlk_flock32 *from, struct flock64 *to);

/*
 * What F_GETLK (`ofd`: F_OFD_GETLK) tells: 0 or -EOVERFLOW.  As a 64-bit kernel
 * has it for its 32-bit programs a section that is too long is cut.
 */
int dlk_flock_narrow(const struct flock64 *from, bool ofd,
		     struct dlk_flock32 *to);

#endif
