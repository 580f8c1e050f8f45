/* SPDX-License-Identifier: MIT */
/* The kernel's part of flock(2); see flock_kernel.c. */
#ifndef DLK_FLOCK_KERNEL_H
#define DLK_FLOCK_KERNEL_H

#include "lock/request.h"

/* [KLOCK] Without a wait; and with one. */
enum acquire_event dlk_flock_try(struct request *r);
enum acquire_event dlk_flock_wait(struct request *r);
/* It was refused: EV_AGAIN if that may pass by itself, EV_BUSY. */
enum acquire_event dlk_flock_check_holder(struct request *r);

/* What the description has: r->old_mode.  False: there is no telling. */
bool dlk_flock_look_at_own(struct request *r);
/* The lease that it had before the call is given back. */
void dlk_flock_give_up_old(struct request *r);
/* Is the descriptor still that of what was locked? */
bool dlk_flock_is_the_same(struct request *r);
/* If it is, unlock that. */
void dlk_flock_let_go(struct request *r);

/*
 * What another thread was granted by this description since r->looked_ns,
 * pinned; or NULL.
 */
struct dlk_hold *dlk_flock_of_threads(const struct request *r);
/*
 * The kernel has `mode`, by this call: it is to have what other threads were
 * granted.  False: that is nothing, and it is unlocked.
 */
bool dlk_flock_leave_to_threads(struct request *r, int mode);

/* From here on it is the shadow that is locked: 0, -EBADF, -ENOLCK; -EAGAIN,
 * if it is to be sure that there is no other one. */
int dlk_flock_use_shadow(struct request *r, bool sure);
/* What flock(2) says where a file cannot be locked. */
bool dlk_flock_cannot(int err);

/* Does Redis know of a lease of this host, by this file?  1, 0, -errno. */
int dlk_flock_has_lease_here(struct request *r);

#endif
