/* SPDX-License-Identifier: MIT */
/* Which servers have the keys; see common.h. */
#include "tools/common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lease/cluster.h"
#include "model/slot.h"
#include "redis/conn.h"

/* The masters of a cluster, as one of its nodes has named them. */
struct cluster {
	const struct dlk_redis *redis;
	const struct dlk_endpoint *owner[DLK_SLOTS];
	const struct dlk_endpoint **masters; /* DLK_SLOTS at most */
	size_t n, room;
	enum tool_bar bar; /* of the first that was asked */
	char why[256];     /* ... in words */
	struct cluster *next;
};

static struct cluster *clusters;

static void add(struct cluster *k, const struct dlk_slot_range *range)
{
	size_t i = 0;

	for (unsigned s = range->first; s <= range->last; s++)
		k->owner[s] = range->node;
	while (i < k->n && k->masters[i] != range->node)
		i++;
	if (i < k->n)
		return;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
	k->masters = tool_grow(k->masters, k->n, &k->room, sizeof(*k->masters));
	k->masters[k->n++] = range->node;
}

static int ask(struct cluster *k, struct dlk_conn *c)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("CLUSTER") },
					{ DLK_LITERAL("SLOTS") } };
	struct dlk_slot_range range;
	const redisReply *r;
	int err = tool_call(c, 2, args, &r);

	if (!err && r->type == REDIS_REPLY_ERROR)
		err = tool_refusal(c, r);
	if (err)
		return err;
	for (size_t i = 0;
	     dlk_cluster_entry(r, i, k->redis->endpoints, c->ep, &range); i++)
		add(k, &range);
	if (k->n)
		return 0;
	dlk_conn_set_error(c, "it names no node that has a slot");
	return -EREMOTEIO;
}

static void look_at(struct cluster *k, const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = dlk_conn_new(ep);
	int err = c ? ask(k, c) : -ENOMEM;

	if (err && !k->bar) {
		k->bar = tool_bar(c, err);
		snprintf(k->why, sizeof(k->why), "%s", tool_why(c, err));
	}
	dlk_conn_delete(c);
}

/* Asked once, and again after tool_servers_forget(); by a password that cannot be
 * read, nobody. */
static const struct cluster *cluster_of(const struct dlk_redis *redis)
{
	struct cluster *k = clusters;

	while (k && k->redis != redis)
		k = k->next;
	if (k)
		return k;
	k = tool_room(1, sizeof(*k));
	k->redis = redis;
	k->next = clusters;
	clusters = k;
	if (redis->fault) {
		k->bar = TOOL_UNREADY;
		snprintf(k->why, sizeof(k->why), "%s", redis->fault);
		return k;
	}
	for (unsigned i = 0; i < redis->n_endpoints && !k->n; i++)
		look_at(k, &redis->endpoints[i]);
	return k;
}

/* (The nodes themselves stay: node.h.) */
void tool_servers_forget(void)
{
	while (clusters) {
		struct cluster *k = clusters;

		clusters = k->next;
		free(k->masters);
		free(k);
	}
}

enum tool_bar tool_servers_known(const struct dlk_redis *redis,
				 const char **why)
{
	const struct cluster *k =
		redis->mode == DLK_CLUSTER ? cluster_of(redis) : NULL;

	if (!k || k->n)
		return 0;
	*why = k->why;
	return k->bar;
}

unsigned tool_servers(const struct dlk_redis *redis)
{
	if (redis->mode == DLK_QUORUM)
		return redis->n_endpoints;
	if (redis->mode == DLK_CLUSTER)
		return (unsigned)cluster_of(redis)->n ?: 1;
	return 1;
}

unsigned tool_needed(const struct dlk_redis *redis)
{
	if (redis->mode == DLK_CLUSTER)
		return tool_servers(redis);
	return redis->mode == DLK_QUORUM ? redis->n_endpoints / 2 + 1 : 1;
}

const struct dlk_endpoint *tool_server(const struct dlk_redis *redis,
				       unsigned i)
{
	const struct cluster *k;

	if (redis->mode != DLK_CLUSTER)
		return &redis->endpoints[i];
	k = cluster_of(redis);
	return i < k->n ? k->masters[i] : redis->endpoints;
}

const struct dlk_endpoint *tool_node_of(const struct dlk_redis *redis,
					const char *key, size_t len)
{
	return cluster_of(redis)->owner[dlk_slot_of(key, len)];
}

const struct dlk_endpoint *tool_server_of(const struct dlk_redis *redis,
					  const char *key, size_t len)
{
	if (redis->mode != DLK_CLUSTER)
		return redis->endpoints;
	return tool_node_of(redis, key, len) ?: redis->endpoints;
}

bool tool_has_key(const struct dlk_redis *redis, const struct dlk_endpoint *ep,
		  const char *key, size_t len)
{
	return redis->mode != DLK_CLUSTER ||
	       tool_server_of(redis, key, len) == ep;
}
