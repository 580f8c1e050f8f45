/* SPDX-License-Identifier: MIT */
/*
 * Record locks at Redis: the ranges that one owner holds of one file.
 *
 * An owner (DESIGN L2: a process and an inode, or an open file description)
 * has one lease with one token, one ttl and any number of ranges; see
 * scripts/records.inc for how they are kept.  A lease begins with the owner's
 * first range and ends with its last; what comes then gets a new token.
 *
 * Sequence numbers.  Each request of an owner has a number, given at sending,
 * greater than those before; a token's first request has the number 1.  What
 * arrives with a smaller number than the server has seen from this owner
 * changes nothing (DLK_OLD_SEQ, with the server's number) and is asked anew
 * with a greater one:
 *
 *	thread A		server			thread B
 *	5: lock 0-9
 *	 (on its way)					6: lock 20-29
 *				6: granted
 *				5: stale
 *	7: lock 0-9
 *				7: granted
 *
 * A request that is sent again because its answer never came takes a new
 * number as well, so that the first copy, late, does nothing.
 *
 *  1. Only an acquire adds; it replaces what the owner has there (so a read
 *     lock may make a reader of a writer), and adds all of it or nothing.
 *  2. Only a set takes away: in a window, the owner has what the list says,
 *     and nothing that it had not.  So it may be sent again at any time, and
 *     after any doubt the window is the whole file.
 *  3. A set MUST be sent until it is acknowledged (0), with a new number and
 *     what the owner holds then; but not of a window in which an acquire of
 *     the owner is unanswered.
 *
 * Connections, deadlines and errors are those of lease.h; further conditions:
 * DLK_OLD_SEQ; and DLK_GONE from an acquire, when the owner holds something
 * (`known`) that the server does not know: the lease is lost, or the server
 * was restarted.
 */
#ifndef DLK_RECORDS_H
#define DLK_RECORDS_H

#include "lease/lease.h"
#include "lease/ranges.h"

enum {
	DLK_RECORDS_PAGE = 500, /* ranges in one set, at most */
};

/*
 * Ask for a range.  0: granted, and the deadline of the whole lease counts
 * from answer->asked_ns; DLK_BUSY, DLK_WRONG_TYPE, DLK_GRACE, DLK_OLD_SEQ,
 * DLK_GONE,
 * -errno.
 */
int dlk_records_acquire(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease,
			const struct dlk_records_ask *ask,
			struct dlk_answer *answer);

/*
 * Who would refuse `range` (F_GETLK)?  0: nobody; DLK_BUSY, DLK_WRONG_TYPE,
 * DLK_GRACE, -errno.  Reads, but for what has expired.  Nobody that the
 * kernel, asked after since_ns (as in a token; 0: not asked), did not name of
 * this host and file: he is dead, or who asks itself, under another token.
 */
int dlk_records_get(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease,
		    const struct dlk_range *range, uint64_t since_ns,
		    struct dlk_answer *answer);

/*
 * Queue a set: in *window (its type does not matter) the owner has what `held`
 * has there.  By the script's name or by its source, as
 * dlk_lease_release(): that one wakes nobody.  More than DLK_RECORDS_PAGE
 * ranges take several: *window becomes what is still to be sent, with a greater
 * number each, until its start is behind its end.
 *
 *	struct dlk_range all = { 0, DLK_RANGE_MAX, 0 };
 *
 *	while (!err && all.start <= all.end)
 *		err = dlk_records_set(c, lease, ++seq, &all, &held, false);
 *
 * 0, -ENOBUFS (flush, and again), -errno; its reply: dlk_lease_released().
 */
int dlk_records_set(struct dlk_conn *c, const struct dlk_lease *lease,
		    uint64_t seq, struct dlk_range *window,
		    const struct dlk_ranges *held, bool by_source);

/*
 * For who does not know what the owner has: the server's list into the empty
 * set *held, and the number of the last request that it has seen; 0, DLK_GONE
 * if it knows no such owner, -errno.  Two questions: what a later request
 * brought may be in the list already, and the number tells.
 */
int dlk_records_list(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease, struct dlk_ranges *held,
		     uint64_t *seq);
/*
 * The owner has no more than `held`: dlk_records_set() of the whole file, by
 * the number `seq` that the list came with.  0, DLK_OLD_SEQ if its owner has
 * asked for something since, and nothing changed; -errno.
 */
int dlk_records_reduce(struct dlk_conn *c, uint64_t deadline_ns,
		       const struct dlk_lease *lease, uint64_t seq,
		       const struct dlk_ranges *held);

/*
 * For those who list what is there (scripts/records.inc).  An owner, by the
 * value of its field in the hash: when it expires (the server's clock) and its
 * token, which stays in `head`; then its ranges, by ZRANGEBYLEX of `ranges_key`
 * from "[O" and the 32 random digits of the token to the same and ":".  False
 * for what is no such thing.
 */
struct dlk_records_owner {
	uint64_t expiry_ms;
	const char *token;
	size_t token_len;
};
bool dlk_records_read_owner(const char *head, size_t len,
			    struct dlk_records_owner *owner);
bool dlk_records_read_place(const char *member, size_t len,
			    struct dlk_range *range);

/*
 * After DLK_GONE, within the lease's own deadline: if the server is in its
 * restart window, nobody else can have been granted anything; put it back.
 * The result: 0, DLK_GONE, DLK_LOST, -errno, and u->until_ns.
 */
void dlk_records_reclaim(struct dlk_conn *c, uint64_t deadline_ns,
			 struct dlk_renewal *u, uint64_t since_ns,
			 const struct dlk_ranges *held);

/* The same wherever nobody else can have been granted anything. */
int dlk_records_restore(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_renewal *u, uint64_t since_ns,
			const struct dlk_ranges *held);

#endif
