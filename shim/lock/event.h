/* SPDX-License-Identifier: MIT */
/*
 * Results as events of the machine of a call (model/acquire.h).  r->err is the
 * result; of EV_ERROR, and of the kernel's EV_BUSY, it is what the call
 * returns.
 */
#ifndef DLK_EVENT_H
#define DLK_EVENT_H

#include "lock/request.h"

/* The call fails with -errno. */
enum acquire_event dlk_event_error(struct request *r, int err);
/* 0 or -errno of the kernel's, asked for a lock. */
enum acquire_event dlk_event_of_kernel(struct request *r, int err);
/* What an operation of the store gives. */
enum acquire_event dlk_event_of_redis(struct request *r, int err);
/* What dlk_follow_*() give. */
enum acquire_event dlk_event_of_place(struct request *r, int err);

#endif
