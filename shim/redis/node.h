/* SPDX-License-Identifier: MIT */
/*
 * Servers that no configuration names: other servers told of them.  Each is
 * reached as the one of the section was (`like`: user, TLS, times; the password
 * stands there alone), at another address, and stays what it is for as long as
 * the process lives, so that connections, and what is remembered of it, may
 * point to it.
 *
 * Any thread, with all signals blocked.  After a fork the child calls
 * dlk_nodes_forget(); it knows what its parent knew.
 */
#ifndef DLK_NODE_H
#define DLK_NODE_H

#include <stdbool.h>

#include "config/config.h"
#include "redis/server.h"

/*
 * The server of that address (`len` bytes of a name or a number, no brackets);
 * NULL: no memory, or too many, or too long.
 */
const struct dlk_endpoint *dlk_node(const struct dlk_endpoint *like,
				    const char *host, size_t len,
				    uint32_t port);
/* `ep` is at that address, and has its name for messages. */
void dlk_node_set_address(struct dlk_endpoint *ep, const char *host, size_t len,
			  uint32_t port);
/* The configured one that it is like; itself, if it is no node. */
const struct dlk_endpoint *dlk_node_like(const struct dlk_endpoint *ep);
/* The i-th that is like `like`, or NULL: no more. */
const struct dlk_endpoint *dlk_node_at(const struct dlk_endpoint *like,
				       unsigned i);
/*
 * It could not be reached, or did not answer: until then; 0: it has answered.
 * (Nothing is noted of what is no node.)
 */
void dlk_node_away(const struct dlk_endpoint *ep, uint64_t until_ns);
bool dlk_node_is_away(const struct dlk_endpoint *ep, uint64_t now_ns);

/*
 * Its history (redis/server.h), as it was last seen: for what is sent before it
 * has said so itself.
 */
void dlk_node_note(const struct dlk_endpoint *ep, const char *history);
void dlk_node_recall(const struct dlk_endpoint *ep,
		     char history[DLK_RUN_ID_LEN + 1]);

void dlk_nodes_forget(void);

#endif
