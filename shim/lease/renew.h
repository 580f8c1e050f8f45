/* SPDX-License-Identifier: MIT */
/*
 * Carrying leases on: what the process's thread and the keeper both do.
 * All of a batch share one round trip (DESIGN section 5).
 */
#ifndef DLK_RENEW_H
#define DLK_RENEW_H

#include "lease/lease.h"

enum { DLK_RENEW_BATCH = 64 };

struct dlk_renewal {
	const struct dlk_lease *lease;
	uint64_t deadline_ns; /* of the lease, as it stands */
	uint64_t asked_ns;    /* out, result 0: the new one counts from here */
	bool restored;        /* out: a restarted server had forgotten it */
	int result;           /* out: 0, DLK_LOST, DLK_GONE, DLK_REPLACED,
				 -errno */
};

/*
 * Renew n <= DLK_RENEW_BATCH leases on a connection, opening it if need be,
 * until deadline_ns.  Results that are negative: not renewed, nobody knows.
 */
void dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *r, unsigned n);

#endif
