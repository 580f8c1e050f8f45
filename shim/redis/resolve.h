/* SPDX-License-Identifier: MIT */
/*
 * Where a server is: a socket address from an endpoint.
 *
 * A numeric address costs nothing.  A name is asked of getent(1), a process of
 * its own: getaddrinfo(3) allocates, loads name service modules and opens
 * files, none of which a guest may do on a lock path (DESIGN L7).
 */
#ifndef DLK_RESOLVE_H
#define DLK_RESOLVE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "config/config.h"
#include "os/sys.h"

/* Who waits for an answer; `interrupt`, if any, is asked as conn.h has it. */
struct dlk_patience {
	uint64_t deadline_ns;
	bool (*interrupt)(void *arg);
	void *arg;
};

/* Is there something to read, or the end?  1; 0 if it took too long; -EINTR,
 * -errno. */
int dlk_patience_wait(int fd, const struct dlk_patience *wait);

enum { DLK_ADDRESSES_MAX = 8 };

/* In the order in which they are to be tried. */
struct dlk_addresses {
	struct {
		struct sockaddr_storage at;
		socklen_t len;
	} v[DLK_ADDRESSES_MAX];
	unsigned n;
	bool by_name; /* the endpoint does not tell them */
};

/* A question to getent(1) that is under way. */
struct dlk_lookup {
	struct dlk_own in; /* its answer comes here; -1: nothing is asked */
	pid_t pid;         /* see dlk_spawn() */
	size_t len;
	char text[2048];
};

/*
 * Nothing is waited for: -EINPROGRESS, and the same again when l->in can be read.
 * What has come by the deadline counts, if that is an address.  Then nothing is
 * under way: 0, -EHOSTUNREACH (no such name), -errno.
 */
int dlk_resolve(const struct dlk_endpoint *ep, uint64_t deadline_ns,
		struct dlk_lookup *l, struct dlk_addresses *to);
/* Why not, behind ": " and with what can be done, for messages; not of
 * -EHOSTUNREACH. */
struct dlk_text;
void dlk_resolve_explain(struct dlk_text *t, int err);
/* It is asked no more. */
void dlk_lookup_end(struct dlk_lookup *l);
/* For messages: "127.0.0.1", "fe80::1%2". */
void dlk_put_address(struct dlk_text *t, const struct sockaddr_storage *at);

#endif
