/* SPDX-License-Identifier: MIT */
/*
 * What is still to be said to a server: the release of a lease, what an owner
 * of record locks has left, that a lease is a shared one (DESIGN L1).  Sent,
 * not waited for, and sent again until the server has said that it is done, or
 * the ttl has run out; model/outbox.h has the rules.
 *
 * Of ranges a call sends the window that it changed.  Once something went
 * wrong, or the server has seen a later request first, the whole list is sent,
 * with a number of its own: by then nobody knows what the server has.
 */
#include "hold/release.h"

#include <errno.h>
#include <stdatomic.h>

#include "config/config.h"
#include "os/sys.h"
#include "redis/conn.h"
#include "redis/pool.h"
#include "lease/lease.h"
#include "lease/records.h"
#include "lease/store.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "model/outbox.h"
#include "model/range.h"
#include "model/timeline.h"

static const struct dlk_range whole = { .end = DLK_RANGE_MAX };

static const struct dlk_endpoint *server_of(const struct dlk_held *h)
{
	return h->rule->redis->endpoints;
}

static void put_at(struct dlk_held *h, enum outbox_message message, uint64_t at)
{
	dlk_holds_lock();
	dlk_outbox_put(&h->out, message, at);
	dlk_holds_unlock();
	dlk_thread_need(at);
}

/* --- answers -------------------------------------------------------------- */

/* The answer, or NULL when the connection failed before it. */
static void answered(struct dlk_held *h, enum outbox_message message,
		     const redisReply *reply)
{
	uint64_t seen = 0, again;
	int err = message == OUTBOX_RANGES ? dlk_records_was_set(reply, &seen)
					   : dlk_lease_released(reply);
	bool settled;

	dlk_holds_lock();
	dlk_hold_pin(h);
	settled = dlk_outbox_answered(&h->out, message, err, dlk_now_ns());
	again = h->out.unsent ? h->out.due_ns : UINT64_MAX;
	if (h->seen_seq < seen)
		h->seen_seq = seen;
	if (settled && h->state == HOLD_RELEASING)
		dlk_hold_drop(h);
	dlk_hold_unpin(h);
	dlk_holds_unlock();
	if (again != UINT64_MAX)
		dlk_thread_need(again);
}

static void released(void *h, const redisReply *reply)
{
	answered(h, OUTBOX_RELEASE, reply);
}

static void set(void *h, const redisReply *reply)
{
	answered(h, OUTBOX_RANGES, reply);
}

static void weakened(void *h, const redisReply *reply)
{
	answered(h, OUTBOX_DOWNGRADE, reply);
}

/* --- sending -------------------------------------------------------------- */

/* (gate) With a number of its own, later than any that the server has seen. */
static int append_ranges(struct dlk_conn *c, struct dlk_held *h,
			 struct dlk_range *window)
{
	dlk_holds_lock();
	if (h->seq < h->seen_seq)
		h->seq = h->seen_seq;
	dlk_holds_unlock();
	return dlk_records_set(c, &h->lease, ++h->seq, window, &h->ranges,
			       h->out.by_source);
}

static int append(struct dlk_conn *c, struct dlk_held *h,
		  enum outbox_message message, struct dlk_range *window)
{
	switch (message) {
	case OUTBOX_RELEASE:
		return dlk_lease_release(c, &h->lease, h->out.by_source);
	case OUTBOX_RANGES:
		return append_ranges(c, h, window);
	case OUTBOX_DOWNGRADE:
		return dlk_lease_weaken(c, &h->lease);
	case OUTBOX_NOTHING:
		break;
	}
	return -EINVAL;
}

/* On a connection that is open; 0 when it is on its way. */
static int send_one(struct dlk_conn *c, struct dlk_held *h,
		    enum outbox_message message, struct dlk_range *window,
		    uint64_t deadline_ns)
{
	static dlk_deferred_fn *const then[] = {
		[OUTBOX_RELEASE] = released,
		[OUTBOX_RANGES] = set,
		[OUTBOX_DOWNGRADE] = weakened,
	};
	uint64_t look_ns;
	int err = 0;

	if (dlk_conn_deferred(c) >= DLK_DEFERRED_MAX - 1)
		err = dlk_conn_settle(c, deadline_ns);
	if (!err)
		err = append(c, h, message, window);
	if (err)
		return err;
	/* The next lock on this connection reads the answer; or the thread. */
	dlk_holds_lock();
	dlk_outbox_sent(&h->out, message, dlk_now_ns());
	look_ns = h->out.due_ns;
	dlk_holds_unlock();
	dlk_conn_defer(c, then[message], h);
	dlk_conn_flush(c, deadline_ns); /* a failure tells answered() */
	dlk_thread_need(look_ns);
	return 0;
}

/* A long list goes in pages, each with a number of its own. */
static int send_on(struct dlk_conn *c, struct dlk_held *h,
		   enum outbox_message message, const struct dlk_range *window,
		   uint64_t deadline_ns)
{
	struct dlk_range rest = *window;
	int err;

	do {
		err = send_one(c, h, message, &rest, deadline_ns);
	} while (!err && message == OUTBOX_RANGES && rest.start <= rest.end);
	return err;
}

/* If a connection is open; never waits. */
static void send_now(struct dlk_held *h, enum outbox_message message,
		     const struct dlk_range *window)
{
	struct dlk_conn *c = dlk_link_get_open(server_of(h));
	const uint64_t now = dlk_now_ns();

	if (!c || send_on(c, h, message, window, now + 20 * DLK_MS) < 0)
		put_at(h, message, now);
	if (c)
		dlk_link_put(c);
}

void dlk_release_send(struct dlk_held *h)
{
	send_now(h, OUTBOX_RELEASE, &whole);
}

void dlk_list_send(struct dlk_held *h, const struct dlk_range *window)
{
	if (window)
		dlk_trace_lease(h, "weaker now in", window);
	send_now(h, OUTBOX_RANGES, h->out.unsent || !window ? &whole : window);
}

/* --- by the thread -------------------------------------------------------- */

static void send_again(struct dlk_held *h, enum outbox_message message,
		       uint64_t deadline_ns, bool (*interrupt)(void *))
{
	struct dlk_conn *c = dlk_link_get(server_of(h));
	int err = -ENOMEM;

	if (c) {
		dlk_conn_set_interrupt(c, interrupt, NULL);
		err = dlk_conn_open(c, deadline_ns);
	}
	if (!err)
		err = send_on(c, h, message, &whole, deadline_ns);
	if (!err && dlk_conn_is_open(c))
		dlk_conn_settle(c, deadline_ns);
	if (err)
		put_at(h, message, dlk_now_ns() + DLK_RESEND_MS * DLK_MS);
	if (c)
		dlk_link_put(c);
}

/* An answer has come but nobody has read it. */
static void read_answers(struct dlk_held *h, uint64_t deadline_ns,
			 bool (*interrupt)(void *))
{
	struct dlk_conn *c = dlk_link_get_deferred(server_of(h));

	if (c) {
		dlk_conn_set_interrupt(c, interrupt, NULL);
		dlk_conn_settle(c, deadline_ns);
		dlk_link_put(c);
	}
	/* Not ours yet: its connection is busy, whoever has it will read. */
	dlk_holds_lock();
	dlk_outbox_looked(&h->out, dlk_now_ns());
	dlk_holds_unlock();
}

static void send_ranges_again(struct dlk_held *h, uint64_t deadline_ns,
			      bool (*interrupt)(void *))
{
	if (!dlk_gate_try(&h->file)) {
		put_at(h, OUTBOX_RANGES, dlk_now_ns() + DLK_MS);
		return;
	}
	/* The gate may have brought an end, or an answer. */
	if (h->out.message == OUTBOX_RANGES && h->out.unsent)
		send_again(h, OUTBOX_RANGES, deadline_ns, interrupt);
	dlk_gate_leave(&h->file);
}

void dlk_outbox_work(struct dlk_held *h, uint64_t deadline_ns,
		     bool (*interrupt)(void *))
{
	enum outbox_message message;
	enum outbox_step step;

	dlk_holds_lock();
	message = h->out.message;
	step = dlk_outbox_next(&h->out, dlk_now_ns());
	if (step == OUTBOX_FORGET)
		dlk_hold_drop(h);
	dlk_holds_unlock();
	if (step == OUTBOX_READ)
		read_answers(h, deadline_ns, interrupt);
	else if (step == OUTBOX_SEND && message == OUTBOX_RANGES)
		send_ranges_again(h, deadline_ns, interrupt);
	else if (step == OUTBOX_SEND)
		send_again(h, message, deadline_ns, interrupt);
}

/* --- a lease is given up -------------------------------------------------- */

void dlk_give_back(struct dlk_held *h)
{
	uint32_t told = 0;
	bool ours, kept = false;

	dlk_holds_lock();
	ours = dlk_hold_is_held(h);
	if (ours) {
		kept = h->keeper.carried;
		told = dlk_take_from_keeper(h);
		dlk_hold_release(h);
	}
	dlk_holds_unlock();
	if (!ours)
		return;
	dlk_trace_lease(h, "released", NULL);
	/* Nobody here would, or could, send it again. */
	if (kept && (atomic_load(&dlk_self.away) || !dlk_thread_here()) &&
	    dlk_delegation_owe(told)) {
		dlk_holds_lock();
		dlk_hold_drop(h);
		dlk_holds_unlock();
		return;
	}
	dlk_delegation_drop(told);
	dlk_release_send(h);
}

/*
 * There is no memory to remember it by, so nobody would send it again: now or,
 * by its ttl, later.
 */
static void release_now(const struct dlk_rule *rule,
			const struct dlk_lease *lease)
{
	struct dlk_conn *c = dlk_link_get_open(rule->redis->endpoints);
	uint64_t by = dlk_now_ns() + 20 * DLK_MS;
	const redisReply *r;

	if (!c)
		return;
	if (dlk_lease_release(c, lease, false) == 0 &&
	    dlk_conn_flush(c, by) == 0)
		dlk_conn_reply(c, by, &r);
	dlk_link_put(c);
}

void dlk_release_token(const struct dlk_rule *rule,
		       const struct dlk_lease *lease)
{
	struct dlk_held *h = dlk_held_new(lease);

	if (!h) {
		release_now(rule, lease);
		return;
	}
	h->rule = rule;
	dlk_holds_lock();
	dlk_hold_install_released(h);
	dlk_holds_unlock();
	dlk_release_send(h);
}

/* --- at exit -------------------------------------------------------------- */

static bool is_unsent(const struct dlk_held *h, const void *unused)
{
	(void)unused;
	return h->state == HOLD_RELEASING && h->out.unsent && !h->pins;
}

/* What could not be sent, or was sent into a connection that is dead. */
static void send_unsent(uint64_t deadline_ns)
{
	struct dlk_held *h = NULL;

	while (dlk_now_ns() < deadline_ns &&
	       (h = dlk_hold_next(h, is_unsent, NULL)))
		send_again(h, OUTBOX_RELEASE, deadline_ns, NULL);
	if (h)
		dlk_unpin(h);
}

static void read_all_answers(uint64_t deadline_ns)
{
	struct dlk_conn *c;

	while ((c = dlk_link_get_deferred(NULL))) {
		dlk_conn_settle(c, deadline_ns);
		dlk_link_put(c);
	}
}

void dlk_release_flush(unsigned ms)
{
	uint64_t deadline = dlk_now_ns() + ms * DLK_MS;

	if (!dlk_any_owed())
		return;
	/* Reading first: only then is it known what never arrived. */
	read_all_answers(deadline);
	send_unsent(deadline);
}
