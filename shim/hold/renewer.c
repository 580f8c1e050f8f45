/* SPDX-License-Identifier: MIT */
/*
 * The thread: renews what this process holds, hands it to the keeper once it
 * is held for long, and sends again what the server has not acknowledged.
 *
 *  1. It starts with the first lease and ends when there has been none for a
 *     while, so that a loop of short locks does not start one each time
 *     (thread.c: when it may start, and when it must be gone).
 *  2. All signals are blocked in it, by pthread_sigmask(3) and never by the
 *     raw system call, which would block glibc's own signals too, and
 *     setuid(2) would hang (DESIGN L7).
 *  3. Before it renews, it asks the kernel whether the lock is still there
 *     (DESIGN L4): what was closed behind our back must not be renewed for
 *     ever.
 *  4. No error ends it: what it renews would be lost with it.
 *  5. It MUST NOT wait past the next mark of any lease (model/timeline.h),
 *     whoever does not answer: limit_ns().
 *  6. That a lease is lost is judged by a time from before it was heard what the
 *     keeper has renewed, for in between we may be stopped, and continued:
 *
 *	we			keeper
 *	heard: nothing
 *				SIGSTOP
 *				renewed, said, SIGCONT
 *	the deadline is over
 */
#include "hold/end.h"
#include "hold/renewer.h"

#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/backstop.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/handover.h"
#include "hold/liveness.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/lost.h"
#include "hold/release.h"
#include "hold/schedule.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/verdict.h"
#include "hold/wait_report.h"
#include "model/outbox.h"
#include "model/timeline.h"

enum { LINGER_MS = 2000, REMAINING_MS = 20, SLICE_MS = 20 };

/*
 * Why renewals failed: the last one of each store, as long as there are not more
 * of them.  Only the thread's.
 */
enum { REASONS = 8 };

static struct reason {
	const struct dlk_store *of;
	uint64_t began_ns;
	char text[sizeof(((struct dlk_attempt *)NULL)->why)];
} reasons[REASONS];

static void note_reason(const struct dlk_store *of, uint64_t began_ns,
			const char *text)
{
	struct reason *at = reasons;

	for (struct reason *r = reasons; r < reasons + REASONS; r++) {
		if (r->of == of) {
			at = r;
			break;
		}
		if (r->began_ns < at->began_ns)
			at = r;
	}
	at->of = of;
	at->began_ns = began_ns;
	memcpy(at->text, text, sizeof(at->text));
}

/* Why it is not renewed: its own server has failed since it was. */
static const char *why_not(const struct dlk_hold *h)
{
	const struct dlk_store *store = dlk_store_of(h->rule->redis);

	for (const struct reason *r = reasons; r < reasons + REASONS; r++)
		if (r->of == store && r->began_ns > dlk_hold_asked_ns(h))
			return r->text;
	return store->silent ? "its server does not answer in time"
			     : "it was not asked for in time";
}

/*
 * What another thread works on is renewed all the same, for it may write back
 * for long, or wait for a file server; but not what changes its token, or is
 * asked for more, just now.
 */
static bool must_wait(const struct dlk_hold *h)
{
	return h->asks || (h->pins && h->state == HOLD_CONVERTING);
}

/* And how long what is not due yet may go without a look (5.4). */
static uint64_t next_ns(void)
{
	const uint64_t due = dlk_schedule_ns();
	uint64_t look = UINT64_MAX;

	if (dlk_any_held())
		look = dlk_look_ns(dlk_now_ns(), dlk_schedule_least_ttl());
	return look < due ? look : due;
}

/*
 * Until when the thread may be away, for a question with all its tries.  Where
 * leases of many phases are overdue, each question has `least_ms` all the same,
 * or a slow server would never be heard again; but nothing puts off the last
 * mark of a lease.
 */
static uint64_t limit_ns(uint32_t least_ms)
{
	const uint64_t now = dlk_now_ns();
	const uint64_t least = now + least_ms * DLK_MS;
	uint64_t mark, stop;
	bool last;

	dlk_holds_lock();
	mark = dlk_schedule_mark_ns(now, &last);
	stop = dlk_backstop_ns_first();
	dlk_holds_unlock();
	/* A connection looks at the time once a slice. */
	mark -= SLICE_MS * DLK_MS;
	stop -= SLICE_MS * DLK_MS;
	if (mark < least && !last)
		mark = least;
	return mark < stop ? mark : stop;
}

/* --- renewal -------------------------------------------------------------- */

/* Within its deadline, by the thread: a restarted server has forgotten it. */
static void reclaim_ranges(struct dlk_hold *h, struct dlk_renewal *r,
			   struct dlk_store *s, struct dlk_attempt *at)
{
	if (dlk_now_ns() >= h->valid.deadline_ns)
		return;
	if (!dlk_file_trylock(&h->file)) {
		r->result = -EAGAIN;
		return;
	}
	r->sent_seq = h->seq;
	/* (That it was asked for counts: there may be no answer.) */
	r->reclaimed = true;
	s->ops->reclaim_ranges(s, at, r, h->since_ns, &h->ranges);
	dlk_file_unlock(&h->file);
	/* In time, or else nobody knows what came in between. */
	if (r->result == 0 && dlk_now_ns() >= h->valid.deadline_ns)
		r->result = DLK_GONE;
}

/* What the masters of a quorum have not alike (quorum_upkeep.c, 3): but while something
 * is said to them, they are not alike by that. */
static void settle_ranges(struct dlk_hold *h, struct dlk_renewal *r,
			  struct dlk_store *s, struct dlk_attempt *at)
{
	struct dlk_renewal own = { .lease = r->lease,
				   .deadline_ns = h->valid.deadline_ns,
				   .unlike = true };
	bool quiet;

	if (!dlk_file_trylock(&h->file))
		return;
	dlk_holds_lock();
	quiet = h->state == HOLD_HELD && !h->asks &&
		h->out.message == OUTBOX_NOTHING &&
		dlk_now_ns() < h->valid.deadline_ns;
	dlk_holds_unlock();
	own.sent_seq = h->seq;
	r->reclaimed |= quiet;
	if (quiet)
		s->ops->reclaim_ranges(s, at, &own, h->since_ns, &h->ranges);
	dlk_file_unlock(&h->file);
}

/*
 * A sharer may have unlocked it meanwhile, and locked it for himself: that is
 * no loss (L4).
 *
 *	we			who shares the description
 *	the lock is there
 *				unlock; lock
 *	renew ->	gone
 *				ask ->
 */
static void end_if_sharers(struct dlk_hold *h, const struct dlk_renewal *r,
			   struct dlk_attempt *at)
{
	static struct dlk_answer answer; /* only the thread's */
	unsigned conversions;

	if (r->result == 0 || r->result == DLK_REPLACED ||
	    !dlk_hold_is_known(h, &conversions) || !dlk_hold_is_there(h))
		return;
	if (r->result < 0)
		return;
	if (h->kind == DLK_FLOCK) {
		if (dlk_kernel_taken_by_other(h->fd))
			dlk_hold_end_seen(h, conversions);
	} else if (dlk_file_trylock(&h->file)) {
		if (dlk_record_is_sharers(h, at, &answer))
			dlk_hold_end_seen(h, conversions);
		dlk_file_unlock(&h->file);
	}
}

static void tell(struct dlk_hold *h, enum hold_verdict verdict, const char *why)
{
	switch (verdict) {
	case VERDICT_PUT_BACK:
		dlk_release_token(h->rule, &h->lease);
		break;
	case VERDICT_RECOVERED:
		dlk_hold_recovered(h);
		break;
	case VERDICT_WARN:
		dlk_hold_warn(h, why);
		break;
	case VERDICT_READY:
		dlk_delegation_ready(h);
		break;
	case VERDICT_OUTLIVED:
		dlk_hold_outlived(h, why);
		break;
	case VERDICT_LOST:
		dlk_hold_lost(h, why);
		break;
	case VERDICT_NOTHING:
		break;
	}
}

static void renewed(struct dlk_hold *h, struct dlk_renewal *r,
		    struct dlk_store *s, struct dlk_attempt *at, uint64_t now)
{
	/* Ranges are the owner's to put back (a batch does it for whole files). */
	if (r->result == DLK_GONE && h->kind != DLK_FLOCK) {
		r->asked_ns = dlk_now_ns();
		reclaim_ranges(h, r, s, at);
	}
	if (r->result == 0 && r->unlike)
		settle_ranges(h, r, s, at);
	end_if_sharers(h, r, at);
	tell(h, dlk_judge(h, r, now), dlk_renewal_loss(r, at->why));
}

/* What is due; all of it pinned. */
static struct {
	struct dlk_store *store; /* of what is to be renewed */
	struct dlk_hold *renew[DLK_RENEW_BATCH];
	struct dlk_renewal renewal[DLK_RENEW_BATCH];
	struct dlk_hold *handover[DLK_RENEW_BATCH];
	struct dlk_hold *news[DLK_RENEW_BATCH];
	unsigned n_renew, n_handover, n_news;
} work; /* only the thread's */

/* Where h is to go, or NULL: not now. */
static struct dlk_hold **place_for(const struct dlk_hold *h, uint64_t now)
{
	struct dlk_store *store = dlk_store_of(h->rule->redis);

	dlk_holds_check();
	switch (dlk_schedule_duty(h, now)) {
	case DLK_RENEW:
		if (must_wait(h) || (work.store && work.store != store))
			return NULL;
		work.store = store;
		return &work.renew[work.n_renew++];
	case DLK_HAND_OVER:
		return h->pins || h->state != HOLD_HELD
			       ? NULL
			       : &work.handover[work.n_handover++];
	case DLK_TELL:
		return &work.news[work.n_news++];
	case DLK_NO_DUTY:
		break;
	}
	return NULL;
}

/* False: nothing is due.  What is of another server comes next. */
static bool collect(void)
{
	static struct dlk_hold *due[DLK_RENEW_BATCH];
	uint64_t now;
	unsigned n;

	DLK_GUARD(&dlk_holds_mutex);
	now = dlk_now_ns();
	n = dlk_schedule_take(now, due);
	work.store = NULL;
	work.n_renew = work.n_handover = work.n_news = 0;
	for (unsigned i = 0; i < n; i++) {
		struct dlk_hold *h = due[i];
		struct dlk_hold **place = place_for(h, now);

		if (place) {
			*place = dlk_hold_pin(h);
		} else {
			dlk_schedule_after(h, now + DLK_SOON_MS * DLK_MS);
		}
	}
	return n > 0;
}

/* It is to be asked for once more. */
static bool pass_marks(struct dlk_hold *h)
{
	const uint64_t now = dlk_now_ns();
	enum hold_verdict verdict;

	if (h->valid.trouble != HOLD_WELL && now >= dlk_hold_final_ns(h))
		dlk_delegation_tick();
	verdict = dlk_judge_marks(h, now);
	tell(h, verdict, why_not(h));
	return verdict != VERDICT_LOST;
}

/* Those of which the kernel's lock is there yet. */
static void drop_ended(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < work.n_renew; i++) {
		struct dlk_hold *h = work.renew[i];

		if (dlk_hold_is_there(h) && pass_marks(h)) {
			work.renewal[kept] = (struct dlk_renewal){
				.lease = &h->lease,
				.deadline_ns = h->valid.deadline_ns,
				.sent_seq = h->kind == DLK_FLOCK ? 0 : h->seq,
			};
			work.renew[kept++] = h;
			continue;
		}
		dlk_unpin(h);
	}
	work.n_renew = kept;
}

/*
 * Of who was silent (lease/store.h), what is held elsewhere has its marks all
 * the same, and of what is asked for here they are passed meanwhile
 * (is_interrupted).
 */
static void be_patient(struct dlk_attempt *at, const struct dlk_store *store)
{
	const uint32_t timeout_ms = dlk_store_patience_ms(store);
	uint64_t mark;

	at->timeout_ns = timeout_ms * DLK_MS;
	if (!store->silent) {
		at->until_ns = limit_ns(timeout_ms / 4);
		return;
	}
	at->until_ns = limit_ns(timeout_ms);
	dlk_holds_lock();
	mark = dlk_schedule_mark_elsewhere_ns(store, dlk_now_ns());
	for (unsigned i = 0; i < work.n_renew; i++)
		if (dlk_hold_final_ns(work.renew[i]) < mark)
			mark = dlk_hold_final_ns(work.renew[i]);
	dlk_holds_unlock();
	if (mark - SLICE_MS * DLK_MS < at->until_ns)
		at->until_ns = mark - SLICE_MS * DLK_MS;
}

/* Who is ready is stopped by its timer, unless it hears that it need not be. */
static bool is_interrupted(void *unused)
{
	if (dlk_backstop_stands_back())
		dlk_delegation_tick();
	dlk_store_hear(work.store);
	for (unsigned i = 0; work.store->silent && i < work.n_renew; i++)
		pass_marks(work.renew[i]);
	return dlk_thread_is_paused(unused);
}

static void renew_all(void)
{
	struct dlk_attempt at = { .interrupt = is_interrupted };
	struct dlk_store *store = work.store;
	const uint64_t began_ns = dlk_now_ns();
	uint64_t now;

	drop_ended();
	/* (Whatever is to be renewed is of a store.) */
	if (work.n_renew == 0 || !store)
		return;
	be_patient(&at, store);
	store->ops->renew(store, &at, work.renewal, work.n_renew);
	dlk_store_renewed(store, work.renewal[0].result, began_ns);
	now = dlk_now_ns();
	if (at.why[0])
		/* Perhaps the keeper has, and says so. */
		dlk_delegation_tick();
	for (unsigned i = 0; i < work.n_renew; i++)
		renewed(work.renew[i], &work.renewal[i], store, &at, now);
	if (at.why[0])
		note_reason(store, began_ns, at.why);
}

/*
 * Nobody could ask for it in time: another thread of the program had it in
 * hand, or ours had no core.  In its last moments it says so.
 */
static struct dlk_hold *overdue(uint64_t now)
{
	DLK_GUARD(&dlk_holds_mutex);
	return dlk_hold_pin(dlk_backstop_due(now));
}

static void stop_overdue(void)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *h = overdue(now);

	if (!h)
		return;
	/* The keeper has let us go on, perhaps, and said why (L6). */
	dlk_unpin(h);
	dlk_delegation_tick();
	h = overdue(now);
	if (!h)
		return;
	dlk_hold_lost(h, why_not(h));
	dlk_unpin(h);
}

static bool keep_some(void)
{
	bool any;

	stop_overdue();
	any = collect();
	renew_all();
	if (work.n_renew)
		dlk_delegation_renewed(work.renew, work.n_renew);
	if (work.n_news)
		dlk_delegation_renewed(work.news, work.n_news);
	dlk_handover_some(work.handover, work.n_handover);
	dlk_unpin_all(work.renew, work.n_renew);
	dlk_unpin_all(work.news, work.n_news);
	dlk_unpin_all(work.handover, work.n_handover);
	return any;
}

/*
 * The first sign of a restart: what we hold there is asked for now, and put
 * back, and not at the next third of its ttl.
 */
static void hurry(const struct dlk_store *store)
{
	const uint64_t now = dlk_now_ns();
	bool any = false;

	dlk_holds_lock();
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		if (!dlk_hold_is_held(h) || h->valid.renew_ns <= now ||
		    dlk_store_of(h->rule->redis) != store)
			continue;
		dlk_hold_hurry(h, now);
		any = true;
	}
	dlk_holds_unlock();
	if (any)
		dlk_thread_need(now);
}

/* --- the rest of its work ------------------------------------------------- */

/* Those of one server of which something is still to be said; pinned. */
static unsigned other_work(uint64_t now, struct dlk_hold **all)
{
	unsigned n = 0;
	struct dlk_hold *h;

	DLK_GUARD(&dlk_holds_mutex);
	while (n < DLK_OUTBOX_BATCH && (h = dlk_schedule_take_unsaid(now))) {
		if (h->pins || (n && h->rule->redis != all[0]->rule->redis)) {
			dlk_schedule_after(h, now + DLK_SOON_MS * DLK_MS);
			continue;
		}
		all[n++] = dlk_hold_pin(h);
	}
	return n;
}

static bool work_once(void)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *all[DLK_OUTBOX_BATCH];
	const unsigned n = other_work(now, all);
	const struct dlk_store *store;
	uint64_t by, limit;

	if (n == 0)
		return false;
	store = dlk_store_of(all[0]->rule->redis);
	by = now + store->connect_timeout_ms * DLK_MS;
	limit = limit_ns(store->connect_timeout_ms / 4);
	dlk_outbox_work(all, n, by < limit ? by : limit, dlk_thread_is_paused);
	dlk_unpin_all(all, n);
	return true;
}

struct rest {
	enum dlk_remaining remaining;
	uint64_t idle_since_ns; /* 0: it is not */
	uint64_t keeper_ns;
};

static bool is_wanted(void)
{
	bool any;

	dlk_holds_lock();
	any = dlk_holds_first();
	dlk_holds_unlock();
	return any || dlk_wait_report_due_ns() != UINT64_MAX;
}

/*
 * Is it over?  Else when to look again: a main thread that ends is followed by
 * others of which nobody tells.
 */
static bool is_over(void *arg, uint64_t *at)
{
	const uint64_t now = dlk_now_ns(), waits = dlk_wait_report_due_ns();
	struct rest *r = arg;

	dlk_holds_lock();
	*at = next_ns();
	dlk_holds_unlock();
	if (is_wanted())
		r->idle_since_ns = 0;
	else if (r->idle_since_ns == 0)
		r->idle_since_ns = now;
	if (r->idle_since_ns && *at > r->idle_since_ns + LINGER_MS * DLK_MS)
		*at = r->idle_since_ns + LINGER_MS * DLK_MS;
	if (r->remaining == DLK_MAIN_ENDS && *at > now + REMAINING_MS * DLK_MS)
		*at = now + REMAINING_MS * DLK_MS;
	if (*at > r->keeper_ns)
		*at = r->keeper_ns;
	if (*at > waits)
		*at = waits;
	return dlk_thread_is_paused(NULL) ||
	       (r->idle_since_ns &&
		now >= r->idle_since_ns + LINGER_MS * DLK_MS);
}

static void *run(void *unused)
{
	struct rest rest = { 0 };
	unsigned seen;

	(void)unused;
	dlk_thread_begin();
	do {
		seen = dlk_thread_futex();
		dlk_stores_look();
		while (!dlk_thread_is_paused(NULL) &&
		       (keep_some() || work_once()))
			;
		dlk_backstop_complain();
		rest.keeper_ns = dlk_delegation_tick();
		rest.remaining = dlk_thread_remaining();
		if (rest.remaining == DLK_ALONE) {
			/* The leases are the keeper's from here on. */
			dlk_handover_all();
			dlk_thread_last();
			return NULL;
		}
		dlk_wait_report_tick(dlk_now_ns(), limit_ns(0));
	} while (dlk_thread_sleep(seen, is_over, &rest));
	return NULL;
}

/* (Of a broken configuration there are no stores.) */
int dlk_renewer_begin(void)
{
	const struct dlk_config *c = dlk_self.config;

	dlk_thread_set(run, is_wanted);
	return dlk_stores_begin(c ? c->redis : NULL, c ? c->n_redis : 0, hurry);
}
