/* SPDX-License-Identifier: MIT */
/*
 * Record locks: Redis' part (see record.c): the question with its proof, what
 * is granted, and what the program before an execve(2) has left.
 */
#include "lock/record_parts.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/revalidate.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/delegation.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/inherited.h"
#include "hold/liveness.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/thread.h"
#include "lock/wait_slot.h"
#include "model/range.h"
#include "model/timeline.h"
#include "model/token.h"

/* What else a try can give. */
enum { ENDED = 105 };

/* --- the question --------------------------------------------------------- */

static int ask_once(struct request *a, bool proof)
{
	struct dlk_records_ask ask = {
		.range = a->want,
		.seq = a->seq + 1,
		.since_ns = a->since_ns,
		.known = a->own != NULL,
		.holds = dlk_overtakes(a) || a->before.n > 0,
		.proof = proof,
		.adopts = a->adopts,
		.rest = a->rest,
		.shares = a->before.n > 0,
		.waiter = dlk_queue_waiter(a),
	};
	int err = a->store->ops->acquire_range(a->store, &a->attempt, &a->lease,
					       &ask, &a->s->answer);

	a->seq = ask.seq;
	if (a->own)
		a->own->seq = ask.seq;
	return err;
}

/*
 * Who shares the description is not dead: what it has there is not to be taken
 * over for nothing, when somebody else is in the way as well.
 */
static int somebody_else(struct request *a)
{
	/* Of a claim, it is when we were refused that counts (queue.h). */
	const uint64_t asked_ns = a->s->answer.asked_ns;
	int err;

	if (a->before.n == 0)
		return 0;
	err = a->store->ops->find_conflict(a->store, &a->attempt, &a->lease,
					   &a->want, a->since_ns,
					   &a->s->answer);
	a->s->answer.asked_ns = asked_ns;
	return err;
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
 * Each proof is one of its own moment: read the time, look at the lock.
 */
static int ask_for_range(struct request *a)
{
	const uint64_t until = dlk_now_ns() + a->attempt.timeout_ns;
	int err = ask_once(a, false);
	bool older;

	while (err == DLK_BUSY && dlk_request_same_place(a, &older) &&
	       dlk_now_ns() < until) {
		a->since_ns = dlk_identity_since(dlk_now_ns());
		if (!dlk_record_is_listed(a))
			break;
		err = somebody_else(a) ?: ask_once(a, true);
	}
	return err;
}

/* Whatever an earlier try may have brought at Redis goes away again. */
static void unsure(struct request *a)
{
	if (a->own)
		dlk_list_send(a->own, NULL);
	else
		dlk_release_token(a->rule, &a->lease);
}

static int name_owner(struct request *a)
{
	struct dlk_token t;
	int err = dlk_request_name(a);

	a->attempt.unsure = false;
	if (err)
		return err;
	a->seq = a->own ? a->own->seq : 0;
	if (a->own)
		a->since_ns = dlk_identity_since(dlk_now_ns());
	else if (dlk_token_parse(a->s->token, a->lease.token_len, &t))
		a->since_ns = t.since_ns;
	else
		a->since_ns = 0;
	return 0;
}

int dlk_record_ask(struct request *a)
{
	int err = name_owner(a);

	if (err)
		return err;
	err = ask_for_range(a);
	if (err && a->attempt.unsure)
		unsure(a);
	return err;
}

/* --- what is granted ------------------------------------------------------ */

/* Not in the table yet. */
static struct dlk_held *new_owner(const struct request *a)
{
	struct dlk_held *h = dlk_held_new(&a->lease);

	if (!h)
		return NULL;
	h->rule = a->rule;
	h->file = a->file;
	h->fd = a->fd;
	h->kind = a->kind;
	h->seq = a->seq;
	h->coherent = dlk_coherence_needed(a->rule, a->fd, &a->file);
	return h;
}

/* When it is to be looked at. */
static uint64_t count_from(struct dlk_held *h, uint64_t asked_ns, bool is_new)
{
	uint64_t look_ns;

	dlk_holds_lock();
	look_ns = is_new ? dlk_hold_install(h, asked_ns, 0)
			 : dlk_hold_extend(h, asked_ns);
	dlk_holds_unlock();
	return look_ns;
}

/* [GRANT] The kernel has granted and so has Redis: it is ours, if in time. */
int dlk_record_keep(struct request *a)
{
	const uint64_t asked = a->s->answer.asked_ns;
	struct dlk_held *h;
	uint64_t look_ns;

	if (dlk_now_ns() >= dlk_deadline_ns(asked, a->lease.ttl_ms)) {
		strcpy(a->attempt.why, "the grant came after its own deadline");
		unsure(a);
		return -ETIMEDOUT;
	}
	h = a->own ? a->own : new_owner(a);
	if (!h || dlk_ranges_set(&h->ranges, a->want) < 0) {
		if (h && !a->own)
			dlk_held_free(h);
		unsure(a);
		return -ENOMEM;
	}
	h->since_ns = a->since_ns;
	look_ns = count_from(h, asked, !a->own);
	a->own = h;
	if (dlk_thread_need(look_ns) || dlk_handover(h) || dlk_thread_comes())
		return 0;
	dlk_hold_end(h, END_UNLOCKED);
	h->ranges.n = 0; /* so the kernel's lock goes, too */
	strcpy(a->attempt.why,
	       "no thread and no keeper can be started to renew it");
	return -EREMOTEIO;
}

/* The server does not know the owner any more: what it holds is lost. */
enum acquire_event dlk_record_lost(struct request *a)
{
	if (a->own)
		dlk_hold_lost(a->own,
			      "the server does not know it any more; stop this "
			      "program");
	dlk_request_line(
		a, DLK_ERROR,
		"what this process had of the file is not there any more", "",
		"; the call fails with ENOLCK");
	return EV_LOST;
}

/* --- what an execve(2) has left ------------------------------------------- */

/*
 * The kernel's lock is in hand, and the name was made before this look at it:
 * an older lease of this host and file is of the program before.
 */
static int ask_for_inherited(struct request *a)
{
	const uint64_t until = dlk_now_ns() + a->attempt.timeout_ns;
	bool older;
	int err;

	do {
		if (!dlk_record_is_listed(a))
			return ENDED;
		err = ask_once(a, true);
		a->since_ns = dlk_identity_since(dlk_now_ns());
	} while (err == DLK_BUSY && dlk_request_same_place(a, &older) &&
		 dlk_now_ns() < until);
	return err;
}

/* One range; and *refused, or what the call is to make of it. */
static int adopt_range(struct request *a, bool *refused)
{
	int err = name_owner(a);

	if (!err)
		err = ask_for_inherited(a);
	if (err && a->attempt.unsure)
		unsure(a);
	if (!err)
		err = dlk_record_keep(a);
	if (err == DLK_GONE)
		dlk_record_lost(a);
	if (err == DLK_BUSY) {
		*refused = true;
		dlk_request_line(
			a, DLK_ERROR,
			"what this process held of the file before its "
			"execve(2) is LOST: ",
			"somebody else holds it", "; stop this program");
	}
	return err == DLK_BUSY || err == ENDED ? 0 : err;
}

static int adopt_all(struct request *a, const struct dlk_ranges *kernel,
		     bool *refused)
{
	int err = 0;

	for (size_t i = 0; i < kernel->n && !err; i++) {
		struct dlk_range rest = kernel->v[i], part;

		if (!dlk_ranges_lacks(dlk_record_granted(a), &rest, &part))
			continue;
		a->want = kernel->v[i];
		a->rest = i + 1 == kernel->n;
		err = adopt_range(a, refused);
	}
	return err;
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
int dlk_record_adopt(struct request *a)
{
	struct dlk_ranges kernel = { .grow = dlk_ranges_grow };
	struct request mine = *a;
	bool refused = false;
	int err;

	if (a->kind != DLK_POSIX || !dlk_inherited_on(&a->file))
		return 0;
	mine.acquire.wait = false;
	mine.inherited = true;
	mine.adopts = true;
	mine.slot.claim = NULL;
	dlk_kernel_own_records(&a->file, dlk_kernel_collect, &kernel);
	err = adopt_all(&mine, &kernel, &refused);
	dlk_ranges_free(&kernel);
	a->own = mine.own;
	memcpy(a->attempt.why, mine.attempt.why, sizeof(a->attempt.why));
	if (!err)
		dlk_inherited_done(&a->file, refused);
	return err;
}
