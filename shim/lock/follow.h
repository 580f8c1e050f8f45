/* SPDX-License-Identifier: MIT */
/*
 * Which descriptor is that of a call which waits; see follow.c.
 *
 *	dlk_follow() -> { sleep; dlk_follow_up() }* -> dlk_follow_end()
 */
#ifndef DLK_FOLLOW_H
#define DLK_FOLLOW_H

#include "lock/request.h"

/* The descriptor is another file's: begin anew, with the number. */
enum { DLK_OTHER_FILE = 104 };

/* Before it sleeps for the first time; again is nothing. */
void dlk_follow(struct request *r);
/* Before the kernel is asked, where other threads can take it away. */
void dlk_follow_threads(struct request *r);
void dlk_follow_end(struct request *r);
/*
 * After a sleep that was none in the kernel: 0, r->fd may be another one of the
 * same description; DLK_OTHER_FILE; -EBADF: there is none any more.
 */
int dlk_follow_up(struct request *r);
/* The same, and the kernel has granted what it was asked for with r->fd. */
int dlk_follow_granted(struct request *r);

/* Its descriptor by now; -1: none.  Any thread may ask, while it is inside. */
int dlk_follow_number(const struct request *r);

/* Is the descriptor that of another file, or of none? */
bool dlk_follow_moved(const struct request *r);
/*
 * That, or is it another one by now?  So it may be after keepers were asked, for
 * seconds; what was the number of its shadow then may be that of another file's.
 */
bool dlk_follow_was_taken(const struct request *r);

/* Before what the kernel has granted is undone: r->fd may be another one. */
bool dlk_follow_is_there(struct request *r);

/*
 * These descriptors are about to be taken away, by this thread: does a call
 * wait with one of them?  Then tell it so.
 */
bool dlk_follow_concerned(unsigned first, unsigned last);
void dlk_follow_closing(unsigned first, unsigned last);
bool dlk_follow_any(void);
void dlk_follow_forget(void); /* in a child */

#endif
