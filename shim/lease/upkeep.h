/* SPDX-License-Identifier: MIT */
/*
 * Keeping leases up: renewed, and released, as the process's thread and the
 * keeper both do it.  All of a batch share one round trip (DESIGN section 5);
 * which are due is model/due.h's.
 */
#ifndef DLK_UPKEEP_H
#define DLK_UPKEEP_H

#include "lease/lease.h"
#include "redis/script.h"

/*
 * Renew n <= DLK_RENEW_BATCH leases on a connection, opening it if need be,
 * until deadline_ns.  Results that are negative: not renewed, nobody knows.
 * All of these in halves as well (redis/conn.h): -EINPROGRESS; else 0, or what
 * the connection failed of.
 */
int dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *r, unsigned n);
/*
 * Release them, the same way.  Result 0: a lease is not there any more; else it
 * is to be tried again.
 */
int dlk_release_batch(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *r, unsigned n);
/*
 * Those of whole files whose result is DLK_GONE are put back, wherever that may
 * be; their results are of no use then.
 */
int dlk_put_back_batch(struct dlk_conn *c, uint64_t deadline_ns,
		       struct dlk_renewal *r, unsigned n);
/* After -EINPROGRESS of one of these: how many answers are to come. */
unsigned dlk_batch_owed(const struct dlk_renewal *r, unsigned n);
/* The server has an owner's ranges as they were before his last request. */
bool dlk_upkeep_is_old(const struct dlk_renewal *u);
/*
 * What expires by then (ms, the server's clock) nobody has renewed for three
 * quarters of the ttl, since the memory of a young server began; 0: none is that
 * old.
 */
uint64_t dlk_upkeep_outdated(const struct dlk_youth *youth,
			     const struct dlk_lease *lease);
/*
 * Another's is there, at a server that is young: if it can be as old as its memory,
 * the result is -EAGAIN, and until_ns is set.
 */
void dlk_upkeep_wait(struct dlk_conn *c, const struct dlk_youth *youth,
		     struct dlk_renewal *u);

#endif
