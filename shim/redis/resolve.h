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

/* Who waits for an answer; `interrupt`, if any, is asked as conn.h has it. */
struct dlk_patience {
	uint64_t deadline_ns;
	bool (*interrupt)(void *arg);
	void *arg;
};

/* Is there something to read, or the end?  1; 0 if it took too long; -EINTR,
 * -errno. */
int dlk_patience_wait(int fd, const struct dlk_patience *wait);

/* 0, -EHOSTUNREACH (no such name), -ETIMEDOUT, -EINTR, -errno. */
int dlk_resolve(const struct dlk_endpoint *ep, const struct dlk_patience *wait,
		struct sockaddr_storage *addr, socklen_t *len);

#endif
