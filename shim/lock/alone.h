/* SPDX-License-Identifier: MIT */
/*
 * A call that may be granted by the kernel alone (unreachable = "local"): may
 * it, and what is said of it.  What it does then is the machine's to decide
 * (model/acquire.h).
 */
#ifndef DLK_ALONE_H
#define DLK_ALONE_H

#include "lock/request.h"

/* The machine has just begun. */
void dlk_alone_begin(struct request *r);
/* It has gone on by this event of that state. */
void dlk_alone_note(struct request *r, enum acquire_state was,
		    enum acquire_event event);

#endif
