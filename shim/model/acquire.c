/* SPDX-License-Identifier: MIT */
/* The machine of a lock call; its chart and its rules are in acquire.h. */
#include "model/acquire.h"

#include <errno.h>

#include "model/timeline.h"

/* How often a series of steps without a wait may go round. */
enum { NOT_VISIBLE_MAX = 20, OVERTAKEN_MAX = 1000, LINGER_MAX = 40 };

/* A cycle that goes through one who only asks is over after that. */
enum { CYCLE_TRIES = 4, CYCLE_MS = 10 };

/*
 * Pauses: after a Redis that did not answer, before a cycle is looked at again,
 * and for a keeper that may tell of another shadow.
 */
enum { SILENCE_MS = 20, CYCLE_LOOK_MS = 5, SHADOW_MS = 5 };

/* Who was passed over so often goes before who was not. */
enum { SENIOR_PASSES = 16 };

#define E(event) (1U << EV_##event)

/* What an answer, or none, of Redis can be. */
#define ASKED                                                                  \
	(E(OK) | E(YOUNG) | E(WRONG_TYPE) | E(NO_ANSWER) | E(UNUSABLE) |       \
	 E(SIGNAL))

/* Which events a state can have (6). */
static const uint32_t possible[ACQ_STATES] = {
	[ACQ_RESUME] = E(OK) | E(MOVED) | E(ERROR),
	[ACQ_PING] = E(OK) | E(NO_ANSWER) | E(UNUSABLE) | E(SIGNAL),
	[ACQ_ENTER] = E(OK) | E(MOVED) | E(ERROR),
	[ACQ_PREPARE] =
		ASKED | E(BUSY) | E(COVERED) | E(LOCAL) | E(LOST) | E(ERROR),
	[ACQ_TRY_KERNEL] = E(OK) | E(COVERED) | E(BUSY) | E(NOT_VISIBLE) |
			   E(LINGER) | E(MOVED) | E(ERROR),
	[ACQ_ASK] = ASKED | E(BUSY) | E(OVERTAKEN) | E(LOST) | E(ERROR),
	[ACQ_ROLLBACK] = E(OK) | E(OVERTAKEN) | E(COVERED) | E(ERROR),
	[ACQ_CHECK_HOLDER] = E(AGAIN) | E(BUSY),
	[ACQ_PASS_ON] = E(OK) | E(NOTHING),
	[ACQ_CHECK_OWN] = E(OK) | E(AGAIN) | E(BUSY),
	[ACQ_CHECK_CYCLE] = E(OK) | E(SUSPECTED) | E(DEADLOCK),
	[ACQ_WAIT_KERNEL] =
		E(OK) | E(AGAIN) | E(DEADLOCK) | E(MOVED) | E(ERROR),
	[ACQ_WAIT_QUEUE] = ASKED | E(DEADLOCK) | E(MOVED) | E(ERROR),
	[ACQ_DOUBT] = E(OK) | E(ERROR),
	[ACQ_BACK_OFF] = E(OK) | E(ERROR),
};

void dlk_acquire_begin(struct acquire *m, bool wait, uint64_t timeout_ns)
{
	*m = (struct acquire){
		.state = ACQ_ENTER,
		.wait = wait,
		.timeout_ns = timeout_ns,
	};
}

bool dlk_acquire_may_be_overtaken(const struct acquire *m)
{
	return m->overtaken < OVERTAKEN_MAX;
}

bool dlk_acquire_may_look_again(const struct acquire *m)
{
	return m->not_visible + 1 < NOT_VISIBLE_MAX;
}

void dlk_acquire_note_holder(struct acquire *m, uint64_t holder)
{
	if (holder == 0 || m->holder == holder)
		return;
	m->holder = holder;
	m->pause_ns = 0;
	if (m->passed_over < SENIOR_PASSES)
		m->passed_over++;
}

bool dlk_acquire_is_senior(const struct acquire *m)
{
	return m->passed_over >= SENIOR_PASSES;
}

/* (The next one is soon a senior's, and the others wait for him.) */
uint64_t dlk_acquire_pause_ns(struct acquire *m, int64_t left_ms,
			      uint64_t limit_ns, uint32_t random)
{
	const uint64_t left_ns = left_ms > 0 ? (uint64_t)left_ms * DLK_MS : 0;
	const bool hurries = m->pause_ns == 0 && dlk_acquire_is_senior(m);

	switch (m->cause) {
	case EV_SIGNAL:
		return 0;
	case EV_SUSPECTED:
		return CYCLE_LOOK_MS * DLK_MS;
	case EV_LINGER:
		return SHADOW_MS * DLK_MS;
	case EV_NO_ANSWER:
		return SILENCE_MS * DLK_MS;
	default:
		m->pause_ns = dlk_backoff_ns(m->pause_ns, left_ns, random);
		if (limit_ns && m->pause_ns > limit_ns)
			m->pause_ns = limit_ns;
		return m->pause_ns / (hurries ? 4 : 1);
	}
}

/* --- how it goes on ------------------------------------------------------- */

static enum acquire_state fail(struct acquire *m, int err)
{
	m->err = err;
	return ACQ_FAILED;
}

static bool is_late(struct acquire_tries *t, uint64_t now_ns)
{
	if (t->n++ == 0)
		t->first_ns = now_ns;
	return t->n >= CYCLE_TRIES && now_ns - t->first_ns >= CYCLE_MS * DLK_MS;
}

/* A series of tries ends where something else comes of it. */
static void forget_tries(struct acquire *m)
{
	m->holders.n = m->cycles.n = 0;
}

/* An answer says that Redis can be reached; none, until when it is tried. */
static void note_answer(struct acquire *m, const struct acquire_report *r)
{
	switch (r->event) {
	case EV_BUSY:
	case EV_YOUNG:
	case EV_WRONG_TYPE:
		m->give_up_ns = 0;
		break;
	case EV_NO_ANSWER:
		if (m->give_up_ns == 0) {
			m->give_up_ns = r->began_ns + m->timeout_ns;
			m->reached = false;
		}
		m->reached |= r->reached;
		break;
	default:
		break;
	}
}

/* From here on by the kernel alone (5). */
static enum acquire_state alone(struct acquire *m, enum acquire_state next)
{
	m->local = true;
	m->reserved = false;
	m->give_up_ns = 0;
	return next;
}

/* It was not reached in time. */
static enum acquire_state unreachable(struct acquire *m)
{
	return m->may_be_local && !m->reached ? alone(m, ACQ_RESUME)
					      : fail(m, -ENOLCK);
}

/* Redis has not granted, for m->cause; nothing is in hand. */
static enum acquire_state refused(struct acquire *m,
				  const struct acquire_report *r)
{
	switch (m->cause) {
	case EV_BUSY:
		return ACQ_CHECK_OWN;
	case EV_YOUNG:
		return m->wait ? ACQ_BACK_OFF : fail(m, -ENOLCK);
	case EV_NO_ANSWER:
		/* A last attempt of no length would only hide the reason. */
		return r->now_ns + SILENCE_MS * DLK_MS < m->give_up_ns
			       ? ACQ_BACK_OFF
			       : unreachable(m);
	case EV_SIGNAL:
		return ACQ_BACK_OFF;
	case EV_ERROR:
		return fail(m, m->err);
	default:
		return fail(m, -ENOLCK);
	}
}

/* The same, and the kernel's lock may be in hand still (2). */
static enum acquire_state not_granted(struct acquire *m,
				      const struct acquire_report *r)
{
	m->by_kernel = false;
	m->cause = r->event;
	m->err = r->err;
	note_answer(m, r);
	return m->in_hand ? ACQ_ROLLBACK : refused(m, r);
}

/* To be looked at as it is now; nothing is lost by it. */
static enum acquire_state overtaken(struct acquire *m)
{
	m->overtaken++;
	m->give_up_ns = 0;
	return ACQ_PREPARE;
}

static enum acquire_state queue(struct acquire *m,
				const struct acquire_report *r)
{
	forget_tries(m);
	/* (The pause is that of a refusal by Redis.) */
	m->cause = EV_BUSY;
	return r->cannot_queue ? ACQ_BACK_OFF : ACQ_WAIT_QUEUE;
}

/* --- one state after the other -------------------------------------------- */

static enum acquire_state after_resume(struct acquire *m,
				       const struct acquire_report *r)
{
	if (r->event == EV_MOVED)
		return ACQ_RESTART;
	if (r->event == EV_ERROR)
		return fail(m, r->err);
	return m->give_up_ns ? ACQ_PING : ACQ_ENTER;
}

static enum acquire_state after_enter(struct acquire *m,
				      const struct acquire_report *r)
{
	if (r->event == EV_OK)
		return ACQ_PREPARE;
	return r->event == EV_MOVED ? ACQ_RESTART : fail(m, r->err);
}

static enum acquire_state after_ping(struct acquire *m,
				     const struct acquire_report *r)
{
	if (r->event != EV_OK)
		return not_granted(m, r);
	m->reached = true;
	return ACQ_ENTER;
}

static enum acquire_state after_prepare(struct acquire *m,
					const struct acquire_report *r)
{
	if (r->event == EV_LOCAL)
		return alone(m, ACQ_TRY_KERNEL);
	if (r->event == EV_COVERED)
		return ACQ_GRANTED;
	return r->event == EV_OK ? ACQ_TRY_KERNEL : not_granted(m, r);
}

/* What was in hand is, if anything is refused, there no more. */
static enum acquire_state kernel_refused(struct acquire *m,
					 const struct acquire_report *r)
{
	m->cause = EV_BUSY;
	m->err = r->err;
	m->by_kernel = true;
	if (m->local)
		return m->wait ? ACQ_WAIT_KERNEL : fail(m, r->err);
	if (m->wait && !m->reserved)
		return ACQ_CHECK_CYCLE;
	dlk_acquire_count_holder(m, r->now_ns);
	return ACQ_CHECK_HOLDER;
}

/* Soon, and then each time that the queue lets it look (7). */
static enum acquire_state linger(struct acquire *m,
				 const struct acquire_report *r)
{
	if (m->lingers >= LINGER_MAX)
		return kernel_refused(m, r);
	m->lingers++;
	m->cause = EV_LINGER;
	return ACQ_BACK_OFF;
}

static enum acquire_state look_again(struct acquire *m)
{
	if (++m->not_visible < NOT_VISIBLE_MAX)
		return ACQ_PREPARE;
	m->cause = EV_ERROR;
	m->err = -ENOLCK;
	return ACQ_ROLLBACK;
}

static enum acquire_state after_try(struct acquire *m,
				    const struct acquire_report *r)
{
	m->in_hand = r->event == EV_OK || r->event == EV_NOT_VISIBLE;
	if (r->event != EV_LINGER)
		m->lingers = 0;
	switch (r->event) {
	case EV_OK:
		m->not_visible = 0;
		forget_tries(m);
		return m->local ? ACQ_GRANTED : ACQ_ASK;
	case EV_COVERED:
		return ACQ_GRANTED;
	case EV_BUSY:
		return kernel_refused(m, r);
	case EV_NOT_VISIBLE:
		return look_again(m);
	case EV_LINGER:
		return linger(m, r);
	case EV_MOVED:
		return ACQ_RESTART;
	default:
		return fail(m, r->err);
	}
}

static enum acquire_state after_ask(struct acquire *m,
				    const struct acquire_report *r)
{
	struct acquire_report busy = *r;

	if (r->event == EV_OK)
		return ACQ_GRANTED;
	if (r->event == EV_OVERTAKEN && dlk_acquire_may_be_overtaken(m)) {
		m->in_hand = false;
		return overtaken(m);
	}
	if (r->event == EV_OVERTAKEN)
		busy.event = EV_BUSY;
	return not_granted(m, &busy);
}

static enum acquire_state after_rollback(struct acquire *m,
					 const struct acquire_report *r)
{
	/* A sharer has it: it stays, and is asked for once more. */
	if (r->event == EV_OVERTAKEN && dlk_acquire_may_be_overtaken(m))
		return overtaken(m);
	m->in_hand = false;
	if (r->event == EV_COVERED)
		return ACQ_GRANTED;
	return r->event == EV_ERROR ? fail(m, r->err) : refused(m, r);
}

static enum acquire_state after_check_holder(struct acquire *m,
					     const struct acquire_report *r)
{
	if (r->event == EV_AGAIN)
		return ACQ_RESUME;
	return m->reserved ? ACQ_PASS_ON : fail(m, m->err);
}

static enum acquire_state after_pass_on(struct acquire *m,
					const struct acquire_report *r)
{
	m->reserved = false;
	return r->event == EV_OK ? ACQ_CHECK_CYCLE : queue(m, r);
}

/* Who does not wait asks once more before it says so (DESIGN 11.9). */
static enum acquire_state after_check_own(struct acquire *m,
					  const struct acquire_report *r)
{
	if (r->event == EV_AGAIN)
		return ACQ_RESUME;
	if (r->event == EV_BUSY)
		return fail(m, m->wait ? -EDEADLK : -EWOULDBLOCK);
	if (m->wait)
		return ACQ_CHECK_CYCLE;
	if (m->repeated || !r->by_lease)
		return fail(m, -EWOULDBLOCK);
	m->repeated = true;
	return ACQ_RESUME;
}

/* A suspicion is no wait in the kernel's, where nobody could look again. */
static enum acquire_state after_check_cycle(struct acquire *m,
					    const struct acquire_report *r)
{
	if (r->event == EV_DEADLOCK)
		return fail(m, -EDEADLK);
	if (!m->by_kernel || m->lingers)
		return queue(m, r);
	if (r->event == EV_OK)
		return ACQ_WAIT_KERNEL;
	m->cause = EV_SUSPECTED;
	return ACQ_BACK_OFF;
}

/* What it brought is tried for once more, inside; of a record it is a part. */
static enum acquire_state after_wait_kernel(struct acquire *m,
					    const struct acquire_report *r)
{
	if (r->event == EV_DEADLOCK)
		return m->local || is_late(&m->cycles, r->now_ns)
			       ? fail(m, -EDEADLK)
			       : ACQ_DOUBT;
	forget_tries(m);
	/* Redis was not asked meanwhile. */
	if (m->give_up_ns)
		m->give_up_ns += r->now_ns - r->began_ns;
	switch (r->event) {
	case EV_OK:
		m->in_hand = true;
		return ACQ_ENTER;
	case EV_AGAIN:
		return ACQ_RESUME;
	case EV_MOVED:
		return ACQ_RESTART;
	default:
		return fail(m, r->err);
	}
}

static enum acquire_state after_wait_queue(struct acquire *m,
					   const struct acquire_report *r)
{
	if (r->event == EV_OK || r->answered)
		m->give_up_ns = 0;
	switch (r->event) {
	case EV_OK:
		return ACQ_RESUME;
	case EV_MOVED:
		return ACQ_RESTART;
	case EV_DEADLOCK:
		return fail(m, -EDEADLK);
	default:
		return not_granted(m, r);
	}
}

static enum acquire_state after_pause(struct acquire *m,
				      const struct acquire_report *r)
{
	return r->event == EV_OK ? ACQ_RESUME : fail(m, r->err);
}

typedef enum acquire_state after_fn(struct acquire *m,
				    const struct acquire_report *r);

static after_fn *const after[ACQ_STATES] = {
	[ACQ_RESUME] = after_resume,
	[ACQ_PING] = after_ping,
	[ACQ_ENTER] = after_enter,
	[ACQ_PREPARE] = after_prepare,
	[ACQ_TRY_KERNEL] = after_try,
	[ACQ_ASK] = after_ask,
	[ACQ_ROLLBACK] = after_rollback,
	[ACQ_CHECK_HOLDER] = after_check_holder,
	[ACQ_PASS_ON] = after_pass_on,
	[ACQ_CHECK_OWN] = after_check_own,
	[ACQ_CHECK_CYCLE] = after_check_cycle,
	[ACQ_WAIT_KERNEL] = after_wait_kernel,
	[ACQ_WAIT_QUEUE] = after_wait_queue,
	[ACQ_DOUBT] = after_pause,
	[ACQ_BACK_OFF] = after_pause,
};

enum acquire_state dlk_acquire_next(struct acquire *m,
				    const struct acquire_report *r)
{
	enum acquire_state next;

	if (!(possible[m->state] & 1U << r->event))
		next = fail(m, -ENOLCK);
	else
		next = after[m->state](m, r);
	if (next == ACQ_WAIT_QUEUE)
		m->reserved = true;
	return m->state = next;
}
