/* SPDX-License-Identifier: MIT */
/* One thread at a time, of a description; see turn.c. */
#ifndef DLK_TURN_H
#define DLK_TURN_H

#include "lock/request.h"

/*
 * A step of the engine's (engine.h, enter and leave).  Ours on return: 0, or
 * -EINTR if the call may be interrupted, or -ETIMEDOUT if others are inside still
 * at until_ns.  Without a call nothing is let in.
 */
int dlk_turn_take(struct request *r, struct dlk_call *call, uint64_t until_ns);
void dlk_turn_leave(struct request *r);
void dlk_turns_forget(void); /* in a child: whoever was inside is not here */

#endif
