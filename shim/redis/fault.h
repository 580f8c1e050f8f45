/* SPDX-License-Identifier: MIT */
/*
 * The errors that a server answers with: what becomes of what was asked, and
 * what the line of the log advises.  One table for all who read replies.
 *
 * An error is known by its first word (redis.io, "Redis protocol": error
 * prefix); of "ERR", which says nothing, by the words after it.
 *
 * Constant data: any thread may read it, in a signal handler too.
 */
#ifndef DLK_FAULT_H
#define DLK_FAULT_H

#include <stdbool.h>

enum dlk_outcome {
	DLK_RETRY, /* it passes by itself: ask again until the patience, or the
		      lease's own deadline, is over */
	DLK_FATAL, /* asking again is of no use until somebody has changed
		      something; a lease that is held is renewed on until its
		      deadline, for somebody may */
	DLK_ELSEWHERE, /* (of a cluster) it is to be asked of another node; of
			  no use to who cannot */
	DLK_NO_LEASE,  /* nobody's lease is there: to a renewal, a loss */
};

struct dlk_fault {
	const char *error; /* what it begins with; NULL: any other */
	enum dlk_outcome outcome;
	bool ends;          /* told to a new connection: nothing else will be
			       answered */
	const char *advice; /* what can be done; NULL: its words say it */
};

/* Never NULL. */
const struct dlk_fault *dlk_fault_of(const char *error);

/* Of what is no lease's renewal: -EAGAIN or -EREMOTEIO (lease/store.h). */
int dlk_fault_errno(const char *error);

#endif
