/* SPDX-License-Identifier: MIT */
/* One thread at a time, of a file; see file_lock.c. */
#ifndef DLK_FILE_LOCK_H
#define DLK_FILE_LOCK_H

#include "os/proc.h"
#include "os/signals.h"

/*
 * Ours on return: 0, or -EINTR if the call may be interrupted; -ETIMEDOUT where
 * it is taken still at until_ns.  Before a handler runs away(arg) is called, as
 * in dlk_sleep_on().  NULL: nothing is let in, for the kernel's lock is in hand.
 */
int dlk_file_lock(struct dlk_call *call, const struct dlk_file *file,
		  uint64_t until_ns, dlk_away_fn *away, void *arg);
bool dlk_file_trylock(const struct dlk_file *file);
void dlk_file_unlock(const struct dlk_file *file);
void dlk_file_locks_forget(void);

#endif
