/* SPDX-License-Identifier: MIT */
/*
 * One connection to one Redis server.  hiredis parses the replies; the commands
 * and the socket are ours (DESIGN section 5).
 *
 *	dlk_conn_new -> dlk_conn_open -> { dlk_conn_append* dlk_conn_reply* }*
 *	-> dlk_conn_delete
 *
 * Nothing here calls malloc: a connection and its arena are mmap(2)ed.  A
 * connection belongs to one thread at a time.  Every wait is bounded by a
 * deadline (CLOCK_BOOTTIME nanoseconds).  errno is the caller's to keep.
 *
 * Errors are -errno: -ECONNREFUSED, -ETIMEDOUT, -EPIPE, ... from the socket
 * (never -ENOENT, which is a server's word about a script: reply.c), -EPROTO for
 * what is not RESP or too large, -EINTR when the `interrupt` callback wants the
 * call to end; after any of them the connection is closed (its outcome unknown)
 * and may be opened anew.  An error reply of the server is not an error here: the
 * reply's type says so.
 */
#ifndef DLK_CONN_H
#define DLK_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include "config/config.h"
#include "model/slot.h"
#include "os/arena.h"
#include "os/sys.h"
#include "redis/resolve.h"
#include "redis/server.h"

enum {
	DLK_REPLY_MAX = 1024 * 1024, /* a larger reply is -EPROTO */
	DLK_WORK_SIZE = DLK_KEY_MAX + 16,
	DLK_LIST_SIZE = 20 * 1024,
	DLK_NAMES = 8,
	DLK_NAME_SIZE = 48,
	DLK_GATE_SIZE = 48,
	DLK_DEFERRED_MAX = 64,
};

/*
 * Who reads an answer that nobody waits for: NULL, the connection failed before
 * it came, and nobody knows.  (Where there is no judge, any answer is 0, and none
 * -EPIPE.)  And who is told of it.
 */
typedef int dlk_judge_fn(const redisReply *reply, uint64_t *number);
typedef void dlk_done_fn(void *arg, int err, uint64_t number);

struct dlk_deferred {
	dlk_judge_fn *judge;
	dlk_done_fn *done;
	void *arg;
	uint64_t mark; /* of what was asked, for who is to come behind it; 0 */
};

enum dlk_half { DLK_WHOLE, DLK_ASKING, DLK_TAKING };

/* What one that is to be opened waits for. */
enum dlk_step {
	DLK_NO_STEP,
	DLK_LOOKS_UP, /* getent(1) */
	DLK_QUEUES,   /* room at a socket's backlog, of which nobody tells */
	DLK_CONNECTS, /* connect(2) */
	DLK_IS_LED,   /* dlock-tls */
};

struct dlk_conn {
	/* For its user to read. */
	const struct dlk_endpoint *ep;
	struct dlk_server_info server; /* nothing before the first reply */
	struct dlk_endpoint found;     /* where Sentinels say that `ep` is */
	char error[256]; /* why the last call failed; never with a password */
	bool lacks_file; /* it was not opened (-EACCES), for a file of ours cannot
			    be used: of a password, a certificate, its key */
	unsigned deferred_n; /* answers that nobody waits for */
	/*
	 * For its user to clear: the server has lost its memory, perhaps.  The
	 * connection was found closed, the next one was to another run id than
	 * this process had met, the scripts are gone (dlk_conn_suspect) and
	 * there is no run id to be seen, or the leases are (script.h).
	 */
	bool restarted;
	bool emptied; /* ... and some were this process's */
	bool evicts; /* it may evict locks since a moment ago (dlk_conn_look) */
	bool unconfirmed; /* too few replicas have what was written (replicas.h) */

	/* For its user to set. */
	bool only_listens; /* (SUBSCRIBE) nothing is asked of the server itself
			      when it connects */
	/*
	 * Asked while a wait lasts, every 20 ms: true ends the call with
	 * -EINTR.  The shim sees pending signals by it.  NULL: never.
	 */
	bool (*interrupt)(void *arg);
	void *interrupt_arg;
	/*
	 * What is asked may grant something, and is not to arrive when no answer is
	 * waited for any more.
	 */
	bool takes_back;
	/*
	 * A question in two halves, so that many servers are asked at a time.
	 * DLK_ASKING: it leaves, and the function that asks it ends with
	 * -EINPROGRESS; DLK_TAKING: the same function, called again as it was,
	 * takes the answer, and the connection is DLK_WHOLE again.  Of a
	 * function that asks more than that, the rest is asked then.
	 */
	enum dlk_half half;
	/*
	 * Of a Redis Cluster (lease/cluster.h): the slot that is spoken of, or
	 * DLK_NO_SLOT.  `asking`: each command comes behind an ASKING, for the
	 * slot is on its way to this node; `one_key`: and a question that can
	 * do with its first key is asked with that alone.
	 */
	bool clustered, asking, one_key;
	int slot;
	bool one_of_several; /* masters of a quorum: are they alike? */
	/* An answer that nobody waited for says that it is another node's. */
	void (*elsewhere)(void *arg, const struct dlk_endpoint *asked,
			  const char *error);
	void *elsewhere_arg;
	/* Room for a key and a list of a question, which may be sent again. */
	char work[DLK_WORK_SIZE], list[DLK_LIST_SIZE];
	char names[DLK_NAMES][DLK_NAME_SIZE]; /* of script.h; "" at first */
	char gate[DLK_GATE_SIZE];

	/* conn.c's own. */
	struct dlk_own own;
	enum dlk_step step;
	struct dlk_lookup lookup;
	struct dlk_addresses to; /* as they were known last; or none */
	unsigned turn;           /* the one that is, or was, connected to */
	unsigned tried;          /* so many, since it was to be opened */
	uint64_t turn_ns;        /* then it is the next one's turn; 0: never */
	unsigned greeting;       /* replies of the set-up still to come */
	unsigned optional; /* ... of which so many may fail, the last ones */
	bool suspected;
	bool demoted;            /* it is a replica, by its own words */
	struct dlk_known *known; /* of a master that Sentinels name */
	uint64_t switches;
	uint64_t read_ns;                               /* when INFO was */
	struct dlk_deferred deferred[DLK_DEFERRED_MAX]; /* a ring */
	unsigned deferred_at;
	size_t out_len;
	size_t in_pending; /* bytes fed since the last reset */
	redisReader *reader;
	struct dlk_arena arena;
	char in[16 * 1024];
	char out[256 * 1024];
	char mem[64 * 1024] __attribute__((aligned(16)));
};

/*
 * Who finds a server that others name (ep->n_sentinels): *found, which is a copy
 * of ep, gets its address and name.  0; -errno, and `why`.  Once, before the
 * first connection (redis/sentinel.h).  -ENOKEY as in tls.h.
 */
typedef int dlk_find_fn(const struct dlk_endpoint *ep,
			const struct dlk_patience *wait,
			struct dlk_endpoint *found, char *why, size_t size);
/*
 * It was found there when so many switches were known, and says that it is a
 * master: of how many is the connection now?  (Fewer than there were: one to who
 * was the master before.)
 */
typedef uint64_t dlk_met_fn(const struct dlk_endpoint *ep,
			    const struct dlk_endpoint *found,
			    uint64_t switches);
void dlk_conn_finds_by(dlk_find_fn *find, dlk_met_fn *met);

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
 * command's.  A server that Sentinels name is asked at once, by INFO, whether
 * it is a master: -EAGAIN, it is none (yet).
 */
int dlk_conn_open(struct dlk_conn *c, uint64_t deadline_ns);
/*
 * The same, and nothing is waited for, not for a name, a server, or dlock-tls:
 * -EINPROGRESS, and again when dlk_conn_poll() says so, and after a slice in any
 * case.  Of the time until the deadline each address of a name has its share.
 * (But who asks Sentinels waits for them until then.)
 */
int dlk_conn_start(struct dlk_conn *c, uint64_t deadline_ns);
bool dlk_conn_is_open(const struct dlk_conn *c);
void dlk_conn_close(struct dlk_conn *c);

/* A word of a command. */
struct dlk_arg {
	const char *text;
	size_t len;
};
#define DLK_LITERAL(s) (s), sizeof(s) - 1
static inline struct dlk_arg dlk_arg_str(const char *text)
{
	return (struct dlk_arg){ text, strlen(text) };
}

/* A number as one, its text at *n; of `width` digits at least. */
struct dlk_number {
	char text[24];
};
struct dlk_arg dlk_arg_number(struct dlk_number *n, uint64_t value,
			      unsigned width);

/*
 * Queue a command; the order of the replies is the order of the commands.
 * -ENOBUFS: there is no room; flush, and again.
 */
int dlk_conn_append(struct dlk_conn *c, int argc, const struct dlk_arg *args);

/*
 * The reply of the command appended last is read by `judge`, whenever it comes,
 * before any later reply.  `done`, or NULL, gets its result and the number that
 * it found.  At most DLK_DEFERRED_MAX wait at a time (-ENOBUFS).
 */
int dlk_conn_defer(struct dlk_conn *c, dlk_judge_fn *judge, dlk_done_fn *done,
		   void *arg);
/* The reply deferred last is to what has that mark; is any such to come? */
void dlk_conn_mark(struct dlk_conn *c, uint64_t mark);
bool dlk_conn_owes(const struct dlk_conn *c, uint64_t mark);
/*
 * Wait until no deferred reply is outstanding.  With a deadline of 0, read those
 * that are there: -EAGAIN if some are not, and the connection stays open.
 */
int dlk_conn_drain(struct dlk_conn *c, uint64_t deadline_ns);
/* A part of an answer at least has been received, and is not read. */
bool dlk_conn_has_more(const struct dlk_conn *c);

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
/* What to sleep on for what it waits for: an answer, or to be opened. */
struct pollfd dlk_conn_poll(const struct dlk_conn *c);
/* Why it is not open yet, for messages. */
const char *dlk_conn_lacks(const struct dlk_conn *c);

/*
 * It leads to who was the master before: by the Sentinels' word (switched), or
 * its own (READONLY).  It is to be closed by who puts it back, or has it next.
 */
bool dlk_conn_is_stale(const struct dlk_conn *c);

/* The scripts are gone.  Once a connection; its run id tells more, if known. */
void dlk_conn_suspect(struct dlk_conn *c);
/*
 * What the server says of itself, once more, if it has not been asked for long:
 * an operator may have let it evict locks.  Not on a lock's way.
 */
void dlk_conn_look(struct dlk_conn *c, uint64_t deadline_ns);
/*
 * It is open, and what the server says of itself is known; not from before it
 * last said that it is not the one (dlk_conn_doubt), nor from a second ago: it
 * may have been a replica meanwhile, and nobody asked it then.  -EAGAIN: it does
 * not say so now (BUSY).
 */
int dlk_conn_know(struct dlk_conn *c, uint64_t deadline_ns);
void dlk_conn_doubt(struct dlk_conn *c);
/* Nobody uses it: closed, if the other side has closed it. */
void dlk_conn_look_for_end(struct dlk_conn *c);

/* append + flush + reply, or one half of that. */
int dlk_conn_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		  const struct dlk_arg *args, const redisReply **reply);

void dlk_conn_set_error(struct dlk_conn *c, const char *text);
/* The same of an error that the server answered, with what can be done. */
void dlk_conn_explain(struct dlk_conn *c, const char *error);

#endif
