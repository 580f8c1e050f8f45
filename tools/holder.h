/* SPDX-License-Identifier: MIT */
/*
 * Who a holder of this host is: its command line, user and unit, by /proc; and
 * where its token has the pid of another pid namespace, the one that it has here.
 *
 * A pid may be another process's by now: it counts if it has the command's name
 * that the token has, and did not begin after the lock was taken.  What cannot be
 * seen from here is not there.
 */
#ifndef DLK_TOOLS_HOLDER_H
#define DLK_TOOLS_HOLDER_H

#include "tools/scan.h"

enum { HOLDERS_MAX = 1000, HOLDER_LINE_MAX = 256 };

struct scan_holder {
	unsigned pid;   /* here */
	bool elsewhere; /* it has another pid in its own namespace */
	char line[HOLDER_LINE_MAX]; /* its command line, blanks between */
	char user[64];              /* name or number */
	char unit[128]; /* "cron.service", "docker-0123....scope"; or "" */
};

/*
 * Look for those of the first HOLDERS_MAX rows of this host; lock->holder is
 * set for who is found, and belongs to the scan.
 */
void holders_find(struct scan *scan);

#endif
