/* SPDX-License-Identifier: MIT */
/*
 * The connections of this process.  One is taken for the length of a call and
 * put back open, for the next; two threads, or a signal handler inside a
 * call, take two.
 */
#include "hold/state.h"

#include <stdatomic.h>
#include <string.h>

#include "os/log.h"

static struct dlk_link *find(const struct dlk_endpoint *ep, bool open_only)
{
	for (int i = 0; i < DLK_LINKS; i++) {
		struct dlk_link *l = &dlk.links[i];

		if (l->conn && !l->busy && l->ep == ep &&
		    (!open_only || dlk_conn_is_open(l->conn)))
			return l;
	}
	return NULL;
}

struct dlk_conn *dlk_link_get_open(const struct dlk_endpoint *ep)
{
	struct dlk_link *l;

	pthread_mutex_lock(&dlk.mutex);
	l = find(ep, true);
	if (l)
		l->busy = true;
	pthread_mutex_unlock(&dlk.mutex);
	return l ? l->conn : NULL;
}

struct dlk_conn *dlk_link_get_deferred(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = NULL;

	pthread_mutex_lock(&dlk.mutex);
	for (int i = 0; i < DLK_LINKS && !c; i++) {
		struct dlk_link *l = &dlk.links[i];

		if (l->conn && !l->busy && l->ep == ep &&
		    dlk_conn_deferred(l->conn)) {
			l->busy = true;
			c = l->conn;
		}
	}
	pthread_mutex_unlock(&dlk.mutex);
	return c;
}

/* (mutex held) A place for a new connection, so that it is kept. */
static struct dlk_link *find_place(void)
{
	for (int i = 0; i < DLK_LINKS; i++)
		if (!dlk.links[i].conn && !dlk.links[i].busy)
			return &dlk.links[i];
	return NULL;
}

struct dlk_conn *dlk_link_get(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = NULL;
	struct dlk_link *l;

	pthread_mutex_lock(&dlk.mutex);
	l = find(ep, false);
	if (!l)
		l = find_place();
	if (l) {
		l->busy = true;
		c = l->conn;
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (c)
		return c;
	c = dlk_conn_new(ep);
	if (l) {
		pthread_mutex_lock(&dlk.mutex);
		l->conn = c;
		l->ep = ep;
		l->busy = c != NULL;
		pthread_mutex_unlock(&dlk.mutex);
	}
	return c;
}

/*
 * The first sign of a restart: what we hold there is asked for now, and put
 * back, and not at the next third of its ttl.
 */
static void hurry_renewals(const struct dlk_endpoint *ep)
{
	const uint64_t now = dlk_now_ns();
	bool any = false;

	pthread_mutex_lock(&dlk.mutex);
	for (struct dlk_held *h = dlk.held; h; h = h->next) {
		if (h->state != DLK_HELD || h->renew_ns <= now ||
		    h->rule->redis->endpoints != ep)
			continue;
		h->renew_ns = now;
		any = true;
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (any)
		dlk_thread_need(now);
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

void dlk_link_put(struct dlk_conn *c)
{
	bool kept = false;

	warn_of_eviction(c);
	if (dlk_conn_restarted(c))
		hurry_renewals(dlk_conn_endpoint(c));
	dlk_conn_set_interrupt(c, NULL, NULL);
	dlk_conn_reset(c);
	pthread_mutex_lock(&dlk.mutex);
	for (int i = 0; i < DLK_LINKS && !kept; i++) {
		kept = dlk.links[i].conn == c;
		if (kept)
			dlk.links[i].busy = false;
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (!kept)
		dlk_conn_delete(c);
}

void dlk_links_look(void)
{
	for (int i = 0; i < DLK_LINKS; i++) {
		struct dlk_link *l = &dlk.links[i];
		bool idle;

		pthread_mutex_lock(&dlk.mutex);
		idle = l->conn && !l->busy && dlk_conn_is_open(l->conn);
		if (idle)
			l->busy = true;
		pthread_mutex_unlock(&dlk.mutex);
		if (!idle)
			continue;
		dlk_conn_is_lost(l->conn);
		dlk_link_put(l->conn);
	}
}

void dlk_links_forget(void)
{
	for (int i = 0; i < DLK_LINKS; i++) {
		dlk_conn_forget(dlk.links[i].conn);
		dlk.links[i] = (struct dlk_link){ 0 };
	}
}
