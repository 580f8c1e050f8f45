/* SPDX-License-Identifier: MIT */
/* One question to all masters at the same time; see ballot.h. */
#include "lease/ballot.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "model/timeline.h"
#include "os/sys.h"
#include "redis/pool.h"
#include "redis/script.h"

enum { AWAY_MS = 1000, SLICE_MS = 20 };

/* --- one master ----------------------------------------------------------- */

static bool owes_for_long(const struct dlk_master *m, uint64_t now_ns)
{
	const uint64_t since = atomic_load(&m->silent_ns);

	return since && now_ns > since + DLK_SILENT_MS * DLK_MS;
}

bool dlk_master_is_away(const struct dlk_master *m, uint64_t now_ns)
{
	return now_ns < atomic_load(&m->away_ns);
}

void dlk_master_heard(struct dlk_master *m)
{
	atomic_store(&m->silent_ns, 0);
	atomic_store(&m->away_ns, 0);
}

void dlk_master_failed(struct dlk_master *m)
{
	atomic_store(&m->silent_ns, 0);
	atomic_store(&m->lacks, NULL);
	atomic_store(&m->away_ns, dlk_now_ns() + AWAY_MS * DLK_MS);
}

void dlk_master_owes(struct dlk_master *m, uint64_t since_ns)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong(&m->silent_ns, &none, since_ns);
}

bool dlk_master_give_up(struct dlk_master *m, struct dlk_conn *c)
{
	const bool full = c->deferred_n + DLK_REPLIES_MAX > DLK_DEFERRED_MAX;

	if (!full &&
	    ((!c->deferred_n && !c->step) || !owes_for_long(m, dlk_now_ns())))
		return false;
	dlk_master_failed(m);
	if (c->step)
		atomic_store(&m->lacks, dlk_conn_lacks(c));
	dlk_conn_close(c);
	return true;
}

/*
 * Nobody has waited for it since, and it may have come a step further: then it
 * has owed nothing.  (One that is slower to connect than the others are to answer
 * would never be, for each question would begin it anew.)
 */
static void go_on_connecting(struct dlk_master *m, struct dlk_conn *c)
{
	const enum dlk_step step = c->step;
	const unsigned turn = c->turn;

	if (dlk_conn_start(c, dlk_now_ns()) != -EINPROGRESS ||
	    c->step != step || c->turn != turn)
		atomic_store(&m->silent_ns, 0);
}

struct dlk_conn *dlk_master_conn(struct dlk_master *m, enum dlk_wanted wanted,
				 uint64_t mark)
{
	struct dlk_conn *c = dlk_pool_get_behind(m->ep, wanted, mark);

	if (!c)
		return NULL;
	c->one_of_several = true;
	if (c->step)
		go_on_connecting(m, c);
	/*
	 * It may have answered long ago, and nobody has read it.  (A few answers
	 * cost nothing where they are read along with the next one.)
	 */
	if (c->deferred_n > DLK_UNREAD_MAX ||
	    (c->deferred_n && owes_for_long(m, dlk_now_ns())))
		dlk_conn_drain(c, 0);
	if (!dlk_master_give_up(m, c))
		return c;
	dlk_pool_put(c);
	return NULL;
}

/* --- one vote ------------------------------------------------------------- */

static void start(struct ballot *b, unsigned i);

void dlk_ballot_note(struct ballot *b, unsigned i, const char *why)
{
	struct dlk_text t = { .buf = b->why,
			      .size = sizeof(b->why),
			      .len = strlen(b->why) };

	if (t.len)
		dlk_text_str(&t, "; ");
	dlk_text_strs(&t, b->masters->v[i].ep->name, ": ", why, NULL);
}

static void vote(struct ballot *b, unsigned i, int err)
{
	struct dlk_conn *c = b->v[i].c;
	const char *lacks = atomic_load(&b->masters->v[i].lacks);

	if (err < 0)
		dlk_ballot_note(b, i, c ? c->error : lacks ?: "it does not answer");
	if (c)
		dlk_pool_put(c);
	b->v[i].c = NULL;
	b->v[i].asked = false;
	b->count(b, i, err);
}

/*
 * (4) A server that is two masters would have two votes.  The first URL's
 * counts, or the one that came first, while it is not known yet.
 */
static bool is_twice(struct ballot *b, unsigned i)
{
	const uint64_t run = b->v[i].c->server.run;
	struct dlk_master *m = b->masters->v;

	if (!run)
		return false;
	atomic_store(&m[i].run, run);
	for (unsigned k = 0; k < b->masters->n; k++) {
		const bool counts =
			k < i || (b->answered & ~b->twice & 1U << k);

		if (k == i || !counts || atomic_load(&m[k].run) != run)
			continue;
		b->twice |= 1U << i;
		dlk_conn_set_error(b->v[i].c,
				   "it is a server that another URL of the "
				   "section names already");
		return true;
	}
	return false;
}

static bool may_try_again(const struct ballot *b, unsigned i, int err)
{
	return err < 0 && err != -EINTR && !b->once && b->v[i].tries == 1 &&
	       !dlk_conn_is_open(b->v[i].c) &&
	       (b->v[i].was_open || err == -ECONNRESET);
}

/* An answer, or that there is none. */
static void came(struct ballot *b, unsigned i, int err)
{
	struct dlk_master *m = &b->masters->v[i];
	struct dlk_conn *c = b->v[i].c;

	if (may_try_again(b, i, err)) {
		start(b, i);
		return;
	}
	b->interrupted |= err == -EINTR;
	if (dlk_conn_is_open(c)) {
		b->answered |= 1U << i;
		dlk_master_heard(m);
		atomic_store(&m->untaught, false);
		if (is_twice(b, i))
			err = -EREMOTEIO;
	} else if (err != -EINTR) {
		dlk_master_failed(m);
	}
	vote(b, i, err);
}

static void ask(struct ballot *b, unsigned i)
{
	struct dlk_conn *c = b->v[i].c;
	int err;

	b->copies[i]++;
	b->asked |= 1U << i;
	c->half = DLK_ASKING;
	b->v[i].replies = 1;
	err = b->ask(b, i, c);
	b->v[i].asked = err == -EINPROGRESS;
	if (!b->v[i].asked)
		came(b, i, err);
}

static void start(struct ballot *b, unsigned i)
{
	struct dlk_conn *c = b->v[i].c;
	int err;

	b->v[i].asked = false;
	b->v[i].tries++;
	b->v[i].was_open = dlk_conn_is_open(c);
	err = dlk_conn_start(c, b->by_ns);
	if (!err)
		ask(b, i);
	else if (err != -EINPROGRESS)
		came(b, i, err);
}

/*
 * The socket has something for us: perhaps only what was owed from before, and
 * the answer to this question may be long in coming.  (Who waited for it here
 * would close the connection when the time is up, and with it what a release
 * goes behind.)
 */
static void go_on(struct ballot *b, unsigned i)
{
	struct dlk_conn *c = b->v[i].c;
	int err = 0;

	if (!b->v[i].asked) {
		b->v[i].tries--;
		start(b, i);
		return;
	}
	if (c->greeting || c->deferred_n) {
		err = dlk_conn_drain(c, 0);
		if (err == -EAGAIN || (!err && !dlk_conn_has_more(c)))
			return;
	}
	c->half = err ? DLK_WHOLE : DLK_TAKING;
	came(b, i, err ?: b->ask(b, i, c));
}

/* --- all of them ---------------------------------------------------------- */

/* Those who are there; or, if they are no majority, all. */
static uint32_t choose(const struct ballot *b)
{
	const uint64_t now = dlk_now_ns();
	const uint32_t all = (1U << b->masters->n) - 1;
	uint32_t there = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < b->masters->n; i++) {
		if (dlk_master_is_away(&b->masters->v[i], now))
			continue;
		there |= 1U << i;
		n++;
	}
	return (n < dlk_majority(b->masters->n) ? all : there) & ~b->without;
}

/* Those that are open go first (1). */
static void send_all(struct ballot *b, uint32_t whom)
{
	const unsigned n = b->masters->n;

	for (unsigned i = 0; i < n; i++) {
		struct dlk_conn *c = NULL;

		if (b->without & 1U << i)
			continue;
		if (whom & 1U << i)
			c = dlk_master_conn(&b->masters->v[i], DLK_ANY, 0);
		b->v[i].c = c;
		b->v[i].tries = 0;
		if (!c) {
			vote(b, i, -EHOSTDOWN);
			continue;
		}
		c->interrupt = b->at->interrupt;
		c->interrupt_arg = b->at->arg;
		if (dlk_conn_is_open(c))
			start(b, i);
	}
	for (unsigned i = 0; i < n; i++)
		if (b->v[i].c && b->v[i].tries == 0)
			start(b, i);
}

/* Of those that are still to answer, or to be connected to. */
static unsigned watch(const struct ballot *b, struct pollfd *p, unsigned *who)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->masters->n; i++) {
		if (!b->v[i].c)
			continue;
		who[n] = i;
		p[n++] = dlk_conn_poll(b->v[i].c);
	}
	return n;
}

/*
 * Until one of them has something to say; what the program closed has.  Of those
 * that are to be connected to not each event is told.
 */
static void wait_once(struct ballot *b, uint64_t until_ns)
{
	struct pollfd p[DLK_MASTERS_MAX];
	unsigned who[DLK_MASTERS_MAX];
	const unsigned n = watch(b, p, who);
	const uint64_t now = dlk_now_ns();
	uint64_t ms = until_ns > now ? (until_ns - now) / DLK_MS + 1 : 0;

	dlk_poll(p, n, ms < SLICE_MS ? (unsigned)ms : SLICE_MS);
	for (unsigned k = 0; k < n; k++)
		if (p[k].revents || p[k].fd < 0 || !b->v[who[k]].asked)
			go_on(b, who[k]);
	if (b->at->interrupt && b->at->interrupt(b->at->arg))
		b->interrupted = true;
}

/* --- how long they are waited for ------------------------------------------ */

/* As a set has room for, as the compiler is to know. */
static unsigned n_masters(const struct ballot *b)
{
	return b->masters->n < DLK_MASTERS_MAX ? b->masters->n
					       : DLK_MASTERS_MAX;
}

/* Those who have still to vote. */
static uint32_t open_ones(const struct ballot *b)
{
	uint32_t open = 0;

	for (unsigned i = 0; i < n_masters(b); i++)
		open |= (uint32_t)(b->v[i].c != NULL) << i;
	return open;
}

/* They would never be taught, if they are always the last. */
static uint32_t untaught_ones(const struct ballot *b)
{
	uint32_t untaught = 0;

	for (unsigned i = 0; i < n_masters(b); i++)
		untaught |= (uint32_t)atomic_load(&b->masters->v[i].untaught)
			    << i;
	return untaught & open_ones(b);
}

static uint32_t unasked_ones(const struct ballot *b)
{
	uint32_t asked = 0;

	for (unsigned i = 0; i < n_masters(b); i++)
		asked |= (uint32_t)b->v[i].asked << i;
	return open_ones(b) & ~asked;
}

/* What is decided, and when. */
struct decision {
	uint64_t at_ns; /* 0: nothing yet */
	uint32_t unasked;
};

/*
 * Until when more votes are waited for.  What is granted is to be with all that
 * can be reached, for until it is renewed it bears the loss of none that it is
 * not with: so those that were still to be connected to then have as long again
 * as the others took, and so long at least as any may owe an answer.
 */
static uint64_t end_of(const struct ballot *b, const struct decision *d)
{
	const bool yes = dlk_tally_state(&b->tally) == TALLY_YES;
	const uint64_t took = d->at_ns - b->asked_ns;
	const uint64_t silent = DLK_SILENT_MS * DLK_MS;
	uint64_t linger = yes ? b->linger_ns : b->linger_no_ns;

	if (!d->at_ns || untaught_ones(b))
		return b->by_ns;
	if (yes && (d->unasked & open_ones(b)))
		linger = took > silent ? took : silent;
	return d->at_ns + linger < b->by_ns ? d->at_ns + linger : b->by_ns;
}

/*
 * When it is decided, what has come by then is read as well; and when the time is
 * over, for we may have had no core until then.
 */
static void collect(struct ballot *b)
{
	struct decision d = { .at_ns = 0 };
	uint64_t now;

	if (!open_ones(b) || b->interrupted)
		return;
	do {
		wait_once(b, end_of(b, &d));
		now = dlk_now_ns();
		if (d.at_ns || dlk_tally_state(&b->tally) == TALLY_OPEN)
			continue;
		d = (struct decision){ now, unasked_ones(b) };
		if (now >= end_of(b, &d))
			wait_once(b, now);
	} while (open_ones(b) && !b->interrupted && now < end_of(b, &d));
}

/* An answer that nobody has waited for. */
static int judge_late(const redisReply *r, uint64_t *number)
{
	(void)number;
	if (!r)
		return -EPIPE;
	return dlk_script_unknown(r) ? -ENOENT : 0;
}

static void late(void *arg, int err, uint64_t number)
{
	struct dlk_master *m = arg;

	(void)number;
	if (err == -EPIPE)
		return;
	dlk_master_heard(m);
	if (err == -ENOENT)
		atomic_store(&m->untaught, true);
}

/* Its answers are read by whoever comes next. */
static void leave(struct ballot *b, unsigned i)
{
	struct dlk_master *m = &b->masters->v[i];
	struct dlk_conn *c = b->v[i].c;
	const unsigned replies = b->v[i].asked ? b->v[i].replies : 0;
	int err = replies > DLK_REPLIES_MAX ? -ENOBUFS : 0;

	dlk_master_owes(m, b->asked_ns);
	c->half = DLK_WHOLE;
	for (unsigned k = 0; k < replies && !err; k++) {
		err = dlk_conn_defer(c, judge_late, late, m);
		if (!err)
			dlk_conn_mark(c, b->mark);
	}
	if (err)
		dlk_conn_close(c);
	if (b->v[i].asked)
		dlk_conn_set_error(c, "no answer yet");
	else if (!c->tried) /* else it says which addresses have failed */
		dlk_conn_set_error(c, dlk_conn_lacks(c));
	vote(b, i, b->interrupted ? -EINTR : -ETIMEDOUT);
}

static void hold(struct ballot *b)
{
	const uint64_t now = dlk_now_ns();

	b->by_ns = dlk_attempt_by_ns(b->at, now);
	if (!b->asked_ns)
		b->asked_ns = now;
	send_all(b, choose(b));
	collect(b);
	for (unsigned i = 0; i < b->masters->n; i++)
		if (b->v[i].c)
			leave(b, i);
}

void dlk_ballot_hold(struct ballot *b)
{
	b->tally = dlk_tally(b->masters->n);
	hold(b);
}

void dlk_ballot_again(struct ballot *b)
{
	const struct tally before = b->tally;

	b->tally = dlk_tally(b->masters->n);
	b->tally.yes = before.yes;
	b->tally.first = before.first_yes ? before.first : b->tally.n;
	b->tally.first_yes = before.first_yes;
	b->why[0] = '\0';
	hold(b);
}

void dlk_ballot_explain(const struct ballot *b)
{
	const struct tally *t = &b->tally;
	struct dlk_text why = dlk_text_in(b->at->why, sizeof(b->at->why));

	dlk_text_u64(&why, t->yes + t->no, 1);
	dlk_text_str(&why, " of ");
	dlk_text_u64(&why, t->n, 1);
	dlk_text_strs(&why, " masters answered, ", NULL);
	dlk_text_u64(&why, dlk_majority(t->n), 1);
	dlk_text_strs(&why, " must", b->why[0] ? ": " : "", b->why, NULL);
}
