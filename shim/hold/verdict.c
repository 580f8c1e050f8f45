/* SPDX-License-Identifier: MIT */
/*
 * What a renewal has made of a hold; see verdict.h.
 *
 * A renewal and the end of its hold may meet:
 *
 *	the thread		server			another thread
 *	renew ->		(has forgotten it)
 *							gives it up: release ->
 *				nothing is there
 *	put back ->		it is there again
 *
 * Then it is released once more.  But only what we gave up is nobody's: what was
 * left to the keeper is somebody else's, and a downgrade goes on by its token
 * (lock/flock.c).
 */
#include "hold/verdict.h"

#include "os/sys.h"
#include "hold/backstop.h"
#include "hold/holds.h"
#include "model/outbox.h"
#include "model/timeline.h"

/* Beyond an eighth of the ttl, by which it renews later than we. */
enum { KEEPER_STOPS_MS = 250 };

/* (mutex) It is as bad as that at least. */
static bool worsen(struct dlk_hold *h, enum hold_trouble trouble)
{
	const bool worse = trouble > h->valid.trouble;

	if (worse) {
		h->valid.trouble = trouble;
		dlk_backstop_watch(h);
	}
	return worse;
}

/* (mutex) A renewal has failed, and marks have come; what is to be said? */
static enum hold_verdict reach_marks(struct dlk_hold *h, uint64_t now)
{
	const enum hold_trouble trouble =
		now >= dlk_hold_final_ns(h) ? HOLD_OUTLIVED
		: dlk_hold_pauses(h) && now >= dlk_hold_stop_ns(h) ? HOLD_READY
		: now >= dlk_hold_warn_ns(h)                       ? HOLD_WARNED
					     : HOLD_FAILING;
	const bool stood_back = dlk_backstop_stands_back();

	/* The keeper alone knows whether it is so. */
	if (!worsen(h, trouble) || h->valid.elsewhere)
		return VERDICT_NOTHING;
	return trouble == HOLD_OUTLIVED ? VERDICT_OUTLIVED
	       : trouble == HOLD_READY
		       ? (stood_back ? VERDICT_NOTHING : VERDICT_READY)
	       : trouble == HOLD_WARNED ? VERDICT_WARN
					: VERDICT_NOTHING;
}

/* (mutex) The server keeps everybody out for so long (5.4): it is held on. */
static bool is_kept(struct dlk_hold *h, const struct dlk_renewal *r,
		    uint64_t now)
{
	if (r->result >= 0 ||
	    !dlk_later(r->until_ns, h->valid.deadline_ns, h->lease.ttl_ms) ||
	    dlk_final_ns(h->rule, r->until_ns, h->lease.ttl_ms) <= now)
		return false;
	dlk_hold_keep(h, r->until_ns);
	return true;
}

/*
 * (mutex) Another's, or nobody's: this process would be dead at once, and what
 * works under its lock without it be an orphan that nobody finds.  So a keeper
 * that has the lease has the time to see that, and to stop them all.
 */
static bool is_the_keepers_to_stop(struct dlk_hold *h, uint64_t now)
{
	const uint32_t part = dlk_hold_outlives(h) ? 1 : 8;
	const uint64_t patience =
		(h->lease.ttl_ms / part + KEEPER_STOPS_MS) * DLK_MS;

	if (h->rule->on_lost == DLK_LOST_REPORT || !h->keeper.carried)
		return false;
	if (!h->valid.robbed_ns)
		h->valid.robbed_ns = now;
	if (now >= h->valid.robbed_ns + patience)
		return false;
	worsen(h, HOLD_FAILING);
	dlk_hold_retry(h, now);
	return true;
}

enum hold_verdict dlk_judge(struct dlk_hold *h, const struct dlk_renewal *r,
			    uint64_t now)
{
	bool warned;

	DLK_GUARD(&dlk_holds_mutex);
	warned = h->valid.trouble >= HOLD_WARNED;
	if (h->state != HOLD_HELD)
		return r->reclaimed && h->out.expires_ns ? VERDICT_PUT_BACK
							 : VERDICT_NOTHING;
	if (r->result == 0) {
		/* Of a memory before it was shared (5.4). */
		if (r->alone && h->lease.shared &&
		    h->out.message == OUTBOX_NOTHING)
			dlk_outbox_put(&h->out, OUTBOX_DOWNGRADE, now);
		dlk_hold_extend(h, r->asked_ns);
		return warned ? VERDICT_RECOVERED : VERDICT_NOTHING;
	}
	if (r->result == DLK_REPLACED) {
		dlk_hold_drop(h);
		return VERDICT_NOTHING;
	}
	if (is_kept(h, r, now) && warned) {
		dlk_hold_retry(h, now);
		return VERDICT_RECOVERED;
	}
	if (r->result > 0 && is_the_keepers_to_stop(h, now))
		return VERDICT_NOTHING;
	if (r->result > 0 || (now >= dlk_hold_final_ns(h) &&
			      !h->valid.elsewhere && !dlk_hold_outlives(h)))
		return VERDICT_LOST;
	dlk_hold_retry(h, now);
	return reach_marks(h, now);
}

enum hold_verdict dlk_judge_marks(struct dlk_hold *h, uint64_t now)
{
	enum hold_verdict verdict;

	DLK_GUARD(&dlk_holds_mutex);
	if (h->valid.trouble == HOLD_WELL || h->valid.elsewhere ||
	    h->state != HOLD_HELD)
		return VERDICT_NOTHING;
	verdict = reach_marks(h, now);
	return verdict == VERDICT_OUTLIVED && !dlk_hold_outlives(h)
		       ? VERDICT_LOST
		       : verdict;
}
