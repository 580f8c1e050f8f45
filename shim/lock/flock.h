/* SPDX-License-Identifier: MIT */
/* flock(2); see flock.c. */
#ifndef DLK_FLOCK_H
#define DLK_FLOCK_H

enum { DLK_PASS = 100 };

/* flock(2) as called: 0, -errno, or DLK_PASS: not ours, ask the kernel. */
int dlk_flock(int fd, int op);

#endif
