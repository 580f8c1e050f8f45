/* SPDX-License-Identifier: MIT */
/* Deadlocks of record locks across hosts; see deadlock.c. */
#ifndef DLK_DEADLOCK_H
#define DLK_DEADLOCK_H

#include "lock/request.h"

enum { DLK_SUSPECT_MS = 5 }; /* a cycle is looked at again */

/*
 * A record lock is about to wait, in the kernel or for Redis: tell it to the
 * other hosts, and see whether they wait for us: EV_DEADLOCK, EV_OK.  If it
 * r->suspects, EV_SUSPECTED: it MUST NOT wait in the kernel, but pause and look
 * again.
 */
enum acquire_event dlk_deadlock_check(struct request *r);
/* Around a wait in the kernel, in fcntl(2) with this lock: the thread tells. */
void dlk_deadlock_in_kernel(const struct request *r, const void *lock);
/* It waits no more. */
void dlk_deadlock_end(struct request *r);

#endif
