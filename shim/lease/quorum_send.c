/* SPDX-License-Identifier: MIT */
/*
 * What is sent to all masters of a quorum and not waited for: one message, and
 * one answer to whoever sent it, when all of them have answered that it went to.
 *
 *  1. It is done when a majority says so and no other is to be told yet.  A
 *     master that is away (ballot.h) is not: what it has of the lease ends by
 *     its ttl, and stands in the way of no majority.
 *  2. What one of them says that has to be sent again (a later number, an
 *     unknown script, no answer) is the answer of all; it may come twice.
 */
#include "lease/quorum.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "lease/records.h"
#include "model/timeline.h"
#include "os/guard.h"
#include "os/sys.h"
#include "redis/pool.h"

/*
 * Messages under way, of the process; more are sent by the thread, which waits.
 * LAG_MS: an answer is waited for so long after the ones before.
 */
enum { MESSAGES = 128, LAG_MS = 20, SLICE_MS = 20 };

struct message;

/* To one master. */
struct part {
	struct message *message;
	struct dlk_master *master;
};

struct message {
	bool used;
	unsigned open; /* parts, and who sends them */
	unsigned n;    /* masters */
	unsigned done, again, refused;
	int why;      /* of those that must be sent again */
	uint64_t seq; /* the greatest that any has seen */
	dlk_sent_fn *tell;
	void *arg;
	struct part part[DLK_MASTERS_MAX];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct message messages[MESSAGES]; /* guarded by the mutex */

void dlk_quorum_send_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(messages, 0, sizeof(messages));
}

static struct message *new_message(const struct dlk_masters *masters,
				   const struct dlk_sending *how)
{
	struct message *m = NULL;

	DLK_GUARD(&mutex);
	for (unsigned i = 0; i < MESSAGES && !m; i++)
		if (!messages[i].used)
			m = &messages[i];
	if (m)
		*m = (struct message){ .used = true,
				       .open = 1,
				       .n = masters->n,
				       .tell = how->done,
				       .arg = how->arg };
	return m;
}

/* --- what the answers come to --------------------------------------------- */

/* What must be said otherwise goes before what nobody knows (2). */
static bool is_worse(int err, int why)
{
	if (!why || err == -ENOENT)
		return true;
	return err > 0 && why != -ENOENT;
}

static void count(struct message *m, int err, uint64_t seq)
{
	if (err == 0) {
		m->done++;
	} else if (err == -EREMOTEIO) {
		m->refused++;
	} else {
		m->again++;
		if (is_worse(err, m->why))
			m->why = err;
	}
	if (m->seq < seq)
		m->seq = seq;
}

static int result(const struct message *m)
{
	if (m->again)
		return m->why;
	if (m->done >= dlk_majority(m->n))
		return 0;
	return m->refused ? -EREMOTEIO : -EPIPE;
}

/* One part is through; with the last one, who sent it is told. */
static void close_part(struct message *m, const int *err, uint64_t seq,
		       bool tells)
{
	struct message last = { .tell = NULL };

	pthread_mutex_lock(&mutex);
	if (err)
		count(m, *err, seq);
	if (--m->open == 0) {
		last = *m;
		m->used = false;
	}
	pthread_mutex_unlock(&mutex);
	if (last.tell && tells)
		last.tell(last.arg, result(&last), last.seq);
}

/* Of one that is away nothing is expected any more (1). */
static void answered(void *arg, int err, uint64_t seq)
{
	struct part *p = arg;
	const bool lost = err == -EPIPE;

	if (!lost)
		dlk_master_heard(p->master);
	if (lost && dlk_master_is_away(p->master, dlk_now_ns()))
		close_part(p->message, NULL, 0, true);
	else
		close_part(p->message, &err, seq, true);
}

/* --- sending -------------------------------------------------------------- */

/* The words of a message, for one connection. */
struct words {
	const struct dlk_lease *lease;
	bool drop, weakens;
	uint64_t seq;
	struct dlk_range *window; /* becomes `rest` */
	struct dlk_range *rest;
	const struct dlk_ranges *held; /* NULL: it is of the lease itself */
};

static int append(struct dlk_conn *c, const struct words *w)
{
	if (!w->held)
		return w->weakens ? dlk_lease_weaken(c, w->lease)
				  : dlk_lease_release(c, w->lease, w->drop);
	*w->rest = *w->window;
	return dlk_records_set(c, w->lease, w->seq, w->rest, w->held, w->drop);
}

/*
 * An open connection, or a new one if it may be (or if the open ones are in use),
 * which is begun and not waited for.  First the one on which the answer to the
 * lease's own question is outstanding, so that what is said comes behind that:
 *
 *	we, by one		M			we, by another
 *	ask ->			(in its socket)
 *	refused by others
 *				no such lease		<- release
 *				granted, to nobody
 */
static struct dlk_conn *link_to(struct dlk_master *m, uint64_t by_ns,
				const struct dlk_sending *how, uint64_t mark)
{
	struct dlk_conn *c =
		how->connects ? dlk_master_conn(m, DLK_ANY, mark)
			      : dlk_pool_get_behind(m->ep, DLK_OPEN, mark);
	int err;

	if (!c)
		return NULL;
	c->interrupt = how->interrupt;
	if (!how->connects && c->deferred_n > DLK_UNREAD_MAX)
		dlk_conn_drain(c, 0);
	if (!how->connects && dlk_conn_is_open(c))
		return c;
	err = dlk_conn_start(c, by_ns);
	if (!err || err == -EINPROGRESS)
		return c;
	dlk_master_failed(m);
	dlk_pool_put(c);
	return NULL;
}

/*
 * A connection is given up after the message and not before it, for what was
 * asked for by it may be done yet:
 *
 *	we			M (stopped)
 *	ask ->			(in its socket)
 *	refused by others
 *	release ->		(behind that)
 *	close
 *				goes on: granted, released
 */
static int send_part(struct dlk_conn *c, struct message *m, struct part *p,
		     const struct words *w, uint64_t by_ns)
{
	int err = c->deferred_n < DLK_DEFERRED_MAX ? append(c, w) : -ENOBUFS;

	if (err)
		return err;
	pthread_mutex_lock(&mutex);
	m->open++;
	pthread_mutex_unlock(&mutex);
	/* (From here on a failure is told to it.) */
	dlk_conn_defer(c, dlk_lease_released, answered, p);
	dlk_master_owes(p->master, dlk_now_ns());
	dlk_conn_flush(c, by_ns);
	dlk_master_give_up(p->master, c);
	return 0;
}

/*
 * One that is away may have something of us in its socket: behind that, and
 * nobody counts on it.
 */
static void send_behind(struct dlk_master *master, const struct words *w)
{
	struct dlk_conn *c = dlk_pool_get_behind(master->ep, DLK_DEFERRED,
						 dlk_lease_mark(w->lease));

	if (!c)
		return;
	if (dlk_conn_is_open(c) && c->deferred_n < DLK_DEFERRED_MAX &&
	    append(c, w) == 0) {
		dlk_conn_defer(c, NULL, NULL, NULL);
		dlk_conn_flush(c, dlk_now_ns());
	}
	dlk_pool_put(c);
}

/* A message on its way to all of them. */
struct dispatch {
	struct dlk_masters *masters;
	struct message *message;
	const struct words *words;
	uint64_t began_ns, by_ns;
	struct dlk_conn *c[DLK_MASTERS_MAX]; /* it is still to be sent by */
	unsigned sent;
};

/* Sent, or not; one that is known not to be reached was away by then (1). */
static void end_one(struct dispatch *d, unsigned i, int err)
{
	if (d->c[i])
		dlk_pool_put(d->c[i]);
	d->c[i] = NULL;
	d->sent += err == 0;
	if (!err || dlk_master_is_away(&d->masters->v[i], d->began_ns))
		return;
	pthread_mutex_lock(&mutex);
	count(d->message, -EPIPE, 0);
	pthread_mutex_unlock(&mutex);
}

/* It is sent where there is a connection; where none comes any more, it is not. */
static void step(struct dispatch *d, unsigned i)
{
	struct dlk_conn *c = d->c[i];
	int err = dlk_conn_is_open(c) ? 0 : dlk_conn_start(c, d->by_ns);

	if (err == -EINPROGRESS)
		return;
	if (err)
		dlk_master_failed(&d->masters->v[i]);
	end_one(d, i,
		err
			?: send_part(c, d->message, &d->message->part[i],
				     d->words, d->by_ns));
}

static void begin(struct dispatch *d, const struct dlk_sending *how)
{
	for (unsigned i = 0; i < d->masters->n; i++) {
		struct dlk_master *master = &d->masters->v[i];

		if (dlk_master_is_away(master, d->began_ns)) {
			send_behind(master, d->words);
			continue;
		}
		d->message->part[i] = (struct part){ d->message, master };
		d->c[i] = link_to(master, d->by_ns, how,
				  dlk_lease_mark(d->words->lease));
		if (!d->c[i])
			end_one(d, i, -EPIPE);
	}
	/* (The others are sent it before one is waited for.) */
	for (unsigned i = 0; i < d->masters->n; i++)
		if (d->c[i])
			step(d, i);
}

/* For one that is to be connected to, or all of them: a slice at most. */
static bool wait_for_some(struct dispatch *d)
{
	const uint64_t now = dlk_now_ns();
	struct pollfd p[DLK_MASTERS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < d->masters->n; i++)
		if (d->c[i])
			p[n++] = dlk_conn_poll(d->c[i]);
	if (n && now < d->by_ns)
		dlk_poll(p, n,
			 d->by_ns - now < SLICE_MS * DLK_MS
				 ? (unsigned)((d->by_ns - now) / DLK_MS) + 1
				 : SLICE_MS);
	return n;
}

static void finish(struct dispatch *d, const struct dlk_sending *how)
{
	bool over = false;

	while (wait_for_some(d)) {
		for (unsigned i = 0; i < d->masters->n; i++)
			if (d->c[i])
				step(d, i);
		over = dlk_now_ns() >= d->by_ns ||
		       (how->interrupt && how->interrupt(NULL));
		for (unsigned i = 0; over && i < d->masters->n; i++) {
			if (!d->c[i])
				continue;
			dlk_conn_close(d->c[i]);
			dlk_master_failed(&d->masters->v[i]);
			end_one(d, i, -ETIMEDOUT);
		}
	}
}

/* 0: it went to one of them at least. */
static int send_all(struct dlk_store *s, const struct dlk_sending *how,
		    const struct words *w)
{
	const uint64_t now = dlk_now_ns();
	struct dispatch d = { .masters = dlk_masters_of(s),
			      .words = w,
			      .began_ns = now,
			      .by_ns = now + how->timeout_ns };

	d.message = new_message(d.masters, how);
	if (!d.message)
		return -ENOBUFS;
	begin(&d, how);
	finish(&d, how);
	if (w->window && d.sent)
		*w->window = *w->rest;
	close_part(d.message, NULL, 0, d.sent);
	return d.sent ? 0 : -ENOTCONN;
}

int dlk_quorum_send_release(struct dlk_store *s, const struct dlk_sending *how,
			    const struct dlk_lease *lease)
{
	const struct words w = { lease, .drop = how->drop };

	return send_all(s, how, &w);
}

int dlk_quorum_send_downgrade(struct dlk_store *s,
			      const struct dlk_sending *how,
			      const struct dlk_lease *lease)
{
	const struct words w = { lease, .weakens = true };

	return send_all(s, how, &w);
}

int dlk_quorum_send_ranges(struct dlk_store *s, const struct dlk_sending *how,
			   const struct dlk_lease *lease, uint64_t seq,
			   struct dlk_range *window,
			   const struct dlk_ranges *held)
{
	struct dlk_range rest = *window;
	const struct words w = { lease,         .drop = how->drop,
				 .seq = seq,    .window = window,
				 .rest = &rest, .held = held };

	return send_all(s, how, &w);
}

/* --- reading -------------------------------------------------------------- */

struct reading {
	struct dlk_conn *c[DLK_MASTERS_MAX];
	unsigned open;
	bool any; /* has answered something */
};

static void stop(struct reading *r, unsigned i)
{
	dlk_pool_put(r->c[i]);
	r->c[i] = NULL;
	r->open--;
}

/* What is there of one; true if that was something. */
static bool read_some(struct reading *r, unsigned i)
{
	const unsigned before = r->c[i]->deferred_n;

	dlk_conn_drain(r->c[i], 0);
	if (r->c[i]->deferred_n == before)
		return false;
	r->any = true;
	if (r->c[i]->deferred_n == 0)
		stop(r, i);
	return true;
}

static bool read_ready(struct reading *r, unsigned n, uint64_t until_ns)
{
	struct pollfd p[DLK_MASTERS_MAX];
	const uint64_t now = dlk_now_ns();
	bool some = false;

	for (unsigned i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = r->c[i] ? dlk_conn_fd(r->c[i])
						      : -1,
					.events = POLLIN };
	dlk_poll(p, n,
		 until_ns > now ? (unsigned)((until_ns - now) / DLK_MS) + 1
				: 0);
	for (unsigned i = 0; i < n; i++)
		if (r->c[i] && (p[i].revents || p[i].fd < 0))
			some |= read_some(r, i);
	return some;
}

/*
 * One connection to each.  A master that says nothing for a while is not waited
 * for: what it owes is read another time, or never (ballot.h).
 */
bool dlk_quorum_drain(struct dlk_store *s, uint64_t deadline_ns,
		      bool (*interrupt)(void *arg))
{
	struct dlk_masters *masters = dlk_masters_of(s);
	struct reading r = { .open = 0 };
	uint64_t until;

	for (unsigned i = 0; i < masters->n; i++) {
		r.c[i] = dlk_pool_get(masters->v[i].ep, DLK_DEFERRED);
		r.open += r.c[i] != NULL;
	}
	until = dlk_now_ns() + LAG_MS * DLK_MS;
	while (r.open && dlk_now_ns() < until && dlk_now_ns() < deadline_ns &&
	       !(interrupt && interrupt(NULL)))
		if (read_ready(&r, masters->n,
			       until < deadline_ns ? until : deadline_ns))
			until = dlk_now_ns() + LAG_MS * DLK_MS;
	for (unsigned i = 0; i < masters->n; i++) {
		if (!r.c[i])
			continue;
		dlk_master_give_up(&masters->v[i], r.c[i]);
		stop(&r, i);
	}
	return r.any;
}
