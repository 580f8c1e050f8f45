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
 *  4. No error ends it (PITFALLS: the watchdog that dies).
 */
#include "hold/end.h"
#include "hold/renewer.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/config.h"
#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/liveness.h"
#include "hold/release.h"
#include "hold/schedule.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/wait_report.h"
#include "model/outbox.h"
#include "model/timeline.h"

enum { LINGER_MS = 2000, COMPANY_MS = 20 };

/*
 * What another thread works on is renewed all the same, for it may write back
 * for long; but not what changes its token or its list just now.
 */
static bool must_wait(const struct dlk_hold *h)
{
	return h->pins && (h->state == HOLD_CONVERTING || h->kind != DLK_FLOCK);
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

/* --- renewal -------------------------------------------------------------- */

/* Within its deadline, by the thread: a restarted server has forgotten it. */
static int reclaim_ranges(struct dlk_hold *h, struct dlk_store *s,
			  struct dlk_attempt *at)
{
	int err;

	if (dlk_now_ns() >= h->valid.deadline_ns)
		return DLK_GONE;
	if (!dlk_file_trylock(&h->file))
		return -EAGAIN;
	err = s->ops->reclaim_ranges(s, at, &h->lease, h->seq, h->since_ns,
				     &h->ranges);
	dlk_file_unlock(&h->file);
	/* In time, or else nobody knows what came in between. */
	return err == 0 && dlk_now_ns() >= h->valid.deadline_ns ? DLK_GONE
								: err;
}

/* Ranges are the owner's to put back (a batch does it for whole files). */
static void reclaim_records(struct dlk_hold *h, struct dlk_renewal *r,
			    struct dlk_store *s, struct dlk_attempt *at)
{
	r->asked_ns = dlk_now_ns();
	r->result = reclaim_ranges(h, s, at);
	r->reclaimed = r->result == 0;
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
static bool is_sharers(struct dlk_hold *h, const struct dlk_renewal *r)
{
	if (r->result == 0 || r->result == DLK_REPLACED)
		return false;
	return !dlk_hold_is_there(h) ||
	       (r->result > 0 && h->kind == DLK_FLOCK &&
		dlk_kernel_taken_by_other(h->fd));
}

/* It is not held by what this renewal said: warn of it, once? */
static bool not_renewed(struct dlk_hold *h, uint64_t now)
{
	const bool warn =
		!h->valid.warned &&
		now >= h->valid.deadline_ns - h->lease.ttl_ms / 3 * DLK_MS;

	h->valid.warned |= warn;
	dlk_hold_retry(h, now);
	return warn;
}

static const char *loss(const struct dlk_renewal *r, const char *why)
{
	return r->result < 0 ? why
	       : r->result == DLK_LOST
		       ? "somebody else holds it; stop this program"
		       : "the server does not know it any more; stop this "
			 "program";
}

static void renewed(struct dlk_hold *h, struct dlk_renewal *r,
		    struct dlk_store *s, struct dlk_attempt *at)
{
	bool warn = false, lost = false, again = false;
	uint64_t now;

	if (r->result == DLK_GONE && h->kind != DLK_FLOCK)
		reclaim_records(h, r, s, at);
	now = dlk_now_ns();
	if (is_sharers(h, r))
		dlk_hold_end(h, END_GONE);

	dlk_holds_lock();
	if (h->state != HOLD_HELD)
		/* Given up meanwhile; put back, though, it would stay. */
		again = r->reclaimed;
	else if (r->result == 0)
		dlk_hold_extend(h, r->asked_ns);
	else if (r->result < 0 && now < h->valid.deadline_ns)
		warn = not_renewed(h, now);
	else if (r->result == DLK_REPLACED)
		dlk_hold_drop(h);
	else
		lost = true;
	dlk_holds_unlock();
	if (again)
		dlk_release_token(h->rule, &h->lease);
	if (warn)
		dlk_hold_say(h, DLK_WARNING,
			     " could not be renewed for long: ", at->why);
	if (lost)
		dlk_hold_lost(h, loss(r, at->why));
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
static bool collect(uint64_t now)
{
	static struct dlk_hold *due[DLK_RENEW_BATCH];
	const unsigned n = dlk_schedule_take(now, due);

	work.store = NULL;
	work.n_renew = work.n_handover = work.n_news = 0;
	for (unsigned i = 0; i < n; i++) {
		struct dlk_hold *h = due[i];
		struct dlk_hold **place = place_for(h, now);

		if (place) {
			*place = h;
			dlk_hold_pin(h);
		} else {
			dlk_schedule_after(h, now + DLK_SOON_MS * DLK_MS);
		}
	}
	return n > 0;
}

/* Those of which the kernel's lock is there yet. */
static void drop_ended(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < work.n_renew; i++) {
		struct dlk_hold *h = work.renew[i];

		if (dlk_hold_is_there(h)) {
			work.renewal[kept].lease = &h->lease;
			work.renewal[kept].deadline_ns = h->valid.deadline_ns;
			work.renew[kept++] = h;
			continue;
		}
		dlk_unpin(h);
	}
	work.n_renew = kept;
}

static void renew_all(void)
{
	struct dlk_attempt at = { .interrupt = dlk_thread_is_paused };
	struct dlk_store *store = work.store;

	drop_ended();
	if (work.n_renew == 0)
		return;
	at.timeout_ns = store->connect_timeout_ms * DLK_MS;
	store->ops->renew(store, &at, work.renewal, work.n_renew);
	for (unsigned i = 0; i < work.n_renew; i++)
		renewed(work.renew[i], &work.renewal[i], store, &at);
}

static bool keep_some(void)
{
	bool any;

	dlk_holds_lock();
	any = collect(dlk_now_ns());
	dlk_holds_unlock();
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

	dlk_holds_lock();
	while (n < DLK_OUTBOX_BATCH && (h = dlk_schedule_take_unsaid(now))) {
		if (h->pins || (n && h->rule->redis != all[0]->rule->redis)) {
			dlk_schedule_after(h, now + DLK_SOON_MS * DLK_MS);
			continue;
		}
		dlk_hold_pin(h);
		all[n++] = h;
	}
	dlk_holds_unlock();
	return n;
}

static bool work_once(void)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *all[DLK_OUTBOX_BATCH];
	const unsigned n = other_work(now, all);
	uint32_t timeout_ms;

	if (n == 0)
		return false;
	timeout_ms = dlk_store_of(all[0]->rule->redis)->connect_timeout_ms;
	dlk_outbox_work(all, n, now + timeout_ms * DLK_MS,
			dlk_thread_is_paused);
	dlk_unpin_all(all, n);
	return true;
}

struct rest {
	enum dlk_remaining company;
	uint64_t idle_since_ns; /* 0: it is not */
	uint64_t by_ns;         /* for the keeper, or for waits */
};

/*
 * Is it over?  Else when to look again: a main thread that ends is followed by
 * others of which nobody tells.
 */
static bool is_over(void *arg, uint64_t *at)
{
	const uint64_t now = dlk_now_ns();
	struct rest *r = arg;

	dlk_holds_lock();
	*at = next_ns();
	if (dlk_holds_first())
		r->idle_since_ns = 0;
	else if (r->idle_since_ns == 0)
		r->idle_since_ns = now;
	dlk_holds_unlock();
	if (r->idle_since_ns && *at > r->idle_since_ns + LINGER_MS * DLK_MS)
		*at = r->idle_since_ns + LINGER_MS * DLK_MS;
	if (r->company == DLK_MAIN_ENDS && *at > now + COMPANY_MS * DLK_MS)
		*at = now + COMPANY_MS * DLK_MS;
	if (*at > r->by_ns)
		*at = r->by_ns;
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
		uint64_t waits_ns;

		seen = dlk_thread_futex();
		dlk_stores_look();
		while (!dlk_thread_is_paused(NULL) &&
		       (keep_some() || work_once()))
			;
		rest.by_ns = dlk_delegation_tick();
		rest.company = dlk_thread_remaining();
		if (rest.company == DLK_ALONE) {
			/* The leases are the keeper's from here on. */
			dlk_handover_all();
			dlk_thread_last();
			return NULL;
		}
		waits_ns = dlk_wait_report_tick(dlk_now_ns());
		if (waits_ns < rest.by_ns)
			rest.by_ns = waits_ns;
	} while (dlk_thread_sleep(seen, is_over, &rest));
	return NULL;
}

/* (Of a broken configuration there are no stores.) */
int dlk_renewer_begin(void)
{
	const struct dlk_config *c = dlk_self.config;

	dlk_thread_set(run);
	return dlk_stores_begin(c ? c->redis : NULL, c ? c->n_redis : 0, hurry);
}
