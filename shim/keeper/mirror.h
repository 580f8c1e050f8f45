/* SPDX-License-Identifier: MIT */
/*
 * What a keeper tells its standby, over a SOCK_SEQPACKET pair: what it has done
 * with the shim's messages, and what it has found out itself.  The standby is
 * its fork, so both are of one build, and have what was there before in common.
 *
 *	LEASE	a lease is carried on, by these descriptors of the keeper's own;
 *		again, when its file was opened in the background
 *	STATES	what has become of leases, and what the shim is owed
 *	PAUSED	somebody is stopped; with a pidfd, and what is locked for that
 *	GO_ON	nobody is any more
 *	END	there is nothing left to carry on
 *
 * The standby says a byte when it wonders whether the keeper is alive, and is
 * answered by STATES.
 */
#ifndef DLK_MIRROR_H
#define DLK_MIRROR_H

#include "keeper/keeper.h"
#include "keeper/protocol.h"

enum {
	DLK_MIRROR_LEASE = 1,
	DLK_MIRROR_STATES,
	DLK_MIRROR_PAUSED,
	DLK_MIRROR_GO_ON,
	DLK_MIRROR_END,
};

struct dlk_mirror_state {
	uint32_t number; /* of its ADD */
	uint32_t state;  /* enum dlk_kept_state; DLK_FLUSHING is OWED_BACK */
	uint32_t by;     /* enum dlk_kept_by */
	uint32_t was_first, unanswered;
	uint32_t ttl_ms, full_ms, unused;
	uint64_t deadline_ns;
};

struct dlk_mirror_states {
	uint32_t type, n;
	struct dlk_owed owed;
	struct dlk_mirror_state states[];
};

struct dlk_mirror_paused {
	uint32_t type, unused;
	struct dlk_victim victim; /* its descriptors are those that came */
};

/* The descriptors of a LEASE, in this order, those of `fds` only. */
enum {
	DLK_MIRROR_FILE,  /* its watch's */
	DLK_MIRROR_BELL,  /* that tells when a description is closed */
	DLK_MIRROR_TAKER, /* the guard's */
	DLK_MIRROR_SHADOW,
	DLK_MIRROR_FDS = DLK_MIRROR_SHADOW + DLK_SHADOW_FDS,
};

struct dlk_mirror_lease {
	uint32_t type, fds; /* a bit for each that came */
	int32_t wd;
	uint32_t has_thread;
	struct dlk_guard guard;
	struct dlk_shadow_plan shadow;
	struct dlk_mirror_state state;
	struct dlk_keep_add add; /* its bytes follow */
};

/* Of any of them. */
enum {
	DLK_MIRROR_MOST = 128, /* states of a message */
	DLK_MIRROR_SIZE = sizeof(struct dlk_mirror_lease) + DLK_KEEP_BYTES,
};

#endif
