/* SPDX-License-Identifier: MIT */
/*
 * The connections of this process.  One is taken for the length of an operation
 * and put back open, for the next; two threads, or a signal handler inside a
 * call, take two.
 *
 * Any thread, with all signals blocked.  After a fork the child calls
 * dlk_pool_forget() before anything else.
 */
#ifndef DLK_POOL_H
#define DLK_POOL_H

#include "redis/conn.h"

/*
 * A connection to ep (NULL: to any server) for this thread alone.  Any: an idle
 * one, or else a new one; NULL: no memory.  Open: an idle one that is; if those
 * that are open are others' at the moment, any, for the server can be reached;
 * NULL: there is none.  Or an idle one that has answers still to read; NULL:
 * there is none.
 */
enum dlk_wanted { DLK_ANY, DLK_OPEN, DLK_DEFERRED };
struct dlk_conn *dlk_pool_get(const struct dlk_endpoint *ep,
			      enum dlk_wanted wanted);
/*
 * Of those first the one by which an answer to what has that mark is to come (but
 * for one that another thread has), then one by which any is: a server reads what
 * comes by one connection in its order, and its connections in none.
 */
struct dlk_conn *dlk_pool_get_behind(const struct dlk_endpoint *ep,
				     enum dlk_wanted wanted, uint64_t mark);
void dlk_pool_put(struct dlk_conn *c);
bool dlk_pool_is_busy(void); /* somebody has one */

/* Has a server closed a connection that nobody uses? */
void dlk_pool_look(void);
/* Those connections, to be polled for that: as many as there is room for. */
struct pollfd;
unsigned dlk_pool_watch(struct pollfd *p, unsigned room);
/* Is one to ep open, and in nobody's hands? */
bool dlk_pool_has(const struct dlk_endpoint *ep);
/*
 * Before the first connection: what is to be done when a server was restarted,
 * perhaps.  Called with no mutex held, by who puts a connection back.
 */
typedef void dlk_restarted_fn(const struct dlk_endpoint *ep);
void dlk_pool_begin(dlk_restarted_fn *restarted);
/* In a child: forget the parent's connections, closing our copies. */
void dlk_pool_forget(void);

#endif
