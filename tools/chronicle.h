/* SPDX-License-Identifier: MIT */
/*
 * The chronicle of a key (lease/chronicle.h), as dlockctl writes and reads it.
 *
 * `dlockctl break` writes "broken", `dlockctl lock` "lost" and "waited", the
 * keepers of preloaded programs "lost".  Anybody may have written an entry: what
 * is none is passed over.
 */
#ifndef DLK_TOOLS_CHRONICLE_H
#define DLK_TOOLS_CHRONICLE_H

#include "config/config.h"
#include "lease/chronicle.h"

/*
 * One more, on a connection of its own, at the server that has the key; of a
 * quorum at the first master that takes it, so who reads asks them all.  What
 * cannot be written is lost, after one message: it is no reason for anything to
 * fail.
 */
void chronicle_add(const struct dlk_redis *redis, const char *key,
		   const struct dlk_chronicle_entry *e);

/*
 * All of a key, the last one first, with the server's clock of then (ms since
 * 1970); the texts live as long as the call.  0 or
 * -errno; the connection's `error` says why.
 */
typedef void chronicle_fn(void *arg, int64_t at_ms,
			  const struct dlk_chronicle_entry *e);
int chronicle_read(struct dlk_conn *c, const char *key, chronicle_fn *fn,
		   void *arg);

#endif
