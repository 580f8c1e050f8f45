/* SPDX-License-Identifier: MIT */
/*
 * The store that is a quorum of masters (store.h).
 *
 *  1. What is granted has a majority, and counts from before the first request
 *     left: its deadline is the ttl less all that the asking took, less the
 *     drift (model/timeline.h).
 *  2. What has no majority is given up everywhere, also where there was no
 *     answer: the attempt is unsure then, and its caller does that (store.h).
 *     Who asked for a range sends the list of what it has.
 *  3. Each master is asked as one server is (lease.h, records.h): proof of
 *     death, the delay after a restart and what an owner's numbers are for hold
 *     at each of them by itself.
 *  4. There is no queue, and no claim: who is refused asks again after a pause
 *     (DESIGN 5.7), and nobody is told of anything.
 *
 * Where several ask at the same moment, each may get some, and none enough.
 * Then the one goes on that has the first master (model/tally.h):
 *
 *	A		M1	M2	M3		B
 *	ask ->		a	b	b		<- ask: B has a majority
 *
 *	ask ->		a	b	c		<- ask (and C)
 *	again ->	a	.	.		release ->
 */
#include "lease/quorum.h"

#include <errno.h>
#include <string.h>

#include "lease/queue.h"
#include "lease/records.h"
#include "model/timeline.h"
#include "os/sys.h"

/* How often who has the first master asks once more, and what it waits. */
enum { LEADS = 4, LEAD_LEAST_US = 100, LEAD_MOST_US = 5000 };
/* Who is refused waits for so long for the first master's answer. */
enum { SPLIT_MS = 5 };

/* Asking again is of no use. */
static bool is_final(int err)
{
	return err == -EREMOTEIO || err == -EACCES || err == -EPROTO ||
	       err == -EPROTONOSUPPORT;
}

/* --- what comes of a question --------------------------------------------- */

struct question {
	const struct dlk_lease *lease;
	struct dlk_answer *answer; /* that is told */
	struct dlk_answer said;    /* by the one that votes */
	const struct dlk_ask *ask;
	struct dlk_records_ask *range; /* its seq: the last one that was sent */
	uint64_t seq;                  /* that is asked with first */
	const struct dlk_range *of;
	uint64_t since_ns;
	uint32_t yes;
	unsigned busy, wrong, gone, young;
	int64_t young_ms;
	bool found;         /* who is in the way, and is of our host and file */
	int passing, final; /* errors */
};

/* Of a holder its token; of another key its type. */
static void note_text(struct question *q)
{
	q->answer->holder_len = q->said.holder_len;
	memcpy(q->answer->holder, q->said.holder, q->said.holder_len + 1);
}

/*
 * Of several it is the one who is of our host and file, for that can be proved;
 * or the better one.
 */
static void note_holder(struct question *q, bool better)
{
	const struct dlk_lease *l = q->lease;
	bool older, ours;

	ours = dlk_token_same_place(l->token, l->token_len, q->said.holder,
				    q->said.holder_len, &older);
	if (q->found || (!better && !ours))
		return;
	q->found = ours;
	q->answer->left_ms = q->said.left_ms;
	q->answer->range = q->said.range;
	note_text(q);
}

static void count(struct ballot *b, unsigned i, int vote)
{
	struct question *q = b->arg;

	switch (vote) {
	case 0:
		q->yes |= 1U << i;
		q->answer->replaced |= q->said.replaced;
		dlk_tally_yes(&b->tally, i);
		return;
	case DLK_BUSY:
		note_holder(q, q->busy++ == 0);
		dlk_tally_no(&b->tally, i, dlk_answer_holder(&q->said));
		return;
	case DLK_GRACE:
		q->young++;
		if (q->young_ms < q->said.left_ms)
			q->young_ms = q->said.left_ms;
		q->answer->emptied |= q->said.emptied;
		dlk_tally_silent(&b->tally, true);
		return;
	case DLK_GONE:
		q->gone++;
		dlk_tally_no(&b->tally, i, 0);
		return;
	case DLK_WRONG_TYPE:
		q->wrong++;
		if (!q->busy)
			note_text(q);
		dlk_tally_no(&b->tally, i, 0);
		return;
	default:
		dlk_tally_silent(&b->tally, !is_final(vote));
		if (is_final(vote))
			q->final = vote;
		else
			q->passing = vote;
	}
}

/* A majority cannot be without one of so many. */
static bool is_enough(const struct ballot *b, unsigned n)
{
	return n > b->tally.n - dlk_majority(b->tally.n);
}

/*
 * Not granted: why?  Somebody has it, as far as we know, where most have
 * answered, and any of them so.  (A young one beside them is no reason to wait
 * until it is old: the others suffice when he has gone.)
 */
static int refusal(const struct ballot *b)
{
	const struct question *q = b->arg;
	const struct tally *t = &b->tally;

	if (b->interrupted)
		return -EINTR;
	if (is_enough(b, q->busy))
		return DLK_BUSY;
	if (is_enough(b, q->gone))
		return DLK_GONE;
	if (is_enough(b, q->wrong))
		return DLK_WRONG_TYPE;
	if (q->busy && t->yes + t->no >= dlk_majority(t->n))
		return DLK_BUSY;
	if (q->young && t->yes + q->young >= dlk_majority(t->n)) {
		q->answer->left_ms = q->young_ms;
		return DLK_GRACE;
	}
	dlk_ballot_explain(b);
	if (t->yes + t->passing >= dlk_majority(t->n) || !q->final)
		return q->passing ?: -EAGAIN;
	return q->final;
}

static int verdict(struct ballot *b)
{
	return dlk_tally_state(&b->tally) == TALLY_YES ? 0 : refusal(b);
}

/* (2) It may have been granted somewhere, or be so yet; who only looks asks for
 * nothing. */
static bool is_unsure(const struct ballot *b)
{
	const struct question *q = b->arg;

	return (q->ask || q->range) && (q->yes || (b->asked & ~b->answered));
}

/* Those who have refused, before they are asked again, are to say it anew. */
static void forget_refusals(struct question *q)
{
	q->busy = q->wrong = q->gone = q->young = 0;
	q->found = false;
}

/* The others give up what they have meanwhile; longer each time. */
static void wait_for_the_others(const struct ballot *b, unsigned tries)
{
	uint64_t us = (dlk_now_ns() - b->asked_ns) / 1000;
	uint32_t random;

	dlk_random(&random, sizeof(random));
	us = us < LEAD_LEAST_US  ? LEAD_LEAST_US
	     : us > LEAD_MOST_US ? LEAD_MOST_US
				 : us;
	us += us * (tries + random % 4) / 4;
	dlk_pause_ns(us * 1000);
}

/* Asked until somebody has a majority, or we have not the first master. */
static int ask_all(struct ballot *b)
{
	struct question *q = b->arg;
	int err;

	q->answer->replaced = q->answer->emptied = false;
	q->answer->holder_len = 0;
	q->answer->holder[0] = '\0';
	b->linger_no_ns = SPLIT_MS * DLK_MS;
	dlk_ballot_hold(b);
	for (unsigned i = 0;
	     i < LEADS && !b->interrupted &&
	     dlk_tally_state(&b->tally) == TALLY_NO &&
	     dlk_tally_is_split(&b->tally) && b->tally.first_yes &&
	     dlk_now_ns() < dlk_attempt_by_ns(b->at, b->asked_ns);
	     i++) {
		wait_for_the_others(b, i);
		forget_refusals(q);
		b->without = q->yes;
		dlk_ballot_again(b);
	}
	err = verdict(b);
	q->answer->asked_ns = b->asked_ns;
	b->at->unsure |= err && is_unsure(b);
	return err;
}

/* --- asked ---------------------------------------------------------------- */

static struct ballot ballot_of(struct dlk_store *s, struct dlk_attempt *at,
			       int (*ask)(struct ballot *b, unsigned i,
					  struct dlk_conn *c),
			       struct question *q)
{
	return (struct ballot){ .masters = dlk_masters_of(s),
				.at = at,
				.ask = ask,
				.count = count,
				.arg = q,
				.mark = q->lease ? dlk_lease_mark(q->lease)
						 : 0 };
}

static int ask_lease(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct question *q = b->arg;

	(void)i;
	return dlk_lease_acquire(c, b->by_ns, q->lease, q->ask->proof,
				 q->ask->superseded, NULL, &q->said);
}

static int acquire(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *lease, const struct dlk_ask *ask,
		   struct dlk_answer *answer)
{
	struct question q = { .lease = lease, .ask = ask, .answer = answer };
	struct ballot b = ballot_of(s, at, ask_lease, &q);

	return ask_all(&b);
}

/* A copy has a number of its own, whoever it is for (records.h). */
static int ask_range(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct question *q = b->arg;
	struct dlk_records_ask ask = *q->range;
	int err;

	ask.waiter = NULL;
	ask.seq = q->seq + b->copies[i] - 1;
	do {
		err = dlk_records_acquire(c, b->by_ns, q->lease, &ask,
					  &q->said);
		if (q->range->seq < ask.seq)
			q->range->seq = ask.seq;
		if (err == DLK_OLD_SEQ)
			ask.seq = (ask.seq < q->said.seq ? q->said.seq
							 : ask.seq) +
				  1;
	} while (err == DLK_OLD_SEQ && dlk_now_ns() < b->by_ns);
	return err == DLK_OLD_SEQ ? -EAGAIN : err;
}

static int acquire_range(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 struct dlk_records_ask *ask, struct dlk_answer *answer)
{
	struct question q = {
		.lease = lease, .range = ask, .seq = ask->seq, .answer = answer
	};
	struct ballot b = ballot_of(s, at, ask_range, &q);

	return ask_all(&b);
}

static int ask_conflict(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct question *q = b->arg;

	(void)i;
	return dlk_records_get(c, b->by_ns, q->lease, q->of, q->since_ns,
			       &q->said);
}

static int find_conflict(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 const struct dlk_range *range, uint64_t since_ns,
			 struct dlk_answer *answer)
{
	struct question q = { .lease = lease,
			      .of = range,
			      .since_ns = since_ns,
			      .answer = answer };
	struct ballot b = ballot_of(s, at, ask_conflict, &q);

	return ask_all(&b);
}

static int ask_holder(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct question *q = b->arg;
	struct dlk_waiter w = { .claim = q->lease->token,
				.claim_len = q->lease->token_len,
				.channel = DLK_NO_CHANNEL };
	int err;

	(void)i;
	err = dlk_queue_say(c, b->by_ns, "look", q->lease, &w, &q->said);
	return err == DLK_BUSY && q->said.holder_len == 0 ? 0 : err;
}

/* As if it were asked for: it is somebody's who can refuse it. */
static int find_holder(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, struct dlk_answer *answer)
{
	struct question q = { .lease = lease, .answer = answer };
	struct ballot b = ballot_of(s, at, ask_holder, &q);
	int err = ask_all(&b);

	if (err)
		return err;
	answer->holder_len = 0;
	answer->holder[0] = '\0';
	return DLK_BUSY;
}

static int ask_ping(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("PING") } };
	const redisReply *r;

	(void)i;
	return dlk_conn_call(c, b->by_ns, 1, args, &r);
}

static int ping(struct dlk_store *s, struct dlk_attempt *at)
{
	struct dlk_answer answer;
	struct question q = { .answer = &answer };
	struct ballot b = ballot_of(s, at, ask_ping, &q);

	dlk_ballot_hold(&b);
	return verdict(&b);
}

/* --- not here (4) --------------------------------------------------------- */

static int no_heartbeat(struct dlk_store *s, struct dlk_attempt *at,
			const struct dlk_lease *lease, struct dlk_waiter *w,
			struct dlk_answer *answer)
{
	(void)s, (void)lease, (void)w, (void)answer;
	strcpy(at->why, "a quorum has no queue");
	return -EOPNOTSUPP;
}

static struct dlk_subscription *no_subscribed(struct dlk_store *s,
					      const struct dlk_lease *lease)
{
	(void)s, (void)lease;
	return NULL;
}

static int no_subscribe(struct dlk_store *s, struct dlk_attempt *at,
			const struct dlk_lease *lease,
			struct dlk_subscription **sub)
{
	(void)s, (void)lease, (void)sub;
	strcpy(at->why, "a quorum tells nobody");
	return -EPERM;
}

static int no_tell_wait(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_wait *wait)
{
	(void)s, (void)wait;
	strcpy(at->why, "a quorum knows of no waits");
	return -EOPNOTSUPP;
}

/* -------------------------------------------------------------------------- */

/*
 * (Of what nobody gets there is no operation: a place in a queue, a claim, a
 * wait that was told of, a subscription.)
 */
static const struct dlk_store_ops ops = {
	.acquire = acquire,
	.acquire_range = acquire_range,
	.find_holder = find_holder,
	.find_conflict = find_conflict,
	.heartbeat = no_heartbeat,
	.yield = no_heartbeat,
	.ping = ping,
	.renew = dlk_quorum_renew,
	.release = dlk_quorum_release,
	.reclaim_ranges = dlk_quorum_reclaim,
	.list_ranges = dlk_quorum_list,
	.reduce_ranges = dlk_quorum_reduce,
	.tell_wait = no_tell_wait,
	.send_release = dlk_quorum_send_release,
	.send_downgrade = dlk_quorum_send_downgrade,
	.send_ranges = dlk_quorum_send_ranges,
	.drain = dlk_quorum_drain,
	.subscribed = no_subscribed,
	.subscribe = no_subscribe,
};

/* "a:1, b:2, c:3" */
static void name_masters(struct dlk_quorum *q)
{
	struct dlk_text t = dlk_text_in(q->at, sizeof(q->at));

	for (unsigned i = 0; i < q->masters.n; i++)
		dlk_text_strs(&t, i ? ", " : "", q->masters.v[i].ep->name,
			      NULL);
}

void dlk_quorum_init(struct dlk_quorum *q, const struct dlk_redis *redis)
{
	q->store = (struct dlk_store){
		.ops = &ops,
		.name = redis->name,
		.at = q->at,
		.fault = redis->fault,
		.no_queue = true,
		.connect_timeout_ms = redis->endpoints->connect_timeout_ms,
	};
	q->masters.n = redis->n_endpoints;
	for (unsigned i = 0; i < redis->n_endpoints; i++)
		q->masters.v[i].ep = &redis->endpoints[i];
	name_masters(q);
}
