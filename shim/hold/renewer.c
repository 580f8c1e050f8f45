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
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/wait_report.h"
#include "model/outbox.h"
#include "model/timeline.h"

enum { LINGER_MS = 2000, COMPANY_MS = 20 };

/* Away from where the keeper is, a lease that it carries is its alone. */
static uint64_t renewal_ns(const struct dlk_held *h)
{
	return h->keeper.carried && atomic_load(&dlk_self.away)
		       ? UINT64_MAX
		       : h->valid.renew_ns;
}

/* When is there something to do for h? */
static uint64_t due_ns(const struct dlk_held *h)
{
	uint64_t at = dlk_outbox_due_ns(&h->out);

	if (!dlk_hold_is_held(h))
		return at;
	if (at > renewal_ns(h))
		at = renewal_ns(h);
	return at < h->keeper.due_ns ? at : h->keeper.due_ns;
}

/*
 * What another thread works on is renewed all the same, for it may write back
 * for long; but not what changes its token or its list just now.
 */
static bool must_wait(const struct dlk_held *h)
{
	return h->pins && (h->state == HOLD_CONVERTING || h->kind != DLK_FLOCK);
}

/* (mutex held) */
static uint64_t next_ns(void)
{
	const uint64_t now = dlk_now_ns(), soon = now + 5 * DLK_MS;
	uint64_t first = UINT64_MAX;

	for (const struct dlk_held *h = dlk_holds_first(); h; h = h->next) {
		uint64_t due = due_ns(h);

		if (h->pins && due < soon)
			due = soon;
		if (dlk_hold_is_held(h) &&
		    due > dlk_look_ns(now, h->lease.ttl_ms))
			due = dlk_look_ns(now, h->lease.ttl_ms);
		if (due < first)
			first = due;
	}
	return first;
}

/* --- renewal -------------------------------------------------------------- */

/* Within its deadline, by the thread: a restarted server has forgotten it. */
static int reclaim_ranges(struct dlk_held *h, struct dlk_store *s,
			  struct dlk_attempt *at)
{
	int err;

	if (dlk_now_ns() >= h->valid.deadline_ns)
		return DLK_GONE;
	if (!dlk_gate_try(&h->file))
		return -EAGAIN;
	err = s->ops->reclaim_ranges(s, at, &h->lease, h->seq, h->since_ns,
				     &h->ranges);
	dlk_gate_leave(&h->file);
	/* In time, or else nobody knows what came in between. */
	return err == 0 && dlk_now_ns() >= h->valid.deadline_ns ? DLK_GONE
								: err;
}

/* Ranges are the owner's to put back (a batch does it for whole files). */
static void reclaim_records(struct dlk_held *h, struct dlk_renewal *r,
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
static bool is_sharers(struct dlk_held *h, const struct dlk_renewal *r)
{
	if (r->result == 0 || r->result == DLK_REPLACED)
		return false;
	return dlk_lock_is_there(h) == 0 ||
	       (r->result > 0 && h->kind == DLK_FLOCK &&
		dlk_kernel_taken_by_other(h->fd));
}

/* (mutex held) It is not held by what this renewal said: warn of it, once? */
static bool not_renewed(struct dlk_held *h, uint64_t now)
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

static void renewed(struct dlk_held *h, struct dlk_renewal *r,
		    struct dlk_store *s, struct dlk_attempt *at)
{
	bool warn = false, lost = false, again = false;
	uint64_t now;

	if (r->result == DLK_GONE && h->kind != DLK_FLOCK)
		reclaim_records(h, r, s, at);
	now = dlk_now_ns();
	if (is_sharers(h, r))
		dlk_lock_ended(h);

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

struct batch {
	struct dlk_store *store;
	unsigned n;
	struct dlk_held *held[DLK_RENEW_BATCH];
	struct dlk_renewal renewal[DLK_RENEW_BATCH];
};

/*
 * (mutex held) Pin what is due, all of one server.  What is due soon goes
 * along, so that leases of one ttl fall into step and share a round trip.
 */
static void collect(struct batch *b, uint64_t now)
{
	b->n = 0;
	b->store = NULL;
	for (struct dlk_held *h = dlk_holds_first(); h; h = h->next) {
		struct dlk_store *store = dlk_store_of(h->rule->redis);
		uint64_t soon =
			now + (b->n ? h->lease.ttl_ms / 12 * DLK_MS : 0);

		if (!dlk_hold_is_held(h) || must_wait(h) ||
		    renewal_ns(h) > soon || (b->store && b->store != store) ||
		    b->n == DLK_RENEW_BATCH)
			continue;
		b->store = store;
		dlk_hold_pin(h);
		b->held[b->n++] = h;
	}
}

static void drop_ended(struct batch *b)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < b->n; i++) {
		struct dlk_held *h = b->held[i];

		if (dlk_lock_is_there(h)) {
			b->renewal[kept].lease = &h->lease;
			b->renewal[kept].deadline_ns = h->valid.deadline_ns;
			b->held[kept++] = h;
			continue;
		}
		dlk_lock_ended(h);
		dlk_unpin(h);
	}
	b->n = kept;
}

static bool renew_some(void)
{
	static struct batch b; /* only this thread's */
	struct dlk_attempt at = { .interrupt = dlk_thread_is_paused };

	dlk_holds_lock();
	collect(&b, dlk_now_ns());
	dlk_holds_unlock();
	if (b.n == 0)
		return false;
	at.timeout_ns = b.store->connect_timeout_ms * DLK_MS;
	drop_ended(&b);
	if (b.n)
		b.store->ops->renew(b.store, &at, b.renewal, b.n);
	for (unsigned i = 0; i < b.n; i++) {
		renewed(b.held[i], &b.renewal[i], b.store, &at);
		dlk_unpin(b.held[i]);
	}
	return true;
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
	for (struct dlk_held *h = dlk_holds_first(); h; h = h->next) {
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

/* (mutex held) One of which something is still to be said; pinned. */
static struct dlk_held *other_work(uint64_t now)
{
	for (struct dlk_held *h = dlk_holds_first(); h; h = h->next) {
		if (h->pins || dlk_outbox_due_ns(&h->out) > now)
			continue;
		dlk_hold_pin(h);
		return h;
	}
	return NULL;
}

static bool work_once(void)
{
	uint64_t now = dlk_now_ns(), timeout_ns;
	struct dlk_held *h;

	dlk_holds_lock();
	h = other_work(now);
	dlk_holds_unlock();
	if (!h)
		return false;
	timeout_ns = dlk_store_of(h->rule->redis)->connect_timeout_ms * DLK_MS;
	dlk_outbox_work(h, now + timeout_ns, dlk_thread_is_paused);
	dlk_unpin(h);
	return true;
}

struct rest {
	enum dlk_company company;
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

		seen = dlk_thread_bell();
		dlk_stores_look();
		while (!dlk_thread_is_paused(NULL) &&
		       (renew_some() || dlk_handover_due() || work_once()))
			;
		rest.by_ns = dlk_delegation_tick();
		rest.company = dlk_thread_company();
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
