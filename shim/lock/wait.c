/* SPDX-License-Identifier: MIT */
/*
 * A call that waits in the queue at Redis (DESIGN section 4, lease/queue.h).
 *
 *  1. The kernel's lock MUST be given back before, and nothing else is in hand
 *     while it sleeps: neither connection nor memory.
 *  2. It ends when the queue grants, when a handler interrupts it, when Redis
 *     cannot be reached within the rule's timeout; and never by itself.
 *  3. Whatever ends it, its place or its claim MUST be given back, but for a
 *     call that never comes back: its place ends with its life.
 *
 * A holder of this very host and file that has died is found by looking, each
 * time that the place is told of: the kernel's lock can be had then, which is
 * the proof (DESIGN L3).
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "redis/script.h"
#include "lock/follow.h"
#include "lock/trace.h"
#include "model/text.h"
#include "model/timeline.h"

/* --- the claim ------------------------------------------------------------ */

/*
 * For an answer that a return waits for; that a handler waits for, or the place
 * is lost; and how long a handler may wait because of the one before.
 */
enum { SAY_MS = 20, REST_MS = 100, ALONE_MS = 20 };

/* Of a token: where its 20 digits of `since` are. */
static char *since_of(char *token)
{
	struct dlk_arg id = dlk_script_identity(token);

	return token + (id.text + id.len - token);
}

static int name_claim(struct ask *a)
{
	struct queued *q = &a->queue;
	ssize_t n = dlk_ask_token(a, 0, q->claim, DLK_TOKEN_MAX);

	if (n < 0)
		return (int)n;
	memcpy(since_of(q->claim), DLK_NEVER, 20);
	q->waiter.claim = q->claim;
	q->waiter.claim_len = (size_t)n;
	q->waiter.life_ms = dlk_life_ms(a->lease.ttl_ms);
	return 0;
}

/*
 * The number of a request is what the word of a grant must repeat (queue.h).
 * What was said before may be of a claim that was given up since, or that has
 * ended:
 *
 *	we			server
 *	(stopped)		[SERVE], "granted 5" on its way
 *				the claim ends; another is granted
 *	[STAY], number 6 ->
 *				"not yet": the deadline counts from here
 *	"granted 5"
 */
static void number(struct queued *q)
{
	struct dlk_text t;

	q->waiter.request++;
	strcpy(q->waiter.channel, q->wake ? q->wake->channel : DLK_NO_CHANNEL);
	dlk_text_init(&t, q->word, sizeof(q->word));
	dlk_text_bytes(&t, q->claim + sizeof("dlock1"), DLK_RANDOM_LEN);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, q->waiter.request, 1);
}

/* It has no channel, and looks for what it is granted. */
static bool is_deaf(const struct queued *q)
{
	return q->deaf && !q->wake;
}

static void say_what(struct ask *a)
{
	if (a->kind == DLK_FLOCK)
		return;
	dlk_records_what(a->queue.what, &a->want, a->own_random,
			 dlk_overtakes(a));
	a->queue.waiter.what = a->queue.what;
}

struct dlk_waiter *dlk_queue_waiter(struct ask *a)
{
	struct queued *q = &a->queue;

	if (!a->wait || !q->claim || a->elsewhere)
		return NULL;
	if (!q->wake)
		q->wake = dlk_wake_get(a->ep);
	if ((!q->wake && !q->deaf) ||
	    (!q->waiter.claim_len && name_claim(a) < 0))
		return NULL;
	number(q);
	say_what(a);
	return &q->waiter;
}

/* --- waiting -------------------------------------------------------------- */

/* Another thread of ours may need its connection no more. */
static void hear_again(struct ask *a)
{
	if (is_deaf(&a->queue) && a->queue.lost == 0)
		a->queue.wake = dlk_wake_get(a->ep);
}

static int stay_on(struct ask *a, struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = dlk_conn_open(c, deadline_ns);

	if (err)
		return err;
	hear_again(a);
	number(&a->queue);
	say_what(a);
	return dlk_queue_stay(c, deadline_ns, &a->lease, &a->queue.waiter,
			      &a->s->answer);
}

static int pass_on(struct ask *a, struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = dlk_conn_open(c, deadline_ns);

	return err ? err
		   : dlk_queue_pass(c, deadline_ns, &a->lease, &a->queue.waiter,
				    &a->s->answer);
}

/*
 * When to look at a holder that wakes nobody.  Those who poll often ask again
 * the moment that they have unlocked: where there are such (interop), who looks
 * seldom hardly ever finds it free.  So 2 ms, and 1/256 of the time waited, for
 * the first one; who is behind it has nothing to find yet.
 */
static uint64_t look_ns(struct ask *a, uint32_t random)
{
	struct queued *q = &a->queue;

	if (!a->lease.interop)
		return q->pause_ns = dlk_backoff_ns(q->pause_ns, 0, random);
	if (q->waiter.ahead > 0)
		return dlk_backoff_ns(q->waiter.life_ms * DLK_MS, 0, random);
	if (q->pause_ns == 0)
		q->pause_ns = 2 * DLK_MS;
	else if (q->pause_ns < 60 * DLK_MS)
		q->pause_ns += q->pause_ns / 256;
	return q->pause_ns / 2 + q->pause_ns / 65536 * (random & 0xffff);
}

/*
 * When to tell of the place again.  If the holder's lease ends before, then:
 * the first one at once, the others later, by how many are ahead of them.  A
 * holder that is none of ours wakes nobody, and nobody wakes who is deaf.
 */
static uint64_t pause_ns(struct ask *a)
{
	const struct dlk_answer *answer = &a->s->answer;
	struct queued *q = &a->queue;
	int64_t ahead = q->waiter.ahead < 50 ? q->waiter.ahead : 50;
	uint64_t pause = q->waiter.life_ms * DLK_MS / 4, end;
	uint32_t random;

	dlk_random(&random, sizeof(random));
	pause -= pause / 8 / 65536 * (random & 0xffff);
	if (answer->left_ms >= 0) {
		end = ((uint64_t)answer->left_ms + 1) * DLK_MS;
		if (ahead > 0)
			end += (uint64_t)ahead * 2 * DLK_MS;
		if (pause > end)
			pause = end;
	}
	end = pause;
	if (is_deaf(q))
		end = look_ns(a, random) *
		      (ahead > 8 ? (uint64_t)ahead / 8 : 1);
	else if (ahead <= 0 && strncmp(answer->holder, "dlock1 ", 7) != 0)
		end = look_ns(a, random);
	return pause > end ? end : pause;
}

static void answered(void *arg, const redisReply *reply)
{
	(void)arg;
	(void)reply;
}

/*
 * What is not said leaves a place that is served, and nobody is there: all
 * who wait would wait for as long as the claim lasts.  So where the open ones
 * are in other hands (the thread's, for an answer), another is opened.
 */
static struct dlk_conn *get_link(const struct dlk_endpoint *ep, uint64_t by)
{
	struct dlk_conn *c = dlk_link_get_open(ep);

	if (c)
		return c;
	c = dlk_link_get(ep);
	if (c && dlk_conn_open(c, by) < 0) {
		dlk_link_put(c);
		return NULL;
	}
	return c;
}

/* Said and not waited for; who does not hear it hears nothing of us later. */
static void say_leave(struct ask *a)
{
	const uint64_t by = dlk_now_ns() + SAY_MS * DLK_MS;
	struct dlk_conn *c = get_link(a->ep, by);

	if (!c)
		return;
	if ((dlk_conn_deferred(c) < DLK_DEFERRED_MAX - 1 ||
	     dlk_conn_settle(c, by) == 0) &&
	    dlk_queue_leave(c, &a->lease, &a->queue.waiter) == 0) {
		dlk_conn_defer(c, answered, NULL);
		dlk_conn_flush(c, by);
	}
	dlk_link_put(c);
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
static void forget_place(struct queued *q)
{
	q->granted = false;
	q->waiter.queued = false;
	q->waiter.claim_len = 0;
}

static void say_rest(struct ask *a)
{
	const uint64_t by = dlk_now_ns() + REST_MS * DLK_MS;
	struct dlk_conn *c = get_link(a->ep, by);
	const redisReply *r;
	int err =
		c ? dlk_queue_rest(c, &a->lease, &a->queue.waiter) : -ENOTCONN;

	if (!err)
		err = dlk_conn_flush(c, by);
	if (!err)
		err = dlk_conn_reply(c, by, &r);
	a->queue.placed = a->queue.granted = false;
	if (err || r->type == REDIS_REPLY_ERROR)
		forget_place(&a->queue);
	if (c)
		dlk_link_put(c);
}

static void put_wake(struct queued *q)
{
	if (q->wake)
		dlk_wake_put(q->wake);
	q->wake = NULL;
}

/* The call may never come back: as if it did not wait. */
static void away(void *arg)
{
	struct ask *a = arg;

	a->queue.away_ns = dlk_now_ns();
	say_rest(a);
	put_wake(&a->queue);
	a->queue.rested = true;
}

void dlk_queue_away(struct ask *a)
{
	if ((a->queue.wake || a->queue.deaf) && a->queue.waiter.queued)
		say_rest(a);
	put_wake(&a->queue);
}

void dlk_queue_rename(struct ask *a)
{
	if (a->queue.waiter.claim_len && (a->queue.wake || a->queue.deaf))
		say_leave(a);
	forget_place(&a->queue);
}

/* A wait that others are told of is told of again; see deadlock.c. */
static int look_around(struct ask *a, uint64_t now)
{
	uint64_t pause = 2 * DLK_TELL_MS;
	int err = 0;

	if (a->kind == DLK_FLOCK || now < a->queue.look_ns)
		return 0;
	if (a->queue.look_ns)
		err = dlk_record_look(a);
	if (a->wait_id || a->suspects)
		pause = a->suspects ? DLK_SUSPECT_MS : DLK_TELL_MS;
	a->queue.look_ns = dlk_now_ns() + pause * DLK_MS;
	return err;
}

/* What was said to us; who is deaf is to ask each time, with interop. */
static int heard(struct ask *a, bool in_time)
{
	struct queued *q = &a->queue;
	int err;

	if (q->wake)
		err = dlk_wake_heard(q->wake, q->word);
	else
		err = a->lease.interop && !in_time ? 't' : 0;
	q->told = err == 't';
	return err;
}

/* Until somebody says something to us: what, 0 for nothing, or -errno. */
static int listen_for(struct ask *a, uint64_t until)
{
	struct queued *q = &a->queue;

	for (;;) {
		uint64_t now = dlk_now_ns(), by = until;
		int err = heard(a, now < until);

		err = err ?: look_around(a, now);
		if (err || now >= until)
			return err;
		if (a->kind != DLK_FLOCK && by > q->look_ns)
			by = q->look_ns > now ? q->look_ns : now + 1;
		dlk_ask_empty_hands(a);
		q->rested = false;
		err = dlk_sleep_on(a->call, q->wake ? dlk_wake_fd(q->wake) : -1,
				   by - now, away, a);
		err = dlk_ask_fill_hands(a, err < 0 ? err : 0);
		if (err || q->rested)
			return err ?: -ESTALE;
	}
}

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

static int new_channel(struct ask *a)
{
	static atomic_bool said;
	struct queued *q = &a->queue;
	int err = dlk_wake_new(a->ep, dlk_now_ns() + a->patience_ns, &q->wake,
			       a->why);

	q->deaf = makes_deaf(err);
	if (err == -EPERM && !atomic_exchange(&said, true))
		dlk_ask_line(a, DLK_WARNING,
			     "cannot be told of what is granted: ", a->why,
			     "; looks for it (may the user SUBSCRIBE and "
			     "PUBLISH to &dlock%wake:* ?)");
	return q->deaf ? 0 : err;
}

/*
 * A channel to be told by, and a name for the claim; *known becomes false if
 * one of them is new.
 */
static int have_channel(struct ask *a, bool *known)
{
	struct queued *q = &a->queue;
	int err;

	if ((q->wake || q->deaf) && q->waiter.claim_len)
		return 0;
	*known = false;
	if (dlk_queue_waiter(a))
		return 0;
	err = q->wake || q->deaf ? -ENOMEM : new_channel(a);
	if (err)
		return err;
	return dlk_queue_waiter(a) ? 0 : -ENOMEM;
}

/*
 * Is the holder in our way one of this host and file?  By the claim: the
 * token was in what a sleep has let go of.
 */
static bool is_here(const struct ask *a)
{
	const struct dlk_answer *answer = &a->s->answer;
	struct dlk_token ours, theirs;

	return dlk_token_parse(answer->holder, answer->holder_len, &theirs) &&
	       theirs.since_ns != UINT64_MAX && /* a claim: no lock yet */
	       dlk_token_parse(a->queue.claim, a->queue.waiter.claim_len,
			       &ours) &&
	       strcmp(ours.host, theirs.host) == 0 &&
	       strcmp(ours.file, theirs.file) == 0;
}

/*
 * Our place is another one, and nothing that we did is the reason: perhaps
 * nobody heard what was said to us, for the server, or what is between, has
 * forgotten the connection and we do not know.  By another one, then; and if
 * that is of no use, by none.
 */
static bool lost_place(struct queued *q)
{
	if (!q->wake || !q->placed || !q->waiter.lost ||
	    dlk_now_ns() >= q->counted_ns + q->waiter.life_ms * DLK_MS)
		return false;
	dlk_wake_close(q->wake);
	put_wake(q);
	q->deaf = q->lost++ > 0;
	return true;
}

/*
 * Who rests is not served.  Under a signal a millisecond the next one is there
 * before the server has answered, so that hardly anybody would ever be found:
 * the slower the machine, the less.  So who was away listens for as long before
 * another handler may run.
 */
static void listen_alone(const struct queued *q)
{
	uint64_t ms = (dlk_now_ns() - q->away_ns) / DLK_MS + 1;
	struct pollfd p = { .events = POLLIN };

	if (!q->wake)
		return;
	p.fd = dlk_wake_fd(q->wake);
	dlk_poll(&p, 1, ms < ALONE_MS ? (unsigned)ms : ALONE_MS);
}

/*
 * When to tell of the place, or to look, again.  A handler does not put it off:
 * under a signal a millisecond that moment would never come.
 */
static void set_until(struct ask *a)
{
	struct queued *q = &a->queue;
	const uint64_t until = dlk_now_ns() + pause_ns(a);

	if (!q->rested || until < q->until_ns)
		q->until_ns = until;
	if (q->rested)
		listen_alone(q);
	q->rested = false;
}

/*
 * It is told of, and heard what there is to know: DLK_BUSY to go on waiting;
 * -ESTALE to tell again, by another connection.
 */
static int stay(struct ask *a)
{
	struct queued *q = &a->queue;
	bool older;
	int err = dlk_ask_redis(a, stay_on);

	if (err && err != DLK_BUSY)
		return err;
	a->fail_by_ns = 0;
	if (err && lost_place(q))
		err = -ESTALE;
	q->counted_ns = a->s->answer.asked_ns;
	q->granted = err == 0;
	q->placed = true;
	set_until(a);
	if (err == DLK_BUSY && (is_here(a) || dlk_ask_same_place(a, &older)))
		err = 0; /* is it there still? */
	return err;
}

int dlk_queue_wait(struct ask *a)
{
	struct queued *q = &a->queue;
	bool known = q->waiter.queued;
	int err, then;

	if (q->answered)
		dlk_trace_wait(a, "waits in the queue for");
	if (q->answered)
		a->fail_by_ns = 0;
	q->placed = q->answered && known;
	if (q->placed) {
		q->counted_ns = a->s->answer.asked_ns;
		q->until_ns = dlk_now_ns() + pause_ns(a);
	}
	q->answered = q->granted = q->told = false;
	q->hurry = true;
	for (;;) {
		uint64_t began = dlk_now_ns();

		err = have_channel(a, &known);
		if (!err && (!known || began >= q->until_ns))
			err = stay(a);
		else if (!err)
			err = DLK_BUSY;
		if (err == -ESTALE) {
			known = false;
			continue;
		}
		if (err == DLK_BUSY)
			err = listen_for(a, q->until_ns);
		else if (err == 0)
			return 0;
		else
			return dlk_ask_refused(a, err, began);
		if (err == 'g' || err == 't') {
			q->granted = err == 'g';
			return 0;
		}
		if (err == -EINTR || err == -ENOLCK || err == -EDEADLK)
			return err;
		then = dlk_follow_up(a);
		if (then)
			return then;
		/*
		 * 0: time to tell again; else by another connection, and no
		 * wonder if the place is lost (lost_place).
		 */
		known = false;
		q->placed = q->placed && err == 0;
		if (err < 0)
			put_wake(q);
	}
}

/* --- what it was granted -------------------------------------------------- */

static int confirm_on(struct ask *a, struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = dlk_conn_open(c, deadline_ns);

	a->s->answer.asked_ns = dlk_now_ns();
	if (!err)
		err = dlk_lease_renew(c, &a->lease, true);
	if (!err)
		err = dlk_conn_flush(c, deadline_ns);
	return err ? err : dlk_lease_renewed(c, deadline_ns, &a->lease);
}

int dlk_queue_claim(struct ask *a)
{
	struct queued *q = &a->queue;
	uint64_t now = dlk_now_ns();
	struct dlk_text t;
	char since[24];
	int err;

	dlk_text_init(&t, since, sizeof(since));
	dlk_text_u64(&t, dlk_identity_since(now), 20);
	memcpy(a->s->token, q->claim, q->waiter.claim_len + 1);
	memcpy(since_of(a->s->token), since, 20);
	a->lease.token = a->s->token;
	a->lease.token_len = q->waiter.claim_len;
	a->asked = true;
	q->waiter.queued = false;
	q->waiter.claim_len = 0; /* the next queueing has its own */
	/*
	 * Who shares the description must find a lease that can be proved (L2,
	 * L3); and what a claim lasts is little where caches are refreshed.
	 */
	q->by_claim = now < q->counted_ns + q->waiter.life_ms * DLK_MS / 2 &&
		      !dlk_shared(a->by_shadow ? a->program_fd : a->fd) &&
		      !dlk_coherence_needed(a->rule, a->fd, &a->file);
	a->s->answer.asked_ns = q->counted_ns;
	a->s->answer.replaced = false;
	if (q->by_claim)
		return 0;
	err = dlk_ask_redis(a, confirm_on);
	return err > 0 ? DLK_BUSY : err;
}

void dlk_queue_confirm(struct ask *a)
{
	const uint64_t by = dlk_now_ns() + SAY_MS * DLK_MS;
	struct dlk_conn *c = dlk_link_get_open(a->ep);

	if (!c)
		return;
	if ((dlk_conn_deferred(c) < DLK_DEFERRED_MAX - 1 ||
	     dlk_conn_settle(c, by) == 0) &&
	    dlk_lease_renew(c, &a->lease, false) == 0) {
		dlk_conn_defer(c, answered, NULL);
		dlk_conn_flush(c, by);
	}
	dlk_link_put(c);
}

int dlk_queue_not_now(struct ask *a)
{
	struct queued *q = &a->queue;
	bool told = q->told;

	q->hurry = q->told = false;
	/* Nothing to pass on, but a place that is before the others'. */
	if (!q->granted)
		return told;
	q->granted = false;
	a->asked = true;
	if (dlk_ask_redis(a, pass_on) != DLK_BUSY || a->unsure)
		forget_place(q);
	put_wake(q); /* the wait in the kernel may never come back */
	return 1;
}

void dlk_queue_end(struct ask *a)
{
	struct queued *q = &a->queue;

	if (q->waiter.queued || q->granted)
		say_leave(a);
	q->granted = q->told = q->hurry = q->answered = q->deaf = false;
	forget_place(q);
	put_wake(q);
}
