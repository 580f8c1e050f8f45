/* SPDX-License-Identifier: MIT */
/*
 * One hold: what this process knows of one lease that it has.
 *
 *	install --> HELD --convert--> CONVERTING
 *		     |  <-converted--     |
 *		     `--------+-----------'
 *	  unlocked, closed    |   lost, replaced, superseded,
 *			      |   the keeper's
 *		 RELEASING <--+--> ENDED --last pin, last answer--> FREE
 *		     |               ^
 *		     `-acknowledged--'
 *		       or expired
 *
 * hold.c alone writes the state and the deadline.  The counts that the hooks
 * look at (dlk_any_held, dlk_any_owed) follow from the state.
 */
#ifndef DLK_HOLD_H
#define DLK_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/queue.h>

#include "config/config.h"
#include "hold/self.h"
#include "lease/store.h"
#include "model/due.h"
#include "model/outbox.h"
#include "model/range.h"
#include "model/timeline.h"
#include "os/proc.h"

enum hold_state {
	HOLD_FREE,
	HOLD_HELD,       /* a lease that we renew */
	HOLD_CONVERTING, /* the same; a call changes its mode just now */
	HOLD_RELEASING,  /* its release is not acknowledged yet */
	HOLD_ENDED,      /* freed as soon as nobody works on it */
};

/* How far its renewal has failed, by the marks of its timeline; each is said
 * once. */
enum hold_trouble {
	HOLD_WELL,
	HOLD_FAILING,  /* to be renewed, since it last was */
	HOLD_WARNED,   /* for long */
	HOLD_READY,    /* "pause": the keeper is to stop us now */
	HOLD_OUTLIVED, /* its last mark has passed: "hold" goes on */
};

/*
 * One lease of this process.  Guarded by the mutex, but for `lease`, which is
 * const but for three things: the ttl that is cut once (container.c), `shared`
 * of what is weakened, and stays_until_ns of what turns out never to have been
 * held.
 */
struct dlk_hold {
	struct dlk_due due;    /* in schedule.c */
	struct dlk_due unsaid; /* something is still to be said of it */
	struct dlk_due mark;   /* in schedule.c: the next one on its timeline */
	struct dlk_due kill, pause; /* in backstop.c */
	LIST_ENTRY(dlk_hold)
	undelegated; /* in schedule.c; le_prev is NULL of
					     one that is not there */
	enum hold_state state;
	unsigned conversions; /* that calls have begun; one that came and went
				 is not seen by the state */
	bool weakens;         /* CONVERTING: to a shared one, by its token */
	struct dlk_hold *next, **pprev; /* in holds.c */
	struct dlk_hold *chain;         /* of those with its file's hash */
	unsigned pins;                  /* who work on it, without the mutex */
	enum dlk_kind kind;
	struct dlk_file file;
	int fd;         /* one of its description, last known */
	int program_fd; /* of a shadow's lease: the program's own; else -1 */
	const struct dlk_rule *rule;
	struct {
		uint64_t granted_ns, deadline_ns, renew_ns;
		uint32_t span_ms;   /* what the deadline counts: the ttl, or a
				     claim's life */
		uint64_t robbed_ns; /* another's, or nobody's, since; or 0 */
		enum hold_trouble trouble;
		bool ready;       /* in backstop.c: by that it counts */
		bool stands_back; /* for one that is, until renewed itself */
		bool elsewhere;   /* only the keeper that carries it knows the
				     deadline, until it is renewed here */
	} valid;
	struct outbox out; /* what is still to be said to the server */
	struct {
		uint32_t number; /* it was asked to carry it by this; 0: it was
				    not, or hears us no more */
		bool carried;    /* it says so */
		uint64_t known_until_ns; /* the deadline that it knows of */
		uint64_t due_ns;         /* to be asked, by the thread */
		uint64_t refused_ns;     /* when it did not take it; 0: never */
		unsigned deaths; /* of those that were asked, in a row */
	} keeper;
	bool revalidates; /* caches are refreshed and flushed (L10) */
	bool told_replaced;
	bool asks; /* records: a call asks for more of it just now */

	/* Records; the first two guarded by the file's file_lock (record.c). */
	struct dlk_ranges ranges; /* what is granted */
	uint64_t seq;             /* of the last request */
	uint64_t seen_seq;        /* what the server has seen at least */
	uint64_t since_ns;        /* of the last grant, as in a token */

	size_t size;            /* of this object */
	struct dlk_lease lease; /* points into bytes */
	char bytes[];
};

/* The hold that this is the member of. */
#define dlk_hold_of(due, member)                                               \
	((struct dlk_hold *)(void *)((char *)(due)-offsetof(struct dlk_hold,   \
							    member)))

/* HELD or CONVERTING: there is a lease. */
static inline bool dlk_hold_is_held(const struct dlk_hold *h)
{
	return h->state == HOLD_HELD || h->state == HOLD_CONVERTING;
}

/*
 * HELD, or weakened just now: its token stays.  What else is CONVERTING is given up
 * for what the call asks for, or goes on afterwards.
 */
static inline bool dlk_hold_goes_on(const struct dlk_hold *h)
{
	return h->state == HOLD_HELD ||
	       (h->state == HOLD_CONVERTING && h->weakens);
}

/* When it was asked for by what it is held. */
static inline uint64_t dlk_hold_asked_ns(const struct dlk_hold *h)
{
	return dlk_asked_ns(h->valid.deadline_ns, h->valid.span_ms);
}

static inline uint64_t dlk_hold_warn_ns(const struct dlk_hold *h)
{
	return dlk_warn_ns(dlk_hold_asked_ns(h), h->valid.span_ms);
}

/*
 * The last mark: from then on a lease of this rule is lost, unless it is
 * renewed before.  A grant that comes later was never one.
 */
static inline uint64_t dlk_final_ns(const struct dlk_rule *rule,
				    uint64_t deadline_ns, uint32_t span_ms)
{
	return dlk_lost_stops(rule->on_lost) ? dlk_stop_ns(deadline_ns, span_ms)
					     : deadline_ns;
}

/* The keeper stops its holders at the stop mark, and lets them go on.  (No
 * process 1 can be stopped.) */
static inline bool dlk_hold_pauses(const struct dlk_hold *h)
{
	return h->rule->on_lost == DLK_LOST_PAUSE && h->keeper.carried &&
	       dlk_self.pid != 1;
}

/* So it is, and the keeper was told that the timer here stands back: of this
 * lease, or of another, for who is stopped can say no more of any. */
static inline bool dlk_hold_is_paused(const struct dlk_hold *h)
{
	return dlk_hold_pauses(h) &&
	       (h->valid.trouble >= HOLD_READY || h->valid.stands_back);
}

/* When the keeper stops them: by our last renewal that it was told of, which
 * may be the last but one (dlk_schedule_is_news). */
static inline uint64_t dlk_hold_stop_ns(const struct dlk_hold *h)
{
	return dlk_stop_ns(h->keeper.known_until_ns < h->valid.deadline_ns
				   ? h->keeper.known_until_ns
				   : h->valid.deadline_ns,
			   h->valid.span_ms);
}

static inline uint64_t dlk_hold_final_ns(const struct dlk_hold *h)
{
	/* Who runs then was not stopped, or was continued by somebody else. */
	if (dlk_hold_is_paused(h))
		return h->valid.deadline_ns;
	/* The keeper comes first, while it can see who works under the lock. */
	if (dlk_lost_stops(h->rule->on_lost) && h->keeper.carried)
		return dlk_backstop_ns(h->valid.deadline_ns, h->valid.span_ms);
	return dlk_final_ns(h->rule, h->valid.deadline_ns, h->valid.span_ms);
}

/* Its holder goes on beyond its last mark, until somebody else has it. */
static inline bool dlk_hold_outlives(const struct dlk_hold *h)
{
	return h->rule->on_lost == DLK_LOST_HOLD;
}

/* The program's descriptor of its file, last known. */
static inline int dlk_hold_program_fd(const struct dlk_hold *h)
{
	return h->program_fd >= 0 ? h->program_fd : h->fd;
}

/* A flock lease's, of which the kernel's has the same. */
static inline int dlk_hold_mode(const struct dlk_hold *h)
{
	return h->lease.shared ? LOCK_SH : LOCK_EX;
}

/* --- its state and deadline: with the mutex of holds.h --------------------- */

/*
 * Granted: into the table, and pinned by the caller.  The request was sent at
 * asked_ns; or it is held by a claim of that life, which counts from then (0:
 * by none).  Returns when it is to be looked at first.
 */
uint64_t dlk_hold_install(struct dlk_hold *h, uint64_t asked_ns,
			  uint32_t claim_ms);
/*
 * Renewed, or granted more: that was asked for at asked_ns.  Returns the same.
 */
uint64_t dlk_hold_extend(struct dlk_hold *h, uint64_t asked_ns);
/* Nobody renews it, but nobody else is granted it before then, either. */
void dlk_hold_keep(struct dlk_hold *h, uint64_t deadline_ns);
/*
 * The keeper has renewed it, until then.  `lasting`: whoever hears that will
 * hear of the next time, too.
 */
void dlk_hold_heard(struct dlk_hold *h, uint64_t deadline_ns, bool lasting);
/* It was not renewed just now: soon again. */
void dlk_hold_retry(struct dlk_hold *h, uint64_t now_ns);
/* To be renewed by then, at the latest. */
void dlk_hold_hurry(struct dlk_hold *h, uint64_t by_ns);
/* From here on whoever renews it renews it by this ttl. */
void dlk_hold_cut(struct dlk_hold *h, uint64_t now_ns, uint32_t ttl_ms);
/*
 * Nobody here renews it from here on: the keepers alone do, if they have it, and
 * are not killed for a stall, which would end it.
 */
void dlk_hold_left(const struct dlk_hold *h);
/* All: the process ends, or becomes another program, and could tell no next keeper. */
void dlk_hold_left_all(void);
/* The longest ttl of what was left to them; 0: nothing was.  Wants no lock. */
uint32_t dlk_keepers_ttl_ms(void);
void dlk_keepers_have_nothing(void); /* there are none, or new ones */
/*
 * From here on only the keeper renews what it carries: one, or all.  Until the
 * next renewal by us nobody here knows how long these are held.
 */
void dlk_hold_leave(struct dlk_hold *h);
void dlk_hold_leave_all(void);
/*
 * The thread is there again: what is known to be held for long enough yet is
 * renewed as ever, and the rest at once.
 */
void dlk_hold_return_all(void);
/* A call is about to change its mode; or to weaken it, which keeps its token. */
void dlk_hold_convert(struct dlk_hold *h);
void dlk_hold_convert_weaker(struct dlk_hold *h);
/* It did not: the kernel has it as it was. */
void dlk_hold_unchanged(struct dlk_hold *h);
/* It is a shared one from here on, and the server is yet to hear of it; false:
   it is held no more. */
bool dlk_hold_weaken(struct dlk_hold *h, uint64_t now_ns);
/*
 * Given up: no renewal from here on, and the release is still to be said, by
 * the caller first (release.c).
 */
void dlk_hold_release(struct dlk_hold *h);
/* The same, of what was never held, but Redis may have. */
void dlk_hold_install_released(struct dlk_hold *h);
/* It is over, and nothing more is to be said of it. */
void dlk_hold_drop(struct dlk_hold *h);

/* Nobody frees it, and who is done with it; of NULL nothing is.  Returns h. */
struct dlk_hold *dlk_hold_pin(struct dlk_hold *h);
void dlk_hold_unpin(struct dlk_hold *h);

/* --- (mutex not held) ----------------------------------------------------- */

void dlk_unpin(struct dlk_hold *h);
/* The next after `from`, or the first, that matches; `from` is unpinned. */
typedef bool dlk_match_fn(const struct dlk_hold *h, const void *arg);
struct dlk_hold *dlk_hold_next(struct dlk_hold *from, dlk_match_fn *match,
			       const void *arg);
/*
 * *at, pinned, and those after it that match and are of the same server, at
 * most `most`: pinned; how many.  *at is the next one then, pinned, or NULL.
 */
unsigned dlk_hold_next_some(struct dlk_hold **at, dlk_match_fn *match,
			    struct dlk_hold **all, unsigned most);
void dlk_unpin_all(struct dlk_hold *const *all, unsigned n);

/* Are there any that are held, or to be released?  For the hooks' fast path. */
bool dlk_any_held(void);
bool dlk_any_owed(void);
void dlk_hold_forget(void); /* in a child: there are none */

#endif
