/* SPDX-License-Identifier: MIT */
/*
 * The keeper's two halves: main.c carries leases on, file.c watches files.
 */
#ifndef DLK_KEEPER_H
#define DLK_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dlk_watch;

/*
 * Watch for the end of the lock on the file behind `fd`, which is closed: the
 * keeper opens a description of its own.  A file already watched is found
 * again.  `bell` is an eventfd that is rung when a lock has ended.  NULL with
 * errno set if the file cannot be opened or watched.
 */
struct dlk_watch *dlk_watch_get(int fd, int bell);

/*
 * The last moment (CLOCK_BOOTTIME ns) at which nobody held the lock, for the
 * keeper itself did; 0: none yet.
 */
uint64_t dlk_watch_free_at(struct dlk_watch *w);

/* Leases that depend on the watch: the last one gone, it ends. */
void dlk_watch_ref(struct dlk_watch *w);
void dlk_watch_unref(struct dlk_watch *w);

/* End the watches that no lease depends on, once their waits are over. */
void dlk_watch_sweep(void);

/* After a lock has ended, with leases left: wait for the next end. */
void dlk_watch_again(struct dlk_watch *w);

#endif
