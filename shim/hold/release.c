/* SPDX-License-Identifier: MIT */
/*
 * Giving leases back: sent, not waited for, and sent again until the server
 * has said that it is done, or the ttl has run out (DESIGN L1).
 */
#include <errno.h>

#include "hold/delegation.h"
#include "hold/state.h"
#include "hold/trace.h"
#include "model/timeline.h"

/* The answer to a release, or NULL when the connection failed before it. */
static void acknowledged(void *arg, const redisReply *reply)
{
	struct dlk_held *h = arg;
	int err = dlk_lease_released(reply);
	uint64_t again = 0;

	pthread_mutex_lock(&dlk.mutex);
	h->in_flight = false;
	if (err == 0 || err == -EREMOTEIO) {
		dlk_held_drop(h);
	} else {
		h->text |= err == -ENOENT;
		h->retry_ns = dlk_now_ns();
		if (err != -ENOENT)
			h->retry_ns += 100 * DLK_MS;
		again = h->retry_ns;
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (again)
		dlk_thread_need(again);
}

/* On a connection that is open; 0 when it is on its way. */
static int send_on(struct dlk_conn *c, struct dlk_held *h, uint64_t deadline_ns)
{
	/* The next lock on this connection reads the answer; or the thread. */
	uint64_t at = dlk_now_ns() + 25 * DLK_MS;
	int err = 0;

	if (dlk_conn_deferred(c) >= DLK_DEFERRED_MAX - 1)
		err = dlk_conn_settle(c, deadline_ns);
	if (!err)
		err = dlk_lease_release(c, &h->lease, h->text);
	if (err)
		return err;
	pthread_mutex_lock(&dlk.mutex);
	h->in_flight = true;
	h->retry_ns = at;
	pthread_mutex_unlock(&dlk.mutex);
	dlk_conn_defer(c, acknowledged, h);
	dlk_conn_flush(c, deadline_ns); /* a failure tells acknowledged() */
	dlk_thread_need(at);
	return 0;
}

static void later(struct dlk_held *h)
{
	uint64_t at = dlk_now_ns();

	pthread_mutex_lock(&dlk.mutex);
	h->retry_ns = at;
	pthread_mutex_unlock(&dlk.mutex);
	dlk_thread_need(at);
}

void dlk_release_send(struct dlk_held *h)
{
	struct dlk_conn *c = dlk_link_get_open(h->rule->redis->endpoints);

	if (!c || send_on(c, h, dlk_now_ns() + 20 * DLK_MS) < 0)
		later(h);
	if (c)
		dlk_link_put(c);
}

void dlk_give_back(struct dlk_held *h)
{
	uint32_t told = 0;
	bool ours, kept = false;

	pthread_mutex_lock(&dlk.mutex);
	ours = h->state == DLK_HELD;
	if (ours) {
		kept = h->kept;
		told = dlk_take_from_keeper(h);
		dlk_held_owe(h);
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (!ours)
		return;
	dlk_trace_lease(h, "released", NULL);
	/* Nobody here would, or could, send it again. */
	if (kept && (atomic_load(&dlk.away) || !dlk_thread_here()) &&
	    dlk_delegation_owe(told)) {
		dlk_held_disown(h);
		return;
	}
	dlk_delegation_drop(told);
	dlk_release_send(h);
}

static void send_again(struct dlk_held *h, uint64_t deadline,
		       bool (*interrupt)(void *))
{
	const struct dlk_endpoint *ep = h->rule->redis->endpoints;
	struct dlk_conn *c = dlk_link_get(ep);
	int err = -ENOMEM;

	if (c) {
		dlk_conn_set_interrupt(c, interrupt, NULL);
		err = dlk_conn_open(c, deadline);
	}
	if (!err)
		err = send_on(c, h, deadline);
	if (!err && dlk_conn_is_open(c))
		dlk_conn_settle(c, deadline);
	if (err) {
		pthread_mutex_lock(&dlk.mutex);
		h->retry_ns = dlk_now_ns() + 100 * DLK_MS;
		pthread_mutex_unlock(&dlk.mutex);
	}
	if (c)
		dlk_link_put(c);
}

/* The answer to a release has come but nobody has read it. */
static void read_answers(struct dlk_held *h, uint64_t deadline,
			 bool (*interrupt)(void *))
{
	const struct dlk_endpoint *ep = h->rule->redis->endpoints;
	struct dlk_conn *c = dlk_link_get_deferred(ep);

	if (c) {
		dlk_conn_set_interrupt(c, interrupt, NULL);
		dlk_conn_settle(c, deadline);
		dlk_link_put(c);
	}
	/* Not ours yet: its connection is busy, whoever has it will read. */
	pthread_mutex_lock(&dlk.mutex);
	if (h->in_flight)
		h->retry_ns = dlk_now_ns() + 25 * DLK_MS;
	pthread_mutex_unlock(&dlk.mutex);
}

void dlk_release_retry(struct dlk_held *h, uint64_t deadline_ns,
		       bool (*interrupt)(void *))
{
	if (h->in_flight)
		read_answers(h, deadline_ns, interrupt);
	else
		send_again(h, deadline_ns, interrupt);
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
	h->state = DLK_HELD;
	pthread_mutex_lock(&dlk.mutex);
	dlk_held_add(h);
	dlk_held_owe(h);
	pthread_mutex_unlock(&dlk.mutex);
	dlk_release_send(h);
}

/* (mutex taken) One that could not be sent yet; pinned, and not found again. */
static struct dlk_held *next_unsent(void)
{
	struct dlk_held *h;

	pthread_mutex_lock(&dlk.mutex);
	for (h = dlk.held; h; h = h->next)
		if (h->state == DLK_OWED && !h->in_flight && !h->pins &&
		    !h->flushed)
			break;
	if (h) {
		h->flushed = true;
		h->pins++;
	}
	pthread_mutex_unlock(&dlk.mutex);
	return h;
}

/* What could not be sent, or was sent into a connection that is dead. */
static void send_unsent(uint64_t deadline_ns)
{
	struct dlk_held *h;

	while (dlk_now_ns() < deadline_ns && (h = next_unsent())) {
		dlk_release_retry(h, deadline_ns, NULL);
		dlk_unpin(h);
	}
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

	if (atomic_load(&dlk.n_owed) == 0)
		return;
	/* Reading first: only then is it known what never arrived. */
	read_all_answers(deadline);
	send_unsent(deadline);
}
