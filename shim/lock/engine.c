/* SPDX-License-Identifier: MIT */
/* The engine of all lock calls; see engine.h. */
#include "lock/engine.h"

#include <errno.h>

#include "os/log.h"
#include "os/sys.h"
#include "os/check.h"
#include "hold/wait_report.h"
#include "lock/deadlock.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "lock/replaced.h"
#include "lock/wait.h"
#include "model/timeline.h"

/* --- what every kind does alike ------------------------------------------- */

static enum acquire_event resume(struct request *a)
{
	const int err = dlk_follow_up(a);

	if (!err && a->how->resume)
		a->how->resume(a);
	return dlk_event_of_place(a, err);
}

static enum acquire_event ping(struct request *a)
{
	return dlk_event_of_redis(a, dlk_request_ping(a));
}

static enum acquire_event enter(struct request *a)
{
	return a->how->enter ? a->how->enter(a) : EV_OK;
}

static enum acquire_event prepare(struct request *a)
{
	return a->how->prepare ? a->how->prepare(a) : EV_OK;
}

static enum acquire_event try_kernel(struct request *a)
{
	return a->how->kernel_try(a);
}

static enum acquire_event ask(struct request *a)
{
	return a->how->ask(a);
}

static enum acquire_event rollback(struct request *a)
{
	return a->how->rollback(a);
}

static enum acquire_event check_holder(struct request *a)
{
	return a->how->holder_is_tentative(a) ? EV_AGAIN : EV_BUSY;
}

static enum acquire_event pass_on(struct request *a)
{
	return dlk_queue_not_now(a) ? EV_OK : EV_NOTHING;
}

static enum acquire_event check_own(struct request *a)
{
	const int err = dlk_request_replaced(a);

	if (err == 0)
		return EV_OK;
	return err == DLK_AGAIN ? EV_AGAIN : EV_BUSY;
}

static enum acquire_event check_cycle(struct request *a)
{
	return a->how->closes_cycle ? a->how->closes_cycle(a) : EV_OK;
}

static enum acquire_event wait_kernel(struct request *a)
{
	return a->how->kernel_wait(a);
}

static enum acquire_event wait_queue(struct request *a)
{
	return dlk_queue_wait(a);
}

static enum acquire_event doubt(struct request *a)
{
	return a->how->doubt ? a->how->doubt(a) : dlk_event_error(a, -EDEADLK);
}

static enum acquire_event back_off(struct request *a)
{
	uint64_t limit_ns = 0;
	uint32_t random;
	int err;

	/* A wait that others are told of is told of at each pause. */
	if (a->kind != DLK_FLOCK && a->wait_id)
		limit_ns =
			(a->suspects ? DLK_SUSPECT_MS : DLK_TELL_MS) * DLK_MS;
	dlk_random(&random, sizeof(random));
	err = dlk_request_pause(a, dlk_acquire_pause_ns(&a->acquire,
							a->s->answer.left_ms,
							limit_ns, random));
	return err ? dlk_event_error(a, err) : EV_OK;
}

/* --- the engine ----------------------------------------------------------- */

static dlk_step_fn *const steps[ACQ_STATES] = {
	[ACQ_RESUME] = resume,
	[ACQ_PING] = ping,
	[ACQ_ENTER] = enter,
	[ACQ_PREPARE] = prepare,
	[ACQ_TRY_KERNEL] = try_kernel,
	[ACQ_ASK] = ask,
	[ACQ_ROLLBACK] = rollback,
	[ACQ_CHECK_HOLDER] = check_holder,
	[ACQ_PASS_ON] = pass_on,
	[ACQ_CHECK_OWN] = check_own,
	[ACQ_CHECK_CYCLE] = check_cycle,
	[ACQ_WAIT_KERNEL] = wait_kernel,
	[ACQ_WAIT_QUEUE] = wait_queue,
	[ACQ_DOUBT] = doubt,
	[ACQ_BACK_OFF] = back_off,
};

/* Why Redis has not granted, where it is not that somebody has it. */
static void say_refusal(struct request *a)
{
	const bool fails = a->acquire.state == ACQ_FAILED;

	switch (a->acquire.cause) {
	case EV_YOUNG:
		dlk_request_young_line(a);
		break;
	case EV_WRONG_TYPE:
		dlk_request_line(
			a, DLK_ERROR, "the key is no lock but a ",
			a->s->answer.holder,
			"; not locked, the call fails "
			"with ENOLCK.  Whose key is it? (dlockctl list)");
		break;
	case EV_NO_ANSWER:
	case EV_UNUSABLE:
		if (fails)
			dlk_request_line(a, DLK_ERROR, "", a->attempt.why,
					 "; not locked, the call fails with "
					 "ENOLCK");
		break;
	default:
		break;
	}
}

static void step(struct request *a)
{
	struct acquire *m = &a->acquire;
	const enum acquire_state was = m->state;
	struct acquire_report r = { .began_ns = dlk_now_ns() };
	enum acquire_state now;

	a->asked_ns = r.began_ns;
	r.event = steps[was](a);
	r.err = a->err;
	r.by_lease = a->s && dlk_request_is_by_lease(a);
	r.cannot_queue = a->elsewhere;
	r.answered = a->slot.counted_ns >= r.began_ns;
	r.began_ns = a->asked_ns;
	r.now_ns = dlk_now_ns();
	now = dlk_acquire_next(m, &r);
	dlk_check(!dlk_acquire_is_wait(now) || !m->in_hand);
	if (dlk_acquire_is_inside(was) && !dlk_acquire_is_inside(now) &&
	    a->how->leave)
		a->how->leave(a);
	if ((now == ACQ_FAILED || now == ACQ_BACK_OFF) && r.event != EV_ERROR)
		say_refusal(a);
}

int dlk_engine_run(struct request *a, const struct lock_kind *kind)
{
	a->how = kind;
	dlk_acquire_begin(&a->acquire, a->call->wait,
			  a->rule->timeout_ms * DLK_MS);
	while (!dlk_acquire_is_over(a->acquire.state))
		step(a);
	switch (a->acquire.state) {
	case ACQ_GRANTED:
		return 0;
	case ACQ_RESTART:
		return DLK_OTHER_FILE;
	default:
		return a->acquire.err;
	}
}
