/* SPDX-License-Identifier: MIT */
/*
 * The numbers of system calls that 32-bit machines have twice: in the first
 * form ids have 16 bits, and offsets, sizes and inodes 32 (syscalls(2)).  These
 * are the numbers of the second form, which 64-bit machines have alone.
 *
 * Times are those of the first form: what is counted is CLOCK_BOOTTIME, which
 * 32 bits last for 68 years.
 */
#ifndef DLK_NUMBER_H
#define DLK_NUMBER_H

#include <sys/syscall.h>

#ifdef __i386__
#define DLK_SYS_FSTAT     SYS_fstat64
#define DLK_SYS_FSTATAT   SYS_fstatat64
#define DLK_SYS_FCNTL     SYS_fcntl64
#define DLK_SYS_GETEUID   SYS_geteuid32
#define DLK_SYS_GETEGID   SYS_getegid32
#define DLK_SYS_GETRESUID SYS_getresuid32
#define DLK_SYS_GETRESGID SYS_getresgid32
#else
#define DLK_SYS_FSTAT     SYS_fstat
#define DLK_SYS_FSTATAT   SYS_newfstatat
#define DLK_SYS_FCNTL     SYS_fcntl
#define DLK_SYS_GETEUID   SYS_geteuid
#define DLK_SYS_GETEGID   SYS_getegid
#define DLK_SYS_GETRESUID SYS_getresuid
#define DLK_SYS_GETRESGID SYS_getresgid
#endif

#endif
