/* SPDX-License-Identifier: MIT */
/*
 * An owner of record locks gives a part back, or makes it weaker: sent, not
 * waited for, and sent again until the server has said that it is done
 * (DESIGN L1).
 *
 * A call sends the window that it changed.  Once something went wrong, or the
 * server has seen a later request first, the whole list is sent, with a number
 * of its own: by then nobody knows what the server has.
 */
#include "hold/state.h"

#include <errno.h>

#include "lease/records.h"
#include "hold/trace.h"
#include "model/timeline.h"

enum { LOOK_MS = 25, RETRY_MS = 100 };

static const struct dlk_range whole = { .end = DLK_RANGE_MAX };

/* (mutex held) */
static void answered_well(struct dlk_held *h)
{
	if (h->lists == 0 && !h->list_again)
		h->list_ns = UINT64_MAX;
	/* Sent as a text it wakes nobody: the next one is by name again. */
	h->text = false;
}

static void answered(void *arg, const redisReply *reply)
{
	struct dlk_held *h = arg;
	uint64_t seen = 0, at = UINT64_MAX;
	int err = dlk_records_was_set(reply, &seen);

	pthread_mutex_lock(&dlk.mutex);
	h->lists--;
	if (err == 0 || err == -EREMOTEIO) {
		answered_well(h);
	} else {
		h->text |= err == -ENOENT;
		h->list_again = true;
		if (err == DLK_STALE && seen > h->seen_seq)
			h->seen_seq = seen;
		at = dlk_now_ns();
		if (err < 0 && err != -ENOENT)
			at += RETRY_MS * DLK_MS;
		h->list_ns = at;
	}
	if (h->dropped && !h->pins)
		dlk_held_drop(h);
	pthread_mutex_unlock(&dlk.mutex);
	if (at != UINT64_MAX)
		dlk_thread_need(at);
}

/* (gate) On a connection that is open; 0 when it is on its way. */
static int send_on(struct dlk_conn *c, struct dlk_held *h,
		   struct dlk_range *window, uint64_t deadline_ns)
{
	uint64_t at = dlk_now_ns() + LOOK_MS * DLK_MS;
	int err = 0;

	if (dlk_conn_deferred(c) >= DLK_DEFERRED_MAX - 1)
		err = dlk_conn_settle(c, deadline_ns);
	pthread_mutex_lock(&dlk.mutex);
	if (h->seq < h->seen_seq)
		h->seq = h->seen_seq;
	pthread_mutex_unlock(&dlk.mutex);
	if (!err)
		err = dlk_records_set(c, &h->lease, ++h->seq, window,
				      &h->ranges, h->text);
	if (err)
		return err;
	pthread_mutex_lock(&dlk.mutex);
	h->lists++;
	h->list_again = false;
	h->list_ns = at;
	pthread_mutex_unlock(&dlk.mutex);
	dlk_conn_defer(c, answered, h);
	dlk_conn_flush(c, deadline_ns); /* a failure tells answered() */
	dlk_thread_need(at);
	return 0;
}

/* (gate) A long list goes in pages, each with a number of its own. */
static int send_pages(struct dlk_conn *c, struct dlk_held *h,
		      const struct dlk_range *window, uint64_t deadline_ns)
{
	struct dlk_range rest = *window;
	int err = 0;

	while (!err && rest.start <= rest.end)
		err = send_on(c, h, &rest, deadline_ns);
	return err;
}

static void again_at(struct dlk_held *h, uint64_t at)
{
	pthread_mutex_lock(&dlk.mutex);
	h->list_again = true;
	h->list_ns = at;
	pthread_mutex_unlock(&dlk.mutex);
	dlk_thread_need(at);
}

void dlk_list_send(struct dlk_held *h, const struct dlk_range *window)
{
	struct dlk_conn *c = dlk_link_get_open(h->rule->redis->endpoints);
	uint64_t now = dlk_now_ns();

	if (window)
		dlk_trace_lease(h, "weaker now in", window);
	if (!c || send_pages(c, h, h->list_again || !window ? &whole : window,
			     now + 20 * DLK_MS) < 0)
		again_at(h, now);
	if (c)
		dlk_link_put(c);
}

static void read_answers(struct dlk_held *h, uint64_t deadline_ns)
{
	struct dlk_conn *c = dlk_link_get_deferred(h->rule->redis->endpoints);

	if (c) {
		dlk_conn_settle(c, deadline_ns);
		dlk_link_put(c);
	}
	/* Not ours yet: its connection is busy, whoever has it will read. */
	pthread_mutex_lock(&dlk.mutex);
	if (h->lists)
		h->list_ns = dlk_now_ns() + LOOK_MS * DLK_MS;
	pthread_mutex_unlock(&dlk.mutex);
}

/* (gate) */
static void send_again(struct dlk_held *h, uint64_t deadline_ns)
{
	struct dlk_conn *c = dlk_link_get(h->rule->redis->endpoints);
	int err = c ? dlk_conn_open(c, deadline_ns) : -ENOMEM;

	if (!err)
		err = send_pages(c, h, &whole, deadline_ns);
	if (!err && dlk_conn_is_open(c))
		dlk_conn_settle(c, deadline_ns);
	if (err)
		again_at(h, dlk_now_ns() + RETRY_MS * DLK_MS);
	if (c)
		dlk_link_put(c);
}

void dlk_list_retry(struct dlk_held *h, uint64_t deadline_ns)
{
	if (h->lists) {
		read_answers(h, deadline_ns);
	} else if (dlk_gate_try(&h->file)) {
		/* The gate may have brought an end, or an answer. */
		if (h->state == DLK_HELD && h->list_again)
			send_again(h, deadline_ns);
		dlk_gate_leave(&h->file);
	} else {
		again_at(h, dlk_now_ns() + DLK_MS);
	}
}
