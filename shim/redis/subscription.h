/* SPDX-License-Identifier: MIT */
/*
 * The connections that listen for the word of who serves a queue (DESIGN 4):
 * made at the first contention, and kept for the next one.
 *
 * Who has one lets go of it before a signal handler runs, which may never come
 * back (signals.c).  Any thread, with all signals blocked.
 */
#ifndef DLK_SUBSCRIPTION_H
#define DLK_SUBSCRIPTION_H

#include "redis/conn.h"

/*
 * A connection that listens to its channel: 32 digits, behind a slot's tag in
 * braces in a cluster, and a NUL.
 */
struct dlk_subscription {
	struct dlk_conn *conn;
	char channel[2 + DLK_TAG_LEN + 32 + 1];
	bool busy;
	uint64_t refused_ns; /* until then it is not tried again */
};

/*
 * An idle connection to ep that listens to a channel of its own, or NULL.  In a
 * cluster it is one of a slot, and told only of what is said at its node
 * (Redis: SSUBSCRIBE); else DLK_NO_SLOT.
 */
struct dlk_subscription *dlk_subscription_get(const struct dlk_endpoint *ep,
					      int slot);
/*
 * A new one: 0 and *w; -EMFILE: there are too many; -EPERM: the server refused
 * it, just now or a moment ago; -errno, with `why` (256 bytes).
 */
int dlk_subscription_new(const struct dlk_endpoint *ep, int slot,
			 uint64_t deadline_ns, struct dlk_subscription **w,
			 char *why);
/*
 * The last word that was said "to" somebody: 'g'ranted, 't'ry; 0: none; -errno:
 * the connection is gone, or the slot is.
 */
int dlk_subscription_heard(struct dlk_subscription *w, const char *to);
/* Its socket, to sleep on; -1. */
int dlk_subscription_fd(const struct dlk_subscription *w);
void dlk_subscription_put(struct dlk_subscription *w);
/* (not put) Nobody hears by this connection. */
void dlk_subscription_close(struct dlk_subscription *w);
/* After fork. */
void dlk_subscriptions_forget(void);

#endif
