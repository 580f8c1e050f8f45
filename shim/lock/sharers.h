/* SPDX-License-Identifier: MIT */
/* Who shares a description; see sharers.c. */
#ifndef DLK_SHARERS_H
#define DLK_SHARERS_H

#include "lock/request.h"

/* Says the kernel's lock, in hand, nothing of who is dead (hold_at_least)? */
bool dlk_sharers_no_proof(const struct request *r);
/* Refused by Redis: is it for a sharer that has done something since? */
bool dlk_sharers_overtaken(struct request *r, int err);
/* Not granted: unlock what this call locked, or (true) a sharer has it. */
bool dlk_sharers_unlock_refused(struct request *r);
/* Granted: has a sharer unlocked what is both's? */
bool dlk_sharers_was_unlocked(struct request *r);

#endif
