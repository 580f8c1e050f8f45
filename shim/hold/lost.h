/* SPDX-License-Identifier: MIT */
/*
 * A lease that could not be renewed, or is another's: what is said, and what
 * becomes of this process by the rule's on_lost (DESIGN L6).  All want the hold
 * pinned, and no mutex; none waits.
 */
#ifndef DLK_LOST_H
#define DLK_LOST_H

#include "hold/hold.h"

/*
 * The warning mark has passed, once: a line; and SIGTERM for this process, if
 * it is to be stopped and has a handler for that.
 */
void dlk_hold_warn(struct dlk_hold *h, const char *why);
/* It was warned of, and is renewed: the next time a handler is called again. */
void dlk_hold_recovered(const struct dlk_hold *h);
/* The deadline has passed, once, and its rule says "hold". */
void dlk_hold_outlived(const struct dlk_hold *h, const char *why);
/*
 * It is not held any more: an alarm, and the end of this process; or, if the
 * rule says "report", a line, and the hold is over.  Nothing, if it was given
 * up meanwhile.
 */
void dlk_hold_lost(struct dlk_hold *h, const char *why);
/* The same of what an earlier program of the process held, of that rule. */
void dlk_lost_before_exec(const struct dlk_rule *rule);

#endif
