/* SPDX-License-Identifier: MIT */
/* Leases at one server; see lease.h, script.h and scripts/. */
#include "lease/lease.h"

#include <errno.h>
#include <string.h>

#include "lease/queue.h"
#include "lease/records.h"
#include "lease/reply.h"
#include "model/seeded.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "scripts.h"

static struct dlk_arg mode(const struct dlk_lease *lease)
{
	return lease->shared || dlk_seeded(2) ? WORD("SH") : WORD("EX");
}

/* --- acquire -------------------------------------------------------------- */

static struct dlk_arg since(const struct dlk_lease *lease)
{
	struct dlk_arg id = dlk_script_identity(lease->token);

	return (struct dlk_arg){ id.text + id.len, 20 };
}

int dlk_lease_acquire(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease, bool proof,
		      const struct dlk_lease *superseded,
		      struct dlk_waiter *waiter, struct dlk_answer *answer)
{
	struct dlk_number ttl, linger;
	struct dlk_waiter_args w;

	dlk_waiter_args(&w, waiter);
	struct dlk_arg args[17] = {
		WORD("EVALSHA"),
		dlk_script_name(c, DLK_ACQUIRE),
		WORD("2"),
		KEY(lease),
		dlk_script_queue(c, lease),
		TOKEN(lease),
		dlk_arg_number(&ttl, lease->ttl_ms, 0),
		dlk_script_identity(lease->token),
		proof ? since(lease) : NO_WORD,
		mode(lease),
		superseded ? TOKEN(superseded) : NO_WORD,
		dlk_script_options(lease),
		w.claim,
		w.ticket,
		w.channel,
		w.life,
	};

	return dlk_reply_ask(c, deadline_ns, true, lease,
			     waiter || lease->pause_ms
				     ? dlk_reply_linger(c, lease, &linger, args,
							16)
				     : 12,
			     args, waiter, answer);
}

/* --- queue ---------------------------------------------------------------- */

int dlk_queue_say(struct dlk_conn *c, uint64_t deadline_ns, const char *verb,
		  const struct dlk_lease *lease, struct dlk_waiter *waiter,
		  struct dlk_answer *answer)
{
	const bool ranges = lease->ranges_key;
	struct dlk_waiter_args w;
	struct dlk_arg args[14];
	int n = 0;

	dlk_waiter_args(&w, waiter);
	args[n++] = WORD("EVALSHA");
	args[n++] = dlk_script_name(c, ranges ? DLK_RECORDS_QUEUE : DLK_QUEUE);
	args[n++] = ranges ? WORD("3") : WORD("2");
	args[n++] = KEY(lease);
	if (ranges)
		args[n++] = RANGES(lease);
	args[n++] = dlk_script_queue(c, lease);
	args[n++] = dlk_arg_str(verb);
	args[n++] = ranges ? (struct dlk_arg){ waiter->what, DLK_WHAT_LEN }
			   : mode(lease);
	args[n++] = w.claim;
	args[n++] = w.ticket;
	args[n++] = w.channel;
	args[n++] = w.life;
	if (!ranges)
		args[n++] = dlk_script_identity(waiter->claim);
	args[n++] = dlk_script_options(lease);
	if (!answer) {
		struct dlk_arg gated[DLK_GATED_MAX];

		n = dlk_script_gate(c, n, args, gated);
		return dlk_conn_append(c, n, gated);
	}
	return dlk_reply_ask(c, deadline_ns, false, lease, n, args, waiter,
			     answer);
}

/* --- release, renew, weaken ----------------------------------------------- */

/*
 * By its name, or by its text.  With no key but those that it needs, for while
 * a slot of a cluster moves, a question is answered if all its keys are on one
 * side, and the queue mostly is nowhere.
 */
static int compare(struct dlk_conn *c, bool by_source, struct dlk_arg script,
		   const struct dlk_lease *lease, struct dlk_arg last)
{
	const bool two = lease->ranges_key && (!c->one_key || lease->pause_ms);
	struct dlk_number linger;
	struct dlk_arg args[10];
	int n = 0, plain;

	args[n++] = by_source ? WORD("EVAL") : WORD("EVALSHA");
	args[n++] = script;
	args[n++] = two ? WORD("2") : WORD("1");
	args[n++] = KEY(lease);
	if (two)
		args[n++] = RANGES(lease);
	args[n++] = TOKEN(lease);
	args[n++] = last;
	plain = n;
	n = dlk_reply_linger(c, lease, &linger, args, n);
	if (lease->ranges_key && c->one_of_several) {
		if (n == plain)
			args[n++] = NO_WORD;
		args[n++] = WORD("alike");
	}
	return dlk_conn_append(c, n, args);
}

/* An owner's records end with a list that is empty, after all other requests.
 */
static int release_records(struct dlk_conn *c, const struct dlk_lease *lease,
			   bool by_source)
{
	static const struct dlk_ranges nothing;
	struct dlk_range all = { .end = DLK_RANGE_MAX };

	return dlk_records_set(c, lease, UINT64_MAX, &all, &nothing, by_source);
}

/* How long it stays if it is released now: "" for not at all. */
static struct dlk_arg stays(struct dlk_number *n, const struct dlk_lease *lease)
{
	const uint64_t now = dlk_now_ns();

	if (lease->shared || lease->stays_until_ns < now + DLK_MS)
		return NO_WORD;
	return dlk_arg_number(n, (lease->stays_until_ns - now) / DLK_MS, 0);
}

int dlk_lease_release(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool by_source)
{
	struct dlk_number ms;
	struct dlk_arg args[8];
	int n = 0;

	by_source |= c->one_key;
	if (lease->ranges_key)
		return release_records(c, lease, by_source);
	if (dlk_seeded(14))
		return dlk_conn_append(
			c, 2, (struct dlk_arg[]){ WORD("DEL"), KEY(lease) });
	args[n++] = by_source ? WORD("EVAL") : WORD("EVALSHA");
	args[n++] = by_source ? WORD(DLK_LUA_drop)
			      : dlk_script_name(c, DLK_RELEASE);
	args[n++] = by_source ? WORD("1") : WORD("2");
	args[n++] = KEY(lease);
	if (!by_source)
		args[n++] = dlk_script_queue(c, lease);
	args[n++] = TOKEN(lease);
	args[n++] = dlk_script_options(lease);
	args[n++] = stays(&ms, lease);
	return dlk_conn_append(c, n, args);
}

int dlk_lease_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool by_source)
{
	static const struct dlk_arg scripts[2][2] = {
		{ { LITERAL(DLK_SHA_renew) }, { LITERAL(DLK_LUA_renew) } },
		{ { LITERAL(DLK_SHA_records_renew) },
		  { LITERAL(DLK_LUA_records_renew) } },
	};
	struct dlk_number ttl;

	return compare(c, by_source,
		       scripts[lease->ranges_key != NULL][by_source], lease,
		       dlk_arg_number(&ttl, lease->ttl_ms, 0));
}

int dlk_lease_weaken(struct dlk_conn *c, const struct dlk_lease *lease)
{
	struct dlk_number ttl;

	return compare(c, true, WORD(DLK_LUA_weaken), lease,
		       dlk_arg_number(&ttl, lease->ttl_ms, 0));
}

/* --- reclaim -------------------------------------------------------------- */

int dlk_lease_reclaim(struct dlk_conn *c, const struct dlk_lease *lease,
		      uint64_t outdated_ms)
{
	struct dlk_number ttl, outdated, linger;
	struct dlk_arg args[9] = {
		WORD("EVAL"), WORD(DLK_LUA_reclaim),
		WORD("1"),    KEY(lease),
		TOKEN(lease), dlk_arg_number(&ttl, lease->ttl_ms, 0),
		mode(lease),  dlk_arg_number(&outdated, outdated_ms, 0),
	};

	return dlk_conn_append(c, dlk_reply_linger(c, lease, &linger, args, 8),
			       args);
}
