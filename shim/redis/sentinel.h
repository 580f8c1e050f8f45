/* SPDX-License-Identifier: MIT */
/*
 * Where the master is, by the word of Redis Sentinels (redis.io, "Guidelines for
 * Redis clients with support for Redis Sentinel").
 *
 * An endpoint with n_sentinels is a master's name, and the endpoints behind it
 * are its Sentinels.  A connection to it asks them for the address when it is
 * made (conn.h), and the server there whether it is a master.
 *
 *	we		S1		S2		S3 (dead)
 *	where? ->	.		.		.
 *			10.0.0.5 6379
 *	connect, INFO: role:master
 *			...
 *			+switch-master ->		(to who listens)
 *	connections to 10.0.0.5 are stale; all that is held is due
 *
 *  1. All are asked at the same time, and the first that answers wins: a dead
 *     one costs nothing.  But where the master that was known has just failed,
 *     one that names another goes first, and who names it still is waited out.
 *  2. What they said is known until a connection to it fails, or says READONLY;
 *     and where none of them answers then, it is still where to look.
 *     Connections to the one before are stale when another one is named by who
 *     listens or verifies (3), or says itself that it is a master; not by what
 *     one Sentinel answers to a doubt, which may have heard of no failover yet.
 *  3. Who uses a connection for a second time listens to one of them, another
 *     one if that ends, and hears it before each question (dlk_sentinel_verify):
 *     a master that is one no more goes on answering until it is told, for
 *     seconds.  Where nobody was listening for long, they are asked again: before
 *     another connection is opened to it, too (a child of fork(2) has none).
 *  4. An address that comes too late, or from who was cut off, does no harm: no
 *     grant rests on it (DESIGN 5.4: a reign that is new grants nothing for one
 *     restart delay; L5: `replicas`).
 *
 * Threads, signals, memory as in conn.h.
 */
#ifndef DLK_SENTINEL_H
#define DLK_SENTINEL_H

#include "redis/conn.h"

/* Once, before the first connection: conn.c finds masters by it. */
void dlk_sentinel_begin(void);

/*
 * What the i-th Sentinel of `ep` says, asked alone: 0, and *found is a copy of
 * `ep` at that address; -errno, and why.
 */
int dlk_sentinel_ask(const struct dlk_endpoint *ep, unsigned i,
		     uint64_t deadline_ns, struct dlk_endpoint *found,
		     char *why, size_t size);

/*
 * Before a question by a connection that was open, or is to be opened: is the server
 * still the one that is named?  If not, the connection is stale (conn.h).  Where no
 * Sentinel answers, it is the last one that was.  `again`: and who asks listens.
 */
void dlk_sentinel_verify(const struct dlk_endpoint *ep,
			 const struct dlk_patience *wait, bool again);
/*
 * By who holds something of that master, now and then, without a wait: begins to
 * listen, and hears what is said.  True: another server is the master.
 */
bool dlk_sentinel_look(const struct dlk_endpoint *ep);
/* The same while an answer is waited for: nothing is begun that may take time. */
bool dlk_sentinel_hear(const struct dlk_endpoint *ep);
/* What to poll for that: -1 for nothing. */
int dlk_sentinel_fd(const struct dlk_endpoint *ep);

/* In a child of fork(2). */
void dlk_sentinel_forget(void);

#endif
