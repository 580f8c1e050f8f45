/* SPDX-License-Identifier: MIT */
/* What is still to be said about a lease; see outbox.h. */
#include "model/outbox.h"

#include <errno.h>

#include "model/timeline.h"

void dlk_outbox_put(struct outbox *o, enum outbox_message message,
		    uint64_t due_ns)
{
	if (message < o->message)
		return;
	o->message = message;
	o->unsent = true;
	o->due_ns = due_ns;
}

void dlk_outbox_put_release(struct outbox *o, uint64_t now_ns, uint32_t ttl_ms)
{
	dlk_outbox_put(o, OUTBOX_RELEASE, UINT64_MAX);
	/* Whatever was sent for it, the server has forgotten it by then. */
	o->expires_ns = now_ns + (ttl_ms + DLK_EXPIRED_MS) * DLK_MS;
}

void dlk_outbox_sent(struct outbox *o, enum outbox_message message,
		     uint64_t now_ns)
{
	o->unanswered++;
	if (message < o->message)
		return;
	o->message = message;
	o->unsent = false;
	o->due_ns = now_ns + DLK_UNREAD_MS * DLK_MS;
}

/* It may be worth asking at once, and not after a pause. */
static bool at_once(enum outbox_message message, int err)
{
	return err == -ENOENT || (err > 0 && message == OUTBOX_RANGES);
}

bool dlk_outbox_answered(struct outbox *o, enum outbox_message message, int err,
			 uint64_t now_ns)
{
	o->unanswered--;
	if (message != o->message)
		return false;
	if (err != 0 && err != -EREMOTEIO) {
		o->by_source |= err == -ENOENT;
		dlk_outbox_put(
			o, message,
			now_ns + (at_once(message, err) ? 0 : DLK_RESEND_MS) *
					 DLK_MS);
		return false;
	}
	/* EVAL (full source) does not notify waiters; go back to EVALSHA. */
	o->by_source = false;
	if (o->unsent || (o->unanswered && message == OUTBOX_RANGES))
		return false;
	dlk_outbox_clear(o, now_ns);
	return true;
}

void dlk_outbox_looked(struct outbox *o, uint64_t now_ns)
{
	if (o->unanswered)
		o->due_ns = now_ns + DLK_UNREAD_MS * DLK_MS;
}

void dlk_outbox_clear(struct outbox *o, uint64_t now_ns)
{
	o->message = OUTBOX_NOTHING;
	o->unsent = false;
	o->due_ns = now_ns;
	dlk_outbox_looked(o, now_ns);
}

/*
 * A release is the last word, and waits for no other's answer.  A list of
 * ranges waits, for an answer may say which number the server has seen.
 */
static enum outbox_step step(const struct outbox *o)
{
	if (o->unsent && (!o->unanswered || o->message == OUTBOX_RELEASE))
		return OUTBOX_SEND;
	return o->unanswered ? OUTBOX_READ : OUTBOX_WAIT;
}

static bool may_expire(const struct outbox *o)
{
	return o->message == OUTBOX_RELEASE && o->unsent &&
	       o->due_ns != UINT64_MAX;
}

enum outbox_step dlk_outbox_next(const struct outbox *o, uint64_t now_ns)
{
	if (may_expire(o) && now_ns >= o->expires_ns)
		return OUTBOX_FORGET;
	return now_ns >= o->due_ns ? step(o) : OUTBOX_WAIT;
}

uint64_t dlk_outbox_due_ns(const struct outbox *o)
{
	if (step(o) == OUTBOX_WAIT)
		return UINT64_MAX;
	return may_expire(o) && o->expires_ns < o->due_ns ? o->expires_ns
							  : o->due_ns;
}
