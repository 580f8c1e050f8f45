/* SPDX-License-Identifier: MIT */
/*
 * Who waits for what, at Redis: what the search for deadlocks reads.
 *
 * A process is named by the first 16 of its tokens' random digits.  Its waits
 * stand in a hash of their own, dlock%wait:{w}PROCESS (no path has such a key: a
 * '%' of a path stands as %25), a field a wait: the number that the server gave
 * it (its microseconds, 20 digits); when it was told of last, by the same
 * clock, and what is waited for.  Of what is told of, it is certain only that
 * it lasted at that time.  What nobody tells of for DLK_WAIT_MS goes, with the
 * hash or at the process's next wait.
 *
 * Connections, deadlines and errors are those of lease.h.
 */
#ifndef DLK_WAITS_H
#define DLK_WAITS_H

#include "lease/lease.h"

/*
 * In a cluster the waits of all are in one slot, for it is by one clock that it
 * is known which of a cycle began last, and that none of it has ended.
 */
#define DLK_WAITS_KEY "dlock%wait:{w}"

/*
 * Tell of a wait, by who waits: gives it an id if it is 0, or has expired, and
 * `told`.
 */
int dlk_wait_tell(struct dlk_conn *c, uint64_t deadline_ns,
		  struct dlk_wait *wait);
/*
 * The same by another thread, which has seen that it lasts, since it was told
 * *clock (0: not seen yet); tells what the clock is now.  1, or 0: it is none.
 * `again`: it may have expired, for the process was stopped for long; then it
 * is told of again, under its id.  NULL: no.
 */
int dlk_wait_confirm(struct dlk_conn *c, uint64_t deadline_ns,
		     const char *process, uint64_t id, struct dlk_wait *again,
		     uint64_t *clock);
/* Queue that it is over. */
int dlk_wait_end(struct dlk_conn *c, const char *process, uint64_t id);

/* The n-th wait of a process: 1, or 0 for none, -errno. */
int dlk_wait_read(struct dlk_conn *c, uint64_t deadline_ns, const char *process,
		  unsigned n, struct dlk_wait *wait);

/*
 * The processes that are in its way at this moment; their number, or -errno.
 */
int dlk_wait_blockers(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_wait *wait,
		      dlk_process blockers[DLK_BLOCKERS_MAX]);

#endif
