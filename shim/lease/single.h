/* SPDX-License-Identifier: MIT */
/*
 * The engine of mode = "single": one Redis server; see store.h.  And of each
 * mode where one server at a time answers a question: which one it is, and
 * which one next, is its router's to say (lease/cluster.h).
 */
#ifndef DLK_SINGLE_H
#define DLK_SINGLE_H

#include "lease/store.h"
#include "redis/conn.h"

/* Where a question goes. */
struct dlk_way {
	int slot; /* of its key; DLK_NO_SLOT: it has none, or several */
	const struct dlk_endpoint *ep; /* NULL: not known yet */
	bool asking, one_key;          /* as in redis/conn.h */
	unsigned n;                    /* how often it was sent on */
	unsigned put_off;  /* ... and how often, up to a few, for a moment */
	uint64_t until_ns; /* no longer than that is it sent on; 0: not yet */
};

struct dlk_router {
	/*
	 * way->ep, of way->slot.  With `by_ns` servers may be asked for it,
	 * until then; 0: not.  0, or -errno and at->why.
	 */
	int (*find)(struct dlk_store *s, struct dlk_attempt *at,
		    struct dlk_way *way, uint64_t by_ns);
	/*
	 * What was asked by c ended with err < 0: is it to be asked once more,
	 * the way that *way says now?
	 */
	bool (*next)(struct dlk_store *s, struct dlk_attempt *at,
		     struct dlk_way *way, struct dlk_conn *c, int err);
	/* The i-th server that may have answers to be read; or NULL. */
	const struct dlk_endpoint *(*server)(struct dlk_store *s, unsigned i);
	/* An error reply that says where a slot is, with struct dlk_store. */
	void (*elsewhere)(void *store, const struct dlk_endpoint *asked,
			  const char *error);
};

struct dlk_single {
	struct dlk_store store;
	const struct dlk_endpoint *ep;
	const struct dlk_router *router; /* NULL: it is always `ep` */
};

/* `redis` is looked at for as long as the store is used. */
void dlk_single_init(struct dlk_single *single, const struct dlk_redis *redis);
extern const struct dlk_store_ops dlk_single_ops;

/*
 * `renew` and `release` of store.h, of leases that are all at `ep`: what is not
 * there has the result -EREMOTE, and what is gone is not put back.  NULL: of one
 * lease, wherever it is.
 */
void dlk_single_upkeep(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_endpoint *ep, bool releases,
		       struct dlk_renewal *r, unsigned n);

#endif
