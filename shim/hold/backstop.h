/* SPDX-License-Identifier: MIT */
/*
 * Who holds a lease that ends unrenewed is stopped in time (DESIGN L6), by the
 * kernel if need be: see backstop.c.
 */
#ifndef DLK_BACKSTOP_H
#define DLK_BACKSTOP_H

#include "hold/hold.h"

/*
 * (mutex of the holds) Its state or its deadline is another now, or who renews
 * it.  One system call (0.4 us) if the first of all is another by that.
 */
void dlk_backstop_watch(struct dlk_hold *h);
/*
 * The keeper was told that it may stop this process now ("pause").  Then what
 * is renewed is not watched again until that is over.  (It wants no mutex, for
 * the thread asks this while it waits for a server.)
 */
bool dlk_backstop_stands_back(void);
/*
 * (mutex) The first whose last mark (dlk_hold_final_ns) has come, of those that
 * stop their holder; NULL: none.
 */
struct dlk_hold *dlk_backstop_due(uint64_t now_ns);
/* (mutex) The last mark of theirs that comes first; UINT64_MAX: none. */
uint64_t dlk_backstop_ns_first(void);
/* (mutex) Is there a timer that ends this process?  (Process 1 is ended by its
 * thread, and by nobody else.) */
bool dlk_backstop_is_armed(void);
/* (no mutex) What keeps it from being armed, once; by the thread. */
void dlk_backstop_complain(void);
/* This process ends here, without a word; async-signal-safe. */
void dlk_backstop_kill(void);
void dlk_backstop_forget(void); /* in a child */

#endif
