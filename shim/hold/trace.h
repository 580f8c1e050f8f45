/* SPDX-License-Identifier: MIT */
/*
 * DLOCK_LOG=debug: a line for each grant, wait, release and hand-over.  Each of
 * these costs a comparison where nobody asked for it.  No mutex is held.
 */
#ifndef DLK_TRACE_H
#define DLK_TRACE_H

#include "hold/hold.h"
#include "model/text.h"

/* ' WRITE 0-9', ' READ 100-' */
void dlk_trace_range(struct dlk_text *t, const struct dlk_range *range);
/* What becomes of a lease (pinned): "released"; of a part of it, or NULL. */
void dlk_trace_lease(const struct dlk_hold *h, const char *what,
		     const struct dlk_range *part);

#endif
