/* SPDX-License-Identifier: MIT */
/*
 * The chronicle of a key: what befell its leases, in a stream beside it.
 *
 *	{KEY}%h		at most CHRONICLE_MAX entries, for CHRONICLE_DAYS after
 *			the last one; fields what, host, who, pid, lasted, token
 *
 * `dlockctl break` writes "broken", `dlockctl lock` "lost" and "waited".  What
 * preloaded programs lose or wait for is in their logs, and not here.
 *
 * Words are escaped as those of a token; `lasted` is in ms.  Anybody may have
 * written an entry: what is none is passed over.
 */
#ifndef DLK_TOOLS_CHRONICLE_H
#define DLK_TOOLS_CHRONICLE_H

#include "config/config.h"
#include "redis/conn.h"

enum { CHRONICLE_MAX = 100, CHRONICLE_DAYS = 30 };

struct chronicle_entry {
	int64_t at_ms; /* since 1970, the server's clock; not for adding */
	const char *what, *host, *who;
	unsigned pid;
	uint64_t lasted_ms; /* it was held, or waited for */
	const char *token;  /* its digits */
};

/*
 * One more, on a connection of its own.  What cannot be written is lost, after
 * one message: it is no reason for anything to fail.
 */
void chronicle_add(const struct dlk_endpoint *ep, const char *key,
		   const struct chronicle_entry *e);

/*
 * All of a key, the last one first; the texts live as long as the call.  0 or
 * -errno; the connection's `error` says why.
 */
typedef void chronicle_fn(void *arg, const struct chronicle_entry *e);
int chronicle_read(struct dlk_conn *c, const char *key, chronicle_fn *fn,
		   void *arg);

#endif
