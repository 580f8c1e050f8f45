/* SPDX-License-Identifier: MIT */
/*
 * DLOCK_LOG=debug: a line for each grant, wait, release and hand-over.  Each of
 * these costs a comparison where nobody asked for it.  No mutex is held.
 */
#ifndef DLK_TRACE_H
#define DLK_TRACE_H

#include "lock/request.h"

/* What becomes of a call that holds its scratch: "granted", "waits for". */
void dlk_trace_call(const struct ask *a, const char *what);
/* The same, and who is in its way, by Redis' last answer. */
void dlk_trace_wait(const struct ask *a, const char *what);
/* What becomes of a lease (pinned): "released"; of a part of it, or NULL. */
void dlk_trace_lease(const struct dlk_held *h, const char *what,
		     const struct dlk_range *part);

#endif
