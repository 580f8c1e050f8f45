/* SPDX-License-Identifier: MIT */
/*
 * Record locks: Redis' part (see record.c): the question with its proof, what
 * is granted, and what the program before an execve(2) has left.
 */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/inherited.h"
#include "hold/local.h"
#include "hold/lost.h"
#include "hold/release.h"
#include "lock/record.h"
#include "lock/wait_slot.h"
#include "model/range.h"
#include "model/timeline.h"
#include "model/token.h"
#include "model/seeded.h"

/* What else a try can give. */
enum { ENDED = 105 };

/* --- the question --------------------------------------------------------- */

/*
 * What others have by the same description: by the kernel, or by our own list, which
 * may have been cut at Redis for one of them, who is alive.
 */
static bool takes_over(const struct request *r)
{
	const struct dlk_ranges *granted = dlk_record_granted(r);
	const size_t i = dlk_ranges_find(granted, r->want.start);

	return (r->before.n > 0 ||
		(i < granted->n && granted->v[i].start <= r->want.end)) &&
	       dlk_record_shares(r);
}

/*
 * A renewal that overtakes the question could tell, of several servers, that
 * some lack what they have not been asked for yet.
 */
static void set_asks(struct dlk_hold *own, bool asks)
{
	if (!own)
		return;
	DLK_GUARD(&dlk_holds_mutex);
	own->asks = asks;
}

static int ask_once(struct request *r, bool proof)
{
	struct dlk_records_ask ask = {
		.range = r->want,
		.seq = r->seq + 1,
		.since_ns = r->since_ns,
		.known = r->own != NULL,
		.holds = dlk_overtakes(r) || takes_over(r),
		.proof = proof,
		.adopts = r->adopts,
		.rest = r->rest,
		.shares = takes_over(r),
		.waiter = dlk_queue_waiter(r),
	};
	int err;

	r->lease.rank = dlk_request_rank(r, proof || ask.known);
	set_asks(r->own, true);
	err = r->store->ops->acquire_range(r->store, &r->attempt, &r->lease,
					   &ask, &r->s->answer);
	set_asks(r->own, false);
	r->lease.rank = DLK_NO_RANK;
	if (dlk_seeded(5) && err == DLK_BUSY && dlk_now_ns() % 16 == 0)
		err = 0;
	r->seq = ask.seq;
	if (r->own)
		r->own->seq = ask.seq;
	return err;
}

/*
 * Who shares the description is not dead: what it has there is not to be taken
 * over for nothing, when somebody else is in the way as well.
 */
static int somebody_else(struct request *r)
{
	/* Of a claim, it is when we were refused that counts (queue.h). */
	const uint64_t asked_ns = r->s->answer.asked_ns;
	int err;

	if (!takes_over(r))
		return 0;
	err = dlk_record_find(r);
	r->s->answer.asked_ns = asked_ns;
	return err;
}

/* Refused: once more, with proof, it may be granted. */
static bool is_worth_asking(const struct request *r, uint64_t began_ns)
{
	bool older;

	return dlk_record_is_half_swept(r, began_ns) ||
	       (dlk_request_same_place(r, &older) &&
		dlk_now_ns() < began_ns + r->attempt.timeout_ns);
}

/*
 * Proof of death (DESIGN L3), as in flock.c.  A younger lease is of a process
 * that shares our description: with a later `since` it is taken over.  So is an
 * older one whose owner was granted something else since:
 *
 *	we: 0-9				its owner, alive: had 0-9 once
 *	lock, since = now
 *					50-59: granted, since = now
 *	ask ->		refused
 *
 * Each proof is one of its own moment: read the time, look at the lock.  And so
 * what the dead had is swept, a part of it by each question.
 */
static int ask_for_range(struct request *r, bool *taking)
{
	const uint64_t began = dlk_now_ns();
	int err = ask_once(r, false);

	while (err == DLK_BUSY && is_worth_asking(r, began)) {
		r->since_ns = dlk_identity_since(dlk_now_ns());
		if (!dlk_record_is_listed(r))
			break;
		*taking = takes_over(r);
		err = somebody_else(r) ?: ask_once(r, true);
	}
	return err;
}

/* Whatever a try may have brought at Redis goes away again. */
static void disown(struct request *r)
{
	if (r->own)
		dlk_list_send(r->own, NULL);
	else
		dlk_release_token(r->rule, &r->lease);
}

/*
 * The same; but what was taken over, perhaps, from who shares the description, is
 * locked by that, and it is not free for others:
 *
 *	we			Redis			who shares it
 *							0-9: has it
 *	0-9, in his place ->	granted
 *	no answer
 *	give back 0-9 ->	free for everybody
 *
 * On our own list it is until the kernel does not show it any more; without one it
 * stays until it is asked for again, for a ttl at most.
 */
static void disown_but_taken(struct request *r)
{
	if (!r->own)
		return;
	for (size_t i = 0; i < r->before.n; i++)
		if (dlk_ranges_set(&r->own->ranges, r->before.v[i]) < 0)
			return;
	disown(r);
}

static int name_owner(struct request *r)
{
	struct dlk_token t;
	int err = dlk_request_name(r);

	r->attempt.unsure = false;
	if (err)
		return err;
	r->seq = r->own ? r->own->seq : 0;
	if (r->own)
		r->since_ns = dlk_identity_since(dlk_now_ns());
	else if (dlk_token_parse(r->s->token, r->lease.token_len, &t))
		r->since_ns = t.since_ns;
	else
		r->since_ns = 0;
	return 0;
}

int dlk_record_ask(struct request *r)
{
	bool taking = false;
	int err = name_owner(r);

	if (err)
		return err;
	err = ask_for_range(r, &taking);
	if (err < 0 && r->attempt.unsure && taking)
		disown_but_taken(r);
	else if (err && r->attempt.unsure)
		disown(r);
	return err;
}

/* --- what is granted ------------------------------------------------------ */

/*
 * When it is to be looked at.  With one server a grant is a renewal.  Of several only
 * a renewal puts back what one of them lacks, so none is put off: who is always
 * granted something would have only those that were there in the beginning.
 */
static uint64_t count_from(struct dlk_hold *h, const struct request *r,
			   bool is_new)
{
	const uint64_t asked_ns = r->s->answer.asked_ns;
	uint64_t due_ns, look_ns;

	DLK_GUARD(&dlk_holds_mutex);
	if (is_new)
		return dlk_hold_install(h, asked_ns, 0);
	due_ns = h->valid.renew_ns;
	look_ns = dlk_hold_extend(h, asked_ns);
	if (!r->store->no_queue)
		return look_ns;
	dlk_hold_hurry(h, due_ns);
	return due_ns < look_ns ? due_ns : look_ns;
}

/* [GRANT] The kernel has granted and so has Redis: it is ours, if in time. */
int dlk_record_keep(struct request *r)
{
	const uint64_t asked = r->s->answer.asked_ns;
	const struct dlk_rule *rule = r->own ? r->own->rule : r->rule;
	const uint32_t ttl_ms = r->lease.ttl_ms;
	const bool is_new = !r->own;
	struct dlk_hold *h;
	uint64_t look_ns;
	int err;

	if (dlk_now_ns() >=
	    dlk_final_ns(rule, dlk_deadline_ns(asked, ttl_ms), ttl_ms)) {
		strcpy(r->attempt.why, "the grant came after its own deadline");
		disown(r);
		return -ETIMEDOUT;
	}
	h = r->own ? r->own : dlk_request_new_hold(r);
	if (!h || dlk_ranges_set(&h->ranges, r->want) < 0) {
		if (h)
			strcpy(r->attempt.why, "no memory for its ranges");
		if (h && !r->own)
			dlk_hold_free(h);
		disown(r);
		return -ENOMEM;
	}
	h->seq = r->seq;
	h->since_ns = r->since_ns;
	look_ns = count_from(h, r, is_new);
	r->own = h;
	err = dlk_request_ensure_renewal(r, h, look_ns, is_new);
	/* (flock.c, is_for_sharers) */
	if (!err && takes_over(r))
		dlk_handover(h);
	if (err)
		h->ranges.n = 0; /* so the kernel's lock goes, too */
	return err;
}

/* The server does not know the owner any more: what it holds is lost. */
enum acquire_event dlk_record_lost(struct request *r)
{
	if (r->own)
		dlk_hold_lost(r->own, "the server does not know it any more");
	dlk_request_line(
		r, DLK_ERROR,
		"what this process had of the file is not there any more", "",
		"; the call fails with ENOLCK");
	return EV_LOST;
}

/* --- what an execve(2) has left ------------------------------------------- */

/*
 * The kernel's lock is in hand, and the name was made before this look at it:
 * an older lease of this host and file is of the program before.
 */
static int ask_for_inherited(struct request *r)
{
	const uint64_t began = dlk_now_ns();
	int err;

	do {
		if (!dlk_record_is_listed(r))
			return ENDED;
		err = ask_once(r, true);
		r->since_ns = dlk_identity_since(dlk_now_ns());
	} while (err == DLK_BUSY && is_worth_asking(r, began));
	return err;
}

/*
 * Where the rule has locks of this host alone it may be one.  (If it was a lease,
 * the keeper has it, and stops who has lost it.)
 */
static bool was_local(struct request *r)
{
	if (r->rule->unreachable != DLK_UNREACHABLE_LOCAL)
		return false;
	dlk_local_begin(&r->file);
	dlk_request_line(r, DLK_WARNING,
			 "what this process held of the file before its "
			 "execve(2) is locked on this host ALONE: ",
			 "somebody else holds it", "");
	return true;
}

/* (Of what has no answer the kernel's lock is there still: the next call asks.) */
static bool is_refusal(int err)
{
	return err == DLK_BUSY || err == ENDED || err == DLK_GONE;
}

/* One range; and *refused, or what the call is to make of it. */
static int adopt_range(struct request *r, bool *refused)
{
	int err = name_owner(r);

	if (!err)
		err = ask_for_inherited(r);
	if (is_refusal(err) && r->attempt.unsure)
		disown(r);
	if (!err)
		err = dlk_record_keep(r);
	if (err == DLK_GONE)
		dlk_record_lost(r);
	if (err == DLK_BUSY && was_local(r))
		return 0;
	if (err == DLK_BUSY) {
		*refused = true;
		dlk_request_line(
			r, DLK_ERROR,
			"what this process held of the file before its "
			"execve(2) is LOST: ",
			"somebody else holds it", "; stop this program");
		dlk_lost_before_exec(r->rule);
	}
	return err == DLK_BUSY || err == ENDED ? 0 : err;
}

static int adopt_all(struct request *r, const struct dlk_ranges *kernel,
		     bool *refused)
{
	int err = 0;

	for (size_t i = 0; i < kernel->n && !err; i++) {
		struct dlk_range rest = kernel->v[i], part;

		if (!dlk_ranges_lacks(dlk_record_granted(r), &rest, &part))
			continue;
		r->want = kernel->v[i];
		r->rest = i + 1 == kernel->n;
		err = adopt_range(r, refused);
	}
	return err;
}

/*
 * Does Redis answer?  If not, nothing that takes the lease from its keeper may be
 * on the way:
 *
 *	we			Redis			the keeper
 *				(silent)		renews ->
 *	in place of the older
 *	one, WRITE 0-9 ->
 *	no answer: the call
 *	fails
 *				(answers)
 *				granted, to nobody
 *						<-	replaced: its affair no more
 */
static int reach(struct request *r, const struct dlk_ranges *kernel)
{
	int err;

	if (kernel->n == 0)
		return 0;
	r->want = kernel->v[0];
	err = name_owner(r) ?: dlk_record_find(r);
	r->attempt.unsure = false; /* a question has changed nothing */
	return err == DLK_BUSY ? 0 : err;
}

static int cannot_tell(const struct request *r)
{
	dlk_request_line(r, DLK_ERROR,
			 "what this process held of the file before its "
			 "execve(2) cannot be read: ",
			 "no memory, or no descriptor is left",
			 "; it cannot lock more of it (ENOLCK)");
	return -ENOLCK;
}

/*
 * (file_lock) Before this program's first lock of the file: what the kernel has
 * is asked for under its own name, or a refusal would undo what nobody knows
 * of.
 *
 *	we		the program before	keeper		another host
 *			READ 0-9
 *			execve ->		renews it	READ 0-9
 *	WRITE 0-9:
 *	refused, so
 *	READ 0-9 again
 */
int dlk_record_adopt(struct request *r)
{
	struct dlk_ranges kernel = { .grow = dlk_ranges_grow };
	struct request mine = *r;
	bool refused = false;
	int err;

	if (r->kind != DLK_POSIX || !dlk_inherited_on(&r->file))
		return 0;
	mine.acquire.wait = false;
	mine.inherited = true;
	mine.adopts = true;
	mine.slot.claim = NULL;
	err = dlk_kernel_own_records(&r->file, dlk_kernel_collect, &kernel)
		      ? cannot_tell(r)
		      : reach(&mine, &kernel) ?: adopt_all(&mine, &kernel,
							   &refused);
	dlk_ranges_free(&kernel);
	r->own = mine.own;
	if (err && mine.attempt.unsure)
		dlk_inherited_unsure();
	memcpy(r->attempt.why, mine.attempt.why, sizeof(r->attempt.why));
	if (!err)
		dlk_inherited_done(&r->file, refused);
	return err;
}
