/* SPDX-License-Identifier: MIT */
/* The engine of all lock calls; see engine.h. */
#include "lock/engine.h"

#include <errno.h>

#include "os/log.h"
#include "os/sys.h"
#include "os/check.h"
#include "hold/wait_report.h"
#include "lock/alone.h"
#include "lock/deadlock.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "lock/replaced.h"
#include "lock/wait.h"
#include "model/timeline.h"

enum { TURN_MS = 1000 }; /* beyond the rule's timeout, for other threads */

/* --- what every kind does alike ------------------------------------------- */

static enum acquire_event resume(struct request *r)
{
	return dlk_event_of_place(r, dlk_follow_up(r));
}

/* Each of many threads that ask a silent server would wait for all before. */
static int not_inside(const struct request *r, int err)
{
	if (err != -ETIMEDOUT)
		return err;
	if (r->s)
		dlk_request_line(r, DLK_ERROR,
				 "other threads of this process ask for it, ",
				 "and have no answer",
				 "; the call fails with ENOLCK");
	return -ENOLCK;
}

/* What the kernel has granted already must be given back inside. */
static int go_inside(struct request *r)
{
	const uint64_t until_ns =
		dlk_now_ns() + (r->rule->timeout_ms + TURN_MS) * DLK_MS;

	if (!r->how->enter)
		return 0;
	if (r->acquire.in_hand)
		return r->how->enter(r, NULL, UINT64_MAX);
	return not_inside(r, r->how->enter(r, r->call, until_ns));
}

static enum acquire_event enter(struct request *r)
{
	int err = go_inside(r), then;

	if (r->s)
		return err ? dlk_event_error(r, err) : EV_OK;
	/* A handler has run. */
	then = dlk_request_fill_hands(r, err);
	if (!then)
		then = dlk_follow_up(r);
	if (!err && then)
		r->how->leave(r);
	return dlk_event_of_place(r, then);
}

static enum acquire_event back_off(struct request *r)
{
	const struct dlk_answer *a = &r->s->answer;
	uint64_t limit_ns = 0;
	uint32_t random;
	int err;

	/* A wait that others are told of is told of at each pause. */
	if (r->kind != DLK_FLOCK && r->wait_id)
		limit_ns =
			(r->suspects ? DLK_SUSPECT_MS : DLK_TELL_MS) * DLK_MS;
	if (r->store && r->store->no_queue && r->acquire.cause == EV_BUSY)
		dlk_acquire_note_holder(&r->acquire, dlk_answer_holder(a));
	dlk_random(&random, sizeof(random));
	err = dlk_request_pause(r, dlk_acquire_pause_ns(&r->acquire, a->left_ms,
							limit_ns, random));
	return err ? dlk_event_error(r, err) : EV_OK;
}

/* --- the engine ----------------------------------------------------------- */

static dlk_step_fn *const common[ACQ_STATES] = {
	[ACQ_RESUME] = resume,
	[ACQ_PING] = dlk_request_ping,
	[ACQ_ENTER] = enter,
	[ACQ_PASS_ON] = dlk_queue_not_now,
	[ACQ_CHECK_OWN] = dlk_request_replaced,
	[ACQ_WAIT_QUEUE] = dlk_queue_wait,
	[ACQ_BACK_OFF] = back_off,
};

/* Why Redis has not granted, where it is not that somebody has it. */
static void say_refusal(struct request *r)
{
	const bool fails = r->acquire.state == ACQ_FAILED;

	switch (r->acquire.cause) {
	case EV_YOUNG:
		dlk_request_young_line(r);
		break;
	case EV_WRONG_TYPE:
		dlk_request_line(
			r, DLK_ERROR, "the key is no lock but a ",
			r->s->answer.holder,
			"; not locked, the call fails "
			"with ENOLCK.  Whose key is it? (dlockctl list)");
		break;
	case EV_NO_ANSWER:
	case EV_UNUSABLE:
		if (fails)
			dlk_request_line(r, DLK_ERROR, "", r->attempt.why,
					 "; not locked, the call fails with "
					 "ENOLCK");
		break;
	default:
		break;
	}
}

static enum acquire_event do_step(struct request *r, enum acquire_state state)
{
	dlk_step_fn *fn = common[state] ? common[state] : r->how->steps[state];

	return fn ? fn(r) : EV_OK;
}

static void step(struct request *r)
{
	struct acquire *m = &r->acquire;
	const enum acquire_state was = m->state;
	struct acquire_report report = { .began_ns = dlk_now_ns() };
	enum acquire_state now;

	r->asked_ns = report.began_ns;
	report.event = do_step(r, was);
	report.err = r->err;
	report.by_lease = r->s && dlk_request_is_by_lease(r);
	report.cannot_queue = r->other_key || (r->store && r->store->no_queue);
	report.answered = r->slot.counted_ns >= report.began_ns;
	report.reached = r->err == -EAGAIN;
	report.began_ns = r->asked_ns;
	report.now_ns = dlk_now_ns();
	now = dlk_acquire_next(m, &report);
	dlk_check(!dlk_acquire_is_wait(now) || !m->in_hand);
	if (dlk_acquire_is_inside(was) && !dlk_acquire_is_inside(now) &&
	    r->how->leave)
		r->how->leave(r);
	if ((now == ACQ_FAILED || now == ACQ_BACK_OFF) &&
	    report.event != EV_ERROR)
		say_refusal(r);
	dlk_alone_note(r, was, report.event);
}

int dlk_engine_run(struct request *r, const struct lock_kind *kind)
{
	char claim[DLK_TOKEN_MAX];

	r->how = kind;
	r->slot.claim = claim;
	dlk_acquire_begin(&r->acquire, r->call->wait,
			  r->rule->timeout_ms * DLK_MS);
	dlk_alone_begin(r);
	while (!dlk_acquire_is_over(r->acquire.state))
		step(r);
	dlk_queue_end(r);
	r->slot.claim = NULL;
	switch (r->acquire.state) {
	case ACQ_GRANTED:
		return 0;
	case ACQ_RESTART:
		return DLK_OTHER_FILE;
	default:
		return r->acquire.err;
	}
}
