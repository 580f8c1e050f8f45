/* SPDX-License-Identifier: MIT */
/*
 * The holds of this process, and their mutex; see holds.c.
 */
#ifndef DLK_HOLDS_H
#define DLK_HOLDS_H

#include <pthread.h>

#include "os/check.h"
#include "os/guard.h"
#include "hold/hold.h"

/*
 * The mutex of the table.  It is taken with all signals blocked (dlk_enter),
 * for a few instructions, and never across a system call that can sleep.  Under
 * it no other is taken; it is taken under the keeper's (keeper_client.h) and
 * the thread's (thread.c).  Where it is had until the end of a block,
 * DLK_GUARD(&dlk_holds_mutex) has it.
 */
extern pthread_mutex_t dlk_holds_mutex;
static inline void dlk_holds_lock(void)
{
	pthread_mutex_lock(&dlk_holds_mutex);
}
static inline void dlk_holds_unlock(void)
{
	pthread_mutex_unlock(&dlk_holds_mutex);
}
/* What wants it says so by this (os/check.h). */
#define dlk_holds_check() dlk_check_locked(&dlk_holds_mutex)
/* The first of all but the free; h->next is the next one. */
struct dlk_hold *dlk_holds_first(void);
void dlk_holds_forget(void); /* in a child */

/* Memory for a set of ranges, page-wise. */
int dlk_ranges_grow(struct dlk_ranges *set, size_t n);
void dlk_ranges_free(struct dlk_ranges *set);
/* A free hold with copies of key and token; -ENOMEM is NULL. */
struct dlk_hold *dlk_hold_new(const struct dlk_lease *lease);
/* One that was not installed: its memory. */
void dlk_hold_free(struct dlk_hold *h);
/* For hold.c: into the table; out of it, and freed. */
void dlk_holds_add(struct dlk_hold *h);
void dlk_holds_remove(struct dlk_hold *h);
/*
 * One of a file that is held, after `from` (NULL: the first), or
 * NULL: of flock locks, or of record locks.
 */
struct dlk_hold *dlk_hold_find(const struct dlk_file *file,
			       const struct dlk_hold *from);
struct dlk_hold *dlk_hold_find_records(const struct dlk_file *file,
				       const struct dlk_hold *from);
/* The lowest descriptor >= from that one that is held is known by, or -1. */
int dlk_hold_next_fd(int from);

#endif
