/* SPDX-License-Identifier: MIT */
/*
 * What libc has for 32-bit programs beyond the table of table.h: the names that
 * programs with times of 64 bits call (-D_TIME_BITS=64, glibc 2.34).
 */
#ifndef DLK_TABLE32_H
#define DLK_TABLE32_H

struct __timespec64;

#define DLK_TABLE32(X)                                                         \
	X(__fcntl_time64, int, (int, int, ...))                                \
	X(__recvmsg64, ssize_t, (int, struct msghdr *, int))                   \
	X(__recvmmsg64, int,                                                   \
	  (int, struct mmsghdr *, unsigned, int, struct __timespec64 *))       \
	X(__sendmsg64, ssize_t, (int, const struct msghdr *, int))             \
	X(__sendmmsg64, int, (int, struct mmsghdr *, unsigned, int))

#endif
