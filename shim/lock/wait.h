/* SPDX-License-Identifier: MIT */
/* What a refusal makes of a call: it pauses, waits, or fails; see wait.c. */
#ifndef DLK_WAIT_H
#define DLK_WAIT_H

#include "lock/request.h"

/* Once a call: the server is too young to grant. */
void dlk_request_young_line(struct request *r);

/* A handler is about to run, and the call (r) may never come back. */
void dlk_request_away(void *r);

/* Sleep with nothing in hand: 0 or -errno. */
int dlk_request_pause(struct request *r, uint64_t ns);

/*
 * Redis refused (just now, by r->s->answer, or the kernel since), and the
 * kernel's lock is given back: wait until the queue grants (slot.word), or
 * until there is reason to ask, or to look whether a local holder is there
 * still; all without a wait in the kernel: EV_OK.
 */
enum acquire_event dlk_queue_wait(struct request *r);

#endif
