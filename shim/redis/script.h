/* SPDX-License-Identifier: MIT */
/*
 * Scripts at one server: what all questions about leases share.
 *
 * The scripts that grant something, or serve who waits, are in the server's
 * cache only if a client has found the server old enough (DESIGN L5, delayed
 * restart).  Redis 7 does not keep scripts over a restart, so NOSCRIPT is the
 * sign of one:
 *
 *	holder A			server			client B
 *	acquire k, granted
 *					crash, empty restart
 *								EVALSHA acquire
 *					NOSCRIPT
 *								uptime < delay:
 *								not granted
 *	renew k -> none
 *	uptime < delay: reclaim
 *	(its old deadline has not
 *	passed, so B is kept out)
 *					uptime > delay
 *								SCRIPT LOAD,
 *								EVALSHA -> busy
 *
 * How old is old enough is for each client to say, by its restart_delay, and
 * one cache serves all.  So the delay stands in the script's text: what a
 * client with short leases has put there has another name than what a client
 * with long ones asks for.
 *
 *	A (30 s)	server			B (30 s)	C (2 s)
 *	k: granted
 *			crash, empty restart
 *			2 s old					loads C's
 *						EVALSHA B's
 *			NOSCRIPT
 *
 *  1. They MUST NOT be sent by EVAL, which would put them there; the others
 *     may.
 *  2. The others MUST grant nothing: renew.lua makes the lease of a claim,
 *     which was granted before; reclaim.lua is for the holder, within its
 *     deadline.
 *
 * Errors as lease.h has them.
 */
#ifndef DLK_SCRIPT_H
#define DLK_SCRIPT_H

#include <stdbool.h>

#include "redis/conn.h"

/* The server has never heard of it: EVALSHA of an unknown name. */
bool dlk_script_unknown(const redisReply *r);

/* An error that passes by itself (loading, a replica without master, ...). */
bool dlk_script_passing(const redisReply *r);

/* An answer that is none: -EAGAIN or -EREMOTEIO, and the words for it. */
int dlk_script_refused(struct dlk_conn *c, const redisReply *r);

/*
 * How long until the server is old enough to grant anything, 0 for now.  Its
 * uptime is one thing; the age of its memory another: a replica that was
 * promoted has an old uptime, no scripts, and perhaps not the last grants of
 * its master.  It is known by what INFO says of its past; or by its run id, if
 * another one granted something to this process when this one was running
 * already.  Then its age counts from when somebody asked first (young.lua).
 * SCRIPT FLUSH leaves the run id, and is no restart.
 */
int dlk_script_young(struct dlk_conn *c, uint64_t deadline_ns,
		     uint64_t *left_ms);

/*
 * The scripts of which a server knows only what it was taught by a client with
 * our restart_delay; those of a family are taught together, the last one last:
 * who finds that one counts on the others.
 */
enum dlk_guarded {
	DLK_QUEUE,
	DLK_RELEASE,
	DLK_ACQUIRE,
	DLK_RECORDS_QUEUE,
	DLK_RECORDS_SET,
	DLK_RECORDS_GET,
	DLK_RECORDS_ACQUIRE,
	DLK_N_GUARDED,
};
enum dlk_family { DLK_FLOCK_SCRIPTS, DLK_RECORD_SCRIPTS };

/* The name that EVALSHA calls it by on this connection. */
struct dlk_arg dlk_script_name(struct dlk_conn *c, enum dlk_guarded which);

/*
 * Send args, a script of the family by its name, and take its reply, when the
 * server has been taught it; answer->asked_ns is before that.  0, DLK_GRACE and
 * answer->left_ms, -errno.
 */
struct dlk_answer;
int dlk_script_ask(struct dlk_conn *c, uint64_t deadline_ns,
		   enum dlk_family family, int argc, const struct dlk_arg *args,
		   struct dlk_answer *answer, const redisReply **reply);

/*
 * The queue of a lease, "{KEY}%q": its text is the connection's, until the next
 * command is appended.
 */
struct dlk_lease;
struct dlk_arg dlk_script_queue(struct dlk_conn *c,
				const struct dlk_lease *lease);
/* "fair" and "interop". */
struct dlk_arg dlk_script_options(const struct dlk_lease *lease);

/* INT64_MIN for what is no number. */
int64_t dlk_script_int(const redisReply *r, size_t i);

/*
 * The text of a reply, and a NUL; "" for one that does not fit.  Its length.
 */
size_t dlk_script_text(const redisReply *r, char *buf, size_t size);

/* "HOST FILE", with the spaces around, as they stand in a token. */
struct dlk_arg dlk_script_identity(const char *token);

/*
 * Is the token in `held` newer, of the same host and file?  Then it is that of
 * our kernel lock's successor.
 */
bool dlk_script_succeeds(const char *token, const redisReply *held);

#endif
