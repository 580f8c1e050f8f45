/* SPDX-License-Identifier: MIT */
/*
 * One lock call on a managed file that asks Redis, whatever kind of lock it is:
 * the file's rule, the bounded patience with a Redis that does not answer
 * (DESIGN L8), the pauses between two attempts, and what the log says.
 *
 * The calling thread alone uses a request, between dlk_enter() and dlk_leave();
 * no kernel lock of the call's own is held over a pause (L1).
 */
#ifndef DLK_REQUEST_H
#define DLK_REQUEST_H

#include "os/log.h"
#include "lease/ranges.h"
#include "lease/store.h"
#include "os/proc.h"
#include "os/signals.h"
#include "hold/hold.h"
#include "lock/scratch.h"
#include "model/acquire.h"

struct dlk_followed; /* follow.h */
struct lock_kind;    /* engine.h */

/* A call's place in the queue at Redis (wait_slot.c, wait.c). */
struct wait_slot {
	struct dlk_waiter waiter;
	char *claim; /* DLK_TOKEN_MAX bytes of the caller's stack, or NULL: it
			never queues */
	char what[DLK_WHAT_LEN + 1]; /* of a record lock */
	struct dlk_subscription *sub;
	uint64_t until_ns;   /* to tell of it again */
	uint64_t away_ns;    /* it was suspended last, for a handler */
	uint64_t look_ns;    /* of a record lock: to look around; of the call,
				for a handler begins each wait anew */
	uint64_t counted_ns; /* a claim's deadline counts from there */
	uint64_t pause_ns;   /* for a holder that wakes nobody */
	char word;           /* what it was notified of.  'g': the claim is at
				the key; 't': the key is free, and to be asked
				for (interop); 0: nothing */
	bool by_claim;       /* held by it, and not confirmed yet */
	bool polling;        /* nobody can tell it anything */
	bool suspended;      /* a handler ran */
	bool placed;         /* the server has told of the place, and nothing
				that we said since takes it away */
	unsigned lost;       /* so often it had lost such a place */
};

/* Who has the kernel's lock, of those who may only ask (flock.c). */
struct flock_look {
	enum dlk_holder who;
	pid_t pid;            /* DLK_OTHER's */
	pid_t preloaded;      /* was found to be so, or 0 */
	int own;              /* what the description itself has */
	unsigned in_a_row;    /* looks that have found the same */
	uint64_t patience_ns; /* with that one */
	uint64_t next_ns;     /* Redis is asked again */
};

/* One lock call. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): by subject */
struct request {
	struct dlk_call *call;
	const char *name; /* of the call: "flock", "fcntl", "lockf" */
	int program_fd;
	int fd; /* what the kernel locks: that, or its shadow */
	const struct dlk_rule *rule;
	struct dlk_store *store;
	struct dlk_file file;
	enum dlk_kind kind;
	struct dlk_scratch *s; /* not in a wait */
	struct dlk_hold *own;  /* the owner's lease as it is before, pinned; or
				  NULL */
	struct dlk_lease lease;
	struct dlk_attempt attempt; /* its timeout: with the lock in hand; its
				       `why`: the last failure, for the log */
	bool on_fuse;
	bool told_young;
	bool other_key; /* the owner's is not that of the path now */

	/* Of the engine: what the kind of lock has it do, and of one step: */
	const struct lock_kind *how;
	struct acquire acquire;
	int err;           /* EV_ERROR, EV_BUSY: what the call returns */
	uint64_t asked_ns; /* when its last question began */

	struct wait_slot slot;

	struct dlk_followed
		*followed; /* of the program's descriptor, or NULL */
	int number;        /* that, as the call was made */

	union { /* by `kind` */
		struct {
			uint64_t looked_ns;      /* what the description has */
			uint64_t keeper_ns;      /* one that does not answer is
						    asked until then; or 0 */
			int mode;                /* LOCK_EX or LOCK_SH */
			int old_mode;            /* the description's before */
			struct dlk_hold *beside; /* another thread's, by the
						    other mode, pinned; or
						    NULL */
			bool no_flock; /* it cannot lock this file: its
					    shadow, then */
			bool others;   /* others have a lease of this host and
					file */
			struct {       /* of its description, in turn.c */
				struct request *next;
				struct dlk_file file; /* the program's, for
							 `file` may be a
							 shadow's */
			} turn;
			struct flock_look look;
		};
		struct {                      /* record.c */
			int cmd;              /* of fcntl(2) */
			struct flock64 *lock; /* the program's */
			struct dlk_range want;
			struct dlk_range blocked; /* what the kernel refused of
						     it */
			uint64_t seq, since_ns;   /* of the last request, of its
						   kernel grant */
			bool adopts;    /* what its process has from before an
					exec */
			bool rest;      /* and this is the last of that */
			bool inherited; /* its process has locks from before an
					   exec */
			struct dlk_lease by_path; /* by the path's key, and not
						     the owner's */
			struct dlk_ranges before; /* what a shared description
						     had, of it */
			struct dlk_range before_room[32];
			char own_random[DLK_RANDOM_LEN + 1]; /* of its token;
								"": none */
			uint64_t wait_id; /* what others are told of the wait;
					     0: nothing */
			bool suspects;    /* it closes a cycle, perhaps: */
			uint64_t suspected, suspected_since; /* which, by the
						server's clock */
		};
	};
};

/* It is a shadow that the kernel locks. */
static inline bool dlk_request_by_shadow(const struct request *r)
{
	return r->fd != r->program_fd;
}

/*
 * The rule of fd, its path in room->path: 0 with *rule NULL where there is none;
 * -ENOLCK where it cannot be known, and so must not be granted.  Silent, and
 * without any state; needs no dlk_enter(); errno may change.
 */
int dlk_rule_of(int fd, struct dlk_room *room, const struct dlk_rule **rule);

/*
 * All of a call, in its frame of dlk_enter() and dlk_leave(): the attempt, where
 * a rule has the file, or none can be known (r->rule is NULL then: what is held
 * can be unlocked, and dlk_request_begin() fails); once more while it says
 * DLK_OTHER_FILE.  0, -errno, or DLK_PASS.
 */
int dlk_request_run(struct request *r, bool wait,
		    int (*attempt)(struct request *r));

/* Are caches to be refreshed and flushed (DESIGN L10)? */
bool dlk_revalidation_needed(const struct dlk_rule *rule, int fd,
			     const struct dlk_file *file);

/*
 * What follows from the rule, the path and the file (r->file, the caller's to
 * look up): the key with a suffix, ttl, patience.  0, -ENOLCK (it has been
 * said).
 */
int dlk_request_begin(struct request *r, const char *suffix);

/* 'NAME "PATH"', and what the caller has to say of it. */
void dlk_line_of_path(struct dlk_line *l, enum dlk_level level,
		      const char *name, const char *path, size_t len);
/* 'flock "PATH": ' what why then */
void dlk_request_say(const struct request *r, enum dlk_level level,
		     const char *what, const char *why, const char *then);
/* 'flock "PATH" (key "KEY"): redis "NAME" at SERVER: ' what why then */
void dlk_request_line(const struct request *r, enum dlk_level level,
		      const char *what, const char *why, const char *then);

/*
 * DLOCK_LOG=debug: what becomes of a call that holds its scratch, "granted",
 * "waits for"; and who is in its way, or NULL.
 */
void dlk_trace_call(const struct request *r, const char *what,
		    const char *holder);

/*
 * The text of a token for a lock granted at since_ns, with the path where the
 * key does not tell it; its length, or -errno.  Uses r->s->room.path.
 */
ssize_t dlk_request_token(struct request *r, uint64_t since_ns, char *buf,
			  size_t size);

/* A fresh token, for a kernel grant a moment ago; not asked for yet. */
int dlk_request_new_token(struct request *r);
/*
 * For r->lease what the owner holds, and where, or by a new token what the path
 * says: 0, -errno.
 */
int dlk_request_name(struct request *r);
/* It is what the path says again. */
void dlk_request_by_path(struct request *r, const struct dlk_lease *by_path);
/* Is h of the key that is asked for, at the same server? */
bool dlk_request_same_key(const struct request *r, const struct dlk_hold *h);
/* Unpin r->own. */
void dlk_request_let_go(struct request *r);
/* [GRANT] For r->lease, and not in the table yet; NULL: r->attempt.why. */
struct dlk_hold *dlk_request_new_hold(struct request *r);
/* Of a lease that was never held nothing stays (hold_at_least). */
void dlk_request_never_held(struct dlk_hold *h);
/* What is asked for next is weaker than what is had: it is in nobody's way, and its answer
 * is waited for as long as a connection is.  What attempt.timeout_ns was. */
uint64_t dlk_request_weakens(struct request *r);
/*
 * (pinned) There is a thread, or a keeper, to look at it by then: 0; else a new
 * one is released: -EREMOTEIO, and r->attempt.why.  (Who holds more by it already
 * is stopped in time, if that is never renewed: hold/backstop.h.)
 */
int dlk_request_ensure_renewal(struct request *r, struct dlk_hold *h,
			       uint64_t look_ns, bool is_new);
/*
 * Where the rule is fair: does this process hold a lock, of whatever kind and
 * file?  Then it may be in the way of those whom it would wait for.
 */
bool dlk_overtakes(const struct request *r);
/*
 * The rank by which it asks, if the store has no queue.  Who may find at the
 * server what is his, of this call's owner or by a proof of death, gives way to
 * none.  Those who share a description all do: else one is granted what another,
 * refused, is about to unlock in the kernel (sharers.c).
 */
enum dlk_rank dlk_request_rank(const struct request *r, bool is_his);

/* Is it a lease of dlock's that is in our way (r->s->answer)? */
bool dlk_request_is_by_lease(const struct request *r);

/* Is the lease in our way one of this host and file?  And an older one? */
bool dlk_request_same_place(const struct request *r, bool *older);

/*
 * A waiting call may never come back (signals.c), so what it has in hand goes
 * first; the key is on its stack, all else is had anew.  fill gives `err`, or
 * -ENOLCK without memory: then r->s is NULL.
 */
void dlk_request_empty_hands(struct request *r);
int dlk_request_fill_hands(struct request *r, int err);

/*
 * After a Redis that did not answer: wait for any answer, with nothing in
 * hand.
 */
enum acquire_event dlk_request_ping(struct request *r);

#endif
