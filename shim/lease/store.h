/* SPDX-License-Identifier: MIT */
/*
 * The store: whoever keeps the leases, as lock/ and hold/ know it (DESIGN 5).
 *
 * An engine is a table of operations.  There is one of a single Redis server
 * (single.c), and the unit tests have one in memory
 * (tests/unit/store_memory.h); another engine is another table.  Above this
 * line nobody knows of a connection, a command, a reply or an address.
 *
 *	struct dlk_store *s = dlk_store_of(rule->redis);
 *	struct dlk_attempt at = { .timeout_ns = 200 * DLK_MS };
 *
 *	err = s->ops->acquire(s, &at, &lease, &ask, &answer);
 *	...
 *	err = s->ops->send_release(s, &sending, &lease);
 *
 * Units.  Moments and durations in `_ns` are CLOCK_BOOTTIME nanoseconds, those
 * in `_ms` milliseconds.  An engine reads the clock itself, and counts no lease
 * longer than from before its request left (DESIGN L5).
 *
 * Results.  0 is done; positive: a condition the caller decides on (enum
 * below); negative:
 *	-EAGAIN		the server cannot answer now (loading, busy, a replica
 *			without its master, ...): ask again
 *	-EREMOTEIO	the server refuses (an error reply), -EACCES it refuses
 *			us: asking again is of no use
 *	-EINTR		the attempt's `interrupt` said so
 *	else		there was no answer
 * and attempt->why says it in words.
 *
 * Unknown outcomes.  What got no answer may have been done, or may be done yet,
 * however late.  The operations under "asked again" are sent a second time at
 * once, when a connection breaks that was there before, or breaks after the
 * request left: own token back means held, with the ttl set anew.  If it
 * remains possible that an earlier copy is still on its way, attempt->unsure
 * becomes true, whatever the result but 0; it is never made false here.  All
 * others are sent once.
 *
 * Memory.  Nothing is allocated by malloc(3).  What is passed in is the
 * caller's, and is not looked at after the return, but for a sending's `done`
 * and `arg`.
 *
 * Threads, signals, forks.  Any number of threads may use a store.  All signals
 * MUST be blocked meanwhile (dlk_enter), and no mutex held, for `done` of
 * whatever was sent before may be called in any operation.  In a child of
 * fork(2) dlk_stores_forget() comes first; nobody is told then of what the
 * parent had sent.
 */
#ifndef DLK_STORE_H
#define DLK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/config.h"
#include "model/range.h"
#include "model/token.h"
#include "os/file_id.h"

enum {
	DLK_BUSY = 1,   /* somebody holds it */
	DLK_WRONG_TYPE, /* the key is of another type than a lease */
	DLK_GRACE,      /* the server is too young to grant (delayed restart) */
	DLK_LOST,       /* another token is there */
	DLK_GONE,       /* no token is there */
	DLK_REPLACED,   /* another token, newer, of this host and file */
	DLK_OLD_SEQ,    /* records: a later request of the owner was there */
	DLK_SUSPECTED,  /* a deadlock, if it is seen once more */
};

/* --- what is spoken of ---------------------------------------------------- */

/*
 * Where nobody queues: who was passed over often goes first
 * (scripts/senior.inc).
 */
enum dlk_rank { DLK_NO_RANK, DLK_JUNIOR, DLK_SENIOR };

/* One lease.  The texts are the caller's. */
struct dlk_lease {
	const char *key;
	size_t key_len;
	const char *token;
	size_t token_len;
	uint32_t ttl_ms;
	uint64_t stays_until_ns; /* exclusive, of flock: released earlier, its
				    key stays till then and is nobody's; or 0 */
	uint32_t pause_ms; /* how long it can be renewed when it has expired,
			      if nobody was granted it since; 0: not at all */
	bool shared;
	bool fair;    /* no reader passes a writer that waits */
	bool interop; /* others than us ask for it, and must have a chance */
	enum dlk_rank rank; /* of who asks for it, where there is no queue */
	const char
		*ranges_key; /* records: dlk_records_ranges_key(); else NULL */
	size_t ranges_key_len;
};

static inline bool dlk_lease_same_key(const struct dlk_lease *a,
				      const struct dlk_lease *b)
{
	return a->key_len == b->key_len &&
	       memcmp(a->key, b->key, a->key_len) == 0;
}

enum { DLK_CHANNEL_LEN = 32, DLK_CHANNEL_MAX = 38 };

/* Of who listens to none: it is served as the others, and looks for it. */
#define DLK_NO_CHANNEL "-"

/*
 * A place in the queue of a lease (DESIGN 4), of one waiting call.  The claim
 * is the token that the lease gets when the waiter is served; see queue.h.
 */
struct dlk_waiter {
	const char *claim;
	size_t claim_len;
	char channel[DLK_CHANNEL_MAX + 1]; /* where it listens: digits, perhaps
				behind a tag; or DLK_NO_CHANNEL; "": it does
				not queue */
	uint64_t request; /* the number of the last one sent that a grant may
			     answer: who sends one counts */
	const char *what; /* records: DLK_WHAT_LEN, see ranges.h; else NULL */
	uint32_t claim_ttl_ms; /* of the claim, and of a place not heard of */
	bool queued;
	bool lost;             /* the ticket that it had is of no use */
	int64_t ticket, ahead; /* if queued; `ahead` at most before it */
};

struct dlk_answer {
	uint64_t asked_ns; /* before the request left */
	int64_t left_ms;   /* BUSY: the holder's ttl, -1 for none; 0, of a range
			      and with no holder: ask again at once; GRACE:
			      until the server is old enough */
	bool emptied;      /* GRACE: not for a restart; its leases were deleted
			      (FLUSHALL, FLUSHDB, SWAPDB) */
	bool replaced;     /* a dead lease of this file was there */
	uint64_t seq;      /* records, OLD_SEQ: the server's */
	struct dlk_range range; /* records, BUSY: what is in the way */
	size_t holder_len;
	char holder[DLK_TOKEN_MAX]; /* BUSY: its token, "" if it is
				       none; WRONG_TYPE: the key's type */
};

/* BUSY: a hash of the holder's token; 0: unknown. */
static inline uint64_t dlk_answer_holder(const struct dlk_answer *a)
{
	return a->holder_len ? dlk_hash(a->holder, a->holder_len) : 0;
}

/* Of a lease on a whole file. */
struct dlk_ask {
	bool proof; /* the caller holds the kernel's lock now, looked at it
		       after reading the token's `since`, and so knows that any
		       older lease of its host and file is dead (DESIGN L3) */
	const struct dlk_lease *superseded; /* that is given up for it (a
					    conversion), and stays for who is
					    refused; or NULL */
	struct dlk_waiter *waiter; /* the place that it takes if it is refused,
				      and leaves if it is granted; NULL for who
				      does not wait */
};

/* Of a range; records.h says what the numbers are for. */
struct dlk_records_ask {
	struct dlk_range range; /* READ or WRITE */
	uint64_t seq;      /* greater than all that were sent for this token,
			      whose first is 1; then the last one that was sent,
			      for a copy has a number of its own */
	uint64_t since_ns; /* of this kernel grant, as in a token; of the
			      token's first request: the token's own */
	bool proof;        /* the lock was looked at after since_ns was read:
			      what is older, of this host and file and in this
			      range, is dead (L3); a read lock proves only that
			      there is no writer */
	bool adopts; /* with a proof: its process had it before an execve(2), so
			it is nobody's who waits */
	bool rest;   /* and has nothing else that it had
			under older tokens, before an execve(2) */
	bool shares; /* with a proof: another process has some of it by the same
			description; it is taken over, but he is alive */
	bool known;  /* a range of this token was granted, and not all given
			back since */
	bool holds;  /* its process holds some lock: it waits for nobody who
			only waits himself (fair) */
	struct dlk_waiter *waiter; /* the place that it takes if it is refused,
				      and whose claim it confirms if it is
				      granted; NULL for who does not wait */
};

enum { DLK_RENEW_BATCH = 1024 };

struct dlk_renewal {
	const struct dlk_lease *lease;
	uint64_t deadline_ns; /* of the lease, as it stands */
	uint64_t sent_seq;    /* of records: the owner's last request; 0: who
				 asks does not know */
	uint64_t asked_ns;    /* out, result 0: the new one counts from here */
	uint64_t until_ns;    /* out, result < 0: nobody else is granted it
				 before, so it is held until then; 0 */
	bool alone;           /* out, result 0: of a whole file, that nobody
				 else has it */
	bool reclaimed;       /* out: a restarted server had forgotten it */
	bool behind;          /* out, the engine's: and it could not be put
				 back, for another lease of dlock's is there */
	uint64_t outdated_ms; /* the engine's: another's that is to expire by
				 then (the server's clock) was not renewed since
				 its memory began; 0 */
	uint64_t seq, ranges; /* out, the engine's, of records: the number of
				 the owner's last request; how many it has */
	uint64_t digest;      /* out, a quorum's: of these; 0: too many */
	bool unlike;          /* out, result 0, a quorum's, of records: its
				 masters have not the same, and which is right
				 only the owner knows.  In, of reclaim_ranges:
				 put back where it is known, too */
	int result;           /* out: 0, DLK_LOST, DLK_GONE, DLK_REPLACED,
				 -errno */
};

/* Why it was not renewed, for the log; `why` is the attempt's. */
static inline const char *dlk_renewal_loss(const struct dlk_renewal *r,
					   const char *why)
{
	return r->result < 0           ? why
	       : r->result == DLK_LOST ? "somebody else holds it"
				       : "the server does not know it any more";
}

enum {
	DLK_PROCESS_LEN = 16,
	DLK_WAIT_MS = 1500,
	DLK_BLOCKERS_MAX = 16, /* of one wait that are looked at */
	DLK_WAITS_MAX = 8,     /* of one process that are looked at */
};

/* A process, by the first of its tokens' random digits; and a NUL. */
typedef char dlk_process[DLK_PROCESS_LEN + 1];

/* What a process waits for.  Too large for a signal handler's stack. */
struct dlk_wait {
	uint64_t id;   /* later waits have greater ones */
	uint64_t told; /* it lasted then, by the server's clock */
	dlk_process process;
	char owner[DLK_RANDOM_LEN + 1]; /* its token's digits at the key, or
					   "-": it holds nothing there */
	struct dlk_range range;
	size_t key_len;
	char key[DLK_KEY_MAX + 1]; /* KEY%rec */
	char work[DLK_KEY_MAX + 128];
};

/* --- how it is spoken of -------------------------------------------------- */

/* One question, or several in a row that share their outcome. */
struct dlk_attempt {
	uint64_t timeout_ns;          /* of an answer; asked again, of each */
	uint64_t until_ns;            /* no longer than that, however often it
					 is asked; 0: that is enough */
	bool (*interrupt)(void *arg); /* is asked each 20 ms; true ends it with
					 -EINTR.  NULL: never */
	void *arg;
	bool unsure;   /* out: what was asked may still be done */
	char why[256]; /* out, of a negative result; with no password */
};

/* By when it is to be answered, being asked now. */
static inline uint64_t dlk_attempt_by_ns(const struct dlk_attempt *at,
					 uint64_t now_ns)
{
	const uint64_t by = now_ns + at->timeout_ns;

	return at->until_ns && by > at->until_ns ? at->until_ns : by;
}

/*
 * The answer to what was sent: 0, done, or not there any more; DLK_OLD_SEQ with
 * the server's number (ranges); -ENOENT: the server was restarted, perhaps, and
 * serves nobody: send it again at once with `drop`; -EAGAIN, -EREMOTEIO; -EPIPE
 * no answer ever came.
 */
typedef void dlk_sent_fn(void *arg, int err, uint64_t seq);

/*
 * What is sent and not waited for.  0: `done` will be called once, soon or
 * late, by any thread that is in the store, perhaps before the send returns;
 * negative: nothing was sent, and it never is.
 */
struct dlk_sending {
	uint64_t timeout_ns; /* of the sending */
	bool connects; /* else only where a connection is open, which somebody
			  else may have in hand: -ENOTCONN */
	bool drop;     /* it only goes away, and who waits is not served */
	bool (*interrupt)(void *arg); /* (of NULL) as above */
	dlk_sent_fn *done;            /* NULL: nobody wants to know */
	void *arg;
};

/* A channel of one's own, to be told by; the engine's. */
struct dlk_subscription;

struct dlk_store {
	const struct dlk_store_ops *ops;
	const char *name;            /* of its section, for messages */
	const char *at;              /* the server, for messages */
	const char *fault;           /* why it cannot be used at all; or NULL */
	uint32_t connect_timeout_ms; /* also the bound of one answer */
	bool no_queue; /* nobody waits there, and nobody is told of anything, nor
			  of the waits of others: heartbeat, yield and tell_wait
			  give -EOPNOTSUPP, and subscribe -EPERM; what is for
			  who got more by these is NULL */
	bool claims_confirmed; /* what was granted in the queue counts when
				  confirm() has said so, and not before */
	_Atomic uint64_t unreached_until_ns; /* it was waited for in vain: until
						then it is not (hold/local.h) */
	_Atomic uint64_t silent_until_ns; /* it did not answer who it was that
					     is in the way (tentative.c) */
	bool silent; /* it did not answer a renewal in time, and has not done
			so since; only who renews has it */
};

struct dlk_store_ops {
	/* --- asked again, once, if a connection breaks ------------------- */

	/*
	 * Ask for a lease on a whole file.  0 (the deadline counts from
	 * answer->asked_ns), DLK_BUSY, DLK_WRONG_TYPE, DLK_GRACE.
	 */
	int (*acquire)(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, const struct dlk_ask *ask,
		       struct dlk_answer *answer);
	/*
	 * Ask for a range: granted whole, or nothing changes.  As acquire, and
	 * DLK_GONE: of what the owner holds (`known`) the server knows nothing.
	 */
	int (*acquire_range)(struct dlk_store *s, struct dlk_attempt *at,
			     const struct dlk_lease *lease,
			     struct dlk_records_ask *ask,
			     struct dlk_answer *answer);
	/*
	 * Who holds the lease: DLK_BUSY and answer->holder, of readers one of
	 * the lease's host and file if there is one; "" if nobody does.
	 * DLK_WRONG_TYPE, DLK_GRACE.
	 */
	int (*find_holder)(struct dlk_store *s, struct dlk_attempt *at,
			   const struct dlk_lease *lease,
			   struct dlk_answer *answer);
	/*
	 * Who would refuse `range`?  0: nobody; DLK_BUSY, DLK_WRONG_TYPE,
	 * DLK_GRACE.  Nobody that the kernel, asked after since_ns (as in a
	 * token; 0: not asked), did not name of this host and file.
	 */
	int (*find_conflict)(struct dlk_store *s, struct dlk_attempt *at,
			     const struct dlk_lease *lease,
			     const struct dlk_range *range, uint64_t since_ns,
			     struct dlk_answer *answer);
	/*
	 * It waits, for the first time or still.  0: it is granted, the claim
	 * is there (the deadline counts from answer->asked_ns, by its life);
	 * DLK_BUSY: it is in the queue; DLK_WRONG_TYPE, DLK_GRACE.
	 */
	int (*heartbeat)(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease, struct dlk_waiter *w,
			 struct dlk_answer *answer);
	/*
	 * It was granted, but a local program that knows nothing of us is
	 * first: the next one is served, and w is the first one again if it
	 * asks or stays within its life.  DLK_BUSY, DLK_WRONG_TYPE.
	 */
	int (*yield)(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *lease, struct dlk_waiter *w,
		     struct dlk_answer *answer);
	/*
	 * Make the lease of a claim.  0, *asked_ns before the request left;
	 * DLK_LOST, DLK_GONE, DLK_REPLACED.
	 */
	int (*confirm)(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, uint64_t *asked_ns);
	/*
	 * Renew n <= DLK_RENEW_BATCH leases in one round trip.  What a
	 * restarted server has forgotten is put back within its deadline; of
	 * ranges the owner alone knows what: DLK_GONE.
	 */
	void (*renew)(struct dlk_store *s, struct dlk_attempt *at,
		      struct dlk_renewal *r, unsigned n);

	/* --- asked once -------------------------------------------------- */

	/*
	 * It may never come back, and is not to be served meanwhile; if it
	 * stays again within its life, it has its place.  0: that is so.
	 */
	int (*suspend)(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *lease, struct dlk_waiter *w);
	/* Any answer at all. */
	int (*ping)(struct dlk_store *s, struct dlk_attempt *at);

	/*
	 * Release as many, likewise.  Result 0: it is not there any more;
	 * -EREMOTEIO; else it is to be tried again.
	 */
	void (*release)(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_renewal *r, unsigned n);
	/*
	 * That owner's: within the lease's deadline, after a renewal whose
	 * result was DLK_GONE.  The same results: 0, DLK_GONE: the server was
	 * not restarted just now; DLK_LOST; -errno, and r->until_ns.
	 */
	void (*reclaim_ranges)(struct dlk_store *s, struct dlk_attempt *at,
			       struct dlk_renewal *r, uint64_t since_ns,
			       const struct dlk_ranges *held);

	/*
	 * For who does not know what the owner has: into the empty set *held,
	 * and the number of its last request.  0, DLK_GONE: there is no such
	 * owner.
	 */
	int (*list_ranges)(struct dlk_store *s, struct dlk_attempt *at,
			   const struct dlk_lease *lease,
			   struct dlk_ranges *held, uint64_t *seq);
	/*
	 * The owner has no more than `held`, if it has asked for nothing since
	 * the list came with the number `seq`: 0; else DLK_OLD_SEQ.
	 */
	int (*reduce_ranges)(struct dlk_store *s, struct dlk_attempt *at,
			     const struct dlk_lease *lease, uint64_t seq,
			     const struct dlk_ranges *held);

	/*
	 * Tell of a wait (DESIGN 4.8): gives it an id if it is 0, or has
	 * expired, and `told`.
	 */
	int (*tell_wait)(struct dlk_store *s, struct dlk_attempt *at,
			 struct dlk_wait *wait);
	/*
	 * By another thread, which has seen that it lasts since it was told
	 * *clock (0: not seen yet), by the server's clock; tells what that is
	 * now.  1, or 0: there is no such wait.  `again`: it may have expired,
	 * and is told of once more, under its id; or NULL.
	 */
	int (*confirm_wait)(struct dlk_store *s, struct dlk_attempt *at,
			    const char *process, uint64_t id,
			    struct dlk_wait *again, uint64_t *clock);
	/* The n-th wait of a process: 1, or 0 for none. */
	int (*read_wait)(struct dlk_store *s, struct dlk_attempt *at,
			 const char *process, unsigned n,
			 struct dlk_wait *wait);
	/* The processes that are in its way at this moment: how many. */
	int (*find_blockers)(struct dlk_store *s, struct dlk_attempt *at,
			     struct dlk_wait *wait,
			     dlk_process blockers[DLK_BLOCKERS_MAX]);
	/*
	 * For dlockctl history (chronicle.h), of a lease that was held so long
	 * and is lost: 0, or it could not be written.  NULL: the engine keeps
	 * no history.
	 */
	int (*record_loss)(struct dlk_store *s, struct dlk_attempt *at,
			   const struct dlk_lease *lease, uint64_t lasted_ms);

	/* --- sent, and not waited for ------------------------------------ */

	/* A lease is given back, and who waits for it is served; or, with
	 * stays_until_ns to come, it is nobody's until then. */
	int (*send_release)(struct dlk_store *s, const struct dlk_sending *how,
			    const struct dlk_lease *lease);
	/*
	 * The lease, held exclusively so far, becomes a shared one if it is
	 * there; it may come twice, or late.
	 */
	int (*send_downgrade)(struct dlk_store *s,
			      const struct dlk_sending *how,
			      const struct dlk_lease *lease);
	/*
	 * In *window (of any type) the owner has what `held` has there, and no
	 * more.  A long list takes several: *window becomes what is still to be
	 * sent, with a greater number each, until its start is behind its end.
	 */
	int (*send_ranges)(struct dlk_store *s, const struct dlk_sending *how,
			   const struct dlk_lease *lease, uint64_t seq,
			   struct dlk_range *window,
			   const struct dlk_ranges *held);
	/* A renewal, of a claim. */
	int (*send_confirm)(struct dlk_store *s, const struct dlk_sending *how,
			    const struct dlk_lease *lease);
	/* It waits no more, nor wants what it was granted. */
	int (*send_cancel)(struct dlk_store *s, const struct dlk_sending *how,
			   const struct dlk_lease *lease, struct dlk_waiter *w);
	/* A wait is over. */
	int (*send_wait_end)(struct dlk_store *s, const struct dlk_sending *how,
			     const char *process, uint64_t id);
	/*
	 * Read the answers to what was sent by one connection that nobody uses,
	 * all of them; false if there is none.
	 */
	bool (*drain)(struct dlk_store *s, uint64_t deadline_ns,
		      bool (*interrupt)(void *arg));

	/* --- told -------------------------------------------------------- */

	/*
	 * A subscription for this caller alone, by which it is told of this
	 * lease: one that is idle, or NULL; or a new one: 0; -EMFILE: there are too many; -EPERM: refused, just now or
	 * a moment ago.
	 */
	struct dlk_subscription *(*subscribed)(struct dlk_store *s,
					       const struct dlk_lease *lease);
	int (*subscribe)(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *lease,
			 struct dlk_subscription **sub);
	/* Its name, as dlk_waiter has it. */
	const char *(*channel)(const struct dlk_subscription *sub);
	/*
	 * The last word that was said to this claim, of its last request:
	 * 'g'ranted, 't'ry; 0: none; -errno: nobody hears by it any more.
	 */
	int (*heard)(struct dlk_subscription *sub, const struct dlk_waiter *w);
	/* Its descriptor, of this moment, to sleep on; -1. */
	int (*descriptor)(const struct dlk_subscription *sub);
	/* The caller is done with it; `unheard`: and nobody hears by it. */
	void (*unsubscribe)(struct dlk_subscription *sub, bool unheard);
};

/* --- store.c: the stores of this process ---------------------------------- */

/*
 * One for each section of the configuration, which lives as long; `restarted`
 * is called when a store has, perhaps, lost its memory.  Once, before any other
 * use.  0, -ENOMEM.
 */
int dlk_stores_begin(const struct dlk_redis *redis, unsigned n,
		     void (*restarted)(const struct dlk_store *s));
/* The helpers of a store are programs in the directory of this one. */
void dlk_stores_beside(const char *program);
struct dlk_store *dlk_store_of(const struct dlk_redis *redis);

/* Has a server closed a connection that nobody uses?  Then it `restarted`. */
void dlk_stores_look(void);
/*
 * While its answer is waited for: have its Sentinels named another master?  Then
 * who waits for the one before, which hangs perhaps, waits no longer.  Only by who
 * renews.
 */
void dlk_store_hear(const struct dlk_store *s);
/* Those connections, to be polled for that: as many as there is room for. */
struct pollfd;
unsigned dlk_stores_watch(struct pollfd *p, unsigned room);
/*
 * Is there a connection to it (of several servers: to most; of a cluster: to the
 * lease's node), so that it can be asked when there are none to be had?
 */
bool dlk_store_is_connected(const struct dlk_store *s,
			    const struct dlk_lease *lease);
/* There is memory to ask it with: 0, -ENOMEM. */
int dlk_store_prepare(const struct dlk_store *s, const struct dlk_lease *lease);
/*
 * drain() of all stores, and all connections.  False: another thread has a
 * connection, and reads by itself.
 */
bool dlk_stores_drain(uint64_t deadline_ns);
/* In a child: the connections are the parent's. */
void dlk_stores_forget(void);

/*
 * How long a renewal waits for its answer.  A server, or a machine, that is slow
 * answers late, and each time after we have gone: so who was silent is waited
 * for four times as long.  Twice at first would not do: of a ttl there is time
 * for one more attempt, or two.
 *
 *	we			server
 *	renew ->
 *	(150 ms)
 *	connect, renew ->	"renewed" (200 ms)
 *	(150 ms)
 *				"renewed" (200 ms)	... until we are killed
 *
 * And what came of it, begun then, is noted: was it answered, and as soon as it
 * should be?
 */
uint32_t dlk_store_patience_ms(const struct dlk_store *s);
void dlk_store_renewed(struct dlk_store *s, int result, uint64_t began_ns);

#endif
