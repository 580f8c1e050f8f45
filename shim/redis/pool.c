/* SPDX-License-Identifier: MIT */
/* The connections of this process; see pool.h. */
#include "redis/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "model/text.h"
#include "os/log.h"

enum { POOL_SIZE = 16 };

/* Those that are kept; more are made and thrown away. */
struct pooled {
	struct dlk_conn *conn;
	const struct dlk_endpoint *ep;
	bool busy; /* it belongs to the thread that made it so */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pooled pool[POOL_SIZE]; /* guarded by the mutex */
static dlk_restarted_fn *server_restarted;

void dlk_pool_begin(dlk_restarted_fn *restarted)
{
	server_restarted = restarted;
}

static struct pooled *find(const struct dlk_endpoint *ep, bool open_only)
{
	for (int i = 0; i < POOL_SIZE; i++) {
		struct pooled *l = &pool[i];

		if (l->conn && !l->busy && l->ep == ep &&
		    (!open_only || dlk_conn_is_open(l->conn)))
			return l;
	}
	return NULL;
}

struct dlk_conn *dlk_pool_get_open(const struct dlk_endpoint *ep)
{
	struct pooled *l;

	pthread_mutex_lock(&mutex);
	l = find(ep, true);
	if (l)
		l->busy = true;
	pthread_mutex_unlock(&mutex);
	return l ? l->conn : NULL;
}

struct dlk_conn *dlk_pool_get_deferred(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = NULL;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < POOL_SIZE && !c; i++) {
		struct pooled *l = &pool[i];

		if (l->conn && !l->busy && (l->ep == ep || !ep) &&
		    dlk_conn_deferred(l->conn)) {
			l->busy = true;
			c = l->conn;
		}
	}
	pthread_mutex_unlock(&mutex);
	return c;
}

/* (mutex held) A place for a new connection, so that it is kept. */
static struct pooled *find_place(void)
{
	for (int i = 0; i < POOL_SIZE; i++)
		if (!pool[i].conn && !pool[i].busy)
			return &pool[i];
	return NULL;
}

struct dlk_conn *dlk_pool_get(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = NULL;
	struct pooled *l;

	pthread_mutex_lock(&mutex);
	l = find(ep, false);
	if (!l)
		l = find_place();
	if (l) {
		l->busy = true;
		c = l->conn;
	}
	pthread_mutex_unlock(&mutex);
	if (c)
		return c;
	c = dlk_conn_new(ep);
	if (l) {
		pthread_mutex_lock(&mutex);
		l->conn = c;
		l->ep = ep;
		l->busy = c != NULL;
		pthread_mutex_unlock(&mutex);
	}
	return c;
}

/* What takes memory back from locks is said once a process. */
static void warn_of_eviction(const struct dlk_conn *c)
{
	static atomic_bool said;
	const char *policy = dlk_conn_server(c)->evicts;
	struct dlk_line l;

	if (!policy[0] || atomic_exchange(&said, true))
		return;
	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "redis at ");
	dlk_text_str(&l.text, dlk_conn_endpoint(c)->name);
	dlk_text_str(&l.text, ": maxmemory-policy is ");
	dlk_text_quoted(&l.text, policy, strlen(policy)); /* whoever says so */
	dlk_text_str(&l.text, ", which may evict locks that are held; it must "
			      "be noeviction");
	dlk_line_end(&l);
}

void dlk_pool_put(struct dlk_conn *c)
{
	bool kept = false;

	warn_of_eviction(c);
	if (dlk_conn_restarted(c))
		server_restarted(dlk_conn_endpoint(c));
	dlk_conn_set_interrupt(c, NULL, NULL);
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

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < POOL_SIZE && !busy; i++)
		busy = pool[i].busy;
	pthread_mutex_unlock(&mutex);
	return busy;
}

void dlk_pool_look(void)
{
	for (int i = 0; i < POOL_SIZE; i++) {
		struct pooled *l = &pool[i];
		bool idle;

		pthread_mutex_lock(&mutex);
		idle = l->conn && !l->busy && dlk_conn_is_open(l->conn);
		if (idle)
			l->busy = true;
		pthread_mutex_unlock(&mutex);
		if (!idle)
			continue;
		dlk_conn_is_lost(l->conn);
		dlk_pool_put(l->conn);
	}
}

void dlk_pool_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (int i = 0; i < POOL_SIZE; i++) {
		dlk_conn_forget(pool[i].conn);
		pool[i] = (struct pooled){ 0 };
	}
}
