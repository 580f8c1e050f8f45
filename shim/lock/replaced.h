/* SPDX-License-Identifier: MIT */
/* Refused by a lock of our own, of another file; see replaced.c. */
#ifndef DLK_REPLACED_H
#define DLK_REPLACED_H

#include "lock/request.h"

/*
 * Redis refused: by a lock of this very process, of another file that has the
 * same key?  EV_OK: no; EV_AGAIN: it was, and had ended; EV_BUSY.
 */
enum acquire_event dlk_request_replaced(struct request *r);

#endif
