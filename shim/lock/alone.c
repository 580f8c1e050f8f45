/* SPDX-License-Identifier: MIT */
/*
 * On this host alone; see alone.h.
 *
 *	host A			Redis			host B
 *	lock ->			(away)
 *	the rule's timeout: a
 *	line, and the kernel's
 *	lock is all				<-	lock: the same there
 *				(back)
 *	lock another file ->	a lease
 *	unlock: Redis knows
 *	nothing of it
 *
 *  1. What is granted so stays so until it is unlocked: Redis is not asked for
 *     it later, for another may have a lease by then, and who has the kernel's
 *     lock has been told that it is his.
 *  2. There is no hold of it: nobody renews it, hands it over, loses it, or is
 *     stopped for it.
 *  3. A stronger lock, or more of the file, is a new one: Redis is asked.
 */
#include "lock/alone.h"

#include "config/config.h"
#include "hold/local.h"
#include "lock/engine.h"

/* No lock by a shadow: that ends with the last of its sharers by a keeper. */
void dlk_alone_begin(struct request *r)
{
	struct acquire *m = &r->acquire;

	m->may_be_local = r->rule->unreachable == DLK_UNREACHABLE_LOCAL &&
			  !dlk_request_by_shadow(r);
	if (m->may_be_local)
		m->timeout_ns = dlk_local_timeout_ns(r->store, m->timeout_ns);
}

/* Before the kernel is asked; a question locks nothing, but has waited. */
static void say_alone(struct request *r)
{
	dlk_local_waited(r->store, r->acquire.timeout_ns);
	if (r->how->steps[ACQ_ASK] && dlk_local_begin(&r->file))
		dlk_request_line(r, DLK_ERROR, "", r->attempt.why,
				 "; locked on this host ALONE from here on, no "
				 "other host is kept out "
				 "(unreachable = \"local\")");
}

static void say_reached(struct request *r)
{
	if (dlk_local_end(&r->file, r->store))
		dlk_request_line(r, DLK_WARNING, "it answers again: ", "",
				 "what is locked from here on is locked on all "
				 "hosts");
}

void dlk_alone_note(struct request *r, enum acquire_state was,
		    enum acquire_event event)
{
	const struct acquire *m = &r->acquire;

	if (!m->may_be_local || !r->s)
		return;
	if (m->local && m->state == ACQ_RESUME &&
	    (event == EV_NO_ANSWER || was == ACQ_ROLLBACK))
		say_alone(r);
	else if (was == ACQ_ASK && (event == EV_OK || event == EV_BUSY))
		say_reached(r);
}
