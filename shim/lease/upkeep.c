/* SPDX-License-Identifier: MIT */
/* Renewals and releases in one round trip; see upkeep.h. */
#include "lease/upkeep.h"

#include <errno.h>

#include "model/seeded.h"
#include "os/sys.h"
#include "redis/replicas.h"
#include "redis/script.h"

/* Results of those that are yet to be asked about. */
enum { TO_ASK = 1000, TO_RECLAIM, TO_LOOK_AGAIN, TO_CONFIRM };

/* What is asked about each lease of a batch. */
struct question {
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

static int reclaim(struct dlk_conn *c, const struct dlk_lease *lease,
		   bool by_source)
{
	(void)by_source; /* always */
	return dlk_lease_reclaim(c, lease);
}

/* The keeper and the thread may both put a lease back: then look once more. */
static int reclaimed(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *u)
{
	int err = dlk_lease_reclaimed(c, deadline_ns);

	(void)u;
	return err == DLK_LOST ? TO_LOOK_AGAIN : err;
}

static const struct question renewal = { dlk_lease_renew, renewed, true, true };
static const struct question release = { dlk_lease_release, released, false,
					 false };
static const struct question reclaiming = { reclaim, reclaimed, false, true };

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
		err = q->send(c, u[i].lease, *use_source);
		if (err == -ENOBUFS) {
			err = dlk_conn_flush(c, deadline_ns)
				      ?: q->send(c, u[i].lease, *use_source);
		}
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
		u[i].reclaimed = false;
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
 * After a failover the memory is one of a while ago: of an owner's ranges it may
 * have those before his last request, which the owner alone can mend; and a lease
 * that another has given up since.
 *
 *	holder		master		its replica	another
 *							unlock ->
 *			unlocked	(not told any more)
 *	lock ->		granted
 *					promoted
 *	renew ->			the other's
 *
 * As long as it grants nothing that other lease is only as old: it ends before
 * ours, which was granted after it, so it is waited out until our own deadline.
 */
static bool has_old_ranges(const struct dlk_conn *c,
			   const struct dlk_renewal *u)
{
	return c->server.named && u->result == 0 && u->lease->ranges_key &&
	       u->seq < u->sent_seq;
}

/* Gone though it was to be put back: readers are there, of whom none is ours. */
static bool is_behind_old(const struct dlk_conn *c, const struct dlk_renewal *u)
{
	return c->server.named && dlk_now_ns() < u->deadline_ns &&
	       (u->result == DLK_LOST ||
		(u->result == DLK_GONE && u->reclaimed));
}

static bool may_be_mended(const struct dlk_conn *c, const struct dlk_renewal *u)
{
	return may_reclaim(u) || has_old_ranges(c, u) || is_behind_old(c, u);
}

/* Each that may be: it is put back by a batch, by its owner, or later. */
static void mend_old(struct dlk_conn *c, struct dlk_renewal *u)
{
	if (has_old_ranges(c, u))
		u->result = DLK_GONE;
	if (!is_behind_old(c, u))
		return;
	dlk_conn_set_error(c, "it has another's lease, as old as its memory "
			      "was at the failover");
	u->result = -EAGAIN;
}

static void reclaim_each(struct dlk_conn *c, uint64_t deadline_ns,
			 struct dlk_renewal *u, unsigned n)
{
	int err;

	for (unsigned i = 0; i < n; i++) {
		if (!may_reclaim(&u[i]))
			continue;
		u[i].result = TO_RECLAIM;
		u[i].reclaimed = true;
	}
	err = round_trip(c, deadline_ns, &reclaiming, u, n, TO_RECLAIM);
	if (!err)
		round_trip(c, deadline_ns, &renewal, u, n, TO_LOOK_AGAIN);
	for (unsigned i = 0; i < n; i++) {
		if (u[i].result == TO_LOOK_AGAIN)
			u[i].result = err;
		/* In time, or else nobody knows what came in between. */
		if (u[i].reclaimed && u[i].result == 0 &&
		    dlk_now_ns() >= u[i].deadline_ns)
			u[i].result = DLK_GONE;
	}
}

/*
 * Whether the server is young enough is asked once for all.  What could not be
 * asked is unknown then, and not gone.
 */
static void reclaim_all(struct dlk_conn *c, uint64_t deadline_ns,
			struct dlk_renewal *u, unsigned n)
{
	uint64_t young_ms;
	bool emptied;
	int err = dlk_script_young(c, deadline_ns, &young_ms, &emptied);

	dlk_conn_reset(c);
	c->emptied |= !err && emptied;
	for (unsigned i = 0; i < n && err; i++)
		if (may_be_mended(c, &u[i]))
			u[i].result = err;
	if (err || !young_ms)
		return;
	reclaim_each(c, deadline_ns, u, n);
	for (unsigned i = 0; i < n; i++)
		mend_old(c, &u[i]);
}

/* That it is another's has been said, if nothing more is to be learnt. */
static void mend(struct dlk_conn *c, uint64_t deadline_ns,
		 struct dlk_renewal *u, unsigned n)
{
	bool lost[DLK_RENEW_BATCH];

	for (unsigned i = 0; i < n; i++)
		lost[i] = u[i].result == DLK_LOST && !c->server.named;
	reclaim_all(c, deadline_ns, u, n);
	for (unsigned i = 0; i < n; i++)
		if (lost[i] && u[i].result < 0)
			u[i].result = DLK_LOST;
}

int dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *u, unsigned n)
{
	const int err = ask_all(c, deadline_ns, &renewal, u, n);
	bool any = false;

	for (unsigned i = 0; i < n && !err; i++)
		any |= may_be_mended(c, &u[i]);
	if (any)
		mend(c, deadline_ns, u, n);
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
