/* SPDX-License-Identifier: MIT */
/* One thread at a time, of a file; see file_lock.c. */
#ifndef DLK_FILE_LOCK_H
#define DLK_FILE_LOCK_H

#include "os/proc.h"
#include "os/signals.h"

/*
 * Free on return: 0, or -EINTR if the call may be interrupted.  Before a
 * handler runs away(arg) is called, as in dlk_sleep_on().  NULL: nothing is let
 * in, for the kernel's lock is in hand.
 */
int dlk_gate_enter(struct dlk_call *call, const struct dlk_file *file,
		   dlk_away_fn *away, void *arg);
bool dlk_gate_try(const struct dlk_file *file);
void dlk_gate_leave(const struct dlk_file *file);
void dlk_gates_forget(void);

#endif
