/* SPDX-License-Identifier: MIT */
/*
 * The chronicle of a key: what befell its leases, in a stream beside it.
 *
 *	{KEY}%h		at most DLK_CHRONICLE_MAX entries, for 30 days after
 *			the last one; fields what, host, who, pid, lasted, token
 *
 * It is for people (dlockctl history): no mechanism looks at it, and nothing
 * fails, or waits, because it cannot be written.
 */
#ifndef DLK_CHRONICLE_H
#define DLK_CHRONICLE_H

#include "lease/lease.h"

enum { DLK_CHRONICLE_MAX = 100 };

/* Of a lease whose age nobody here knows: then there is no field "lasted". */
#define DLK_LASTED_UNKNOWN UINT64_MAX

/* Words are escaped as those of a token (model/token.h), and end with a NUL. */
struct dlk_chronicle_entry {
	const char *what, *host, *who;
	unsigned pid;
	uint64_t lasted_ms; /* it was held, or waited for */
	const char *token;  /* its digits */
};

/*
 * One more, by a connection that is open.  0; -EACCES, this user may not;
 * -EREMOTEIO, another error, both in the connection's `error`; or -errno.
 */
int dlk_chronicle_add(struct dlk_conn *c, uint64_t deadline_ns, const char *key,
		      size_t key_len, const struct dlk_chronicle_entry *e);

#endif
