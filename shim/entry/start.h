/* SPDX-License-Identifier: MIT */
/*
 * The beginning, and each call after it: may it be in dlock at all?
 *
 * A page is wiped in a child of fork(2) (MADV_WIPEONFORK, Linux 4.14), whatever
 * function made it.  So each entry knows by the pid in it:
 *
 *	getpid()	this process
 *	0		a child with a copy of our memory: it holds nothing yet;
 *			start anew
 *	else		a child of vfork(2) in our memory: it must touch nothing
 *
 * Where no page can be wiped, a child that fork(3) has not made is taken for one in
 * our memory for as long as it lives.
 */
#ifndef DLK_START_H
#define DLK_START_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May this process be in dlock at all, now?  Repairs the state of a child of
 * fork first.
 */
enum dlk_presence {
	DLK_ABSENT,   /* nothing is managed: pass the call through */
	DLK_PRESENT,  /* the state is this process' own */
	DLK_BORROWED, /* it is that of the process in whose memory this one
			 runs, and MUST NOT be touched (borrowed.h) */
};
enum dlk_presence dlk_presence(void);
/* DLK_PRESENT; for a hook that is only a hint. */
bool dlk_alive(void);

/* The process is about to make a child. */
void dlk_before_child(void);
/* The same, or a thread; by clone(2)'s flags. */
void dlk_before_clone(uint64_t flags);

#endif
