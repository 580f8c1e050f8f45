/* SPDX-License-Identifier: MIT */
/*
 * Who waits for what, at Redis: what the search for deadlocks reads.
 *
 * A process is named by the first 16 of its tokens' random digits.  Its waits
 * stand in a hash of their own, dlock%wait:PROCESS (no path has such a key: a
 * '%' of a path stands as %25), a field a wait: the number that the server gave
 * it (its microseconds, 20 digits), and what is waited for.  The hash expires
 * DLK_WAIT_MS after it was last refreshed, so a dead process waits for nobody.
 *
 * Connections, deadlines and errors are those of lease.h.
 */
#ifndef DLK_WAITS_H
#define DLK_WAITS_H

#include "lease/lease.h"

enum {
	DLK_PROCESS_LEN = 16,
	DLK_WAIT_MS = 1500,
	DLK_BLOCKERS_MAX = 16, /* of one wait that are looked at */
	DLK_WAITS_MAX = 8,     /* of one process that are looked at */
};

/* Too large for a signal handler's stack. */
struct dlk_wait {
	uint64_t id; /* later waits have greater ones */
	char process[DLK_PROCESS_LEN + 1];
	char owner[DLK_RANDOM_LEN + 1]; /* its token's digits at the key, or
					   "-": it holds nothing there */
	struct dlk_range range;
	size_t key_len;
	char key[DLK_KEY_MAX + 1]; /* KEY%rec */
	char work[DLK_KEY_MAX + 128];
};

/* Tell of a wait; gives it its id. */
int dlk_wait_begin(struct dlk_conn *c, uint64_t deadline_ns,
		   struct dlk_wait *wait);
/* Queue that it is over. */
int dlk_wait_end(struct dlk_conn *c, const char *process, uint64_t id);
/* All waits of a process go on: 1, or 0 if none is told of any more. */
int dlk_waits_refresh(struct dlk_conn *c, uint64_t deadline_ns,
		      const char *process);

/* The n-th wait of a process: 1, or 0 for none, -errno. */
int dlk_wait_read(struct dlk_conn *c, uint64_t deadline_ns, const char *process,
		  unsigned n, struct dlk_wait *wait);
/* Is it still there?  1, 0, -errno. */
int dlk_wait_lasts(struct dlk_conn *c, uint64_t deadline_ns,
		   const char *process, uint64_t id);

/*
 * The processes that are in its way at this moment; their number, or -errno.
 */
typedef char dlk_process[DLK_PROCESS_LEN + 1];
int dlk_wait_blockers(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_wait *wait,
		      dlk_process blockers[DLK_BLOCKERS_MAX]);

#endif
