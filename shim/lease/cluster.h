/* SPDX-License-Identifier: MIT */
/*
 * The engine of mode = "cluster": a Redis Cluster, of whose nodes each has some
 * of the 16384 hash slots (redis.io, "Redis cluster specification"); see
 * store.h, and DESIGN 5.8 for what is different here.
 */
#ifndef DLK_CLUSTER_H
#define DLK_CLUSTER_H

#include "lease/single.h"

struct cluster_map;

struct dlk_cluster {
	struct dlk_single single;
	const struct dlk_redis *redis;
	struct cluster_map *map;
	char at[160]; /* the names of those that are configured */
};

/* `redis` is looked at for as long as the store is used. */
void dlk_cluster_init(struct dlk_cluster *e, const struct dlk_redis *redis);

/* The node that has the lease's slot, as far as that is known; else NULL. */
const struct dlk_endpoint *dlk_cluster_node(const struct dlk_store *s,
					    const struct dlk_lease *lease);

/* Of the reply to CLUSTER SLOTS, one entry: the slots, and their master. */
struct dlk_slot_range {
	unsigned first, last;
	const struct dlk_endpoint *node;
};
/*
 * The i-th entry of a reply that `asked` gave; its node is like `like`.  False:
 * there is none, or it is none.
 */
bool dlk_cluster_entry(const redisReply *r, size_t i,
		       const struct dlk_endpoint *like,
		       const struct dlk_endpoint *asked,
		       struct dlk_slot_range *range);

#endif
