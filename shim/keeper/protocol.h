/* SPDX-License-Identifier: MIT */
/*
 * What the shim tells its keeper, over a SOCK_SEQPACKET pair that is the
 * keeper's descriptor 3.  Shim and keeper are of one build, but the shim may be
 * that of 32-bit programs: each struct has one layout for both.  A message of
 * another size or magic is refused.
 *
 *  1. Messages are numbered (seq) and handled in order.  Each is answered with
 *     its number and 0 or -errno.  Before that the shim counts neither on this
 *     message nor on a later one; and a keeper that lets it wait for long
 *     hangs: it is killed, and another one has the leases (DESIGN 9.5).
 *  2. A lease is known by the number of the ADD that brought it (`lease`),
 *     and by nothing else.
 *  3. Each message carries its sender's credentials (SCM_CREDENTIALS, by the
 *     kernel's word).  What another user sends than the keeper's own is
 *     refused (DISOBEYED, which is no errno, for a file may answer with any):
 *     the process may have given up what its keeper still may.
 *  4. Where the keeper connects to is said before it runs, by START, and never
 *     again.
 *
 *	START	the servers of each redis section; queued before the keeper is
 *		started, and not answered
 *	ADD	a lease to carry on, with the locked descriptor (SCM_RIGHTS).
 *		If that is a shadow, also the program's descriptor, and the
 *		directory of shadows if it could be opened.  Answered with 0
 *		once the keeper renews it and will see the lock's end.  It opens
 *		a file of a remote file system in the background: then a second
 *		answer with an error takes the first one back
 *	DROP	the lease was given back
 *	OWE	the lease is over: give it back, until the server has said so
 *	LEFT	no descriptor of the process has the lock any more; another's
 *		may
 *	RENEWED	until when these leases are held, by what the process itself has
 *		asked of the server
 *	CLOSED	what was told of by LEFT is closed now; a second answer, with 1,
 *		says that what has ended by that is given back
 *	CUT	the process is about to end, and cuts the lease's ttl to this:
 *		it is renewed by that for as long as the process lives
 *	STAY	without a lease too, for as long as the shim lives
 *	READY	the timer that would kill the process stands back: the keeper is
 *		to stop it now (on_lost = "pause")
 *
 * By itself the keeper says HELD: until when the leases are held that it has
 * renewed.
 *
 * Whoever has the program's descriptor may ask for the shadow (shadow_copy.c),
 * on the keeper's socket in the directory of shadows: a byte with the
 * descriptor, answered by a byte, with the shadow if it is that description's.
 */
#ifndef DLK_PROTOCOL_H
#define DLK_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum {
	DLK_KEEP_FDS = 3,
	DLK_KEEP_SERVERS = 64,   /* of START, at most */
	DLK_KEEP_RENEWALS = 256, /* of RENEWED, at most */
	DLK_KEEP_SETTLED = 1,    /* CLOSED's second answer */
	DLK_KEEP_HELD = 2,       /* no answer to anything */
	DLK_KEEP_DISOBEYED = 3,  /* its sender may not do what the keeper may */
	/* So many descriptors a keeper needs, and its first lease, at the least. */
	DLK_KEEP_DESCRIPTORS = 16,
};
enum {
	DLK_KEEP_START = 1,
	DLK_KEEP_ADD,
	DLK_KEEP_DROP,
	DLK_KEEP_OWE,
	DLK_KEEP_LEFT,
	DLK_KEEP_RENEWED,
	DLK_KEEP_CLOSED,
	DLK_KEEP_CUT,
	DLK_KEEP_STAY,
	DLK_KEEP_READY,
	DLK_KEEP_MAGIC = 0x646c6b36,
};

/* Each message begins with it; DROP, OWE, LEFT, CLOSED, STAY and READY are no
 * more than it. */
struct dlk_keep {
	uint32_t magic, type, seq;
	uint32_t lease; /* DROP, OWE, LEFT, CUT, READY: the number of its ADD */
};

/* One URL of a section; those of a section stand together. */
struct dlk_keep_server {
	uint32_t section, mode; /* from 0 on; enum dlk_mode */
	struct dlk_endpoint ep;
};

struct dlk_keep_start {
	struct dlk_keep head;
	struct dlk_keep_server servers[];
};

struct dlk_keep_add {
	struct dlk_keep head;
	uint32_t key_len, token_len, ranges_key_len, ttl_ms;
	uint32_t shared, kind, revalidates; /* kind: enum dlk_kept_kind */
	uint32_t fair, interop;
	uint32_t remote;     /* its file system may hang: a network's, FUSE */
	uint32_t section;    /* one of START's */
	uint32_t pid;        /* of the process, for its own locks */
	uint32_t on_lost;    /* enum dlk_on_lost, of the rule */
	uint32_t pause_ms;   /* dlk_lease's */
	uint64_t dev, node;  /* of the file: the descriptor must be its */
	uint64_t granted_ns; /* local CLOCK_BOOTTIME of the kernel's grant */
	uint64_t deadline_ns, renew_ns;
	uint64_t stays_until_ns; /* dlk_lease's */
	char bytes[]; /* key, NUL, token, NUL, ranges_key, NUL (records) */
};

struct dlk_keep_renewal {
	uint32_t lease;
	uint32_t timed; /* a timer of its own kills the process (DESIGN L6) */
	uint64_t deadline_ns;
};

struct dlk_keep_renewed {
	struct dlk_keep head;
	struct dlk_keep_renewal renewals[];
};

struct dlk_keep_cut {
	struct dlk_keep head;
	uint32_t ttl_ms, unused;
};

/* Whose lock it is (DESIGN L2). */
enum dlk_kept_kind {
	DLK_KEPT_FLOCK,
	DLK_KEPT_POSIX, /* ends with the process at the latest */
	DLK_KEPT_OFD,
};

/*
 * HELD answers nothing: what the keeper has renewed at this server the process
 * may not know to be held, if it gets no connection, and would end itself (L6).
 */
struct dlk_keep_answer {
	uint32_t seq; /* of the message it answers */
	int32_t status;
	uint64_t until_ns; /* HELD: so long, all at this server */
	uint32_t lease;    /* that came by this ADD at the latest */
	uint32_t section;
};

/*
 * Alike for a 32-bit shim, whose uint64_t is aligned to 4 bytes only: each has
 * its place at a multiple of 8 anyway, and no struct is filled up at its end.
 */
#define DLK_AT_8(type, field)                                                  \
	_Static_assert(offsetof(type, field) % 8 == 0 &&                       \
			       sizeof(type) % 8 == 0,                          \
		       "a 32-bit shim has a 64-bit keeper")
DLK_AT_8(struct dlk_endpoint, restart_delay_ms);
DLK_AT_8(struct dlk_keep_server, ep);
DLK_AT_8(struct dlk_keep_start, servers);
DLK_AT_8(struct dlk_keep_add, dev);
DLK_AT_8(struct dlk_keep_add, bytes);
DLK_AT_8(struct dlk_keep_renewal, deadline_ns);
DLK_AT_8(struct dlk_keep_renewed, renewals);
DLK_AT_8(struct dlk_keep_cut, ttl_ms);
DLK_AT_8(struct dlk_keep_answer, until_ns);

/* Of bytes[], and of any message. */
enum {
	DLK_KEEP_BYTES = 2 * DLK_KEY_MAX + 1024,
	DLK_KEEP_SIZE = sizeof(struct dlk_keep_start) +
			DLK_KEEP_SERVERS * sizeof(struct dlk_keep_server),
};

#endif
