/* SPDX-License-Identifier: MIT */
/*
 * Keeping leases up: renewed, and released, as the process's thread and the
 * keeper both do it.  All of a batch share one round trip (DESIGN section 5);
 * which are due is model/due.h's.
 */
#ifndef DLK_UPKEEP_H
#define DLK_UPKEEP_H

#include "lease/lease.h"

/*
 * Renew n <= DLK_RENEW_BATCH leases on a connection, opening it if need be,
 * until deadline_ns.  Results that are negative: not renewed, nobody knows.
 */
void dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *r, unsigned n);
/*
 * Release them, the same way.  Result 0: a lease is not there any more; else it
 * is to be tried again.
 */
void dlk_release_batch(struct dlk_conn *c, uint64_t deadline_ns,
		       struct dlk_renewal *r, unsigned n);

#endif
