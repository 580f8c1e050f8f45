/* SPDX-License-Identifier: MIT */
/*
 * One lock call as a machine: what it does next, given what came of the last
 * step.  It does no I/O and knows no time but what it is told; lock/engine.c
 * does what a state says, and reports.
 *
 *	RESUME -> ENTER -> PREPARE -> TRY_KERNEL --ok--> ASK --ok--> GRANTED
 *	   |        ^              |               |
 *	   `-> PING-'              |               `-> ROLLBACK, and then
 *	  (no answer the           |                     busy: CHECK_OWN
 *	   last time)              |                     young, no answer:
 *	                           |                     BACK_OFF or FAILED
 *	                           |
 *	  busy: CHECK_HOLDER (if it does not wait, or is reserved)
 *	           | tentative: RESUME
 *	           | else FAILED;  reserved: PASS_ON --none--> WAIT_QUEUE
 *	           v                            v passed
 *	        CHECK_CYCLE <-------------------+
 *	           |
 *	           +-----> WAIT_KERNEL --ok--> ENTER (with the lock in hand)
 *	  CHECK_OWN -> CHECK_CYCLE -> WAIT_QUEUE --woken--> RESUME (reserved)
 *
 *	ENTER		where the kind of lock has it so, one thread at a time
 *			works on a file from here on
 *	PREPARE		what the owner has; the first question, if it is better
 *			asked before the kernel
 *	TRY_KERNEL	the kernel's lock, without a wait
 *	ASK		Redis, with the kernel's lock in hand; what is granted
 *			is installed
 *	ROLLBACK	the kernel's lock goes back, as far as this call took it
 *	CHECK_HOLDER	the kernel has refused: is it for one who only asks?
 *	PASS_ON		the queue has granted, and a program without dlock has
 *			the file: the next one's turn
 *	CHECK_OWN	Redis has refused: for this process' own lock of another
 *			file with the same key?
 *	CHECK_CYCLE	would the wait close a cycle of waits?
 *	WAIT_KERNEL	for a holder of this host
 *	WAIT_QUEUE	for one of another host, or for any by a shadow (7)
 *	DOUBT		the kernel says EDEADLK: through a tentative holder?
 *	BACK_OFF	a pause
 *	RESUME		after a sleep: is the descriptor still that of the file?
 *	PING		Redis had not answered: does it now?
 *
 * A call that may be local goes on, where it would fail because Redis was not
 * reached in time, with the kernel's lock alone: RESUME, ENTER, PREPARE,
 * TRY_KERNEL, GRANTED; or WAIT_KERNEL for as long as it takes.
 *
 *  1. A wait (WAIT_KERNEL, WAIT_QUEUE, DOUBT, BACK_OFF, PING) is entered with
 *     nothing in hand (DESIGN L1); RESUME and the checks are, too.
 *  2. Who is asked and refuses, or does not answer, is followed by ROLLBACK if
 *     there is something in hand.
 *  3. What ENTER has begun ends with ROLLBACK at the latest.  With the lock in
 *     hand ENTER does not fail, and lets nothing in.
 *  4. A series of steps without a wait or a pause ends after a bounded number,
 *     as far as the checks do not say AGAIN for ever; dlk_acquire_has_waited()
 *     bounds that of CHECK_HOLDER.
 *  5. A call that is local asks Redis nothing any more, and looks for no tentative
 *     holder.  Who was answered while it was tried for, by an error or a PING
 *     too, has reached it.
 *  6. An event that cannot come in a state is a defect of the engine's: the
 *     call fails with ENOLCK, closed (DESIGN L8).
 *  7. Who is refused by a shadow, of a description that others share, never waits
 *     in the kernel: whichever of them is granted the lock, they all have it, and
 *     who waits by a shadow of his own would wait for himself.  He waits in the
 *     queue, as for another host's, and looks when it says so.
 */
#ifndef DLK_ACQUIRE_H
#define DLK_ACQUIRE_H

#include <stdbool.h>
#include <stdint.h>

enum acquire_state {
	ACQ_RESUME,
	ACQ_PING,
	ACQ_ENTER,
	ACQ_PREPARE,
	ACQ_TRY_KERNEL,
	ACQ_ASK,
	ACQ_ROLLBACK,
	ACQ_CHECK_HOLDER,
	ACQ_PASS_ON,
	ACQ_CHECK_OWN,
	ACQ_CHECK_CYCLE,
	ACQ_WAIT_KERNEL,
	ACQ_WAIT_QUEUE,
	ACQ_DOUBT,
	ACQ_BACK_OFF,
	/* The end of it. */
	ACQ_GRANTED,
	ACQ_FAILED,  /* with `err` */
	ACQ_RESTART, /* the file is to be looked up anew */
	ACQ_STATES
};

/* What came of a step. */
enum acquire_event {
	EV_OK,      /* done; granted; nobody; woken */
	EV_ERROR,   /* the call fails, with `err` */
	EV_BUSY,    /* somebody has it; of the kernel: `err` says how */
	EV_AGAIN,   /* who was in the way is on his way out */
	EV_MOVED,   /* the descriptor is another file's, or the file is to
			   be locked in another way */
	EV_COVERED, /* what the owner has is enough: nothing to ask for */
	EV_LOCAL,   /* the owner has it by the kernel alone, and goes on so */
	EV_NOT_VISIBLE, /* the kernel has granted, and does not list the lock */
	EV_LINGER,      /* somebody has it; of a shadow of a description that
			   is shared: perhaps a sharer, by another shadow */
	EV_OVERTAKEN,   /* a sharer of the description has the lock, or has
			   unlocked what is both's */
	EV_YOUNG,       /* the server is too young to grant */
	EV_WRONG_TYPE,  /* the key is no lease */
	EV_NO_ANSWER,   /* for now */
	EV_UNUSABLE,    /* asking again is of no use */
	EV_SIGNAL,      /* a question was dropped to let a signal in */
	EV_LOST,        /* what the owner had of it is lost */
	EV_NOTHING,     /* there is nothing to pass on */
	EV_SUSPECTED,   /* a cycle, if it is there once more */
	EV_DEADLOCK,    /* a cycle */
	EV_EVENTS
};

/* So often in a row, since when. */
struct acquire_tries {
	unsigned n;
	uint64_t first_ns;
};

struct acquire {
	enum acquire_state state;
	enum acquire_event cause; /* of the last refusal, or pause */
	int err;                  /* what the call returns if it fails */
	bool wait;                /* as the program asked for */
	bool in_hand;             /* what this call took of the kernel's lock */
	bool by_kernel;           /* it was the kernel that refused last */
	bool reserved;     /* it has waited at Redis: not for the kernel, now */
	bool repeated;     /* asked once more, before a refusal is told */
	bool may_be_local; /* as its rule says (unreachable = "local") */
	bool local;        /* it is: by the kernel alone */
	bool reached;      /* Redis did answer, since give_up_ns counts */
	unsigned lingers;  /* refused by a shadow so often in a row */
	unsigned not_visible, overtaken;
	struct acquire_tries holders, cycles;
	uint64_t timeout_ns;  /* the rule's, for a Redis that does not answer */
	uint64_t give_up_ns;  /* since that one does not; 0: it does */
	uint64_t pause_ns;    /* the last one for a holder */
	uint64_t holder;      /* a hash of who had it, where nobody is told */
	unsigned passed_over; /* how often another had it meanwhile */
};

struct acquire_report {
	enum acquire_event event;
	int err;           /* ERROR, BUSY: -errno */
	bool by_lease;     /* it is a lease of dlock's that is in the way */
	bool cannot_queue; /* at the key that it would wait for */
	bool answered;     /* WAIT_QUEUE: Redis did, since it was entered */
	bool reached;      /* NO_ANSWER: but by an error */
	uint64_t began_ns, now_ns; /* the question, or the step; its end */
};

/* A call that waits, or does not; of a rule with this timeout. */
void dlk_acquire_begin(struct acquire *m, bool wait, uint64_t timeout_ns);

/* What the engine is to do next: m->state, too. */
enum acquire_state dlk_acquire_next(struct acquire *m,
				    const struct acquire_report *report);

static inline bool dlk_acquire_is_over(enum acquire_state s)
{
	return s >= ACQ_GRANTED;
}

/* Between ENTER and its end (3). */
static inline bool dlk_acquire_is_inside(enum acquire_state s)
{
	return s >= ACQ_PREPARE && s <= ACQ_ROLLBACK;
}

/* It may sleep, for as long as it takes (1). */
static inline bool dlk_acquire_is_wait(enum acquire_state s)
{
	return s == ACQ_PING || (s >= ACQ_WAIT_KERNEL && s <= ACQ_BACK_OFF);
}

/* Are there repetitions left?  Else it is taken as it is. */
bool dlk_acquire_may_be_overtaken(const struct acquire *m);
bool dlk_acquire_may_look_again(const struct acquire *m);

/* The kernel has refused, and it is looked who is in the way. */
static inline void dlk_acquire_count_holder(struct acquire *m, uint64_t now_ns)
{
	if (m->holders.n++ == 0)
		m->holders.first_ns = now_ns;
}

/* CHECK_HOLDER has been tried so often, and for so long. */
static inline bool dlk_acquire_has_waited(const struct acquire *m,
					  uint64_t now_ns, unsigned tries,
					  uint64_t ns)
{
	return m->holders.n >= tries && now_ns - m->holders.first_ns >= ns;
}

/*
 * Refused where nobody is told that a lock is free: a hash of who has it, or 0
 * for unknown.  A pause says how soon one finds it out: the longer it is one and
 * the same who has it, the longer they are.  Where it goes from hand to hand they
 * stay short, and who was passed over often is a senior (scripts/senior.inc).
 */
void dlk_acquire_note_holder(struct acquire *m, uint64_t holder);
bool dlk_acquire_is_senior(const struct acquire *m);

/*
 * BACK_OFF: for how long.  left_ms: of the holder's lease, or of the server's
 * youth, 0 or less for unknown; limit_ns: 0 for none; random: any 32 bits.
 */
uint64_t dlk_acquire_pause_ns(struct acquire *m, int64_t left_ms,
			      uint64_t limit_ns, uint32_t random);

#endif
