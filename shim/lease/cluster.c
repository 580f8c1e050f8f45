/* SPDX-License-Identifier: MIT */
/*
 * The store that is a Redis Cluster (store.h): each question is asked of the
 * node that has its key's slot, as of a single server (single.c).  Here is
 * which node that is.
 *
 *  1. Nobody is believed but who answers: what is known of the slots is where
 *     to ask first.  A node that has not the slot says who has it (MOVED), or,
 *     while it moves, who has what it has no more (ASK): it has done nothing.
 *  2. A node that does not answer may have done what it was asked: then the
 *     question is a copy, wherever it is asked next (store.h, "unknown
 *     outcomes").
 *  3. While a slot moves, a question is answered where all its keys are, and
 *     else nowhere (TRYAGAIN).  So what keeps a lease up, or gives it back, can
 *     do with one key; who asks for one waits.
 *
 *	we		A (has slot 7)		B
 *			migrating 7 ->		importing 7
 *	renew k ->	k is here: done
 *			MIGRATE k ->		k, its ttl and token
 *	renew k ->	ASK 7 B
 *	ASKING, renew k ------------------->	done
 *			SETSLOT 7 B		SETSLOT 7 B
 *	renew l ->	MOVED 7 B
 *	renew l --------------------------->	done
 *
 *  4. A master that fails is replaced by its replica, which the others say when
 *     they are asked; until then it is asked again.
 */
#include "lease/cluster.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "lease/upkeep.h"
#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "redis/node.h"
#include "redis/pool.h"
#include "redis/script.h"

enum {
	NODES = 1024,
	SENT_ON = 5,        /* a question, at most, but for TRYAGAIN */
	AWAY_MS = 1000,     /* who did not answer is not asked for the map */
	REFRESH_MS = 50,    /* it is not asked for again */
	MOVING_MS = 8,      /* at most, until what moves is asked for again */
	MAP_SLICE_MS = 500, /* for one node's answer about it */
	BATCH = 128,
};

/* Any thread, lock-free; a child of fork(2) has its parent's. */
struct cluster_map {
	_Atomic uint16_t
		owner[DLK_SLOTS]; /* 1 and on, of `nodes`; 0: unknown */
	_Atomic(const struct dlk_endpoint *) nodes[NODES];
	_Atomic uint64_t asked_ns;
	atomic_uint turn;  /* whom to ask next */
	atomic_int failed; /* a slot whose node did not answer last */
};

static struct dlk_cluster *cluster_of(const struct dlk_store *s)
{
	return (struct dlk_cluster *)(uintptr_t)s;
}

/* --- what is known of the slots -------------------------------------------- */

static const struct dlk_endpoint *owner_of(const struct dlk_cluster *e,
					   int slot)
{
	const unsigned i = atomic_load(&e->map->owner[slot]);

	return i ? atomic_load(&e->map->nodes[i - 1]) : NULL;
}

/* 1 and on; 0: there are too many. */
static uint16_t number_of(struct dlk_cluster *e, const struct dlk_endpoint *ep)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct dlk_endpoint *there = NULL;

		if (atomic_compare_exchange_strong(&e->map->nodes[i], &there,
						   ep) ||
		    there == ep)
			return (uint16_t)(i + 1);
	}
	return 0;
}

static void learn(struct dlk_cluster *e, unsigned first, unsigned last,
		  const struct dlk_endpoint *node)
{
	const uint16_t number = number_of(e, node);

	for (unsigned i = first; i <= last && number; i++)
		atomic_store_explicit(&e->map->owner[i], number,
				      memory_order_relaxed);
}

/* --- what a node says ------------------------------------------------------- */

/* A name that is empty, "?" or none is the one by which it was asked. */
bool dlk_cluster_entry(const redisReply *r, size_t i,
		       const struct dlk_endpoint *like,
		       const struct dlk_endpoint *asked,
		       struct dlk_slot_range *range)
{
	const redisReply *e, *node;
	const char *host = asked->host;
	size_t len;

	if (r->type != REDIS_REPLY_ARRAY || i >= r->elements)
		return false;
	e = r->element[i];
	if (e->type != REDIS_REPLY_ARRAY || e->elements < 3 ||
	    e->element[2]->type != REDIS_REPLY_ARRAY ||
	    e->element[2]->elements < 2)
		return false;
	node = e->element[2];
	if (dlk_script_int(e, 0) < 0 || dlk_script_int(e, 1) >= DLK_SLOTS ||
	    dlk_script_int(e, 0) > dlk_script_int(e, 1) ||
	    dlk_script_int(node, 1) < 1 || dlk_script_int(node, 1) > 65535)
		return false;
	len = strlen(host);
	if (node->element[0]->type == REDIS_REPLY_STRING &&
	    node->element[0]->len && strcmp(node->element[0]->str, "?") != 0) {
		host = node->element[0]->str;
		len = node->element[0]->len;
	}
	*range = (struct dlk_slot_range){
		.first = (unsigned)dlk_script_int(e, 0),
		.last = (unsigned)dlk_script_int(e, 1),
		.node = dlk_node(like, host, len,
				 (uint32_t)dlk_script_int(node, 1)),
	};
	return range->node;
}

/* "MOVED SLOT HOST:PORT", "ASK ...", and perhaps more. */
static const struct dlk_endpoint *named(const struct dlk_cluster *e,
					const char *error,
					const struct dlk_endpoint *asked,
					unsigned *slot)
{
	const char *host = strchr(error, ' ');
	const char *end, *colon;
	uint64_t number, port;

	host = host ? dlk_number(host + 1, 10, &number) : NULL;
	if (!host || *host != ' ' || number >= DLK_SLOTS)
		return NULL;
	host++;
	end = host + strcspn(host, " ");
	colon = memrchr(host, ':', (size_t)(end - host));
	if (!colon || dlk_number(colon + 1, 10, &port) != end || port > 65535)
		return NULL;
	*slot = (unsigned)number;
	if (colon == host)
		return dlk_node(e->redis->endpoints, asked->host,
				strlen(asked->host), (uint32_t)port);
	return dlk_node(e->redis->endpoints, host, (size_t)(colon - host),
			(uint32_t)port);
}

static void elsewhere(void *store, const struct dlk_endpoint *asked,
		      const char *error)
{
	struct dlk_cluster *e = store;
	const struct dlk_endpoint *node;
	unsigned slot;

	if (strncmp(error, "MOVED ", 6) != 0)
		return;
	node = named(e, error, asked, &slot);
	if (node)
		learn(e, slot, slot, node);
}

/* --- the map ---------------------------------------------------------------- */

static int read_map(struct dlk_cluster *e, struct dlk_conn *c,
		    uint64_t deadline_ns)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("CLUSTER") },
					{ DLK_LITERAL("SLOTS") } };
	struct dlk_slot_range range;
	const redisReply *r;
	int err = dlk_conn_open(c, deadline_ns)
			  ?: dlk_script_call(c, deadline_ns, 2, args,
					     REDIS_REPLY_ARRAY, &r);

	if (err)
		return err;
	for (size_t i = 0;
	     dlk_cluster_entry(r, i, e->redis->endpoints, c->ep, &range); i++)
		learn(e, range.first, range.last, range.node);
	return 0;
}

static int ask_for_map(struct dlk_cluster *e, struct dlk_attempt *at,
		       const struct dlk_endpoint *ep, uint64_t deadline_ns)
{
	struct dlk_conn *c = dlk_pool_get(ep, DLK_ANY);
	int err;

	if (!c)
		return -ENOMEM;
	c->clustered = true;
	c->slot = DLK_NO_SLOT;
	c->interrupt = at->interrupt;
	c->interrupt_arg = at->arg;
	err = read_map(e, c, deadline_ns);
	if (err < 0) {
		struct dlk_text why = dlk_text_in(at->why, sizeof(at->why));

		dlk_text_strs(&why, ep->name, ": ", c->error, NULL);
	}
	dlk_node_away(ep, err < 0 ? dlk_now_ns() + AWAY_MS * DLK_MS : 0);
	dlk_pool_put(c);
	return err;
}

/* Whom to ask: those that are known, then those that are configured. */
static const struct dlk_endpoint *teller(const struct dlk_cluster *e,
					 unsigned i, unsigned known)
{
	if (i < known)
		return dlk_node_at(e->redis->endpoints, i);
	i -= known;
	return i < e->redis->n_endpoints ? &e->redis->endpoints[i] : NULL;
}

static unsigned count_nodes(const struct dlk_cluster *e)
{
	unsigned n = 0;

	while (dlk_node_at(e->redis->endpoints, n))
		n++;
	return n;
}

/* One after the other, by turns, until one has told; but who is away. */
static int refresh(struct dlk_cluster *e, struct dlk_attempt *at,
		   uint64_t by_ns)
{
	const unsigned known = count_nodes(e),
		       turn = atomic_fetch_add(&e->map->turn, 1);
	const unsigned all = known + e->redis->n_endpoints;
	int err = -EHOSTDOWN;

	for (unsigned i = 0; i < all && err && err != -EINTR; i++) {
		const unsigned k = i < known ? (i + turn) % known : i;
		const struct dlk_endpoint *ep = teller(e, k, known);
		const uint64_t now = dlk_now_ns();
		uint64_t until = now + MAP_SLICE_MS * DLK_MS;

		if (now >= by_ns)
			break;
		if (!ep || dlk_node_is_away(ep, now))
			continue;
		if (until > now + (by_ns - now) / 2)
			until = now + (by_ns - now) / 2;
		err = ask_for_map(e, at, ep, until);
	}
	return err;
}

/* Not again and again: a failover takes seconds. */
static void look_for_owner(struct dlk_cluster *e, struct dlk_attempt *at,
			   uint64_t by_ns)
{
	uint64_t was = atomic_load(&e->map->asked_ns);
	const uint64_t now = dlk_now_ns();

	if (now >= was + REFRESH_MS * DLK_MS &&
	    atomic_compare_exchange_strong(&e->map->asked_ns, &was, now))
		refresh(e, at, by_ns);
}

/* --- the way ---------------------------------------------------------------- */

/*
 * (Who pings asks for the slot that failed last, so that he too finds its next
 * owner: he may be the only one who still asks.)
 */
static int find(struct dlk_store *s, struct dlk_attempt *at,
		struct dlk_way *way, uint64_t by_ns)
{
	struct dlk_cluster *e = cluster_of(s);
	struct dlk_text t;
	int err = 0;

	if (way->slot == DLK_NO_SLOT)
		way->slot = atomic_load(&e->map->failed);
	way->ep = owner_of(e, way->slot);
	if (way->ep)
		return 0;
	if (!by_ns)
		return -ENOTCONN;
	err = refresh(e, at, by_ns);
	if (err)
		return err;
	way->ep = owner_of(e, way->slot);
	if (way->ep)
		return 0;
	dlk_text_init(&t, at->why, sizeof(at->why));
	dlk_text_str(&t, "no node of the cluster has slot ");
	dlk_text_u64(&t, (uint64_t)way->slot, 1);
	dlk_text_str(&t, " (see CLUSTER INFO)");
	return -EAGAIN;
}

/*
 * What it said is in its `error`.  (What is put off is asked at the same node
 * again, for as long as there is time; and of the last one it is learnt, too, who
 * has the slot.)
 */
static bool sent_on(struct dlk_cluster *e, struct dlk_way *way,
		    struct dlk_conn *c)
{
	const bool moved = strncmp(c->error, "MOVED ", 6) == 0;
	const struct dlk_endpoint *node;
	unsigned slot;

	if (strncmp(c->error, "TRYAGAIN ", 9) == 0) {
		const unsigned ms = 2U << way->put_off;

		dlk_pause_ns(ms * DLK_MS);
		way->put_off += ms < MOVING_MS;
		way->one_key = !way->one_key;
		return true;
	}
	node = named(e, c->error, c->ep, &slot);
	if (!node)
		return false;
	if (moved) {
		learn(e, slot, slot, node);
		dlk_conn_doubt(c);
	}
	way->ep = node;
	way->asking = !moved;
	way->one_key = false;
	return ++way->n <= SENT_ON;
}

/*
 * Its node has failed, or its slot: is another one there for it?  (Of what has
 * several slots none is: each is asked about anew.)
 */
static bool replaced(struct dlk_cluster *e, struct dlk_attempt *at,
		     struct dlk_way *way, const struct dlk_conn *c)
{
	if (!dlk_conn_is_open(c))
		dlk_node_away(c->ep, dlk_now_ns() + AWAY_MS * DLK_MS);
	if (way->slot != DLK_NO_SLOT)
		atomic_store(&e->map->failed, way->slot);
	look_for_owner(e, at, way->until_ns);
	if (way->slot == DLK_NO_SLOT)
		return false;
	way->ep = owner_of(e, way->slot);
	way->asking = way->one_key = false;
	return way->ep && way->ep != c->ep && ++way->n <= SENT_ON;
}

static bool next(struct dlk_store *s, struct dlk_attempt *at,
		 struct dlk_way *way, struct dlk_conn *c, int err)
{
	struct dlk_cluster *e = cluster_of(s);
	const uint64_t now = dlk_now_ns();
	const struct dlk_endpoint *ep = way->ep;
	bool on = false;

	if (!way->until_ns)
		way->until_ns = dlk_attempt_by_ns(at, now);
	if (at->interrupt && at->interrupt(at->arg))
		return false;
	if (err == -EREMOTE)
		on = now < way->until_ns && way->slot != DLK_NO_SLOT &&
		     sent_on(e, way, c);
	else if (!dlk_conn_is_open(c) ||
		 strncmp(c->error, "CLUSTERDOWN ", 12) == 0)
		on = replaced(e, at, way, c);
	if (!on)
		way->ep = ep;
	return on;
}

static const struct dlk_endpoint *server(struct dlk_store *s, unsigned i)
{
	return dlk_node_at(cluster_of(s)->redis->endpoints, i);
}

static const struct dlk_router router = {
	.find = find, .next = next, .server = server, .elsewhere = elsewhere
};

/* --- many leases at a time -------------------------------------------------- */

/* Not asked yet.  (To who finds it all the same: nobody knows.) */
enum { TO_ASK = -EINPROGRESS };

static const struct dlk_endpoint *node_of(struct dlk_cluster *e,
					  const struct dlk_lease *lease)
{
	return owner_of(e, dlk_slot_of(lease->key, lease->key_len));
}

/*
 * The first one, and all behind it of its node that share its round trip.  That
 * node was `ep` a moment ago; another thread may have learnt of another one since,
 * and then `ep` says so.
 */
static void ask_node(struct dlk_cluster *e, struct dlk_attempt *at,
		     bool releases, struct dlk_renewal *r, unsigned n,
		     const struct dlk_endpoint *ep)
{
	struct dlk_renewal batch[BATCH];
	unsigned who[BATCH], many = 0;

	for (unsigned i = 0; i < n && many < BATCH; i++) {
		if (r[i].result != TO_ASK ||
		    (i && node_of(e, r[i].lease) != ep))
			continue;
		who[many] = i;
		batch[many++] = r[i];
	}
	if (ep)
		dlk_single_upkeep(&e->single.store, at, ep, releases, batch,
				  many);
	for (unsigned k = 0; k < many; k++) {
		/* (Or another one is there for who has failed.) */
		if (!ep ||
		    (batch[k].result < 0 && node_of(e, batch[k].lease) != ep))
			batch[k].result = -EREMOTE;
		r[who[k]] = batch[k];
	}
}

/*
 * Those at one node go together.  A node that is away comes last: nobody waits
 * for it whose lease is another's.
 */
static void ask_nodes(struct dlk_cluster *e, struct dlk_attempt *at,
		      bool releases, struct dlk_renewal *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		r[i].result = TO_ASK;
	for (int late = 0; late < 2; late++) {
		for (unsigned i = 0; i < n; i++) {
			const struct dlk_endpoint *ep;

			if (r[i].result != TO_ASK)
				continue;
			ep = node_of(e, r[i].lease);
			if (late || (ep && !dlk_node_is_away(ep, dlk_now_ns())))
				ask_node(e, at, releases, r + i, n - i, ep);
		}
	}
}

/* What is elsewhere, and what is to be put back, is one lease's question: of its
 * slot, for each has a memory of its own. */
static bool is_to_ask_alone(const struct dlk_renewal *r)
{
	return r->result == -EREMOTE || r->result == DLK_LOST ||
	       (r->result == DLK_GONE && !r->lease->ranges_key) ||
	       dlk_upkeep_is_old(r);
}

static void renew(struct dlk_store *s, struct dlk_attempt *at,
		  struct dlk_renewal *r, unsigned n)
{
	if (n > 1)
		ask_nodes(cluster_of(s), at, false, r, n);
	for (unsigned i = 0; i < n; i++)
		if (n == 1 || is_to_ask_alone(&r[i]))
			dlk_single_ops.renew(s, at, &r[i], 1);
}

static void release(struct dlk_store *s, struct dlk_attempt *at,
		    struct dlk_renewal *r, unsigned n)
{
	if (n > 1)
		ask_nodes(cluster_of(s), at, true, r, n);
	for (unsigned i = 0; i < n; i++)
		if (n == 1 || r[i].result == -EREMOTE)
			dlk_single_ops.release(s, at, &r[i], 1);
}

/* ---------------------------------------------------------------------------- */

static struct dlk_store_ops ops;

const struct dlk_endpoint *dlk_cluster_node(const struct dlk_store *s,
					    const struct dlk_lease *lease)
{
	return node_of(cluster_of(s), lease);
}

/* "a cluster of a:1, b:2" */
static void name_cluster(struct dlk_cluster *e)
{
	struct dlk_text t = dlk_text_in(e->at, sizeof(e->at));

	dlk_text_str(&t, "a cluster of ");
	for (unsigned i = 0; i < e->redis->n_endpoints; i++)
		dlk_text_strs(&t, i ? ", " : "", e->redis->endpoints[i].name,
			      NULL);
}

void dlk_cluster_init(struct dlk_cluster *e, const struct dlk_redis *redis)
{
	dlk_single_init(&e->single, redis);
	ops = dlk_single_ops;
	ops.renew = renew;
	ops.release = release;
	e->single.store.ops = &ops;
	e->single.router = &router;
	e->redis = redis;
	name_cluster(e);
	e->single.store.at = e->at;
	e->map = dlk_pages(sizeof(*e->map));
	if (!e->map && !e->single.store.fault)
		e->single.store.fault = "no memory for the cluster's slots";
}
