/* SPDX-License-Identifier: MIT */
/* Lines for who looks for what happened; see trace.h. */
#include "lock/trace.h"

#include <string.h>
#include <sys/file.h>

#include "os/log.h"

enum { ROOM = 256 };

/* ' EX', ' WRITE 0-9', ' READ 100-' */
static void add_range(struct dlk_text *t, const struct dlk_range *range)
{
	dlk_text_str(t, range->type == DLK_WRITE  ? " WRITE "
			: range->type == DLK_READ ? " READ "
						  : " ");
	dlk_text_u64(t, range->start, 0);
	dlk_text_str(t, "-");
	if (range->end != DLK_RANGE_MAX)
		dlk_text_u64(t, range->end, 0);
}

static void add_wanted(struct dlk_text *t, const struct ask *a)
{
	if (a->kind == DLK_FLOCK)
		dlk_text_str(t, a->mode == LOCK_EX ? " EX" : " SH");
	else
		add_range(t, &a->want);
}

/* The call, what it wants, and what else there is to say of it. */
static void trace(const struct ask *a, const char *what, const char *more,
		  const char *who)
{
	char text[ROOM];
	struct dlk_text t;

	dlk_text_init(&t, text, sizeof(text));
	dlk_text_str(&t, what);
	add_wanted(&t, a);
	dlk_text_str(&t, more);
	dlk_ask_line(a, DLK_DEBUG, text, who, "");
}

static bool is_traced(const struct ask *a)
{
	return dlk_log_wants(DLK_DEBUG) && a->s;
}

void dlk_trace_call(const struct ask *a, const char *what)
{
	if (is_traced(a))
		trace(a, what, "", "");
}

void dlk_trace_wait(const struct ask *a, const char *what)
{
	if (is_traced(a))
		trace(a, what, ", held by ", a->s->answer.holder);
}

void dlk_trace_lease(const struct dlk_held *h, const char *what,
		     const struct dlk_range *part)
{
	struct dlk_line l;

	if (!dlk_log_wants(DLK_DEBUG))
		return;
	dlk_line_begin(&l, DLK_DEBUG);
	dlk_text_str(&l.text, "the lease ");
	dlk_text_quoted(&l.text, h->lease.key, h->lease.key_len);
	dlk_text_str(&l.text, " at redis ");
	dlk_text_str(&l.text, h->rule->redis->endpoints->name);
	dlk_text_str(&l.text, " is ");
	dlk_text_str(&l.text, what);
	if (part)
		add_range(&l.text, part);
	dlk_text_str(&l.text, ": ");
	dlk_text_quoted(&l.text, h->lease.token, h->lease.token_len);
	dlk_line_end(&l);
}
