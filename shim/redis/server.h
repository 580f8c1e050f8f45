/* SPDX-License-Identifier: MIT */
/*
 * What is known of a server.
 *
 * It says of itself, by INFO, when a connection is made: its run id, version,
 * role, what it evicts.  The user may not be allowed to ask (acl(7)): then
 * nothing is known, and nothing depends on it but the words for what fails.
 *
 * And this process remembers, of each server that it is configured for, by
 * which run id it was answered last, and granted something: another one is
 * another memory (DESIGN L5).  Lock-free; a child of fork(2) has its parent's.
 */
#ifndef DLK_SERVER_H
#define DLK_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "model/text.h"

enum { DLK_RUN_ID_LEN = 40 };

struct dlk_server_info {
	char run_id[DLK_RUN_ID_LEN + 1]; /* "": unknown, and so is the rest */
	char version[16];
	unsigned major;
	bool replica;
	bool promoted;                    /* it has been one, once */
	char history[DLK_RUN_ID_LEN + 1]; /* another one since it last became a
					     master; or had no replica for long */
	bool named;                       /* by Sentinels, to be the master */
	char master[80];                  /* of a replica: "HOST:PORT" */
	char evicts[24]; /* the policy by which locks may go; "": none does */
	uint64_t uptime_s;
	uint64_t run; /* a hash of its run id, or of its history where
			 Sentinels name it; 0: unknown */
	struct dlk_known *known; /* what this process remembers, or NULL */
};

/* From the text of INFO, asked of `ep`. */
void dlk_server_read(struct dlk_server_info *s, const struct dlk_endpoint *ep,
		     const char *info);

/* Why it cannot grant anything at all: NULL, or words for the log. */
const char *dlk_server_unfit(const struct dlk_server_info *s, char *room,
			     size_t size);

/* An error of the server's, in its own words, and what can be done about it. */
void dlk_server_explain(struct dlk_text *t, const char *error,
			const struct dlk_server_info *s);

/* A connection was made: true if this process has met another run id there. */
bool dlk_server_meet(const struct dlk_server_info *s);
/* Its scripts are there: they answered, or renewed, something. */
void dlk_server_granted(const struct dlk_server_info *s, uint64_t now_ns);
/* Did this very one do so? */
bool dlk_server_is_known(const struct dlk_server_info *s);
/*
 * Its leases were deleted, and nobody has said so since it last granted one
 * (dlk_server_whole): once.
 */
bool dlk_server_emptied(const struct dlk_server_info *s);
void dlk_server_whole(const struct dlk_server_info *s);
/*
 * Did another process do so when this one was running already?  So it is not that
 * one, restarted.
 */
bool dlk_server_is_other(const struct dlk_server_info *s, uint64_t now_ns);

/*
 * Of a master that Sentinels name: another one was named, so that connections
 * to the one before are of no use (switched); or it is to be asked again who it
 * is (doubted).  How often so far; NULL for what this process has no room for.
 */
struct dlk_known *dlk_server_known(const struct dlk_endpoint *ep);
uint64_t dlk_server_switches(const struct dlk_known *k);
uint64_t dlk_server_doubts(const struct dlk_known *k);
void dlk_server_switched(struct dlk_known *k);
void dlk_server_doubted(struct dlk_known *k);

#endif
