/* SPDX-License-Identifier: MIT */
/*
 * One connection to one Redis server.  hiredis formats and parses; the socket
 * is ours (DESIGN section 5).
 *
 *	dlk_conn_new -> dlk_conn_open -> { dlk_conn_append* dlk_conn_reply* }*
 *	-> dlk_conn_delete
 *
 * Nothing here calls malloc: a connection and its arena are mmap(2)ed.  A
 * connection belongs to one thread at a time.  Every wait is bounded by a
 * deadline (CLOCK_BOOTTIME nanoseconds).  errno is the caller's to keep.
 *
 * Errors are -errno: -ECONNREFUSED, -ETIMEDOUT, -EPIPE, ... from the socket,
 * -EPROTO for what is not RESP or too large, -EINTR when the `interrupt`
 * callback wants the call to end; after any of them the connection is closed
 * (its outcome unknown) and may be opened anew.  An error reply of the server
 * is not an error here: the reply's type says so.
 */
#ifndef DLK_CONN_H
#define DLK_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "config/config.h"
#include "redis/server.h"

struct dlk_conn;

enum {
	DLK_REPLY_MAX = 1024 * 1024, /* a larger reply is -EPROTO */
	DLK_WORK_SIZE = DLK_KEY_MAX + 16,
};

/* `ep` is looked at for as long as the connection lives. */
struct dlk_conn *dlk_conn_new(const struct dlk_endpoint *ep);
void dlk_conn_delete(struct dlk_conn *c);

/*
 * In a child of fork(2): close our copy of the parent's socket, say nothing
 * on it, call no deferred function, and free the memory.  NULL is fine.
 */
void dlk_conn_forget(struct dlk_conn *c);

/*
 * Connect if need be.  AUTH, SELECT, CLIENT SETNAME and INFO are queued and
 * travel with the first command; errors of the first two come back as that
 * command's.
 */
int dlk_conn_open(struct dlk_conn *c, uint64_t deadline_ns);
bool dlk_conn_is_open(const struct dlk_conn *c);
void dlk_conn_close(struct dlk_conn *c);

/*
 * Queue a command; the order of the replies is the order of the commands.
 */
int dlk_conn_append(struct dlk_conn *c, int argc, const char *const *argv,
		    const size_t *argvlen);

/*
 * The reply of the command appended last is read by `judge`, whenever it comes,
 * before any later reply; NULL: the connection failed first, and nobody knows.
 * `done`, or NULL, gets its result and the number that it found.  At most
 * DLK_DEFERRED_MAX wait at a time (-ENOBUFS).
 */
typedef int dlk_judge_fn(const redisReply *reply, uint64_t *number);
typedef void dlk_done_fn(void *arg, int err, uint64_t number);
enum { DLK_DEFERRED_MAX = 64 };
int dlk_conn_defer(struct dlk_conn *c, dlk_judge_fn *judge, dlk_done_fn *done,
		   void *arg);
unsigned dlk_conn_deferred(const struct dlk_conn *c);
/* Wait until no deferred reply is outstanding. */
int dlk_conn_drain(struct dlk_conn *c, uint64_t deadline_ns);

/* Send all that is queued, and do not wait for replies. */
int dlk_conn_flush(struct dlk_conn *c, uint64_t deadline_ns);

/*
 * The next reply, in the order of the commands.  It lives in the connection's
 * arena until dlk_conn_reset().
 */
int dlk_conn_reply(struct dlk_conn *c, uint64_t deadline_ns,
		   const redisReply **reply);

/* Forget all replies handed out; keeps the connection. */
void dlk_conn_reset(struct dlk_conn *c);

/*
 * The next reply if it is there already: 0, or -EAGAIN for none yet.  For a
 * connection that is told things (SUBSCRIBE).
 */
int dlk_conn_take(struct dlk_conn *c, const redisReply **reply);
/* Its descriptor, of this moment, to sleep on; -1 if it is not open. */
int dlk_conn_fd(const struct dlk_conn *c);

/*
 * Room for a name (DLK_KEY_MAX and a few bytes) until the command that it is
 * for is appended.
 */
char *dlk_conn_work(struct dlk_conn *c);

/* Room for the n-th of the names of script.h; "" at first. */
enum { DLK_NAMES = 8, DLK_NAME_SIZE = 48 };
char *dlk_conn_name(struct dlk_conn *c, unsigned n);

/*
 * It listens only (SUBSCRIBE): nothing is asked of the server itself when it
 * connects.
 */
void dlk_conn_only_listens(struct dlk_conn *c);

/* What the server said of itself; nothing before the first reply. */
const struct dlk_server_info *dlk_conn_server(const struct dlk_conn *c);

/*
 * Has the server lost its memory, perhaps, since this was asked last?  The
 * connection was found closed, the next one was to another run id than this
 * process had met, or the scripts are gone (dlk_conn_suspect) and there is no
 * run id to be seen.
 */
bool dlk_conn_restarted(struct dlk_conn *c);
void dlk_conn_suspect(struct dlk_conn *c);
/* Nobody uses it: closed, and true, if the other side has closed it. */
bool dlk_conn_is_lost(struct dlk_conn *c);

/* append + flush + reply. */
int dlk_conn_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		  const char *const *argv, const size_t *argvlen,
		  const redisReply **reply);

/*
 * Asked while a wait lasts, every 20 ms: true ends the call with -EINTR.  The
 * shim uses it to see pending signals; NULL (the default) never ends it.
 */
void dlk_conn_set_interrupt(struct dlk_conn *c, bool (*interrupt)(void *),
			    void *arg);

/* Why the last call failed, for a log line; never with a password. */
const char *dlk_conn_error(const struct dlk_conn *c);
void dlk_conn_set_error(struct dlk_conn *c, const char *text);
/* The same of an error that the server answered, with what can be done. */
void dlk_conn_explain(struct dlk_conn *c, const char *error);

const struct dlk_endpoint *dlk_conn_endpoint(const struct dlk_conn *c);

#endif
