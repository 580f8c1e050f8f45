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
enum { SAY_MS = 20, REST_MS = 100 };

/* --- the claim ------------------------------------------------------------ */

static int name_claim(struct request *a)
{
	struct wait_slot *q = &a->slot;
	ssize_t n = dlk_request_token(a, 0, q->claim, DLK_TOKEN_MAX);

	if (n < 0)
		return (int)n;
	memcpy(dlk_token_since(q->claim), DLK_NEVER, 20);
	q->waiter.claim = q->claim;
	q->waiter.claim_len = (size_t)n;
	q->waiter.life_ms = dlk_life_ms(a->lease.ttl_ms);
	return 0;
}

/* Where it is told. */
static void name_channel(struct request *a)
{
	struct wait_slot *q = &a->slot;

	strcpy(q->waiter.channel,
	       q->sub ? a->store->ops->channel(q->sub) : DLK_NO_CHANNEL);
}

bool dlk_place_is_deaf(const struct wait_slot *q)
{
	return q->deaf && !q->sub;
}

static void say_what(struct request *a)
{
	if (a->kind == DLK_FLOCK)
		return;
	dlk_records_what(a->slot.what, &a->want, a->own_random,
			 dlk_overtakes(a));
	a->slot.waiter.what = a->slot.what;
}

struct dlk_waiter *dlk_queue_waiter(struct request *a)
{
	struct wait_slot *q = &a->slot;

	if (!a->acquire.wait || !q->claim || a->elsewhere)
		return NULL;
	if (!q->sub)
		q->sub = a->store->ops->subscribed(a->store);
	if ((!q->sub && !q->deaf) ||
	    (!q->waiter.claim_len && name_claim(a) < 0))
		return NULL;
	name_channel(a);
	say_what(a);
	return &q->waiter;
}

/* --- what is said of it --------------------------------------------------- */

/* Another thread of ours may need its connection no more. */
static void hear_again(struct request *a)
{
	if (dlk_place_is_deaf(&a->slot) && a->slot.lost == 0)
		a->slot.sub = a->store->ops->subscribed(a->store);
}

int dlk_place_stay(struct request *a)
{
	hear_again(a);
	name_channel(a);
	say_what(a);
	return a->store->ops->stay(a->store, &a->attempt, &a->lease,
				   &a->slot.waiter, &a->s->answer);
}

/*
 * Sent without waiting.  If it is lost, the entry expires by itself; until then
 * the server may grant to an entry that nobody waits at, and all others wait for
 * as long as that claim lasts.
 */
static void say_leave(struct request *a)
{
	const struct dlk_sending how = { .timeout_ns = SAY_MS * DLK_MS,
					 .connects = true };

	a->store->ops->send_leave(a->store, &how, &a->lease, &a->slot.waiter);
}

/*
 * What gives a claim back, and is late, gives back the next one of that name:
 *
 *	waiter				server
 *	[REST] ->			(late)
 *	[STAY] ->			[SERVE]: the claim, once more
 *	[WAKE], holds it
 *					[REST]: a claim of that name is there,
 *					the next one is served: two hold it
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

static void say_rest(struct request *a)
{
	struct dlk_attempt rest = { .timeout_ns = REST_MS * DLK_MS };
	int err = a->store->ops->rest(a->store, &rest, &a->lease,
				      &a->slot.waiter);

	a->slot.placed = false;
	if (a->slot.word == 'g')
		a->slot.word = 0;
	if (err)
		forget_place(&a->slot);
}

void dlk_place_hang_up(struct request *a)
{
	if (a->slot.sub)
		a->store->ops->unsubscribe(a->slot.sub, false);
	a->slot.sub = NULL;
}

void dlk_place_rest(struct request *a)
{
	say_rest(a);
	dlk_place_hang_up(a);
}

void dlk_queue_away(struct request *a)
{
	if ((a->slot.sub || a->slot.deaf) && a->slot.waiter.queued)
		say_rest(a);
	dlk_place_hang_up(a);
}

void dlk_queue_rename(struct request *a)
{
	if (a->slot.waiter.claim_len && (a->slot.sub || a->slot.deaf))
		say_leave(a);
	forget_place(&a->slot);
}

/* --- the channel ---------------------------------------------------------- */

/*
 * A waiter that cannot be told is deaf, perhaps until others end: there are
 * too many of one process, it has no descriptor left, the user may not
 * SUBSCRIBE (acl(7): &dlock%wake:*).  It has its place all the same, or those
 * who can be told would go before it for ever, and looks for its claim often.
 */
static bool makes_deaf(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -EPERM;
}

static int new_channel(struct request *a)
{
	static atomic_bool said;
	struct wait_slot *q = &a->slot;
	int err = a->store->ops->subscribe(a->store, &a->attempt, &q->sub);

	q->deaf = makes_deaf(err);
	if (err == -EPERM && !atomic_exchange(&said, true))
		dlk_request_line(
			a, DLK_WARNING,
			"cannot be told of what is granted: ", a->attempt.why,
			"; looks for it (may the user SUBSCRIBE and "
			"PUBLISH to &dlock%wake:* ?)");
	return q->deaf ? 0 : err;
}

int dlk_place_have_channel(struct request *a, bool *known)
{
	struct wait_slot *q = &a->slot;
	int err;

	if ((q->sub || q->deaf) && q->waiter.claim_len)
		return 0;
	*known = false;
	if (dlk_queue_waiter(a))
		return 0;
	err = q->sub || q->deaf ? -ENOMEM : new_channel(a);
	if (err)
		return err;
	return dlk_queue_waiter(a) ? 0 : -ENOMEM;
}

/*
 * The server has lost our ticket though we kept it alive, so our notifications
 * probably do not arrive: the server, or what is between, has forgotten the
 * connection and we do not know it.  Subscribe on a new connection; if that
 * happens again, poll.
 */
bool dlk_place_is_lost(struct request *a)
{
	struct wait_slot *q = &a->slot;

	if (!q->sub || !q->placed || !q->waiter.lost ||
	    dlk_now_ns() >= q->counted_ns + q->waiter.life_ms * DLK_MS)
		return false;
	a->store->ops->unsubscribe(q->sub, true);
	q->sub = NULL;
	q->deaf = q->lost++ > 0;
	return true;
}

/* --- what it was granted -------------------------------------------------- */

int dlk_queue_claim(struct request *a)
{
	struct wait_slot *q = &a->slot;
	uint64_t now = dlk_now_ns();
	struct dlk_text t;
	char since[24];
	int err;

	dlk_text_init(&t, since, sizeof(since));
	dlk_text_u64(&t, dlk_identity_since(now), 20);
	memcpy(a->s->token, q->claim, q->waiter.claim_len + 1);
	memcpy(dlk_token_since(a->s->token), since, 20);
	a->lease.token = a->s->token;
	a->lease.token_len = q->waiter.claim_len;
	q->waiter.queued = false;
	q->waiter.claim_len = 0; /* the next queueing has its own */
	/*
	 * Who shares the description must find a lease that can be proved (L2,
	 * L3); and what a claim lasts is little where caches are refreshed.
	 */
	q->by_claim = now < q->counted_ns + q->waiter.life_ms * DLK_MS / 2 &&
		      !dlk_shared(a->program_fd) &&
		      !dlk_coherence_needed(a->rule, a->fd, &a->file);
	a->s->answer.asked_ns = q->counted_ns;
	a->s->answer.replaced = false;
	if (q->by_claim)
		return 0;
	err = a->store->ops->confirm(a->store, &a->attempt, &a->lease,
				     &a->s->answer.asked_ns);
	return err > 0 ? DLK_BUSY : err;
}

void dlk_queue_confirm(struct request *a)
{
	const struct dlk_sending how = { .timeout_ns = SAY_MS * DLK_MS };

	a->store->ops->send_confirm(a->store, &how, &a->lease);
}

int dlk_queue_not_now(struct request *a)
{
	struct wait_slot *q = &a->slot;
	const char word = q->word;
	int err;

	q->word = 0;
	/* We hold no claim; we are only first in the queue. */
	if (word != 'g')
		return word == 't';
	a->attempt.unsure = false;
	err = a->store->ops->pass(a->store, &a->attempt, &a->lease, &q->waiter,
				  &a->s->answer);
	if (err != DLK_BUSY || a->attempt.unsure)
		forget_place(q);
	dlk_place_hang_up(a); /* the wait in the kernel may never come back */
	return 1;
}

void dlk_queue_end(struct request *a)
{
	struct wait_slot *q = &a->slot;

	if (q->waiter.queued || q->word == 'g')
		say_leave(a);
	q->word = 0;
	q->deaf = false;
	forget_place(q);
	dlk_place_hang_up(a);
}
