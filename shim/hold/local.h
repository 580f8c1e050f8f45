/* SPDX-License-Identifier: MIT */
/*
 * What is locked on this host alone (unreachable = "local"): of which files, so
 * that it is said, and not taken for nothing by who is refused later.
 *
 * Such a lock has no hold, no token and no keeper: it is the kernel's, who has
 * it, and ends as the kernel has it.  So a note is about a file, and says
 * "perhaps": the kernel is asked for more (its `lock:` lines).  It stays for as
 * long as the process does; a child of fork(2) has none.
 *
 * Also: for how long nobody waits for a server that could not be reached.  Else
 * each call of a program would take the rule's timeout, for hours; a question
 * (F_GETLK), of which there is no note, as well.
 *
 * Any thread; a mutex is held for a few instructions.
 */
#ifndef DLK_LOCAL_H
#define DLK_LOCAL_H

#include "lease/store.h"
#include "os/proc.h"

/* Redis could not be reached within timeout_ns (0: it was only asked once). */
void dlk_local_waited(struct dlk_store *s, uint64_t timeout_ns);
/* The file is locked by the kernel alone from here on: is that news? */
bool dlk_local_begin(const struct dlk_file *file);
/* Redis has answered: was it said that it had not? */
bool dlk_local_end(const struct dlk_file *file, struct dlk_store *s);
/* May this process have locks of it that are the kernel's alone? */
bool dlk_local_perhaps(const struct dlk_file *file);
/* How long a call waits for it that may go on without. */
uint64_t dlk_local_timeout_ns(const struct dlk_store *s, uint64_t timeout_ns);
void dlk_local_forget(void); /* in a child */

#endif
