/* SPDX-License-Identifier: MIT */
/*
 * A call that was refused: it pauses, waits in the queue at Redis (DESIGN
 * section 4, lease/queue.h), or fails.
 *
 *  1. The kernel's lock MUST be given back before, and nothing else is in hand
 *     while it sleeps: neither connection nor memory.
 *  2. It ends when the queue grants, when it is worth while to try again, when a
 *     handler interrupts it, when its descriptor is taken away, when it would
 *     close a cycle, or when Redis cannot be reached within the rule's timeout.
 *
 * A holder of this very host and file that has died is found by looking, each
 * time that the place is told of: the kernel's lock can be had then, which is
 * the proof (DESIGN L3).
 */
#include "lock/wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/wait_report.h"
#include "lock/deadlock.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/wait_slot.h"
#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"

/* How long a handler waits because of the one before it (listen_alone). */
enum { ALONE_MS = 20 };

/* --- a pause -------------------------------------------------------------- */

void dlk_request_young_line(struct request *r)
{
	char text[32];
	struct dlk_text t;

	if (r->told_young)
		return;
	r->told_young = true;
	dlk_text_init(&t, text, sizeof(text));
	dlk_text_i64(&t, r->s->answer.left_ms);
	dlk_request_line(r, DLK_WARNING,
			 r->s->answer.emptied
				 ? "its leases were deleted (FLUSHALL, FLUSHDB "
				   "or SWAPDB), and it grants nothing for "
				   "another "
				 : "it was restarted and grants nothing for "
				   "another ",
			 text,
			 r->acquire.wait
				 ? " ms (restart_delay); waiting"
				 : " ms (restart_delay); fails with ENOLCK");
}

void dlk_request_away(void *arg)
{
	struct request *r = arg;

	dlk_queue_away(r);
	dlk_request_empty_hands(r);
}

int dlk_request_pause(struct request *r, uint64_t ns)
{
	dlk_request_away(r);
	return dlk_request_fill_hands(r, dlk_sleep(r->call, ns));
}

/* --- in the queue --------------------------------------------------------- */

/*
 * When to look at a holder that wakes nobody.  Those who poll often ask again
 * the moment that they have unlocked: where there are such (interop), who looks
 * seldom hardly ever finds it free.  So 2 ms, and 1/256 of the time waited, for
 * the first one; who is behind it has nothing to find yet.
 */
static uint64_t look_ns(struct request *r, uint32_t random)
{
	struct wait_slot *q = &r->slot;

	if (!r->lease.interop)
		return q->pause_ns = dlk_backoff_ns(q->pause_ns, 0, random);
	if (q->waiter.ahead > 0)
		return dlk_backoff_ns(q->waiter.claim_ttl_ms * DLK_MS, 0,
				      random);
	if (q->pause_ns == 0)
		q->pause_ns = 2 * DLK_MS;
	else if (q->pause_ns < 60 * DLK_MS)
		q->pause_ns += q->pause_ns / 256;
	return q->pause_ns / 2 + q->pause_ns / 65536 * (random & 0xffff);
}

/*
 * When to tell of the place again.  If the holder's lease ends before, then:
 * the first one at once, the others later, by how many are ahead of them.  A
 * holder that is none of ours wakes nobody, and nobody wakes who is polling.
 */
static uint64_t pause_ns(struct request *r)
{
	const struct dlk_answer *answer = &r->s->answer;
	struct wait_slot *q = &r->slot;
	int64_t ahead = q->waiter.ahead < 50 ? q->waiter.ahead : 50;
	uint64_t pause = q->waiter.claim_ttl_ms * DLK_MS / 4, end;
	uint32_t random;

	dlk_random(&random, sizeof(random));
	pause -= pause / 8 / 65536 * (random & 0xffff);
	if (answer->left_ms >= 0) {
		end = ((uint64_t)answer->left_ms + 1) * DLK_MS;
		if (ahead > 0)
			end += (uint64_t)ahead * 2 * DLK_MS;
		if (pause > end)
			pause = end;
	}
	end = pause;
	if (dlk_place_is_polling(q))
		end = look_ns(r, random) *
		      (ahead > 8 ? (uint64_t)ahead / 8 : 1);
	else if (ahead <= 0 && !dlk_request_is_by_lease(r))
		end = look_ns(r, random);
	return pause > end ? end : pause;
}

/* The call may never come back: as if it did not wait. */
static void away(void *arg)
{
	struct request *r = arg;

	r->slot.away_ns = dlk_now_ns();
	dlk_queue_away(r);
	r->slot.suspended = true;
}

/* A wait that others are told of is told of again; see deadlock.c. */
static int look_around(struct request *r, uint64_t now)
{
	uint64_t pause = 2 * DLK_TELL_MS;
	int err = 0;

	if (r->kind == DLK_FLOCK || now < r->slot.look_ns)
		return 0;
	if (r->slot.look_ns)
		err = r->how->look_around(r);
	if (r->wait_id || r->suspects)
		pause = r->suspects ? DLK_SUSPECT_MS : DLK_TELL_MS;
	r->slot.look_ns = dlk_now_ns() + pause * DLK_MS;
	return err;
}

/* What was said to us; who is polling is to ask each time, with interop. */
static int heard(struct request *r, bool in_time)
{
	struct wait_slot *q = &r->slot;
	int err;

	if (q->sub)
		err = r->store->ops->heard(q->sub, &q->waiter);
	else
		err = r->lease.interop && !in_time ? 't' : 0;
	q->word = err > 0 ? (char)err : 0;
	return err;
}

/* What to sleep on; -1: nothing. */
static int descriptor(const struct request *r)
{
	return r->slot.sub ? r->store->ops->descriptor(r->slot.sub) : -1;
}

/* Until somebody says something to us: what, 0 for nothing, or -errno. */
static int listen_for(struct request *r, uint64_t until)
{
	struct wait_slot *q = &r->slot;

	for (;;) {
		uint64_t now = dlk_now_ns(), by = until;
		int err = heard(r, now < until);

		err = err ?: look_around(r, now);
		if (err || now >= until)
			return err;
		if (r->kind != DLK_FLOCK && by > q->look_ns)
			by = q->look_ns > now ? q->look_ns : now + 1;
		dlk_request_empty_hands(r);
		q->suspended = false;
		err = dlk_sleep_on(r->call, descriptor(r), by - now, away, r);
		err = dlk_request_fill_hands(r, err < 0 ? err : 0);
		if (err || q->suspended)
			return err ?: -ESTALE;
	}
}

/*
 * Is the holder in our way one of this host and file?  By the claim: the
 * token was in what a sleep has let go of.
 */
static bool is_here(const struct request *r)
{
	const struct dlk_answer *answer = &r->s->answer;
	bool older;

	return dlk_token_same_place(r->slot.claim, r->slot.waiter.claim_len,
				    answer->holder, answer->holder_len, &older);
}

/*
 * Who has suspended is granted nothing.  Under a signal a millisecond the next
 * one is there before the server has answered, so that a waiter would hardly
 * ever be found, and the less the slower the machine is.  So who was away
 * listens for as long before another handler may run.
 */
static void listen_alone(const struct request *r)
{
	uint64_t ms = (dlk_now_ns() - r->slot.away_ns) / DLK_MS + 1;
	struct pollfd p = { .fd = descriptor(r), .events = POLLIN };

	if (!r->slot.sub)
		return;
	dlk_poll(&p, 1, ms < ALONE_MS ? (unsigned)ms : ALONE_MS);
}

/*
 * When to tell of the place, or to look, again.  A handler does not put it off:
 * under a signal a millisecond that moment would never come.
 */
static void set_until(struct request *r)
{
	struct wait_slot *q = &r->slot;
	const uint64_t until = dlk_now_ns() + pause_ns(r);

	if (!q->suspended || until < q->until_ns)
		q->until_ns = until;
	if (q->suspended)
		listen_alone(r);
	q->suspended = false;
}

/*
 * It is told of, and heard what there is to know: DLK_BUSY to go on waiting;
 * -ESTALE to tell again, by another connection.
 */
static int heartbeat(struct request *r)
{
	struct wait_slot *q = &r->slot;
	int err = dlk_place_heartbeat(r);

	if (err && err != DLK_BUSY)
		return err;
	if (err && dlk_place_is_lost(r))
		err = -ESTALE;
	q->counted_ns = r->s->answer.asked_ns;
	q->word = err == 0 ? 'g' : 0;
	q->placed = true;
	set_until(r);
	if (err == DLK_BUSY && is_here(r))
		err = 0; /* is it there still? */
	return err;
}

/* From here on, by what Redis has just answered or by what was before. */
static void begin(struct request *r, bool known)
{
	/* Just now, and not in the round before this one. */
	const bool answered = !r->acquire.by_kernel;
	struct wait_slot *q = &r->slot;

	if (answered)
		dlk_trace_call(r, "waits in the queue for",
			       r->s->answer.holder);
	q->placed = answered && known;
	if (q->placed) {
		q->counted_ns = r->s->answer.asked_ns;
		q->until_ns = dlk_now_ns() + pause_ns(r);
	}
	q->word = 0;
}

/* Its place is told of, where it is time to: 0, DLK_BUSY, or as heartbeat(). */
static int keep_place(struct request *r, bool *known)
{
	int err;

	do {
		r->asked_ns = dlk_now_ns();
		err = dlk_place_have_channel(r, known);
		if (err)
			return err;
		if (*known && r->asked_ns < r->slot.until_ns)
			return DLK_BUSY;
		err = heartbeat(r);
		if (err == -ESTALE)
			*known = false;
	} while (err == -ESTALE);
	return err;
}

enum acquire_event dlk_queue_wait(struct request *r)
{
	struct wait_slot *q = &r->slot;
	bool known = q->waiter.queued;
	int err, then;

	begin(r, known);
	for (;;) {
		err = keep_place(r, &known);
		if (err != DLK_BUSY)
			return dlk_event_of_redis(r, err);
		err = listen_for(r, q->until_ns);
		if (err == 'g' || err == 't')
			return EV_OK;
		if (err == -EDEADLK)
			return EV_DEADLOCK;
		if (err == -EINTR || err == -ENOLCK)
			return dlk_event_error(r, err);
		then = dlk_follow_up(r);
		if (then)
			return dlk_event_of_place(r, then);
		/*
		 * 0: time to tell again; else by another connection, and no
		 * wonder if the place is lost (dlk_place_is_lost).
		 */
		known = false;
		q->placed = q->placed && err == 0;
		if (err < 0)
			dlk_place_hang_up(r);
	}
}
