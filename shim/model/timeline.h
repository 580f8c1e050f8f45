/* SPDX-License-Identifier: MIT */
/*
 * The life of a lease in time.  Every duration comes from the ttl, here.
 *
 *	asked	 ttl/3		    2 ttl/3	 stop	    deadline   ttl
 *	|--------|------------------|------------|--x-------|----------|
 *	sent	 renew, then	    warn, ask it |  |	    no longer  the server
 *		 again every	    to end	 |  |	    held       forgets it
 *		 ttl/20				 |  the backstop
 *						 stop its holders
 *
 * "asked" is the moment before the request left us, so the server's own ttl
 * starts later and ends later than ours (DESIGN L5).  The hundredth and the
 * 2 ms are Redlock's allowance for clock drift and for Redis' expiry
 * granularity (redis.io, "Distributed Locks with Redis").
 *
 * "stop" to the deadline is the margin in which whoever holds it is stopped
 * (DESIGN L6): first by who can say why, the thread and the keeper, each in its
 * own time, and in the last half of it by the kernel alone.
 *
 * Times are CLOCK_BOOTTIME nanoseconds: it counts a suspended machine's sleep,
 * as the server does.  Pure.
 */
#ifndef DLK_TIMELINE_H
#define DLK_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/seeded.h"

#define DLK_MS 1000000ULL

/*
 * Who asks Redis has the kernel's lock in hand.  One who is preloaded is waited
 * out for so long by another's LOCK_NB or F_SETLK, for on a busy machine he can
 * lose his core.
 */
enum { DLK_SLOW_TENTATIVE_MS = 300 };

/* How long a lease is held that was asked for at `asked_ns`; not at all, if its ttl
 * (a restart delay, perhaps) is no longer than the allowance. */
static inline uint64_t dlk_deadline_ns(uint64_t asked_ns, uint32_t ttl_ms)
{
	const uint32_t allowance_ms = ttl_ms / 100 + 2;

	return ttl_ms > allowance_ms
		       ? asked_ns + (ttl_ms - allowance_ms) * DLK_MS
		       : asked_ns;
}

/* Two reckonings of one moment are apart by what the questions took. */
static inline bool dlk_later(uint64_t deadline_ns, uint64_t than_ns,
			     uint32_t ttl_ms)
{
	return deadline_ns > than_ns + (ttl_ms / 100 + 2) * DLK_MS;
}

static inline uint64_t dlk_renew_ns(uint64_t asked_ns, uint32_t ttl_ms)
{
	return dlk_seeded(1) ? UINT64_MAX / 2 : asked_ns + ttl_ms / 3 * DLK_MS;
}

static inline uint64_t dlk_warn_ns(uint64_t asked_ns, uint32_t ttl_ms)
{
	return asked_ns + ttl_ms * 2ULL / 3 * DLK_MS;
}

/*
 * How long before its deadline who holds a lease is stopped.  In that time a
 * timer comes late (18 ms at worst [m]), and the keeper finds and kills those
 * who share the lock (96 ms among 500 processes [m]).  An eighth: a renewal at
 * ttl/3 that meets a dead connection takes half the ttl (config/rules.c), and
 * is over by then.
 */
static inline uint64_t dlk_margin_ns(uint32_t ttl_ms)
{
	return (ttl_ms / 8 < 400 ? ttl_ms / 8 : 400) * DLK_MS;
}

/* Both of a deadline that was reckoned by that ttl. */
static inline uint64_t dlk_stop_ns(uint64_t deadline_ns, uint32_t ttl_ms)
{
	return deadline_ns - dlk_margin_ns(ttl_ms);
}

static inline uint64_t dlk_backstop_ns(uint64_t deadline_ns, uint32_t ttl_ms)
{
	const uint64_t half = dlk_margin_ns(ttl_ms) / 2;

	return deadline_ns - (half < 19 * DLK_MS ? 19 * DLK_MS : half);
}

/* Whose holders were stopped then, and not killed, are by this time. */
static inline uint64_t dlk_pause_end_ns(uint64_t deadline_ns, uint32_t pause_ms)
{
	return deadline_ns + pause_ms * DLK_MS;
}

/* Of a deadline: when what it counts from was asked. */
static inline uint64_t dlk_asked_ns(uint64_t deadline_ns, uint32_t ttl_ms)
{
	return deadline_ns - dlk_deadline_ns(0, ttl_ms);
}

/*
 * What is due so soon goes along with what is due, so that leases of one ttl
 * fall into step and share a round trip.
 */
static inline uint64_t dlk_early_ns(uint32_t ttl_ms)
{
	return ttl_ms / 12 * DLK_MS;
}

/* The keeper renews what the process has not: it gives it an eighth of what is
 * left then. */
static inline uint64_t dlk_keeper_renew_ns(uint64_t renew_ns,
					   uint64_t deadline_ns)
{
	return renew_ns +
	       (deadline_ns > renew_ns ? (deadline_ns - renew_ns) / 8 : 0);
}

/* How long a claim lives, and a waiter that is not heard of. */
static inline uint32_t dlk_claim_ttl_ms(uint32_t ttl_ms)
{
	return ttl_ms / 2 < 2000 ? ttl_ms / 2 : 2000;
}

/*
 * A claim, held since a moment ago, becomes a lease by its first renewal; short
 * critical sections end before, and never pay for it.
 */
static inline uint64_t dlk_confirm_ns(uint64_t granted_ns,
				      uint32_t claim_ttl_ms)
{
	return granted_ns +
	       (claim_ttl_ms / 8 < 40 ? claim_ttl_ms / 8 : 40) * DLK_MS;
}

/* After a renewal that failed: soon, but not in a loop. */
static inline uint64_t dlk_retry_ns(uint64_t now_ns, uint32_t ttl_ms)
{
	return now_ns + ttl_ms / 20 * DLK_MS;
}

/* What is due while another thread works on it is tried again by then. */
enum { DLK_SOON_MS = 5 };

/* How often who holds a lease looks whether the server is there still. */
static inline uint64_t dlk_look_ns(uint64_t now_ns, uint32_t ttl_ms)
{
	return now_ns + dlk_early_ns(ttl_ms);
}

/*
 * A release, a list of ranges or a downgrade is sent and not waited for.  Its
 * answer is read by the next who asks there, or by the thread after this time;
 * what failed is sent again after that; and a lease that nobody has renewed for
 * its ttl and so much more has expired on any server.
 */
enum { DLK_UNREAD_MS = 25, DLK_RESEND_MS = 100, DLK_EXPIRED_MS = 1000 };

/* A lock held longer than this is handed to the keeper as well (L4). */
static inline uint64_t dlk_handover_ns(uint64_t granted_ns)
{
	return granted_ns + 50 * DLK_MS;
}

/*
 * A keeper that leaves a message without an answer for so long is dead, and
 * replaced (L4): early enough for the next one to take the lease over, late
 * enough for a busy machine.  Only who ends or splits the process waits for it.
 * It is dead if it is still silent a moment after it was first found to be.
 * One that has just been started has more time for its first answer.
 */
enum {
	DLK_KEEPER_DOUBT_MS = 20,
	DLK_KEEPER_START_MS = 1000,
	DLK_KEEPER_BORN_MS = 5000
};

static inline uint64_t dlk_keeper_patience_ns(uint32_t ttl_ms)
{
	const uint64_t ms = ttl_ms / 12;

	return (ms < 50 ? 50 : ms > 500 ? 500 : ms) * DLK_MS;
}

/*
 * One that is on its way to an answer, but for a core or a lock of the kernel's,
 * has so long in all: the next one would have none either, and cost its start.
 * Before its first answer it has BORN_MS, if it lacks a core and our thread renews
 * meanwhile: with it ends nothing but its start.
 */
static inline uint64_t dlk_keeper_starved_ns(uint32_t ttl_ms)
{
	const uint32_t ms = ttl_ms / 3;

	return (ms > 2000 ? 2000 : ms) * DLK_MS;
}

/*
 * Decorrelated jitter: the next pause is drawn from [5 ms, 3 x the last one],
 * or up to 60 ms, so that a waiter on another host owns a lock within 100 ms of
 * its end, though nobody wakes it; and it is at most what is left of the
 * holder's lease (0: unknown) plus 1 ms, for that is when it can be free.
 * `random` is any 32 bits.
 */
static inline uint64_t dlk_backoff_ns(uint64_t last_ns, uint64_t left_ns,
				      uint32_t random)
{
	const uint64_t low = 5 * DLK_MS, high = 60 * DLK_MS;
	uint64_t top = last_ns < low ? 3 * low : 3 * last_ns, pause;

	if (top > high)
		top = high;
	pause = low + (top - low) / 65536 * (random & 0xffff);
	if (left_ns && pause > left_ns + DLK_MS)
		pause = left_ns + DLK_MS;
	return pause;
}

#endif
