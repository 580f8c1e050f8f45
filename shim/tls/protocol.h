/* SPDX-License-Identifier: MIT */
/*
 * What is said to dlock-tls, over a SOCK_SEQPACKET pair that is its descriptor
 * 3.  Both are of one build, as the keeper is (keeper/protocol.h).
 *
 *	START	the server, and by which files; queued before it is started.
 *		With a password_file the first that the server is sent is an AUTH
 *		by that, and its answer the first that comes
 *	OPEN	a byte, with one end of a SOCK_STREAM pair (SCM_RIGHTS): a
 *		connection is wanted.  On that end it answers with a status; if
 *		that is 0, plain bytes follow in both directions, until one of
 *		the two closes
 *
 * It ends when the socket has no other end any more and the last connection is
 * closed.
 */
#ifndef DLK_TLS_PROTOCOL_H
#define DLK_TLS_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum { DLK_TLS_MAGIC = 0x646c6b74 };

struct dlk_tls_start {
	uint32_t magic, port;
	uint32_t timeout_ms; /* to connect, and to agree on the keys */
	int32_t scheme;      /* enum dlk_scheme */
	char host[256], path[108];
	char username[128], password_file[128];
	char name[128]; /* for messages */
	struct dlk_tls_options tls;
};

struct dlk_tls_status {
	int32_t err;   /* 0, or -errno.  Another attempt is of no use after
			  -EACCES, the certificates are at fault, and after
			  -ENOKEY, one of the files that are read here is */
	char why[252]; /* words for the log */
	/* err 0: when the certificates end, in seconds since 1970: the
	 * server's, and ours; 0: none */
	int64_t server_ends, own_ends;
};

/* Alike for a 32-bit shim; of START all fields have 4 bytes or less. */
_Static_assert(offsetof(struct dlk_tls_status, server_ends) % 8 == 0 &&
		       sizeof(struct dlk_tls_start) % 4 == 0,
	       "a 32-bit shim has a 64-bit dlock-tls");

#endif
