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
 * And a server may forget without a restart: FLUSHALL, FLUSHDB and SWAPDB take
 * the leases away and leave the scripts.  So each that grants has one key more,
 * the gate, which is there once the server was found old enough and goes with the
 * leases.  Without it they answer NOSCRIPT as well, and all is as above.
 *
 *	holder A			server			client B
 *	acquire k, granted
 *					FLUSHALL
 *								EVALSHA acquire
 *					no gate: NOSCRIPT
 *								young: emptied
 *								now
 *	renew k -> none
 *	young: reclaim
 *					now + delay
 *								young: the gate
 *								EVALSHA -> busy
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
/* Or, of those, it has heard of it, and its leases were deleted: the gate. */
bool dlk_script_emptied(const redisReply *r);

/*
 * An answer that is none: -EAGAIN or -EREMOTEIO, as the table of errors has it
 * (fault.h), and the words for it.
 */
int dlk_script_refused(struct dlk_conn *c, const redisReply *r);

/* dlk_conn_call() of what answers by that type; any other is refused. */
int dlk_script_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		    const struct dlk_arg *args, int type,
		    const redisReply **reply);

struct dlk_youth {
	uint64_t left_ms; /* until it is old enough to grant anything; 0: now */
	uint64_t since_ns; /* since when it surely has granted nothing, our
			      clock; 0: it may have */
	uint64_t since_ms; /* the same by its own clock */
	uint64_t now_ms;
	bool emptied; /* its leases were deleted (FLUSHALL, ...) */
};

/*
 * How old is the server?  Its uptime is one thing; the age of its memory another: a
 * replica that was promoted has an old uptime, no scripts, and perhaps not the last
 * grants of its master.  It is known by what INFO says of its past; or by its run
 * id, if another one granted something to this process when this one was running
 * already.  And it was emptied if there is no trace of us, though somebody of us
 * has asked it: it knows young.lua.  Then its age counts from when somebody asked
 * first (young.lua).  SCRIPT FLUSH leaves the run id, and is no restart.
 */
int dlk_script_young(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_youth *youth);

/*
 * (a cluster's node) A lease of that slot was renewed: who asks there later knows by
 * young.lua that somebody was there, should all be deleted before anybody asks.  Once a
 * process, and history; true if something was sent.
 */
bool dlk_script_teach_slot(struct dlk_conn *c, uint64_t deadline_ns, int slot);

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
	DLK_YOUNG, /* of no delay, for it is to be known to all */
	DLK_N_GUARDED,
};
enum dlk_family { DLK_FLOCK_SCRIPTS, DLK_RECORD_SCRIPTS };

/* The name that EVALSHA calls it by on this connection. */
struct dlk_arg dlk_script_name(struct dlk_conn *c, enum dlk_guarded which);

/*
 * args, a script that grants by its name, with the gate as one key more, where
 * there is a delay: to be sent as they are.  How many; the caller's room.
 */
enum { DLK_GATED_MAX = 24 };
int dlk_script_gate(struct dlk_conn *c, int argc, const struct dlk_arg *args,
		    struct dlk_arg gated[DLK_GATED_MAX]);

/*
 * Send args, a script of the family by its name, without its gate, and take its
 * reply, when the server has been taught it; answer->asked_ns is before that.
 * `grants`: the caller takes the answer of the replicas as well (replicas.h).
 * 0, DLK_GRACE and answer->left_ms and ->emptied, -errno.  -EREMOTEIO, and the
 * connection is closed: it was granted, perhaps, by a server that may evict it
 * again.
 */
struct dlk_answer;
int dlk_script_ask(struct dlk_conn *c, uint64_t deadline_ns,
		   enum dlk_family family, bool grants, int argc,
		   const struct dlk_arg *args, struct dlk_answer *answer,
		   const redisReply **reply);

/*
 * The queue of a lease, "{KEY}%q": its text is in the connection's `work`, where
 * it must stay until the answer: dlk_script_ask() may send it again.
 */
struct dlk_lease;
struct dlk_arg dlk_script_queue(struct dlk_conn *c,
				const struct dlk_lease *lease);
/* "fair" and "interop", "junior" or "senior". */
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
 * our kernel lock's successor; or what stays of our own lease (hold_at_least).
 */
bool dlk_script_succeeds(const char *token, const redisReply *held);

#endif
