/* SPDX-License-Identifier: MIT */
/*
 * A call that was refused: it pauses, waits in the queue at Redis (DESIGN
 * section 4, lease/queue.h), or fails.
 *
 *  1. The kernel's lock MUST be given back before, and nothing else is in hand
 *     while it sleeps: neither connection nor memory.
 *  2. It ends when the queue grants, when a handler interrupts it, when Redis
 *     cannot be reached within the rule's timeout; and never by itself.
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

/* How long a handler may wait because of the one before. */
enum { ALONE_MS = 20 };

/* --- a pause -------------------------------------------------------------- */

void dlk_request_young_line(struct request *a)
{
	char text[32];
	struct dlk_text t;

	if (a->told_young)
		return;
	a->told_young = true;
	dlk_text_init(&t, text, sizeof(text));
	dlk_text_i64(&t, a->s->answer.left_ms);
	dlk_request_line(a, DLK_WARNING,
			 "it was restarted and grants nothing for "
			 "another ",
			 text,
			 a->acquire.wait
				 ? " ms (restart_delay); waiting"
				 : " ms (restart_delay); fails with ENOLCK");
}

int dlk_request_pause(struct request *a, uint64_t ns)
{
	dlk_queue_away(a);
	dlk_request_empty_hands(a);
	return dlk_request_fill_hands(a, dlk_sleep(a->call, ns));
}

/* --- in the queue --------------------------------------------------------- */

/*
 * When to look at a holder that wakes nobody.  Those who poll often ask again
 * the moment that they have unlocked: where there are such (interop), who looks
 * seldom hardly ever finds it free.  So 2 ms, and 1/256 of the time waited, for
 * the first one; who is behind it has nothing to find yet.
 */
static uint64_t look_ns(struct request *a, uint32_t random)
{
	struct wait_slot *q = &a->slot;

	if (!a->lease.interop)
		return q->pause_ns = dlk_backoff_ns(q->pause_ns, 0, random);
	if (q->waiter.ahead > 0)
		return dlk_backoff_ns(q->waiter.life_ms * DLK_MS, 0, random);
	if (q->pause_ns == 0)
		q->pause_ns = 2 * DLK_MS;
	else if (q->pause_ns < 60 * DLK_MS)
		q->pause_ns += q->pause_ns / 256;
	return q->pause_ns / 2 + q->pause_ns / 65536 * (random & 0xffff);
}

/*
 * When to tell of the place again.  If the holder's lease ends before, then:
 * the first one at once, the others later, by how many are ahead of them.  A
 * holder that is none of ours wakes nobody, and nobody wakes who is deaf.
 */
static uint64_t pause_ns(struct request *a)
{
	const struct dlk_answer *answer = &a->s->answer;
	struct wait_slot *q = &a->slot;
	int64_t ahead = q->waiter.ahead < 50 ? q->waiter.ahead : 50;
	uint64_t pause = q->waiter.life_ms * DLK_MS / 4, end;
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
	if (dlk_place_is_deaf(q))
		end = look_ns(a, random) *
		      (ahead > 8 ? (uint64_t)ahead / 8 : 1);
	else if (ahead <= 0 && strncmp(answer->holder, "dlock1 ", 7) != 0)
		end = look_ns(a, random);
	return pause > end ? end : pause;
}

/* The call may never come back: as if it did not wait. */
static void away(void *arg)
{
	struct request *a = arg;

	a->slot.away_ns = dlk_now_ns();
	dlk_place_rest(a);
	a->slot.rested = true;
}

/* A wait that others are told of is told of again; see deadlock.c. */
static int look_around(struct request *a, uint64_t now)
{
	uint64_t pause = 2 * DLK_TELL_MS;
	int err = 0;

	if (a->kind == DLK_FLOCK || now < a->slot.look_ns)
		return 0;
	if (a->slot.look_ns)
		err = a->how->look_around(a);
	if (a->wait_id || a->suspects)
		pause = a->suspects ? DLK_SUSPECT_MS : DLK_TELL_MS;
	a->slot.look_ns = dlk_now_ns() + pause * DLK_MS;
	return err;
}

/* What was said to us; who is deaf is to ask each time, with interop. */
static int heard(struct request *a, bool in_time)
{
	struct wait_slot *q = &a->slot;
	int err;

	if (q->sub)
		err = a->store->ops->heard(q->sub, &q->waiter);
	else
		err = a->lease.interop && !in_time ? 't' : 0;
	q->word = err > 0 ? (char)err : 0;
	return err;
}

/* What to sleep on; -1: nothing. */
static int descriptor(const struct request *a)
{
	return a->slot.sub ? a->store->ops->descriptor(a->slot.sub) : -1;
}

/* Until somebody says something to us: what, 0 for nothing, or -errno. */
static int listen_for(struct request *a, uint64_t until)
{
	struct wait_slot *q = &a->slot;

	for (;;) {
		uint64_t now = dlk_now_ns(), by = until;
		int err = heard(a, now < until);

		err = err ?: look_around(a, now);
		if (err || now >= until)
			return err;
		if (a->kind != DLK_FLOCK && by > q->look_ns)
			by = q->look_ns > now ? q->look_ns : now + 1;
		dlk_request_empty_hands(a);
		q->rested = false;
		err = dlk_sleep_on(a->call, descriptor(a), by - now, away, a);
		err = dlk_request_fill_hands(a, err < 0 ? err : 0);
		if (err || q->rested)
			return err ?: -ESTALE;
	}
}

/*
 * Is the holder in our way one of this host and file?  By the claim: the
 * token was in what a sleep has let go of.
 */
static bool is_here(const struct request *a)
{
	const struct dlk_answer *answer = &a->s->answer;
	struct dlk_token ours, theirs;

	return dlk_token_parse(answer->holder, answer->holder_len, &theirs) &&
	       theirs.since_ns != UINT64_MAX && /* a claim: no lock yet */
	       dlk_token_parse(a->slot.claim, a->slot.waiter.claim_len,
			       &ours) &&
	       strcmp(ours.host, theirs.host) == 0 &&
	       strcmp(ours.file, theirs.file) == 0;
}

/*
 * Who rests is not served.  Under a signal a millisecond the next one is there
 * before the server has answered, so that hardly anybody would ever be found:
 * the slower the machine, the less.  So who was away listens for as long before
 * another handler may run.
 */
static void listen_alone(const struct request *a)
{
	uint64_t ms = (dlk_now_ns() - a->slot.away_ns) / DLK_MS + 1;
	struct pollfd p = { .fd = descriptor(a), .events = POLLIN };

	if (!a->slot.sub)
		return;
	dlk_poll(&p, 1, ms < ALONE_MS ? (unsigned)ms : ALONE_MS);
}

/*
 * When to tell of the place, or to look, again.  A handler does not put it off:
 * under a signal a millisecond that moment would never come.
 */
static void set_until(struct request *a)
{
	struct wait_slot *q = &a->slot;
	const uint64_t until = dlk_now_ns() + pause_ns(a);

	if (!q->rested || until < q->until_ns)
		q->until_ns = until;
	if (q->rested)
		listen_alone(a);
	q->rested = false;
}

/*
 * It is told of, and heard what there is to know: DLK_BUSY to go on waiting;
 * -ESTALE to tell again, by another connection.
 */
static int stay(struct request *a)
{
	struct wait_slot *q = &a->slot;
	bool older;
	int err = dlk_place_stay(a);

	if (err && err != DLK_BUSY)
		return err;
	if (err && dlk_place_is_lost(a))
		err = -ESTALE;
	q->counted_ns = a->s->answer.asked_ns;
	q->word = err == 0 ? 'g' : 0;
	q->placed = true;
	set_until(a);
	if (err == DLK_BUSY &&
	    (is_here(a) || dlk_request_same_place(a, &older)))
		err = 0; /* is it there still? */
	return err;
}

/* From here on, by what Redis has just answered or by what was before. */
static void begin(struct request *a, bool known)
{
	/* Just now, and not in the round before this one. */
	const bool answered = !a->acquire.by_kernel;
	struct wait_slot *q = &a->slot;

	if (answered)
		dlk_trace_wait(a, "waits in the queue for");
	q->placed = answered && known;
	if (q->placed) {
		q->counted_ns = a->s->answer.asked_ns;
		q->until_ns = dlk_now_ns() + pause_ns(a);
	}
	q->word = 0;
}

/* Its place is told of, where it is time to: 0, DLK_BUSY, or as stay(). */
static int keep_place(struct request *a, bool *known)
{
	int err;

	do {
		a->asked_ns = dlk_now_ns();
		err = dlk_place_have_channel(a, known);
		if (err)
			return err;
		if (*known && a->asked_ns < a->slot.until_ns)
			return DLK_BUSY;
		err = stay(a);
		if (err == -ESTALE)
			*known = false;
	} while (err == -ESTALE);
	return err;
}

enum acquire_event dlk_queue_wait(struct request *a)
{
	struct wait_slot *q = &a->slot;
	bool known = q->waiter.queued;
	int err, then;

	begin(a, known);
	for (;;) {
		err = keep_place(a, &known);
		if (err != DLK_BUSY)
			return dlk_event_of_redis(a, err);
		err = listen_for(a, q->until_ns);
		if (err == 'g' || err == 't') {
			return EV_OK;
		}
		if (err == -EDEADLK)
			return EV_DEADLOCK;
		if (err == -EINTR || err == -ENOLCK)
			return dlk_event_error(a, err);
		then = dlk_follow_up(a);
		if (then)
			return dlk_event_of_place(a, then);
		/*
		 * 0: time to tell again; else by another connection, and no
		 * wonder if the place is lost (dlk_place_is_lost).
		 */
		known = false;
		q->placed = q->placed && err == 0;
		if (err < 0)
			dlk_place_hang_up(a);
	}
}
