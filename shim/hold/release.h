/* SPDX-License-Identifier: MIT */
/* Giving leases back; see release.c. */
#ifndef DLK_RELEASE_H
#define DLK_RELEASE_H

#include "hold/hold.h"

/* Send the release of h (RELEASING) if a connection is open; never waits. */
void dlk_release_send(struct dlk_hold *h);
/*
 * (file_lock) The same of an owner's list, which is weaker now within the
 * window (NULL: anywhere).
 */
void dlk_list_send(struct dlk_hold *h, const struct dlk_range *window);
/*
 * What is due for these (pinned, of one server): send again, the releases in
 * one round trip, or read the answers; for the thread.  It ends early when
 * `interrupt` (or NULL) says so.
 */
enum { DLK_OUTBOX_BATCH = 256 };
void dlk_outbox_work(struct dlk_hold *const *all, unsigned n,
		     uint64_t deadline_ns, bool (*interrupt)(void *));
/* Whatever Redis may have under this token: see that it goes away. */
void dlk_release_token(const struct dlk_rule *rule,
		       const struct dlk_lease *lease);
/* At exit: wait for outstanding acknowledgements, for at most `ms`. */
void dlk_release_flush(unsigned ms);

#endif
