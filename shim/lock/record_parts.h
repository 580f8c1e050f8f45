/* SPDX-License-Identifier: MIT */
/*
 * What record.c is made of: the kernel's part of a record lock, and Redis'.
 * All are called inside the file's file_lock, but for dlk_record_wait().
 */
#ifndef DLK_RECORD_PARTS_H
#define DLK_RECORD_PARTS_H

#include "lock/request.h"

/* --- record_kernel.c ------------------------------------------------------ */

/* What the owner has by now, of the whole file. */
const struct dlk_ranges *dlk_record_granted(const struct request *r);
/* Would the kernel's lock weaken something, were it taken as it is asked? */
bool dlk_record_weakens(const struct request *r);
/* Does the kernel show the lock? */
bool dlk_record_is_listed(const struct request *r);
/* What a shared description has is noted: 0, or -ENOLCK. */
int dlk_record_look_before(struct request *r);
/* [KLOCK] Without a wait; r->blocked is what was refused.  0 or -errno. */
int dlk_record_take(struct request *r);
/* The same for this range, of this type, as it is. */
int dlk_record_set(const struct request *r, const struct dlk_range *range);
/* Every byte as it is granted: what this call took is undone. */
void dlk_record_roll_back(struct request *r);
/* (outside) For r->blocked. */
enum acquire_event dlk_record_wait(struct request *r);

/* --- record_grant.c ------------------------------------------------------- */

/* Ask, with proof if it is of use: as the store's acquire_range(). */
int dlk_record_ask(struct request *r);
/* [GRANT] The kernel has granted and so has Redis: 0, or -errno. */
int dlk_record_keep(struct request *r);
/* The server does not know the owner any more. */
enum acquire_event dlk_record_lost(struct request *r);
/* What the kernel has from before an execve(2) is asked for anew. */
int dlk_record_adopt(struct request *r);

#endif
