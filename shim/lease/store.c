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
#include "redis/tls.h"

/* Of whichever engine a section's mode asks for. */
union engine {
	struct dlk_store store;
	struct dlk_single single;
};

static union engine *engines; /* of each section, in their order */
static const struct dlk_redis *sections;
static unsigned n_sections;
static void (*store_restarted)(const struct dlk_store *s);

/* By what the pool knows of a server. */
static void tell_restarted(const struct dlk_endpoint *ep)
{
	for (unsigned i = 0; i < n_sections; i++)
		if (engines[i].single.ep == ep)
			store_restarted(&engines[i].store);
}

static void begin(union engine *e, const struct dlk_redis *section)
{
	dlk_single_init(&e->single, section);
	if (section->mode != DLK_SINGLE && !e->store.fault)
		e->store.fault = "this version knows mode = \"single\" only";
}

/* (A configuration may have no section.) */
int dlk_stores_begin(const struct dlk_redis *redis, unsigned n,
		     void (*restarted)(const struct dlk_store *s))
{
	void *p = mmap(NULL, (n + 1) * sizeof(*engines), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	engines = p;
	sections = redis;
	n_sections = n;
	store_restarted = restarted;
	dlk_pool_begin(tell_restarted);
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
	dlk_pool_look();
}

void dlk_stores_forget(void)
{
	dlk_pool_forget();
	dlk_tls_forget();
	dlk_subscriptions_forget();
}
