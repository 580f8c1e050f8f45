/* SPDX-License-Identifier: MIT */
/*
 * The engine of mode = "quorum": N independent masters, of which a majority
 * must agree (redis.io, "Distributed Locks with Redis"); see store.h, and
 * DESIGN 5.7 for what is different here.
 */
#ifndef DLK_QUORUM_H
#define DLK_QUORUM_H

#include "lease/ballot.h"

struct dlk_quorum {
	struct dlk_store store;
	struct dlk_masters masters;
	char at[160]; /* the masters' names */
};

static inline struct dlk_masters *dlk_masters_of(struct dlk_store *s)
{
	return &((struct dlk_quorum *)s)->masters;
}

/* `redis` is looked at for as long as the store is used. */
void dlk_quorum_init(struct dlk_quorum *q, const struct dlk_redis *redis);

/* --- quorum_upkeep.c: the operations of store.h that keep a lease up ------- */

void dlk_quorum_renew(struct dlk_store *s, struct dlk_attempt *at,
		      struct dlk_renewal *r, unsigned n);
void dlk_quorum_release(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_renewal *r, unsigned n);
void dlk_quorum_reclaim(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_renewal *r, uint64_t since_ns,
			const struct dlk_ranges *held);
int dlk_quorum_list(struct dlk_store *s, struct dlk_attempt *at,
		    const struct dlk_lease *lease, struct dlk_ranges *held,
		    uint64_t *seq);
int dlk_quorum_reduce(struct dlk_store *s, struct dlk_attempt *at,
		      const struct dlk_lease *lease, uint64_t seq,
		      const struct dlk_ranges *held);

/* --- quorum_send.c: those that are sent, and not waited for ---------------- */

int dlk_quorum_send_release(struct dlk_store *s, const struct dlk_sending *how,
			    const struct dlk_lease *lease);
int dlk_quorum_send_downgrade(struct dlk_store *s,
			      const struct dlk_sending *how,
			      const struct dlk_lease *lease);
int dlk_quorum_send_ranges(struct dlk_store *s, const struct dlk_sending *how,
			   const struct dlk_lease *lease, uint64_t seq,
			   struct dlk_range *window,
			   const struct dlk_ranges *held);
bool dlk_quorum_drain(struct dlk_store *s, uint64_t deadline_ns,
		      bool (*interrupt)(void *arg));
/* In a child of fork(2). */
void dlk_quorum_send_forget(void);

#endif
