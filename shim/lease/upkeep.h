/* SPDX-License-Identifier: MIT */
/*
 * Carrying leases on: what the process's thread and the keeper both do.
 * All of a batch share one round trip (DESIGN section 5).
 */
#ifndef DLK_RENEW_H
#define DLK_RENEW_H

#include "lease/lease.h"

/*
 * Renew n <= DLK_RENEW_BATCH leases on a connection, opening it if need be,
 * until deadline_ns.  Results that are negative: not renewed, nobody knows.
 */
void dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *r, unsigned n);

#endif
