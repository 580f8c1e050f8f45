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

#include "lease/queue.h"
#include "lease/records.h"
#include "lease/upkeep.h"
#include "lease/waits.h"
#include "os/sys.h"
#include "redis/pool.h"
#include "redis/script.h"
#include "redis/subscription.h"

static const struct dlk_endpoint *endpoint_of(const struct dlk_store *s)
{
	return ((const struct dlk_single *)s)->ep;
}

/* --- one question ----------------------------------------------------------- */

/* Of one question, by one connection after the other. */
struct talk {
	struct dlk_store *s;
	struct dlk_attempt *at;
	struct dlk_conn *c; /* NULL: no memory for one */
	uint64_t by_ns;     /* for this answer */
	unsigned tries;     /* before this one */
	bool was_open;
	bool asked; /* a request may have left */
};

/* A connection that is open. */
static int talk_open(struct talk *t)
{
	int err;

	if (!t->c)
		t->c = dlk_pool_get(endpoint_of(t->s));
	if (!t->c)
		return -ENOMEM;
	dlk_conn_set_interrupt(t->c, t->at->interrupt, t->at->arg);
	t->by_ns = dlk_now_ns() + t->at->timeout_ns;
	t->was_open = dlk_conn_is_open(t->c);
	err = dlk_conn_open(t->c, t->by_ns);
	t->asked |= err == 0;
	return err;
}

/* The connection goes back; its memory is the next one's. */
static int talk_end(struct talk *t, int err)
{
	const char *why =
		t->c ? dlk_conn_error(t->c) : "no memory for a connection";

	if (err < 0)
		strncpy(t->at->why, why, sizeof(t->at->why) - 1);
	if (t->c)
		dlk_pool_put(t->c);
	return err;
}

/* Is it to be asked again?  Else it has ended. */
static bool talk_again(struct talk *t, int err)
{
	const bool open = t->c && dlk_conn_is_open(t->c);

	if (t->c && err < 0 && !open && t->tries == 0 && err != -EINTR &&
	    (t->was_open || err == -ECONNRESET)) {
		t->tries++;
		return true;
	}
	t->at->unsure |= t->asked && err && (t->tries || !open);
	talk_end(t, err);
	return false;
}

#define TALK(s, at)                                                            \
	{                                                                      \
		(s), (at), NULL, 0, 0, false, false                            \
	}

static int acquire(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, const struct dlk_ask *ask,
		   struct dlk_answer *answer)
{
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		if (!err && ask->waiter)
			ask->waiter->request++;
		if (!err)
			err = dlk_lease_acquire(t.c, t.by_ns, lease, ask->proof,
						ask->superseded, ask->waiter,
						answer);
	} while (talk_again(&t, err));
	return err;
}

/* Again, with a greater number, if the server has seen a later request. */
static int ask_numbered(struct talk *t, const struct dlk_lease *lease,
			struct dlk_records_ask *ask, struct dlk_answer *answer)
{
	bool copy = t->tries > 0;
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
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		if (!err)
			err = ask_numbered(&t, lease, ask, answer);
	} while (talk_again(&t, err));
	return err;
}

static int find_holder(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, struct dlk_answer *answer)
{
	struct talk t = TALK(s, at);
	bool shared;
	int err;

	do {
		err = talk_open(&t);
		if (!err)
			err = dlk_queue_look(t.c, t.by_ns, lease, &shared,
					     answer);
	} while (talk_again(&t, err));
	return err;
}

static int find_conflict(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 const struct dlk_range *range, uint64_t since_ns,
			 struct dlk_answer *answer)
{
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		if (!err)
			err = dlk_records_get(t.c, t.by_ns, lease, range,
					      since_ns, answer);
	} while (talk_again(&t, err));
	return err;
}

static int heartbeat(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *lease, struct dlk_waiter *w,
		     struct dlk_answer *answer)
{
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		w->request += err == 0;
		if (!err)
			err = dlk_queue_heartbeat(t.c, t.by_ns, lease, w,
						  answer);
	} while (talk_again(&t, err));
	return err;
}

static int yield(struct dlk_store *s, struct dlk_attempt *at,
		 const struct dlk_lease *lease, struct dlk_waiter *w,
		 struct dlk_answer *answer)
{
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		if (!err)
			err = dlk_queue_yield(t.c, t.by_ns, lease, w, answer);
	} while (talk_again(&t, err));
	return err;
}

/* By its text: its script's name may be unknown to the server. */
static int confirm_once(struct talk *t, const struct dlk_lease *lease)
{
	int err = dlk_lease_renew(t->c, lease, true);

	if (!err)
		err = dlk_conn_flush(t->c, t->by_ns);
	return err ? err : dlk_lease_renewed(t->c, t->by_ns, lease);
}

static int confirm(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, uint64_t *asked_ns)
{
	struct talk t = TALK(s, at);
	int err;

	do {
		err = talk_open(&t);
		*asked_ns = dlk_now_ns();
		if (!err)
			err = confirm_once(&t, lease);
	} while (talk_again(&t, err));
	return err;
}

/* --- asked once ------------------------------------------------------------- */

/*
 * What is not said leaves a place that is served, and nobody is there: all
 * who wait would wait for as long as the claim lasts.  So where the open
 * connections are in other hands (the thread's, for an answer), another is
 * opened.
 */
static struct dlk_conn *open_link(struct dlk_store *s, uint64_t by_ns,
				  const struct dlk_sending *how)
{
	struct dlk_conn *c = dlk_pool_get_open(endpoint_of(s));

	if (!c && how->connects)
		c = dlk_pool_get(endpoint_of(s));
	if (!c)
		return NULL;
	dlk_conn_set_interrupt(c, how->interrupt, NULL);
	/* (Whether an open one is ours yet is looked at when it is sent by.) */
	if (!how->connects || dlk_conn_open(c, by_ns) == 0)
		return c;
	dlk_pool_put(c);
	return NULL;
}

static int suspend(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, struct dlk_waiter *w)
{
	const uint64_t by = dlk_now_ns() + at->timeout_ns;
	const struct dlk_sending how = { .connects = true };
	struct talk t = { .s = s, .at = at, .c = open_link(s, by, &how) };
	const redisReply *r;
	int err = t.c ? dlk_queue_suspend(t.c, lease, w) : -ENOTCONN;

	if (!err)
		err = dlk_conn_flush(t.c, by);
	if (!err)
		err = dlk_conn_reply(t.c, by, &r);
	if (!err && r->type == REDIS_REPLY_ERROR)
		err = -EREMOTEIO;
	return talk_end(&t, err);
}

static int ping(struct dlk_store *s, struct dlk_attempt *at)
{
	static const char *const argv[] = { "PING" };
	static const size_t len[] = { 4 };
	struct talk t = TALK(s, at);
	const redisReply *r;
	int err = talk_open(&t);

	if (!err)
		err = dlk_conn_call(t.c, t.by_ns, 1, argv, len, &r);
	return talk_end(&t, err);
}

static void renew(struct dlk_store *s, struct dlk_attempt *at,
		  struct dlk_renewal *r, unsigned n)
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	for (unsigned i = 0; i < n; i++) {
		r[i].reclaimed = false;
		r[i].result = err;
	}
	if (!err)
		dlk_renew_batch(t.c, t.by_ns, r, n);
	for (unsigned i = 0; i < n; i++)
		if (r[i].result < 0)
			err = r[i].result;
	talk_end(&t, err);
}

static int reclaim_ranges(struct dlk_store *s, struct dlk_attempt *at,
			  const struct dlk_lease *lease, uint64_t seq,
			  uint64_t since_ns, const struct dlk_ranges *held)
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	if (!err)
		err = dlk_records_reclaim(t.c, t.by_ns, lease, seq, since_ns,
					  held);
	return talk_end(&t, err);
}

static int tell_wait(struct dlk_store *s, struct dlk_attempt *at,
		     struct dlk_wait *wait)
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	return talk_end(&t, err ?: dlk_wait_tell(t.c, t.by_ns, wait));
}

static int confirm_wait(struct dlk_store *s, struct dlk_attempt *at,
			const char *process, uint64_t id,
			struct dlk_wait *again, uint64_t *clock)
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	if (!err)
		err = dlk_wait_confirm(t.c, t.by_ns, process, id, again, clock);
	return talk_end(&t, err);
}

static int read_wait(struct dlk_store *s, struct dlk_attempt *at,
		     const char *process, unsigned n, struct dlk_wait *wait)
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	return talk_end(&t,
			err ?: dlk_wait_read(t.c, t.by_ns, process, n, wait));
}

static int find_blockers(struct dlk_store *s, struct dlk_attempt *at,
			 struct dlk_wait *wait,
			 dlk_process blockers[DLK_BLOCKERS_MAX])
{
	struct talk t = TALK(s, at);
	int err = talk_open(&t);

	return talk_end(&t,
			err ?: dlk_wait_blockers(t.c, t.by_ns, wait, blockers));
}

/* --- sent, and not waited for ----------------------------------------------- */

/* Room for one more answer that nobody waits for. */
static int sending_open(struct dlk_store *s, const struct dlk_sending *how,
			struct dlk_conn **c, uint64_t *by_ns)
{
	int err = 0;

	*by_ns = dlk_now_ns() + how->timeout_ns;
	*c = open_link(s, *by_ns, how);
	if (!*c)
		return -ENOTCONN;
	if (dlk_conn_deferred(*c) >= DLK_DEFERRED_MAX - 1)
		err = dlk_conn_drain(*c, *by_ns);
	return err;
}

/* Sent, or not; from here on a failure is told to `done`. */
static int sending_end(const struct dlk_sending *how, struct dlk_conn *c,
		       uint64_t by_ns, dlk_judge_fn *judge, int err)
{
	if (!err)
		err = dlk_conn_defer(c, judge, how->done, how->arg);
	if (!err)
		dlk_conn_flush(c, by_ns);
	if (c)
		dlk_pool_put(c);
	return err;
}

static int judge_release(const redisReply *reply, uint64_t *seq)
{
	(void)seq;
	return dlk_lease_released(reply);
}

/* Nobody wants to know. */
static int judge_nothing(const redisReply *reply, uint64_t *seq)
{
	(void)seq;
	return reply ? 0 : -EPIPE;
}

static int send_release(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *lease)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_lease_release(c, lease, how->drop);
	return sending_end(how, c, by, judge_release, err);
}

static int send_downgrade(struct dlk_store *s, const struct dlk_sending *how,
			  const struct dlk_lease *lease)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_lease_weaken(c, lease);
	return sending_end(how, c, by, judge_release, err);
}

static int send_ranges(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *lease, uint64_t seq,
		       struct dlk_range *window, const struct dlk_ranges *held)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_records_set(c, lease, seq, window, held, how->drop);
	return sending_end(how, c, by, dlk_records_was_set, err);
}

static int send_confirm(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *lease)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_lease_renew(c, lease, how->drop);
	return sending_end(how, c, by, judge_nothing, err);
}

static int send_cancel(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *lease, struct dlk_waiter *w)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_queue_cancel(c, lease, w);
	return sending_end(how, c, by, judge_nothing, err);
}

static int send_wait_end(struct dlk_store *s, const struct dlk_sending *how,
			 const char *process, uint64_t id)
{
	struct dlk_conn *c;
	uint64_t by;
	int err = sending_open(s, how, &c, &by);

	if (!err)
		err = dlk_wait_end(c, process, id);
	return sending_end(how, c, by, judge_nothing, err);
}

static bool drain(struct dlk_store *s, uint64_t deadline_ns,
		  bool (*interrupt)(void *arg))
{
	struct dlk_conn *c = dlk_pool_get_deferred(endpoint_of(s));

	if (!c)
		return false;
	dlk_conn_set_interrupt(c, interrupt, NULL);
	dlk_conn_drain(c, deadline_ns);
	dlk_pool_put(c);
	return true;
}

/* --- told ------------------------------------------------------------------- */

static struct dlk_subscription *subscribed(struct dlk_store *s)
{
	return dlk_subscription_get(endpoint_of(s));
}

static int subscribe(struct dlk_store *s, struct dlk_attempt *at,
		     struct dlk_subscription **sub)
{
	return dlk_subscription_new(
		endpoint_of(s), dlk_now_ns() + at->timeout_ns, sub, at->why);
}

static const char *channel(const struct dlk_subscription *sub)
{
	return sub->channel;
}

/* To whom, and after which of its requests: what the scripts say. */
static int heard(struct dlk_subscription *sub, const struct dlk_waiter *w)
{
	char to[DLK_RANDOM_LEN + 24];
	struct dlk_text t;

	dlk_text_init(&t, to, sizeof(to));
	dlk_text_bytes(&t, w->claim + sizeof("dlock1"), DLK_RANDOM_LEN);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, w->request, 1);
	return dlk_subscription_heard(sub, to);
}

static int descriptor(const struct dlk_subscription *sub)
{
	return dlk_subscription_fd(sub);
}

static void unsubscribe(struct dlk_subscription *sub, bool unheard)
{
	if (unheard)
		dlk_subscription_close(sub);
	dlk_subscription_put(sub);
}

/* ---------------------------------------------------------------------------- */

static const struct dlk_store_ops ops = {
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
	.reclaim_ranges = reclaim_ranges,
	.tell_wait = tell_wait,
	.confirm_wait = confirm_wait,
	.read_wait = read_wait,
	.find_blockers = find_blockers,
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
	.descriptor = descriptor,
	.unsubscribe = unsubscribe,
};

void dlk_single_init(struct dlk_single *single, const struct dlk_redis *redis)
{
	*single = (struct dlk_single){
		.store = {
			.ops = &ops,
			.name = redis->name,
			.at = redis->endpoints->name,
			.fault = redis->fault,
			.connect_timeout_ms =
				redis->endpoints->connect_timeout_ms,
		},
		.ep = redis->endpoints,
	};
}
