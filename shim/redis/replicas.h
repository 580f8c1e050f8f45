/* SPDX-License-Identifier: MIT */
/*
 * What a server was told counts only if its replicas have it as well (option
 * `replicas`; Redis: WAIT): a failover forgets no lease then.
 *
 *	dlk_conn_append(what is written) -> dlk_replicas_ask -> dlk_conn_flush
 *	-> dlk_conn_reply(its answer) -> dlk_replicas_have, or _ignore
 *
 * So both travel in one round trip.  WAIT counts from the last write of its own
 * connection, so it MUST stand behind that, on the same one.  Where the option
 * is 0 nothing is sent, and all of these are done at once.
 *
 * Threads, signals, memory as in conn.h.
 */
#ifndef DLK_REPLICAS_H
#define DLK_REPLICAS_H

#include "redis/conn.h"

/* Queue it: the server waits for most of the time until deadline_ns. */
int dlk_replicas_ask(struct dlk_conn *c, uint64_t deadline_ns);
/*
 * Its answer: 0, or -ETIMEDOUT: too few have it, in words; the connection stays
 * open, and c->unconfirmed is true.  Else -errno, as dlk_conn_reply().
 */
int dlk_replicas_have(struct dlk_conn *c, uint64_t deadline_ns);
/* It matters not: it is read by whoever has the connection next. */
int dlk_replicas_ignore(struct dlk_conn *c);
/* All three, for what was written before. */
int dlk_replicas_confirm(struct dlk_conn *c, uint64_t deadline_ns);

#endif
