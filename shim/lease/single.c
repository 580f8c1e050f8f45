/* SPDX-License-Identifier: MIT */
/*
 * The store that is one Redis server (store.h), on the pool of connections.
 *
 * Each operation takes a connection for its own length.  A connection that
 * fails after a request left may have been answered all the same, so what may
 * be granted is asked for again at once, on a new one:
 *
 *	we			server
 *	ASK token ->		granted
 *				<- (lost)
 *	ASK token ->		its own token: held, the ttl set anew
 *
 * The first copy may also be late.  So a copy has a number of its own where a
 * late one could do harm: of an owner's ranges (records.h), and of a place in
 * the queue, whose grant must not be taken for that of the other (queue.h).
 */
#include "lease/single.h"

#include <errno.h>
#include <string.h>

#include "lease/chronicle.h"
#include "lease/queue.h"
#include "lease/records.h"
#include "lease/upkeep.h"
#include "lease/waits.h"
#include "os/sys.h"
#include "redis/pool.h"
#include "redis/replicas.h"
#include "redis/resolve.h"
#include "redis/script.h"
#include "redis/sentinel.h"
#include "redis/subscription.h"

static const struct dlk_single *single_of(const struct dlk_store *s)
{
	return (const struct dlk_single *)s;
}

/* The way to where a key is; to the one server, if there is one. */
static struct dlk_way way_to(const struct dlk_store *s, const char *key,
			     size_t len)
{
	const struct dlk_single *e = single_of(s);

	return (struct dlk_way){
		.slot = e->router && key ? dlk_slot_of(key, len) : DLK_NO_SLOT,
		.ep = e->router ? NULL : e->ep,
	};
}

static struct dlk_way way_of(const struct dlk_store *s,
			     const struct dlk_lease *lease)
{
	return way_to(s, lease->key, lease->key_len);
}

static struct dlk_way way_to_waits(const struct dlk_store *s)
{
	return way_to(s, DLK_LITERAL(DLK_WAITS_KEY));
}

/* A connection by that way. */
static struct dlk_conn *take(struct dlk_store *s, const struct dlk_way *way,
			     enum dlk_wanted wanted)
{
	const struct dlk_router *router = single_of(s)->router;
	struct dlk_conn *c = dlk_pool_get(way->ep, wanted);

	if (!c || !router)
		return c;
	c->clustered = true;
	c->slot = way->slot;
	c->elsewhere = router->elsewhere;
	c->elsewhere_arg = s;
	return c;
}

/* --- one question --------------------------------------------------------- */

/*
 * Of one question, by one connection after the other:
 *
 *	struct talk t = { .s = s, .at = at, .way = way_of(s, lease) };
 *
 *	while (talk(&t))
 *		t.err = dlk_...(t.c, t.by_ns, ...);
 *	return t.err;
 */
struct talk {
	struct dlk_store *s;
	struct dlk_attempt *at;
	struct dlk_way way;
	bool once;   /* it is not asked again, if it may have been done */
	bool grants; /* by a script that has the node's history in its name */
	struct dlk_conn *c; /* NULL: no memory for one, or no way */
	uint64_t by_ns;     /* for this answer */
	unsigned tries;     /* by this way */
	bool was_open;
	bool asked; /* a request may have left */
	bool lost;  /* one may have, by another way, and have been done */
	int err;
};

/* It may grant something: where a lease is. */
static struct talk granting(struct dlk_store *s, struct dlk_attempt *at,
			    const struct dlk_lease *lease)
{
	return (struct talk){
		.s = s, .at = at, .way = way_of(s, lease), .grants = true
	};
}

static struct talk once(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_way way)
{
	return (struct talk){ .s = s, .at = at, .way = way, .once = true };
}

/* There is a server to ask, and a connection to it. */
static int find_way(struct talk *t)
{
	const struct dlk_router *router = single_of(t->s)->router;
	int err = 0;

	if (!t->way.ep)
		err = router->find(t->s, t->at, &t->way, t->by_ns);
	if (err)
		return err;
	t->c = take(t->s, &t->way, DLK_ANY);
	if (!t->c)
		strcpy(t->at->why, "no memory for a connection");
	return t->c ? 0 : -ENOMEM;
}

/* Is it to the server that is the master now?  Else it is closed. */
static void verify(struct talk *t)
{
	const struct dlk_patience wait = { t->by_ns, t->c->interrupt,
					   t->c->interrupt_arg };
	const bool was_open = dlk_conn_is_open(t->c);

	dlk_sentinel_verify(t->c->ep, &wait, was_open);
	if (was_open && dlk_conn_is_stale(t->c)) {
		t->c->restarted = true;
		dlk_conn_close(t->c);
	}
}

/* (One that the program has closed is found out when it is sent by.) */
static int talk_open(struct talk *t)
{
	int err;

	t->by_ns = dlk_attempt_by_ns(t->at, dlk_now_ns());
	err = t->c ? 0 : find_way(t);
	if (err)
		return err;
	t->c->interrupt = t->at->interrupt;
	t->c->interrupt_arg = t->at->arg;
	t->c->unconfirmed = false;
	t->c->takes_back = t->grants;
	if (t->c->ep->n_sentinels)
		verify(t);
	t->was_open = dlk_conn_is_open(t->c);
	if (t->grants && single_of(t->s)->router)
		err = dlk_conn_know(t->c, t->by_ns);
	else if (!t->was_open || t->once)
		err = dlk_conn_open(t->c, t->by_ns);
	t->c->asking = t->way.asking;
	t->c->one_key = t->way.one_key;
	return err;
}

/* Of several servers, which one says so. */
static void explain(struct talk *t)
{
	struct dlk_text why = dlk_text_in(t->at->why, sizeof(t->at->why));

	if (single_of(t->s)->router)
		dlk_text_strs(&why, t->c->ep->name, ": ", NULL);
	dlk_text_str(&why, t->c->error);
}

/* The connection goes back; its memory is the next one's. */
static int talk_end(struct talk *t)
{
	if (t->err == -EREMOTE)
		t->err = -EAGAIN; /* it was sent on for too long */
	if (!t->c)
		return t->err;
	if (t->err < 0)
		explain(t);
	dlk_pool_put(t->c);
	return t->err;
}

static bool is_asked_again(const struct talk *t)
{
	return t->err < 0 && t->err != -EINTR && t->tries == 1 && !t->once &&
	       t->c && !dlk_conn_is_open(t->c) &&
	       (t->was_open || t->err == -ECONNRESET) &&
	       (!t->at->until_ns || dlk_now_ns() < t->at->until_ns);
}

/* It is to be asked by another way, as a new question. */
static bool is_sent_on(struct talk *t)
{
	const struct dlk_router *router = single_of(t->s)->router;
	const bool done = t->c && !dlk_conn_is_open(t->c) && t->asked;

	if (!router || !t->c || t->err >= 0 || t->err == -EINTR ||
	    !router->next(t->s, t->at, &t->way, t->c, t->err) ||
	    (done && t->once))
		return false;
	t->lost |= done || t->c->unconfirmed;
	dlk_pool_put(t->c);
	t->c = NULL;
	t->tries = 0;
	return true;
}

/* Is it to be asked, for the first time or again?  Else it has ended. */
static bool talk(struct talk *t)
{
	bool begins = t->tries == 0;

	while (begins || is_sent_on(t) || is_asked_again(t)) {
		begins = false;
		t->err = talk_open(t);
		t->tries++;
		t->asked |= t->err == 0;
		if (!t->err)
			return true;
	}
	if (t->err && t->asked && !t->once)
		t->at->unsure |= t->lost || t->tries > 1 || !t->c ||
				 !dlk_conn_is_open(t->c) || t->c->unconfirmed;
	talk_end(t);
	return false;
}

static int acquire(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, const struct dlk_ask *ask,
		   struct dlk_answer *answer)
{
	struct talk t = granting(s, at, lease);

	while (talk(&t)) {
		if (ask->waiter)
			ask->waiter->request++;
		t.err = dlk_lease_acquire(t.c, t.by_ns, lease, ask->proof,
					  ask->superseded, ask->waiter, answer);
	}
	return t.err;
}

/* Again, with a greater number, if the server has seen a later request. */
static int ask_numbered(struct talk *t, const struct dlk_lease *lease,
			struct dlk_records_ask *ask, struct dlk_answer *answer)
{
	bool copy = t->tries > 1 || t->lost;
	int err;

	do {
		ask->seq += copy;
		if (ask->waiter)
			ask->waiter->request++;
		err = dlk_records_acquire(t->c, t->by_ns, lease, ask, answer);
		if (err == DLK_OLD_SEQ && ask->seq < answer->seq)
			ask->seq = answer->seq;
		copy = true;
	} while (err == DLK_OLD_SEQ && dlk_now_ns() < t->by_ns);
	return err == DLK_OLD_SEQ ? -EAGAIN : err;
}

static int acquire_range(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 struct dlk_records_ask *ask, struct dlk_answer *answer)
{
	struct talk t = granting(s, at, lease);

	while (talk(&t))
		t.err = ask_numbered(&t, lease, ask, answer);
	return t.err;
}

static int find_holder(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, struct dlk_answer *answer)
{
	struct dlk_waiter w = { .claim = lease->token,
				.claim_len = lease->token_len,
				.channel = DLK_NO_CHANNEL };
	struct talk t = granting(s, at, lease);

	while (talk(&t))
		t.err = dlk_queue_say(t.c, t.by_ns, "look", lease, &w, answer);
	return t.err;
}

static int find_conflict(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 const struct dlk_range *range, uint64_t since_ns,
			 struct dlk_answer *answer)
{
	struct talk t = granting(s, at, lease);

	while (talk(&t))
		t.err = dlk_records_get(t.c, t.by_ns, lease, range, since_ns,
					answer);
	return t.err;
}

static int heartbeat(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *lease, struct dlk_waiter *w,
		     struct dlk_answer *answer)
{
	struct talk t = granting(s, at, lease);

	while (talk(&t)) {
		w->request++;
		t.err = dlk_queue_say(t.c, t.by_ns, "heartbeat", lease, w,
				      answer);
	}
	return t.err;
}

static int yield(struct dlk_store *s, struct dlk_attempt *at,
		 const struct dlk_lease *lease, struct dlk_waiter *w,
		 struct dlk_answer *answer)
{
	struct talk t = granting(s, at, lease);

	while (talk(&t))
		t.err = dlk_queue_say(t.c, t.by_ns, "yield", lease, w, answer);
	return t.err;
}

/* By its text: its script's name may be unknown to the server. */
static int confirm(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, uint64_t *asked_ns)
{
	struct talk t = { .s = s, .at = at, .way = way_of(s, lease) };
	struct dlk_renewal u = { .lease = lease };

	while (talk(&t)) {
		*asked_ns = dlk_now_ns();
		t.err = dlk_lease_renew(t.c, lease, true)
			?: dlk_replicas_ask(t.c, t.by_ns)
			?: dlk_conn_flush(t.c, t.by_ns)
			?: dlk_lease_renewed(t.c, t.by_ns, &u);
		if (!t.err)
			t.err = dlk_replicas_have(t.c, t.by_ns);
		else if (dlk_conn_is_open(t.c))
			dlk_replicas_ignore(t.c);
	}
	return t.err;
}

/* --- asked once ----------------------------------------------------------- */

/*
 * What is not said leaves a place that is served, and nobody is there, or a lease
 * that nobody has: all who wait would wait for as long as it lasts.  So where the
 * open connections are in other hands (the thread's, for an answer), another is
 * opened, also by who would not connect:
 *
 *	the thread		who unlocks			another host
 *	renewal ->
 *				unlock: it returns
 *							LOCK_NB: refused
 *	<- (the answer)
 *	RELEASE ->
 */
static struct dlk_conn *open_link(struct dlk_store *s, struct dlk_way *way,
				  uint64_t by_ns, const struct dlk_sending *how)
{
	const struct dlk_router *router = single_of(s)->router;
	struct dlk_attempt at = { .timeout_ns = how->timeout_ns };
	struct dlk_conn *c;

	if (!way->ep && router->find(s, &at, way, how->connects ? by_ns : 0))
		return NULL;
	c = take(s, way, DLK_OPEN);
	if (!c && how->connects)
		c = take(s, way, DLK_ANY);
	if (!c)
		return NULL;
	c->interrupt = how->interrupt;
	/* (Whether an open one is ours yet is looked at when it is sent by.) */
	if ((!how->connects && dlk_conn_is_open(c)) ||
	    dlk_conn_open(c, by_ns) == 0)
		return c;
	dlk_pool_put(c);
	return NULL;
}

static int suspend(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, struct dlk_waiter *w)
{
	const uint64_t by = dlk_now_ns() + at->timeout_ns;
	const struct dlk_sending how = { .connects = true };
	struct talk t = { .s = s, .at = at, .way = way_of(s, lease) };
	const redisReply *r;

	t.c = open_link(s, &t.way, by, &how);
	if (!t.c)
		strcpy(at->why, "no connection");
	t.err = t.c ? dlk_queue_say(t.c, by, "suspend", lease, w, NULL)
		    : -ENOTCONN;
	if (!t.err)
		t.err = dlk_conn_flush(t.c, by) ?: dlk_conn_reply(t.c, by, &r);
	if (!t.err && r->type == REDIS_REPLY_ERROR)
		t.err = dlk_script_refused(t.c, r);
	return talk_end(&t);
}

static int ping(struct dlk_store *s, struct dlk_attempt *at)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("PING") } };
	struct talk t = once(s, at, way_to(s, NULL, 0));
	const redisReply *r;

	while (talk(&t))
		t.err = dlk_conn_call(t.c, t.by_ns, 1, args, &r);
	return t.err;
}

typedef int batch_fn(struct dlk_conn *c, uint64_t by_ns, struct dlk_renewal *r,
		     unsigned n);

static void ask_batch(struct talk *t, batch_fn *batch, struct dlk_renewal *r,
		      unsigned n)
{
	bool asked = false;

	while (talk(t)) {
		asked = true;
		batch(t->c, t->by_ns, r, n);
		for (unsigned i = 0; i < n; i++)
			if (r[i].result < 0)
				t->err = r[i].result;
		/* A server that is silent is asked by the next renewal. */
		t->once |= t->err == -ETIMEDOUT;
		/* The first time may have put it back, and not told. */
		for (unsigned i = 0; i < n && (t->tries > 1 || t->lost); i++)
			r[i].reclaimed = true;
	}
	for (unsigned i = 0; i < n && !asked; i++) {
		r[i].reclaimed = false;
		r[i].until_ns = 0;
		r[i].result = t->err;
	}
}

void dlk_single_upkeep(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_endpoint *ep, bool releases,
		       struct dlk_renewal *r, unsigned n)
{
	struct talk t = {
		.s = s, .at = at, .way = way_of(s, r->lease), .once = releases
	};

	if (ep)
		t.way = (struct dlk_way){ .slot = DLK_NO_SLOT, .ep = ep };
	ask_batch(&t, releases ? dlk_release_batch : dlk_renew_batch, r, n);
	if (!ep && r->result == -EREMOTE)
		r->result = t.err;
}

/* Of several servers it is one lease's (lease/cluster.h). */
static void renew(struct dlk_store *s, struct dlk_attempt *at,
		  struct dlk_renewal *r, unsigned n)
{
	dlk_single_upkeep(s, at, NULL, false, r, n);
}

static void release(struct dlk_store *s, struct dlk_attempt *at,
		    struct dlk_renewal *r, unsigned n)
{
	dlk_single_upkeep(s, at, NULL, true, r, n);
}

static void reclaim_ranges(struct dlk_store *s, struct dlk_attempt *at,
			   struct dlk_renewal *r, uint64_t since_ns,
			   const struct dlk_ranges *held)
{
	struct talk t = once(s, at, way_of(s, r->lease));

	r->until_ns = 0;
	while (talk(&t)) {
		dlk_records_reclaim(t.c, t.by_ns, r, since_ns, held);
		t.err = r->result;
	}
	r->result = t.err;
}

static int list_ranges(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, struct dlk_ranges *held,
		       uint64_t *seq)
{
	struct talk t = once(s, at, way_of(s, lease));

	while (talk(&t))
		t.err = dlk_records_list(t.c, t.by_ns, lease, held, seq);
	return t.err;
}

static int reduce_ranges(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease, uint64_t seq,
			 const struct dlk_ranges *held)
{
	struct talk t = once(s, at, way_of(s, lease));

	while (talk(&t))
		t.err = dlk_records_reduce(t.c, t.by_ns, lease, seq, held);
	return t.err;
}

static int tell_wait(struct dlk_store *s, struct dlk_attempt *at,
		     struct dlk_wait *wait)
{
	struct talk t = once(s, at, way_to_waits(s));

	while (talk(&t))
		t.err = dlk_wait_tell(t.c, t.by_ns, wait);
	return t.err;
}

static int confirm_wait(struct dlk_store *s, struct dlk_attempt *at,
			const char *process, uint64_t id,
			struct dlk_wait *again, uint64_t *clock)
{
	struct talk t = once(s, at, way_to_waits(s));

	while (talk(&t))
		t.err = dlk_wait_confirm(t.c, t.by_ns, process, id, again,
					 clock);
	return t.err;
}

static int read_wait(struct dlk_store *s, struct dlk_attempt *at,
		     const char *process, unsigned n, struct dlk_wait *wait)
{
	struct talk t = once(s, at, way_to_waits(s));

	while (talk(&t))
		t.err = dlk_wait_read(t.c, t.by_ns, process, n, wait);
	return t.err;
}

static int find_blockers(struct dlk_store *s, struct dlk_attempt *at,
			 struct dlk_wait *wait,
			 dlk_process blockers[DLK_BLOCKERS_MAX])
{
	struct talk t = once(s, at, way_to(s, wait->key, wait->key_len));

	while (talk(&t))
		t.err = dlk_wait_blockers(t.c, t.by_ns, wait, blockers);
	return t.err;
}

/* By the words of its token. */
static int record_loss(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, uint64_t lasted_ms)
{
	struct talk t = once(s, at, way_of(s, lease));
	struct dlk_token token;
	struct dlk_chronicle_entry e = {
		.what = "lost",
		.host = token.hostname,
		.who = token.command,
		.lasted_ms = lasted_ms,
		.token = token.random,
	};

	if (!dlk_token_parse(lease->token, lease->token_len, &token))
		return -EINVAL;
	e.pid = token.pid;
	while (talk(&t))
		t.err = dlk_chronicle_add(t.c, t.by_ns, lease->key,
					  lease->key_len, &e);
	return t.err;
}

/* --- sent, and not waited for --------------------------------------------- */

/* A connection with room for one more answer that nobody waits for. */
struct sending {
	const struct dlk_sending *how;
	struct dlk_conn *c;
	uint64_t by_ns;
	int err;
};

static struct sending sending(struct dlk_store *s, struct dlk_way way,
			      const struct dlk_sending *how)
{
	struct sending x = { .how = how,
			     .by_ns = dlk_now_ns() + how->timeout_ns };

	x.c = open_link(s, &way, x.by_ns, how);
	if (!x.c)
		x.err = -ENOTCONN;
	else if (x.c->deferred_n >= DLK_DEFERRED_MAX - 1)
		x.err = dlk_conn_drain(x.c, x.by_ns);
	return x;
}

/* Sent, or not; from here on a failure is told to `done`. */
static int sent(struct sending *x, dlk_judge_fn *judge, int err)
{
	if (!err)
		err = dlk_conn_defer(x->c, judge, x->how->done, x->how->arg);
	if (!err)
		dlk_conn_flush(x->c, x->by_ns);
	if (x->c)
		dlk_pool_put(x->c);
	return err;
}

static int send_release(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *lease)
{
	struct sending x = sending(s, way_of(s, lease), how);

	return sent(&x, dlk_lease_released,
		    x.err ?: dlk_lease_release(x.c, lease, how->drop));
}

static int send_downgrade(struct dlk_store *s, const struct dlk_sending *how,
			  const struct dlk_lease *lease)
{
	struct sending x = sending(s, way_of(s, lease), how);

	return sent(&x, dlk_lease_released,
		    x.err ?: dlk_lease_weaken(x.c, lease));
}

static int send_ranges(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *lease, uint64_t seq,
		       struct dlk_range *window, const struct dlk_ranges *held)
{
	struct sending x = sending(s, way_of(s, lease), how);

	return sent(&x, dlk_lease_released,
		    x.err
			    ?: dlk_records_set(x.c, lease, seq, window, held,
					       how->drop));
}

static int send_confirm(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *lease)
{
	struct sending x = sending(s, way_of(s, lease), how);

	return sent(&x, NULL, x.err ?: dlk_lease_renew(x.c, lease, how->drop));
}

static int send_cancel(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *lease, struct dlk_waiter *w)
{
	struct sending x = sending(s, way_of(s, lease), how);
	int err = x.err ?: dlk_queue_say(x.c, 0, "cancel", lease, w, NULL);

	w->queued &= x.err != 0;
	return sent(&x, NULL, err);
}

static int send_wait_end(struct dlk_store *s, const struct dlk_sending *how,
			 const char *process, uint64_t id)
{
	struct sending x = sending(s, way_to_waits(s), how);

	return sent(&x, NULL, x.err ?: dlk_wait_end(x.c, process, id));
}

static bool drain(struct dlk_store *s, uint64_t deadline_ns,
		  bool (*interrupt)(void *arg))
{
	const struct dlk_single *e = single_of(s);
	const struct dlk_endpoint *ep = e->ep;

	for (unsigned i = 0; ep; i++) {
		struct dlk_conn *c = dlk_pool_get(ep, DLK_DEFERRED);

		if (c) {
			c->interrupt = interrupt;
			dlk_conn_drain(c, deadline_ns);
			dlk_pool_put(c);
			return true;
		}
		ep = e->router ? e->router->server(s, i) : NULL;
	}
	return false;
}

/* --- told ----------------------------------------------------------------- */

static struct dlk_subscription *subscribed(struct dlk_store *s,
					   const struct dlk_lease *lease)
{
	struct dlk_way way = way_of(s, lease);
	struct dlk_attempt at = { 0 };

	if (!way.ep && single_of(s)->router->find(s, &at, &way, 0))
		return NULL;
	return dlk_subscription_get(way.ep, way.slot);
}

/* (Whoever has just got the slot says so.) */
static int subscribe(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *lease,
		     struct dlk_subscription **sub)
{
	const struct dlk_router *router = single_of(s)->router;
	const uint64_t by = dlk_now_ns() + at->timeout_ns;
	int err = -EREMOTE;

	for (int tries = 0; tries < 3 && err == -EREMOTE; tries++) {
		struct dlk_way way = way_of(s, lease);

		err = way.ep ? 0 : router->find(s, at, &way, by);
		if (err)
			return err;
		err = dlk_subscription_new(way.ep, way.slot, by, sub, at->why);
		if (err == -EREMOTE)
			router->elsewhere(s, way.ep, at->why);
	}
	return err == -EREMOTE ? -EAGAIN : err;
}

static const char *channel(const struct dlk_subscription *sub)
{
	return sub->channel;
}

/* To whom, and after which of its requests: what the scripts say. */
static int heard(struct dlk_subscription *sub, const struct dlk_waiter *w)
{
	char to[DLK_RANDOM_LEN + 24];
	struct dlk_text t = dlk_text_in(to, sizeof(to));

	dlk_text_bytes(&t, dlk_token_digits(w->claim), DLK_RANDOM_LEN);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, w->request, 1);
	return dlk_subscription_heard(sub, to);
}

static void unsubscribe(struct dlk_subscription *sub, bool unheard)
{
	if (unheard)
		dlk_subscription_close(sub);
	dlk_subscription_put(sub);
}

/* -------------------------------------------------------------------------- */

const struct dlk_store_ops dlk_single_ops = {
	.acquire = acquire,
	.acquire_range = acquire_range,
	.find_holder = find_holder,
	.find_conflict = find_conflict,
	.heartbeat = heartbeat,
	.yield = yield,
	.confirm = confirm,
	.suspend = suspend,
	.ping = ping,
	.renew = renew,
	.release = release,
	.reclaim_ranges = reclaim_ranges,
	.list_ranges = list_ranges,
	.reduce_ranges = reduce_ranges,
	.tell_wait = tell_wait,
	.confirm_wait = confirm_wait,
	.read_wait = read_wait,
	.find_blockers = find_blockers,
	.record_loss = record_loss,
	.send_release = send_release,
	.send_downgrade = send_downgrade,
	.send_ranges = send_ranges,
	.send_confirm = send_confirm,
	.send_cancel = send_cancel,
	.send_wait_end = send_wait_end,
	.drain = drain,
	.subscribed = subscribed,
	.subscribe = subscribe,
	.channel = channel,
	.heard = heard,
	.descriptor = dlk_subscription_fd,
	.unsubscribe = unsubscribe,
};

void dlk_single_init(struct dlk_single *single, const struct dlk_redis *redis)
{
	*single = (struct dlk_single){
		.store = {
			.ops = &dlk_single_ops,
			.name = redis->name,
			.at = redis->endpoints->name,
			.fault = redis->fault,
			.connect_timeout_ms =
				redis->endpoints->connect_timeout_ms,
			.claims_confirmed = redis->endpoints->replicas != 0,
		},
		.ep = redis->endpoints,
	};
}
