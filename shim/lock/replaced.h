/* SPDX-License-Identifier: MIT */
/* Refused by a lock of our own, of another file; see replaced.c. */
#ifndef DLK_REPLACED_H
#define DLK_REPLACED_H

#include "lock/request.h"

enum { DLK_AGAIN = 102 };
/*
 * Redis refused: by a lock of this very process, of another file that has the
 * same key?  0: no; DLK_AGAIN: it was, and had ended; else what the call
 * returns.
 */
int dlk_request_replaced(struct request *r);

#endif
