/* SPDX-License-Identifier: MIT */
/*
 * What is due, the first one first: a pairing heap, so that a look costs what
 * is due and not what there is.
 *
 * A node is a part of what it stands for, so nothing here needs memory or can
 * fail; one that was never set, zeroed, is in no heap.  Pure.
 */
#ifndef DLK_DUE_H
#define DLK_DUE_H

#include <stdbool.h>
#include <stdint.h>

struct dlk_due {
	uint64_t at_ns;
	uint64_t early_ns; /* it may be done so much earlier, with others */
	struct dlk_due *child, *next, **pprev;
};

/* Zeroed, it is empty. */
struct dlk_dues {
	struct dlk_due *first;
};

/* Put it in, or move it; UINT64_MAX, never: take it out. */
void dlk_due_set(struct dlk_dues *dues, struct dlk_due *d, uint64_t at_ns);
/* Take it out, if it is in. */
void dlk_due_clear(struct dlk_dues *dues, struct dlk_due *d);

static inline bool dlk_due_is_set(const struct dlk_due *d)
{
	return d->pprev;
}

/* When something is due next; UINT64_MAX: nothing is. */
static inline uint64_t dlk_dues_ns(const struct dlk_dues *dues)
{
	return dues->first ? dues->first->at_ns : UINT64_MAX;
}

/*
 * If something is due, take it out, and what may be done along with it, but no
 * more than `most`; how many these are.
 */
unsigned dlk_dues_take(struct dlk_dues *dues, uint64_t now_ns,
		       struct dlk_due **taken, unsigned most);

#endif
