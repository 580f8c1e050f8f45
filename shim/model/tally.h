/* SPDX-License-Identifier: MIT */
/*
 * The votes of n masters on one question (mode = "quorum"): what they come to,
 * and whether that can change yet.  A majority is more than half of all, whether
 * they are there or not.
 *
 * A vote is a result of lease/store.h: 0 yes; positive, no, and why; negative,
 * there was none.  Pure.
 */
#ifndef DLK_TALLY_H
#define DLK_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum { DLK_MASTERS_MIN = 3, DLK_MASTERS_MAX = 15 };

/* Of those that say no, each by who is in the way there. */
struct tally_refusal {
	uint64_t holder; /* a hash of its token; 0: unknown */
	unsigned n;
};

struct tally {
	unsigned n;               /* masters */
	unsigned yes, no, silent; /* votes; `silent`: there will be none */
	unsigned passing;         /* of those, may vote when asked again */
	unsigned first;           /* the first master that voted, */
	bool first_yes;           /* and how */
	unsigned n_refusals;      /* kinds of them */
	struct tally_refusal refusals[DLK_MASTERS_MAX];
};

enum tally_state { TALLY_OPEN, TALLY_YES, TALLY_NO };

static inline unsigned dlk_majority(unsigned n)
{
	return n / 2 + 1;
}

static inline struct tally dlk_tally(unsigned n)
{
	return (struct tally){ .n = n, .first = n };
}

void dlk_tally_yes(struct tally *t, unsigned master);
/* holder: a hash, or 0. */
void dlk_tally_no(struct tally *t, unsigned master, uint64_t holder);
/* It does not vote; `passing`: not now. */
void dlk_tally_silent(struct tally *t, bool passing);

enum tally_state dlk_tally_state(const struct tally *t);

/*
 * TALLY_NO: nobody has, or can have, a majority, for several ask at the same
 * moment and each has some:
 *
 *	we		M1	M2	M3		others
 *	ask ->		ours	b's	c's		<- ask
 *
 * Of these the one goes on that has the first master (`first_yes`), and the
 * others give up what they have: all of them know that master's answer, so
 * exactly one goes on.
 */
bool dlk_tally_is_split(const struct tally *t);

#endif
