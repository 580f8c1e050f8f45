/* SPDX-License-Identifier: MIT */
/* The connections of this process; see pool.h. */
#include "redis/pool.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "model/text.h"
#include "os/guard.h"
#include "os/log.h"

enum { POOL_SIZE = 48 };

/* Those that are kept; more are made and thrown away. */
struct pooled {
	struct dlk_conn *conn;
	bool busy;     /* it belongs to the thread that made it so */
	bool was_open; /* when that one took it */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pooled pool[POOL_SIZE]; /* guarded by the mutex */
static dlk_restarted_fn *server_restarted;

void dlk_pool_begin(dlk_restarted_fn *restarted)
{
	server_restarted = restarted;
}

/* (mutex held) It is the caller's from here on. */
static void take(struct pooled *l)
{
	l->busy = true;
	l->was_open = l->conn && dlk_conn_is_open(l->conn);
}

/* (mutex held) */
static bool is_wanted(const struct pooled *l, const struct dlk_endpoint *ep,
		      enum dlk_wanted wanted)
{
	if (ep && l->conn->ep != ep)
		return false;
	return wanted == DLK_ANY || l->conn->deferred_n ||
	       (wanted == DLK_OPEN && dlk_conn_is_open(l->conn) &&
		!dlk_conn_is_stale(l->conn));
}

/* (mutex held) The better one of two for who is to come behind that. */
static struct pooled *nearer(struct pooled *a, struct pooled *b, uint64_t mark)
{
	if (!a || dlk_conn_owes(a->conn, mark))
		return a ?: b;
	return dlk_conn_owes(b->conn, mark) ||
			       (!a->conn->deferred_n && b->conn->deferred_n)
		       ? b
		       : a;
}

/*
 * (mutex held) Or a place for a new connection, so that it is kept: one that is
 * free, or is another server's, whose connection is idle; best a closed one, for
 * that server may be gone for good.
 */
static struct pooled *find(const struct dlk_endpoint *ep,
			   enum dlk_wanted wanted, uint64_t mark)
{
	struct pooled *found = NULL, *place = NULL, *other = NULL;

	for (struct pooled *l = pool; l < pool + POOL_SIZE; l++) {
		if (l->busy)
			continue;
		if (!l->conn)
			place = place ?: l;
		else if (is_wanted(l, ep, wanted))
			found = mark ? nearer(found, l, mark) : found ?: l;
		else if (!l->conn->deferred_n &&
			 (!other || l->conn->own.fd < 0))
			other = l;
	}
	return found ?: wanted == DLK_ANY ? place ?: other : NULL;
}

/*
 * (l is the caller's) Another server's connection goes.  It is closed while the
 * place has it, for a child of fork(2) to find it.
 */
static void make_room(struct pooled *l)
{
	struct dlk_conn *c = l->conn;

	dlk_conn_close(c);
	pthread_mutex_lock(&mutex);
	l->conn = NULL;
	l->was_open = false;
	pthread_mutex_unlock(&mutex);
	dlk_conn_delete(c);
}

/* (mutex held) Others have some that are open. */
static bool are_in_use(const struct dlk_endpoint *ep)
{
	for (const struct pooled *l = pool; l < pool + POOL_SIZE; l++)
		if (l->busy && l->was_open && l->conn && l->conn->ep == ep)
			return true;
	return false;
}

struct dlk_conn *dlk_pool_get_behind(const struct dlk_endpoint *ep,
				     enum dlk_wanted wanted, uint64_t mark)
{
	struct dlk_conn *c;
	struct pooled *l;

	pthread_mutex_lock(&mutex);
	l = find(ep, wanted, mark);
	if (!l && wanted == DLK_OPEN && are_in_use(ep)) {
		wanted = DLK_ANY;
		l = find(ep, wanted, mark);
	}
	if (l)
		take(l);
	c = l ? l->conn : NULL;
	pthread_mutex_unlock(&mutex);
	if (c && ep && c->ep != ep) {
		make_room(l);
		c = NULL;
	}
	if (c && dlk_conn_is_stale(c))
		dlk_conn_close(c);
	if (c || wanted != DLK_ANY)
		return c;
	c = dlk_conn_new(ep);
	if (l) {
		pthread_mutex_lock(&mutex);
		l->conn = c;
		l->busy = c != NULL;
		pthread_mutex_unlock(&mutex);
	}
	return c;
}

struct dlk_conn *dlk_pool_get(const struct dlk_endpoint *ep,
			      enum dlk_wanted wanted)
{
	return dlk_pool_get_behind(ep, wanted, 0);
}

/* What an operator does to locks that are held is said to who holds some. */
static void say(const struct dlk_conn *c, const char *what, const char *of,
		const char *so)
{
	struct dlk_line l;

	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_strs(&l.text, "redis at ", c->ep->name, ": ", what, NULL);
	if (of)
		dlk_text_quoted(&l.text, of, strlen(of)); /* whoever says so */
	dlk_text_str(&l.text, so);
	dlk_line_end(&l);
}

static void say_what_was_done(struct dlk_conn *c)
{
	if (c->emptied)
		say(c, "its leases were deleted", NULL,
		    " (FLUSHALL, FLUSHDB or SWAPDB); those that are held are "
		    "put back, and it grants nothing for restart_delay");
	if (c->evicts)
		say(c, "maxmemory-policy is ", c->server.evicts,
		    ", which may evict locks that are held; it must be "
		    "noeviction, and locks are refused until it is");
	c->emptied = c->evicts = false;
}

void dlk_pool_put(struct dlk_conn *c)
{
	bool kept = false;

	say_what_was_done(c);
	if (dlk_conn_is_stale(c))
		dlk_conn_close(c);
	if (c->restarted)
		server_restarted(c->ep);
	c->restarted = c->asking = c->one_key = c->takes_back = false;
	c->interrupt = NULL;
	c->interrupt_arg = NULL;
	dlk_conn_reset(c);
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < POOL_SIZE && !kept; i++) {
		kept = pool[i].conn == c;
		if (kept)
			pool[i].busy = false;
	}
	pthread_mutex_unlock(&mutex);
	if (!kept)
		dlk_conn_delete(c);
}

bool dlk_pool_is_busy(void)
{
	bool busy = false;

	DLK_GUARD(&mutex);
	for (int i = 0; i < POOL_SIZE && !busy; i++)
		busy = pool[i].busy;
	return busy;
}

/* (mutex held) */
static bool is_idle(const struct pooled *l)
{
	return l->conn && !l->busy && dlk_conn_is_open(l->conn);
}

/* (mutex held) It is to be closed, as far as can be seen from outside. */
static bool is_suspect(const struct pooled *l, const struct pollfd *p,
		       unsigned n)
{
	for (; n; n--, p++)
		if (p->revents && p->fd == dlk_conn_fd(l->conn))
			return true;
	return dlk_conn_is_stale(l->conn);
}

/*
 * An idle connection is left where it is unless there is something about it:
 * another thread may want to send by it at this moment.
 */
void dlk_pool_look(void)
{
	struct pollfd p[POOL_SIZE];
	const unsigned n = dlk_pool_watch(p, POOL_SIZE);

	if (n)
		dlk_poll(p, n, 0);
	for (struct pooled *l = pool; l < pool + POOL_SIZE; l++) {
		bool suspect;

		pthread_mutex_lock(&mutex);
		suspect = is_idle(l) && is_suspect(l, p, n);
		if (suspect)
			take(l);
		pthread_mutex_unlock(&mutex);
		if (!suspect)
			continue;
		dlk_conn_look_for_end(l->conn);
		dlk_pool_put(l->conn);
	}
}

unsigned dlk_pool_watch(struct pollfd *p, unsigned room)
{
	unsigned n = 0;

	DLK_GUARD(&mutex);
	for (int i = 0; i < POOL_SIZE && n < room; i++)
		if (is_idle(&pool[i]))
			p[n++] = (struct pollfd){
				.fd = dlk_conn_fd(pool[i].conn),
				.events = POLLRDHUP,
			};
	return n;
}

bool dlk_pool_has(const struct dlk_endpoint *ep)
{
	bool found = false;

	DLK_GUARD(&mutex);
	for (int i = 0; i < POOL_SIZE && !found; i++)
		found = is_idle(&pool[i]) && pool[i].conn->ep == ep;
	return found;
}

void dlk_pool_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (int i = 0; i < POOL_SIZE; i++) {
		dlk_conn_forget(pool[i].conn);
		pool[i] = (struct pooled){ 0 };
	}
}
