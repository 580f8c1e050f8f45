/* SPDX-License-Identifier: MIT */
/*
 * The stores of this process; see store.h.  They share the pool of
 * connections.
 */
#include "lease/store.h"

#include <errno.h>
#include <poll.h>

#include "lease/cluster.h"
#include "lease/quorum.h"
#include "lease/single.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "redis/node.h"
#include "redis/pool.h"
#include "redis/sentinel.h"
#include "redis/subscription.h"
#include "redis/tls.h"

/* Of whichever engine a section's mode asks for. */
union engine {
	struct dlk_store store;
	struct dlk_single single;
	struct dlk_quorum quorum;
	struct dlk_cluster cluster;
};

static union engine *engines; /* of each section, in their order */
static const struct dlk_redis *sections;
static unsigned n_sections;
static void (*store_restarted)(const struct dlk_store *s);

/* By what the pool knows of a server. */
static void tell_restarted(const struct dlk_endpoint *ep)
{
	ep = dlk_node_like(ep);
	for (unsigned i = 0; i < n_sections; i++)
		if (ep >= sections[i].endpoints &&
		    ep < sections[i].endpoints + sections[i].n_endpoints)
			store_restarted(&engines[i].store);
}

static void begin(union engine *e, const struct dlk_redis *section)
{
	switch (section->mode) {
	case DLK_QUORUM:
		dlk_quorum_init(&e->quorum, section);
		return;
	case DLK_CLUSTER:
		dlk_cluster_init(&e->cluster, section);
		return;
	case DLK_SINGLE:
	case DLK_SENTINEL: /* of one server, wherever that is */
		dlk_single_init(&e->single, section);
		return;
	default:
		dlk_single_init(&e->single, section);
		if (!e->store.fault)
			e->store.fault = "this version does not know its mode";
	}
}

/* (A configuration may have no section.) */
int dlk_stores_begin(const struct dlk_redis *redis, unsigned n,
		     void (*restarted)(const struct dlk_store *s))
{
	engines = dlk_pages((n + 1) * sizeof(*engines));
	if (!engines)
		return -ENOMEM;
	sections = redis;
	n_sections = n;
	store_restarted = restarted;
	dlk_pool_begin(tell_restarted);
	dlk_sentinel_begin();
	for (unsigned i = 0; i < n; i++)
		begin(&engines[i], &redis[i]);
	return 0;
}

void dlk_stores_beside(const char *program)
{
	dlk_tls_begin(program);
}

struct dlk_store *dlk_store_of(const struct dlk_redis *redis)
{
	return &engines[redis - sections].store;
}

static const struct dlk_redis *section_of(const struct dlk_store *s)
{
	return &sections[(const union engine *)s - engines];
}

bool dlk_store_is_connected(const struct dlk_store *s,
			    const struct dlk_lease *lease)
{
	const struct dlk_redis *r = section_of(s);
	const struct dlk_endpoint *node;
	unsigned n = 0;

	if (r->mode == DLK_CLUSTER) {
		node = dlk_cluster_node(s, lease);
		return node && dlk_pool_has(node);
	}
	for (unsigned i = 0; i < r->n_endpoints; i++)
		n += dlk_pool_has(&r->endpoints[i]);
	return n > r->n_endpoints / 2;
}

static int prepare(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = dlk_pool_get(ep, DLK_ANY);

	if (!c)
		return -ENOMEM;
	dlk_pool_put(c);
	return 0;
}

int dlk_store_prepare(const struct dlk_store *s, const struct dlk_lease *lease)
{
	const struct dlk_redis *r = section_of(s);
	int err = 0;

	if (r->mode == DLK_CLUSTER)
		return prepare(dlk_cluster_node(s, lease) ?: r->endpoints);
	for (unsigned i = 0; i < r->n_endpoints && !err; i++)
		err = prepare(&r->endpoints[i]);
	return err;
}

bool dlk_stores_drain(uint64_t deadline_ns)
{
	for (unsigned i = 0; i < n_sections; i++) {
		struct dlk_store *s = &engines[i].store;

		while (s->ops->drain(s, deadline_ns, NULL))
			;
	}
	return !dlk_pool_is_busy();
}

void dlk_stores_look(void)
{
	for (unsigned i = 0; i < n_sections; i++)
		if (sections[i].endpoints->n_sentinels &&
		    dlk_sentinel_look(sections[i].endpoints))
			store_restarted(&engines[i].store);
	dlk_pool_look();
}

void dlk_store_hear(const struct dlk_store *s)
{
	const struct dlk_endpoint *ep = section_of(s)->endpoints;

	if (ep->n_sentinels && dlk_sentinel_hear(ep))
		store_restarted(s);
}

unsigned dlk_stores_watch(struct pollfd *p, unsigned room)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_sections && n < room; i++) {
		const struct dlk_endpoint *ep = sections[i].endpoints;
		const int fd = ep->n_sentinels ? dlk_sentinel_fd(ep) : -1;

		if (fd >= 0)
			p[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	return n + dlk_pool_watch(p + n, room - n);
}

void dlk_stores_forget(void)
{
	dlk_pool_forget();
	dlk_nodes_forget();
	dlk_sentinel_forget();
	dlk_tls_forget();
	dlk_subscriptions_forget();
	dlk_quorum_send_forget();
}

uint32_t dlk_store_patience_ms(const struct dlk_store *s)
{
	return s->connect_timeout_ms * (s->silent ? 4 : 1);
}

void dlk_store_renewed(struct dlk_store *s, int result, uint64_t began_ns)
{
	const uint64_t took = dlk_now_ns() - began_ns;

	if (result == -ETIMEDOUT)
		s->silent = true;
	else if (result != -EINTR && took < s->connect_timeout_ms * DLK_MS)
		s->silent = false;
}
