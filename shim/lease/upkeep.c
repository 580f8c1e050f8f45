/* SPDX-License-Identifier: MIT */
/* Renewals and releases in one round trip; see upkeep.h. */
#include "lease/upkeep.h"

#include <errno.h>

#include "model/seeded.h"
#include "model/slot.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "redis/replicas.h"
#include "redis/script.h"

/* Results of those that are yet to be asked about. */
enum { TO_ASK = 1000, TO_RECLAIM, TO_LOOK_AGAIN, TO_CONFIRM };
/* So many slots are taught with a renewal, at most. */
enum { TEACH = 16 };

/* What is asked about each lease of a batch. */
struct question {
	/* NULL: it is put back, always by its text. */
	int (*send)(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool by_source);
	int (*answer)(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *u);
	bool learnt; /* its text teaches the server its name */
	bool counts; /* if the replicas have it as well */
};

static int renewed(struct dlk_conn *c, uint64_t deadline_ns,
		   struct dlk_renewal *u)
{
	int err = dlk_lease_renewed(c, deadline_ns, u);

	if (!err)
		dlk_server_granted(&c->server, u->asked_ns);
	return err;
}

static int released(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *u)
{
	const redisReply *r;
	uint64_t seq;
	int err = dlk_conn_reply(c, deadline_ns, &r);

	(void)u;
	if (!err && c->clustered && r->type == REDIS_REPLY_ERROR &&
	    !dlk_script_unknown(r))
		return dlk_script_refused(c, r);
	return err ?: dlk_lease_released(r, &seq);
}

/* The keeper and the thread may both put a lease back: then look once more. */
static int reclaimed(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *u)
{
	int err = dlk_lease_reclaimed(c, deadline_ns, &u->behind);

	return err == DLK_LOST ? TO_LOOK_AGAIN : err;
}

static const struct question renewal = { dlk_lease_renew, renewed, true, true };
static const struct question release = { dlk_lease_release, released, false,
					 false };
static const struct question reclaiming = { NULL, reclaimed, false, true };

static int send_one(struct dlk_conn *c, const struct question *q,
		    const struct dlk_renewal *u, bool by_source)
{
	return q->send ? q->send(c, u->lease, by_source)
		       : dlk_lease_reclaim(c, u->lease, u->outdated_ms);
}

/* Queue those that are still to be asked; the moment before they leave. */
static int send_all(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct question *q, struct dlk_renewal *u, unsigned n,
		    int which)
{
	uint64_t now = dlk_now_ns();
	/* Of a lease of a whole file, of records. */
	bool by_source[2] = { which != TO_ASK, which != TO_ASK };
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		bool *use_source = &by_source[u[i].lease->ranges_key != NULL];

		if (u[i].result != which)
			continue;
		u[i].asked_ns = now;
		err = send_one(c, q, &u[i], *use_source);
		if (err == -ENOBUFS)
			err = dlk_conn_flush(c, deadline_ns)
				      ?: send_one(c, q, &u[i], *use_source);
		*use_source &= !q->learnt;
	}
	if (!err && q->counts)
		err = dlk_replicas_ask(c, deadline_ns);
	return err ?: dlk_conn_flush(c, deadline_ns);
}

/*
 * What was just renewed, or put back, is as if nobody had answered where the
 * replicas do not have it: its deadline stays, and the next renewal asks again.
 */
static int await_replicas(struct dlk_conn *c, uint64_t deadline_ns,
			  struct dlk_renewal *u, unsigned n, int err)
{
	if (dlk_conn_is_open(c))
		err = dlk_replicas_have(c, deadline_ns);
	for (unsigned i = 0; i < n; i++)
		if (u[i].result == TO_CONFIRM)
			u[i].result = err;
	return err;
}

/* Of those whose result is `which` so far. */
static int round_trip(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct question *q, struct dlk_renewal *u,
		      unsigned n, int which)
{
	int err = 0;

	if (c->half != DLK_TAKING)
		err = send_all(c, deadline_ns, q, u, n, which);
	if (!err && c->half == DLK_ASKING)
		return -EINPROGRESS;
	c->half = DLK_WHOLE;
	/* What was queued before the failure must answer nothing later. */
	if (err)
		dlk_conn_close(c);
	for (unsigned i = 0; i < n; i++) {
		if (u[i].result != which)
			continue;
		if (err) {
			u[i].result = err;
			continue;
		}
		u[i].result = q->answer(c, deadline_ns, &u[i]);
		if (!dlk_conn_is_open(c))
			err = u[i].result;
		else if (u[i].result == 0 && q->counts && c->ep->replicas)
			u[i].result = TO_CONFIRM;
	}
	if (q->counts && c->ep->replicas)
		err = await_replicas(c, deadline_ns, u, n, err);
	dlk_conn_reset(c);
	return err;
}

/* By the scripts' names, and what the server does not know as a whole. */
static int ask_all(struct dlk_conn *c, uint64_t deadline_ns,
		   const struct question *q, struct dlk_renewal *u, unsigned n)
{
	bool again = false;
	int err = dlk_conn_open(c, deadline_ns);

	for (unsigned i = 0; i < n; i++) {
		u[i].result = err ? err : TO_ASK;
		u[i].reclaimed = u[i].behind = false;
		u[i].until_ns = u[i].outdated_ms = 0;
	}
	if (!err)
		err = round_trip(c, deadline_ns, q, u, n, TO_ASK);
	for (unsigned i = 0; i < n; i++)
		again |= u[i].result == -ENOENT;
	return again && !err ? round_trip(c, deadline_ns, q, u, n, -ENOENT)
			     : err;
}

/*
 * Of records the owner alone knows what to put back.  What is another's may be so
 * by who was quicker to put back what he has no more (reclaim.lua, [PROOF]):
 *
 *	holder		master		its keeper	another of this host
 *	closed
 *							granted
 *			(forgets all)
 *					renew: none
 *					put back
 *							renew: another's
 *					(sees the end)
 */
static bool may_reclaim(const struct dlk_renewal *u)
{
	return (u->result == DLK_GONE || u->result == DLK_LOST) &&
	       !u->lease->ranges_key && dlk_now_ns() < u->deadline_ns &&
	       !dlk_seeded(8);
}

/*
 * The memory of a server that is young may be one of a while ago: a replica's that
 * was promoted, or what was saved last.  Of an owner's ranges it may have those
 * before his last request, which the owner alone can mend; and a lease that another
 * has given up since.
 *
 *	holder		server		its memory	another
 *							unlock ->
 *			unlocked	(not told any more)
 *	lock ->		granted
 *					is the server's
 *	renew ->			the other's
 *					forgets it
 *	put back ->			ours
 *
 * As long as it grants nothing that other lease is only as old, and ends; and ours
 * is as good as asked for when that began, for nobody is granted it before the
 * delay is over, which is no shorter than any ttl (DESIGN 5.4).  By three quarters
 * of a ttl whoever has that other lease would have renewed it twice, and reached his
 * warning: if it was not, ours is put over it, for if it ended by itself it might
 * do so too late for us.
 *
 *	since		   3/4		 deadline
 *	|------------------|-------------|---|
 *	grants nothing	   put over it	     since + the ttl, at most the delay
 *
 * (The deadline does not move if replicas are to confirm what counts: a master that
 * is cut off begins when it is first asked, which may be late.)
 */
bool dlk_upkeep_is_old(const struct dlk_renewal *u)
{
	return u->result == 0 && u->lease->ranges_key && u->seq < u->sent_seq;
}

uint64_t dlk_upkeep_outdated(const struct dlk_youth *youth,
			     const struct dlk_lease *lease)
{
	return youth->since_ns &&
			       youth->now_ms >= youth->since_ms +
							lease->ttl_ms * 3ULL / 4
		       ? youth->since_ms + lease->ttl_ms
		       : 0;
}

void dlk_upkeep_wait(struct dlk_conn *c, const struct dlk_youth *youth,
		     struct dlk_renewal *u)
{
	const uint32_t delay = c->ep->restart_delay_ms;
	const uint32_t ttl = u->lease->ttl_ms;
	/* Others than us ask for it without a delay. */
	const bool sure =
		!u->lease->interop && (u->behind || u->lease->ranges_key);

	if (!youth->since_ns || (!sure && !c->server.named) ||
	    dlk_now_ns() >= u->deadline_ns)
		return;
	dlk_conn_set_error(c, "it has another's lease, as old as its memory "
			      "was when it began");
	u->result = -EAGAIN;
	if (sure && !c->ep->replicas)
		u->until_ns = dlk_deadline_ns(youth->since_ns,
					      ttl < delay ? ttl : delay);
}

static bool may_be_mended(const struct dlk_renewal *u)
{
	return may_reclaim(u) || dlk_upkeep_is_old(u) || u->result == DLK_LOST;
}

/* Each that may be: it is put back by a batch, by its owner, or later. */
static void mend_old(struct dlk_conn *c, const struct dlk_youth *youth,
		     struct dlk_renewal *u)
{
	if (dlk_upkeep_is_old(u) ||
	    (u->result == DLK_LOST && u->lease->ranges_key))
		u->result = DLK_GONE;
	else if (u->behind || u->result == DLK_LOST)
		dlk_upkeep_wait(c, youth, u);
}

static void reclaim_each(struct dlk_conn *c, uint64_t deadline_ns,
			 const struct dlk_youth *youth, struct dlk_renewal *u,
			 unsigned n)
{
	int err;

	for (unsigned i = 0; i < n; i++) {
		if (!may_reclaim(&u[i]))
			continue;
		u[i].result = TO_RECLAIM;
		u[i].reclaimed = true;
		u[i].outdated_ms = dlk_upkeep_outdated(youth, u[i].lease);
	}
	err = round_trip(c, deadline_ns, &reclaiming, u, n, TO_RECLAIM);
	if (!err)
		round_trip(c, deadline_ns, &renewal, u, n, TO_LOOK_AGAIN);
	for (unsigned i = 0; i < n; i++) {
		if (u[i].result == TO_LOOK_AGAIN)
			u[i].result = err;
		u[i].behind &=
			u[i].result == DLK_LOST || u[i].result == DLK_GONE;
		/* In time, or else nobody knows what came in between. */
		if (u[i].reclaimed && u[i].result == 0 &&
		    dlk_now_ns() >= u[i].deadline_ns)
			u[i].result = DLK_GONE;
	}
}

/*
 * Whether the server is young enough is asked once for all.  What could not be
 * asked is unknown then, and not gone; but that it is another's has been said, if
 * nothing more is to be learnt (where no memory is older than it seems).
 */
static void mend(struct dlk_conn *c, uint64_t deadline_ns,
		 struct dlk_renewal *u, unsigned n)
{
	bool lost[DLK_RENEW_BATCH];
	struct dlk_youth youth;
	int err = dlk_script_young(c, deadline_ns, &youth);

	dlk_conn_reset(c);
	c->emptied |= !err && youth.emptied;
	for (unsigned i = 0; i < n; i++) {
		lost[i] = u[i].result == DLK_LOST && !c->server.named &&
			  !c->clustered;
		if (err && !lost[i] && may_be_mended(&u[i]))
			u[i].result = err;
	}
	if (err || !youth.left_ms)
		return;
	reclaim_each(c, deadline_ns, &youth, u, n);
	for (unsigned i = 0; i < n; i++) {
		if (lost[i] && !youth.since_ns && u[i].result < 0)
			u[i].result = DLK_LOST;
		mend_old(c, &youth, &u[i]);
	}
}

/* The rest at the next renewal: each is a round trip, once. */
static void teach_slots(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_renewal *u, unsigned n)
{
	unsigned sent = 0;

	for (unsigned i = 0; i < n && sent < TEACH; i++)
		if (u[i].result == 0)
			sent += dlk_script_teach_slot(
				c, deadline_ns,
				dlk_slot_of(u[i].lease->key,
					    u[i].lease->key_len));
}

int dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *u, unsigned n)
{
	const int err = ask_all(c, deadline_ns, &renewal, u, n);
	bool any = false;

	/* (What the replicas do not have may be gone all the same.) */
	for (unsigned i = 0; i < n && (!err || c->unconfirmed); i++)
		any |= may_be_mended(&u[i]);
	if (any)
		mend(c, deadline_ns, u, n);
	if (!err && c->clustered)
		teach_slots(c, deadline_ns, u, n);
	if (!err)
		dlk_conn_look(c, deadline_ns);
	return err;
}

int dlk_release_batch(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *u, unsigned n)
{
	return ask_all(c, deadline_ns, &release, u, n);
}

int dlk_put_back_batch(struct dlk_conn *c, uint64_t deadline_ns,
		       struct dlk_renewal *u, unsigned n)
{
	int err = dlk_conn_open(c, deadline_ns);

	for (unsigned i = 0; i < n; i++)
		if (u[i].result == DLK_GONE && may_reclaim(&u[i]))
			u[i].result = TO_RECLAIM;
	return err ?: round_trip(c, deadline_ns, &reclaiming, u, n, TO_RECLAIM);
}

unsigned dlk_batch_owed(const struct dlk_renewal *u, unsigned n)
{
	unsigned owed = 0;

	for (unsigned i = 0; i < n; i++)
		owed += u[i].result >= TO_ASK;
	return owed;
}
