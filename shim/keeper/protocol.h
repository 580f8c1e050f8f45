/* SPDX-License-Identifier: MIT */
/*
 * What the shim tells its keeper, over a SOCK_SEQPACKET pair that is the
 * keeper's descriptor 3.  Shim and keeper are of one build; a message of
 * another size or magic is refused.
 *
 *	ADD	a lease to carry on, with the locked descriptor (SCM_RIGHTS);
 *		answered with 0, or -errno, once the keeper has its
 *		own description of the file and will see the lock's end.
 *		If that is a shadow, also the program's descriptor, and the
 *		directory of shadows if it could be opened
 *	DROP	the lease was given back; no answer
 *	OWE	the lease is over: give it back, until the server has said so;
 *		no answer
 *	STAY	without a lease too, for as long as the shim lives; of no lease;
 *		answered with 0
 *	LEFT	no descriptor of the process has the lock any more; another's
 *		may; no answer
 *
 * Whoever has the program's descriptor may ask for the shadow (shade.c), on
 * the keeper's socket in the directory of shadows: a byte with the descriptor,
 * answered by a byte, with the shadow if it is that description's.
 */
#ifndef DLK_PROTOCOL_H
#define DLK_PROTOCOL_H

#include <stdint.h>

#include "config/config.h"

enum { DLK_KEEP_FDS = 3 };
enum {
	DLK_KEEP_ADD = 1,
	DLK_KEEP_DROP,
	DLK_KEEP_OWE,
	DLK_KEEP_STAY,
	DLK_KEEP_LEFT,
	DLK_KEEP_MAGIC = 0x646c6b32,
};

struct dlk_keep {
	uint32_t magic, type, seq;
	uint32_t key_len, token_len, places_len, ttl_ms;
	uint32_t shared, kind, coherent; /* kind: enum dlk_kept_kind */
	uint32_t fair, interop;
	uint32_t pid;        /* of the process, for its own locks */
	uint64_t dev, ino;   /* of the file: the descriptor must be its */
	uint64_t granted_ns; /* local CLOCK_BOOTTIME of the kernel's grant */
	uint64_t deadline_ns, renew_ns;
	struct dlk_endpoint ep;
	char bytes[]; /* key, NUL, token, NUL, places, NUL (records) */
};

/* Whose lock it is (DESIGN L2). */
enum dlk_kept_kind {
	DLK_KEPT_FLOCK,
	DLK_KEPT_POSIX, /* ends with the process at the latest */
	DLK_KEPT_OFD,
};

struct dlk_keep_answer {
	uint32_t seq; /* of the message it answers */
	int32_t status;
};

/* Of bytes[]. */
enum { DLK_KEEP_BYTES = 2 * DLK_KEY_MAX + 1024 };

#endif
