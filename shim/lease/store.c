/* SPDX-License-Identifier: MIT */
/*
 * The stores of this process; see store.h.  They share the pool of
 * connections.
 */
#include "lease/store.h"

#include <errno.h>
#include <sys/mman.h>

#include "lease/single.h"
#include "redis/pool.h"
#include "redis/subscription.h"

static struct dlk_single *stores;
static const struct dlk_redis *first;
static unsigned n_stores;
static void (*store_restarted)(const struct dlk_store *s);

/* By what the pool knows of a server. */
static void tell_restarted(const struct dlk_endpoint *ep)
{
	for (unsigned i = 0; i < n_stores; i++)
		if (stores[i].ep == ep)
			store_restarted(&stores[i].store);
}

int dlk_stores_begin(const struct dlk_redis *redis, unsigned n,
		     void (*restarted)(const struct dlk_store *s))
{
	void *p = mmap(NULL, (n + 1) * sizeof(*stores), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	stores = p;
	first = redis;
	n_stores = n;
	store_restarted = restarted;
	dlk_pool_begin(tell_restarted);
	for (unsigned i = 0; i < n; i++)
		dlk_single_init(&stores[i], &redis[i]);
	return 0;
}

struct dlk_store *dlk_store_of(const struct dlk_redis *redis)
{
	return &stores[redis - first].store;
}

void dlk_stores_settle(uint64_t deadline_ns)
{
	for (unsigned i = 0; i < n_stores; i++)
		while (stores[i].store.ops->settle(&stores[i].store,
						   deadline_ns, NULL))
			;
}

void dlk_stores_look(void)
{
	dlk_pool_look();
}

void dlk_stores_forget(void)
{
	dlk_pool_forget();
	dlk_subscriptions_forget();
}
