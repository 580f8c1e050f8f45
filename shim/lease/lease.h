/* SPDX-License-Identifier: MIT */
/*
 * What is asked of one Redis server about a lease: acquire, release, renew,
 * reclaim.  The store's own way to speak of it (store.h), and the keeper's.
 *
 * Each call works on one connection that is open (dlk_conn_open), in one
 * thread, within a deadline (CLOCK_BOOTTIME ns), without malloc.  Results are
 * those of store.h; but for -EAGAIN and -EREMOTEIO, a negative one says that
 * the connection failed and is closed; its `error` says it in words.
 */
#ifndef DLK_LEASE_H
#define DLK_LEASE_H

#include <stdbool.h>

#include "lease/store.h"
#include "redis/conn.h"

/* As the operation of store.h. */
int dlk_lease_acquire(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease, bool proof,
		      const struct dlk_lease *superseded,
		      struct dlk_waiter *waiter, struct dlk_answer *answer);

/*
 * Queue a release, by the script's name or by its source, for a server that was
 * restarted does not know the name: the source wakes nobody.  Flush it; its
 * reply is judged by dlk_lease_released().
 */
int dlk_lease_release(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool by_source);

/*
 * The reply to a release, a downgrade, or a list of ranges: 0, the lease is not
 * there any more, or is what it was to be; DLK_OLD_SEQ and *seq (more than
 * 1,000 ranges go in several calls: all but the last one are so answered);
 * -ENOENT for "again, by its source"; -EAGAIN, -EREMOTEIO; NULL (never came)
 * -EPIPE.
 */
int dlk_lease_released(const redisReply *reply, uint64_t *seq);

/*
 * The lease, held exclusively so far, becomes a shared one if it is there; one
 * that is shared already stays so.  It may come twice, or late.  Queued and
 * judged like a release.
 */
int dlk_lease_weaken(struct dlk_conn *c, const struct dlk_lease *lease);

/*
 * The same for renewals, judged by dlk_lease_renewed(), so that many share a
 * round trip.
 */
int dlk_lease_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool by_source);

/*
 * The reply to the renewal of u->lease: 0 (of records with u->seq and
 * u->ranges), DLK_LOST, DLK_GONE, DLK_REPLACED, -ENOENT (by its source), -errno.
 */
int dlk_lease_renewed(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *u);

/*
 * After DLK_GONE, within the lease's own deadline: if the server is in its
 * restart window (dlk_script_young), nobody else can have been granted it; put
 * it back, likewise in two steps.  (The second is that of ranges, too.)  0,
 * DLK_LOST, *ours: what is there is of dlock's (or NULL); -errno.
 * `outdated_ms` is struct dlk_renewal's.
 */
int dlk_lease_reclaim(struct dlk_conn *c, const struct dlk_lease *lease,
		      uint64_t outdated_ms);
int dlk_lease_reclaimed(struct dlk_conn *c, uint64_t deadline_ns, bool *ours);

#endif
