/* SPDX-License-Identifier: MIT */
/* Leases at one server; see lease.h, script.h and scripts/. */
#include "lease/lease.h"

#include <errno.h>
#include <string.h>

#include "lease/queue.h"
#include "lease/records.h"
#include "redis/script.h"
#include "os/sys.h"
#include "scripts.h"

#define LITERAL DLK_LITERAL

const char *dlk_lease_why(const struct dlk_conn *c)
{
	return dlk_conn_error(c);
}

static const struct dlk_arg none = { "", 0 };

static struct dlk_arg mode(const struct dlk_lease *lease)
{
	return lease->shared ? (struct dlk_arg){ LITERAL("SH") }
			     : (struct dlk_arg){ LITERAL("EX") };
}

/* --- acquire -------------------------------------------------------------- */

/* {code, number, text, ticket, ahead}, as acquire.lua and queue.lua have it. */
static int read_answer(struct dlk_conn *c, const redisReply *r,
		       struct dlk_waiter *waiter, struct dlk_answer *answer)
{
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 5 ||
	    r->element[2]->type != REDIS_REPLY_STRING)
		return dlk_script_refused(c, r);
	answer->holder_len = dlk_script_text(r->element[2], answer->holder,
					     sizeof(answer->holder));
	switch (dlk_script_int(r, 0)) {
	case 1:
		answer->replaced = dlk_script_int(r, 1) == 1;
		if (waiter)
			waiter->queued = false;
		return 0;
	case 0:
		answer->left_ms = dlk_script_int(r, 1);
		if (waiter)
			dlk_waiter_place(waiter, true, dlk_script_int(r, 3),
					 dlk_script_int(r, 4));
		return DLK_BUSY;
	case 2:
		return DLK_WRONG_TYPE;
	default:
		return dlk_script_refused(c, r);
	}
}

/* A script that grants: taught to a server that is old enough (script.h). */
static int ask(struct dlk_conn *c, uint64_t deadline_ns, int argc,
	       const struct dlk_arg *args, struct dlk_waiter *waiter,
	       struct dlk_answer *answer)
{
	const redisReply *r;
	int err = dlk_script_ask(c, deadline_ns, DLK_FLOCK_SCRIPTS, argc, args,
				 answer, &r);

	return err ? err : read_answer(c, r, waiter, answer);
}

static struct dlk_arg since(const struct dlk_lease *lease)
{
	struct dlk_arg id = dlk_script_identity(lease->token);

	return (struct dlk_arg){ id.text + id.len, 20 };
}

static struct dlk_arg ticket(struct dlk_number *n, const struct dlk_waiter *w)
{
	return w && w->queued ? dlk_script_signed(n, w->ticket) : none;
}

int dlk_lease_acquire(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease, bool proof,
		      const struct dlk_lease *superseded,
		      struct dlk_waiter *waiter, struct dlk_answer *answer)
{
	const struct dlk_waiter *w = waiter;
	struct dlk_number ttl, place, life;
	struct dlk_channel channel;
	const struct dlk_arg args[] = {
		{ LITERAL("EVALSHA") },
		dlk_script_name(c, DLK_ACQUIRE),
		{ LITERAL("2") },
		{ lease->key, lease->key_len },
		dlk_script_queue(c, lease),
		{ lease->token, lease->token_len },
		dlk_script_number(&ttl, lease->ttl_ms, 0),
		dlk_script_identity(lease->token),
		proof ? since(lease) : none,
		mode(lease),
		superseded ? (struct dlk_arg){ superseded->token,
					       superseded->token_len }
			   : none,
		dlk_script_options(lease),
		w ? (struct dlk_arg){ w->claim, w->claim_len } : none,
		ticket(&place, w),
		w ? dlk_script_channel(&channel, w) : none,
		dlk_script_number(&life, w ? w->claim_ttl_ms : 0, 0),
	};

	return ask(c, deadline_ns, w ? 16 : 12, args, waiter, answer);
}

/* --- queue ---------------------------------------------------------------- */

static int queue_append_or_call(struct dlk_conn *c, uint64_t deadline_ns,
				const char *verb, const struct dlk_lease *lease,
				struct dlk_waiter *w, struct dlk_answer *answer)
{
	struct dlk_number place, life;
	struct dlk_channel channel;
	const struct dlk_arg args[] = {
		{ LITERAL("EVALSHA") },
		dlk_script_name(c, DLK_QUEUE),
		{ LITERAL("2") },
		{ lease->key, lease->key_len },
		dlk_script_queue(c, lease),
		{ verb, strlen(verb) },
		mode(lease),
		{ w->claim, w->claim_len },
		ticket(&place, w),
		dlk_script_channel(&channel, w),
		dlk_script_number(&life, w->claim_ttl_ms, 0),
		dlk_script_identity(w->claim),
		dlk_script_options(lease),
	};

	if (lease->ranges_key)
		return dlk_records_queue(c, deadline_ns, verb, lease, w,
					 answer);
	if (!answer)
		return dlk_script_append(c, 13, args);
	return ask(c, deadline_ns, 13, args, w, answer);
}

int dlk_queue_heartbeat(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease, struct dlk_waiter *w,
			struct dlk_answer *answer)
{
	return queue_append_or_call(c, deadline_ns, "heartbeat", lease, w,
				    answer);
}

int dlk_queue_yield(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease, struct dlk_waiter *w,
		    struct dlk_answer *answer)
{
	return queue_append_or_call(c, deadline_ns, "yield", lease, w, answer);
}

int dlk_queue_cancel(struct dlk_conn *c, const struct dlk_lease *lease,
		     struct dlk_waiter *w)
{
	int err = queue_append_or_call(c, 0, "cancel", lease, w, NULL);

	w->queued = false;
	return err;
}

int dlk_queue_suspend(struct dlk_conn *c, const struct dlk_lease *lease,
		      struct dlk_waiter *w)
{
	return queue_append_or_call(c, 0, "suspend", lease, w, NULL);
}

int dlk_queue_look(struct dlk_conn *c, uint64_t deadline_ns,
		   const struct dlk_lease *lease, bool *shared,
		   struct dlk_answer *answer)
{
	struct dlk_waiter w = {
		.claim = lease->token,
		.claim_len = lease->token_len,
		.channel = DLK_NO_CHANNEL,
	};
	int err =
		queue_append_or_call(c, deadline_ns, "look", lease, &w, answer);

	*shared = w.ahead == 1;
	return err;
}

/* --- release -------------------------------------------------------------- */

static int compare(struct dlk_conn *c, struct dlk_arg how,
		   struct dlk_arg script, const struct dlk_lease *lease,
		   bool with_ttl)
{
	struct dlk_number ttl;
	const struct dlk_arg args[] = {
		how,
		script,
		{ LITERAL("2") },
		{ lease->key, lease->key_len },
		dlk_script_queue(c, lease),
		{ lease->token, lease->token_len },
		with_ttl ? dlk_script_number(&ttl, lease->ttl_ms, 0)
			 : dlk_script_options(lease),
	};

	return dlk_script_append(c, 7, args);
}

static const struct dlk_arg evalsha = { LITERAL("EVALSHA") };
static const struct dlk_arg eval = { LITERAL("EVAL") };

/* An owner's records end with a list that is empty, after all other requests.
 */
static int release_records(struct dlk_conn *c, const struct dlk_lease *lease,
			   bool by_source)
{
	static const struct dlk_ranges nothing;
	struct dlk_range all = { .end = DLK_RANGE_MAX };

	return dlk_records_set(c, lease, UINT64_MAX, &all, &nothing, by_source);
}

int dlk_lease_release(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool by_source)
{
	const struct dlk_arg sha = dlk_script_name(c, DLK_RELEASE);
	const struct dlk_arg lua = { LITERAL(DLK_LUA_drop) };

	if (lease->ranges_key)
		return release_records(c, lease, by_source);
	return compare(c, by_source ? eval : evalsha, by_source ? lua : sha,
		       lease, false);
}

int dlk_lease_released(const redisReply *reply)
{
	uint64_t seq;

	if (!reply)
		return -EPIPE;
	if (reply->type == REDIS_REPLY_INTEGER)
		return 0;
	if (reply->type == REDIS_REPLY_ARRAY)
		return dlk_records_was_set(reply, &seq);
	if (dlk_script_unknown(reply))
		return -ENOENT;
	return dlk_script_passing(reply) ? -EAGAIN : -EREMOTEIO;
}

/* --- renew ---------------------------------------------------------------- */

int dlk_lease_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool by_source)
{
	const struct dlk_arg sha = { LITERAL(DLK_SHA_renew) };
	const struct dlk_arg lua = { LITERAL(DLK_LUA_renew) };

	if (lease->ranges_key)
		return dlk_records_renew(c, lease, by_source);
	return compare(c, by_source ? eval : evalsha, by_source ? lua : sha,
		       lease, true);
}

int dlk_lease_renewed(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease)
{
	const redisReply *r;
	int err;

	if (lease->ranges_key)
		return dlk_records_renewed(c, deadline_ns, lease);
	err = dlk_conn_reply(c, deadline_ns, &r);
	if (err)
		return err;
	if (dlk_script_unknown(r))
		return -ENOENT;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_STRING)
		return dlk_script_refused(c, r);
	switch (dlk_script_int(r, 0)) {
	case 1:
		return 0;
	case 0:
		return dlk_script_succeeds(lease->token, r->element[1])
			       ? DLK_REPLACED
			       : DLK_LOST;
	case -1:
		return DLK_GONE;
	default:
		return dlk_script_refused(c, r);
	}
}

int dlk_lease_reclaim(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease)
{
	uint64_t left_ms;
	struct dlk_number ttl;
	const redisReply *r;
	int err = dlk_script_young(c, deadline_ns, &left_ms);

	if (err)
		return err;
	if (!left_ms)
		return DLK_GONE;
	const struct dlk_arg args[] = {
		{ LITERAL("EVAL") },
		{ LITERAL(DLK_LUA_reclaim) },
		{ LITERAL("1") },
		{ lease->key, lease->key_len },
		{ lease->token, lease->token_len },
		dlk_script_number(&ttl, lease->ttl_ms, 0),
		mode(lease),
	};

	err = dlk_script_call(c, deadline_ns, 7, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return dlk_script_refused(c, r);
	return r->integer == 1 ? 0 : DLK_LOST;
}

/* --- weaken --------------------------------------------------------------- */

int dlk_lease_weaken(struct dlk_conn *c, const struct dlk_lease *lease)
{
	return compare(c, eval, (struct dlk_arg){ LITERAL(DLK_LUA_weaken) },
		       lease, true);
}
