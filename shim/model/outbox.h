/* SPDX-License-Identifier: MIT */
/*
 * What is still to be said to the server about one lease (DESIGN L1): it is
 * given up, or is weaker than the server knows.  Such calls never fail, so the
 * message is sent and not waited for, and sent again until it is acknowledged.
 *
 *	NOTHING --put--> unsent --sent--> unanswered --done----> NOTHING
 *			   ^    `-expired-> (forgotten)  |
 *			   `------------failed-----------'
 *
 * A stronger message takes the place of a weaker one: who releases a lease need
 * not say any more which ranges of it are left.  An answer to what was replaced
 * only counts as one that has come.
 *
 * No I/O; times are CLOCK_BOOTTIME ns, and `now` is an argument.
 */
#ifndef DLK_OUTBOX_H
#define DLK_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Each takes the place of those before it. */
enum outbox_message {
	OUTBOX_NOTHING,
	OUTBOX_DOWNGRADE, /* a flock lease is a shared one now */
	OUTBOX_RANGES,    /* an owner of records has fewer, or weaker, ranges */
	OUTBOX_RELEASE,   /* the lease is given up */
};

enum outbox_step {
	OUTBOX_WAIT,
	OUTBOX_SEND,   /* the message; of ranges, all that are left */
	OUTBOX_READ,   /* look for the answers */
	OUTBOX_FORGET, /* the lease has expired: nothing need be said */
};

/* Zero is an empty one. */
struct outbox {
	enum outbox_message message;
	bool unsent;         /* the message is to be sent, or sent again */
	bool by_source;      /* as the script's text: its name is not known */
	unsigned unanswered; /* so many answers are to come */
	uint64_t due_ns;     /* the next step; UINT64_MAX: the caller's */
	uint64_t expires_ns; /* RELEASE: by then the server has forgotten it */
};

/* The message is to be sent, by the thread from due_ns on. */
void dlk_outbox_put(struct outbox *o, enum outbox_message message,
		    uint64_t due_ns);
/* The release of a lease; whoever gives it up sends it first. */
void dlk_outbox_put_release(struct outbox *o, uint64_t now_ns, uint32_t ttl_ms);
/* One of these is on its way. */
void dlk_outbox_sent(struct outbox *o, enum outbox_message message,
		     uint64_t now_ns);
/*
 * The answer to one of these: 0 or -EREMOTEIO, which asking again would not
 * change; -ENOENT: the script's name is not known; > 0: the server has seen a
 * later one; -errno: nobody knows.  True if by it everything is said.
 */
bool dlk_outbox_answered(struct outbox *o, enum outbox_message message, int err,
			 uint64_t now_ns);
/* It was looked for answers, and some are still to come. */
void dlk_outbox_looked(struct outbox *o, uint64_t now_ns);
/* Nothing is to be said any more; answers may still come. */
void dlk_outbox_clear(struct outbox *o, uint64_t now_ns);

enum outbox_step dlk_outbox_next(const struct outbox *o, uint64_t now_ns);
/* When that is something else than to wait; UINT64_MAX: never. */
uint64_t dlk_outbox_due_ns(const struct outbox *o);

#endif
