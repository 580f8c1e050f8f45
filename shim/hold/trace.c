/* SPDX-License-Identifier: MIT */
/* Lines for who looks for what happened; see trace.h. */
#include "hold/trace.h"

#include "os/log.h"
#include "hold/hold.h"
#include "model/range.h"

void dlk_trace_range(struct dlk_text *t, const struct dlk_range *range)
{
	dlk_text_str(t, range->type == DLK_WRITE  ? " WRITE "
			: range->type == DLK_READ ? " READ "
						  : " ");
	dlk_text_u64(t, range->start, 0);
	dlk_text_str(t, "-");
	if (range->end != DLK_RANGE_MAX)
		dlk_text_u64(t, range->end, 0);
}

void dlk_trace_lease(const struct dlk_hold *h, const char *what,
		     const struct dlk_range *part)
{
	struct dlk_line l;

	if (!dlk_log_wants(DLK_DEBUG))
		return;
	dlk_line_begin(&l, DLK_DEBUG);
	dlk_text_str(&l.text, "the lease ");
	dlk_text_quoted(&l.text, h->lease.key, h->lease.key_len);
	dlk_text_strs(&l.text, " at redis ", dlk_store_of(h->rule->redis)->at,
		      " is ", what, NULL);
	if (part)
		dlk_trace_range(&l.text, part);
	dlk_text_str(&l.text, ": ");
	dlk_text_quoted(&l.text, h->lease.token, h->lease.token_len);
	dlk_line_end(&l);
}
