/* SPDX-License-Identifier: MIT */
/*
 * A call's place in the queue at Redis, and the claim that it is granted there
 * (DESIGN section 4, lease/queue.h): what is said of it, and by which channel
 * it is told.
 *
 * Whatever ends the wait, its place or its claim MUST be given back, but for a
 * call that never comes back: its place ends with its life.
 */
#include "lock/wait_slot.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/identity.h"
#include "hold/owner.h"
#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"

/*
 * For an answer that a return waits for; and that a handler waits for, or the
 * place is lost.
 */
enum { SAY_MS = 20, SUSPEND_MS = 100 };

/* --- the claim ------------------------------------------------------------ */

static int name_claim(struct request *r)
{
	struct wait_slot *q = &r->slot;
	ssize_t n = dlk_request_token(r, 0, q->claim, DLK_TOKEN_MAX);

	if (n < 0)
		return (int)n;
	memcpy(dlk_token_since(q->claim), DLK_NEVER, 20);
	q->waiter.claim = q->claim;
	q->waiter.claim_len = (size_t)n;
	q->waiter.claim_ttl_ms = dlk_claim_ttl_ms(r->lease.ttl_ms);
	return 0;
}

/* Where it listens. */
static void name_channel(struct request *r)
{
	struct wait_slot *q = &r->slot;

	strcpy(q->waiter.channel,
	       q->sub ? r->store->ops->channel(q->sub) : DLK_NO_CHANNEL);
}

bool dlk_place_is_polling(const struct wait_slot *q)
{
	return q->polling && !q->sub;
}

static void say_what(struct request *r)
{
	if (r->kind == DLK_FLOCK)
		return;
	dlk_records_what(r->slot.what, &r->want, r->own_random,
			 dlk_overtakes(r));
	r->slot.waiter.what = r->slot.what;
}

struct dlk_waiter *dlk_queue_waiter(struct request *r)
{
	struct wait_slot *q = &r->slot;

	if (!r->acquire.wait || !q->claim || r->other_key || r->store->no_queue)
		return NULL;
	if (!q->sub)
		q->sub = r->store->ops->subscribed(r->store, &r->lease);
	if ((!q->sub && !q->polling) ||
	    (!q->waiter.claim_len && name_claim(r) < 0))
		return NULL;
	name_channel(r);
	say_what(r);
	return &q->waiter;
}

/* --- what is said of it --------------------------------------------------- */

int dlk_place_heartbeat(struct request *r)
{
	/* Another thread of ours may need its connection no more. */
	if (dlk_place_is_polling(&r->slot) && r->slot.lost == 0)
		r->slot.sub = r->store->ops->subscribed(r->store, &r->lease);
	name_channel(r);
	say_what(r);
	return r->store->ops->heartbeat(r->store, &r->attempt, &r->lease,
					&r->slot.waiter, &r->s->answer);
}

/*
 * Sent without waiting.  If it is lost, the entry expires by itself; until then
 * the server may grant to an entry that nobody waits at, and all others wait
 * for as long as that claim lasts.
 */
static void send_cancel(struct request *r)
{
	const struct dlk_sending how = { .timeout_ns = SAY_MS * DLK_MS,
					 .connects = true };

	r->store->ops->send_cancel(r->store, &how, &r->lease, &r->slot.waiter);
}

/*
 * What gives a claim back, and is late, gives back the next one of that name:
 *
 *	waiter				server
 *	[SUSPEND] ->			(late)
 *	[HEARTBEAT] ->			[GRANT NEXT]: the claim, once more
 *	[WAKE], holds it
 *					[SUSPEND]: a claim of that name is
 *					there, the next one is granted: two hold
 *					it
 *
 * So it is waited for; and if nobody can say that it has been done, the place
 * is left for another, with a claim of another name.  Either way nothing that
 * was granted before is counted on.
 */
static void forget_place(struct wait_slot *q)
{
	if (q->word == 'g')
		q->word = 0;
	q->waiter.queued = false;
	q->waiter.claim_len = 0;
}

static void suspend(struct request *r)
{
	struct dlk_attempt at = { .timeout_ns = SUSPEND_MS * DLK_MS };
	int err = r->store->ops->suspend(r->store, &at, &r->lease,
					 &r->slot.waiter);

	r->slot.placed = false;
	if (r->slot.word == 'g')
		r->slot.word = 0;
	if (err)
		forget_place(&r->slot);
}

void dlk_place_hang_up(struct request *r)
{
	if (r->slot.sub)
		r->store->ops->unsubscribe(r->slot.sub, false);
	r->slot.sub = NULL;
}

void dlk_queue_away(struct request *r)
{
	if ((r->slot.sub || r->slot.polling) && r->slot.waiter.queued)
		suspend(r);
	dlk_place_hang_up(r);
}

void dlk_queue_rename(struct request *r)
{
	if (r->slot.waiter.claim_len && (r->slot.sub || r->slot.polling))
		send_cancel(r);
	forget_place(&r->slot);
}

/* --- the channel ---------------------------------------------------------- */

/*
 * A waiter that cannot be notified is polling, perhaps until others end: there
 * are too many of one process, it has no descriptor left, the user may not
 * SUBSCRIBE (acl(7): &dlock%wake:*).  It has its place all the same, or those
 * who can be told would go before it for ever, and looks for its claim often.
 */
static int new_channel(struct request *r)
{
	static atomic_bool said;
	struct wait_slot *q = &r->slot;
	int err = r->store->ops->subscribe(r->store, &r->attempt, &r->lease,
					   &q->sub);

	q->polling = err == -EMFILE || err == -ENFILE || err == -EPERM;
	if (err == -EPERM && !atomic_exchange(&said, true))
		dlk_request_line(
			r, DLK_WARNING,
			"cannot be told of what is granted: ", r->attempt.why,
			"; looks for it (may the user SUBSCRIBE and "
			"PUBLISH to &dlock%wake:* ?)");
	return q->polling ? 0 : err;
}

int dlk_place_have_channel(struct request *r, bool *known)
{
	struct wait_slot *q = &r->slot;
	int err;

	if ((q->sub || q->polling) && q->waiter.claim_len)
		return 0;
	*known = false;
	if (dlk_queue_waiter(r))
		return 0;
	err = q->sub || q->polling ? -ENOMEM : new_channel(r);
	if (err)
		return err;
	return dlk_queue_waiter(r) ? 0 : -ENOMEM;
}

/*
 * The server has lost our ticket though we kept it alive, so our notifications
 * probably do not arrive: the server, or what is between, has forgotten the
 * connection and we do not know it.  Subscribe on a new connection; if that
 * happens again, poll.
 */
bool dlk_place_is_lost(struct request *r)
{
	struct wait_slot *q = &r->slot;

	if (!q->sub || !q->placed || !q->waiter.lost ||
	    dlk_now_ns() >= q->counted_ns + q->waiter.claim_ttl_ms * DLK_MS)
		return false;
	r->store->ops->unsubscribe(q->sub, true);
	q->sub = NULL;
	q->polling = q->lost++ > 0;
	return true;
}

/* --- what it was granted -------------------------------------------------- */

int dlk_queue_claim(struct request *r)
{
	struct wait_slot *q = &r->slot;
	uint64_t now = dlk_now_ns();
	struct dlk_text t;
	char since[24];
	int err;

	dlk_text_init(&t, since, sizeof(since));
	dlk_text_u64(&t, dlk_identity_since(now), 20);
	memcpy(r->s->token, q->claim, q->waiter.claim_len + 1);
	memcpy(dlk_token_since(r->s->token), since, 20);
	r->lease.token = r->s->token;
	r->lease.token_len = q->waiter.claim_len;
	q->waiter.queued = false;
	q->waiter.claim_len = 0; /* the next queueing has its own */
	/*
	 * Who shares the description must find a lease that can be proved (L2,
	 * L3); and what a claim lasts is little where caches are refreshed.
	 */
	q->by_claim =
		!r->store->claims_confirmed &&
		now < q->counted_ns + q->waiter.claim_ttl_ms * DLK_MS / 2 &&
		!dlk_shared(r->program_fd) &&
		!dlk_revalidation_needed(r->rule, r->fd, &r->file);
	r->s->answer.asked_ns = q->counted_ns;
	r->s->answer.replaced = false;
	if (q->by_claim)
		return 0;
	err = r->store->ops->confirm(r->store, &r->attempt, &r->lease,
				     &r->s->answer.asked_ns);
	return err > 0 ? DLK_BUSY : err;
}

void dlk_queue_confirm(struct request *r)
{
	const struct dlk_sending how = { .timeout_ns = SAY_MS * DLK_MS };

	r->store->ops->send_confirm(r->store, &how, &r->lease);
}

enum acquire_event dlk_queue_not_now(struct request *r)
{
	struct wait_slot *q = &r->slot;
	const char word = q->word;
	int err;

	q->word = 0;
	/* We hold no claim; we are only first in the queue. */
	if (word != 'g')
		return word == 't' ? EV_OK : EV_NOTHING;
	r->attempt.unsure = false;
	err = r->store->ops->yield(r->store, &r->attempt, &r->lease, &q->waiter,
				   &r->s->answer);
	if (err != DLK_BUSY || r->attempt.unsure)
		forget_place(q);
	dlk_place_hang_up(r); /* the wait in the kernel may never come back */
	return EV_OK;
}

void dlk_queue_end(struct request *r)
{
	struct wait_slot *q = &r->slot;

	if (q->waiter.queued || q->word == 'g')
		send_cancel(r);
	q->word = 0;
	q->polling = false;
	forget_place(q);
	dlk_place_hang_up(r);
}
