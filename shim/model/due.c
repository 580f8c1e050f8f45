/* SPDX-License-Identifier: MIT */
/* Fredman, Sedgewick, Sleator, Tarjan: "The pairing heap", 1986; see due.h. */
#include "model/due.h"

#include <stddef.h>

/* Two heaps, or NULL, are one: the later root becomes a child of the other. */
static struct dlk_due *meld(struct dlk_due *a, struct dlk_due *b)
{
	struct dlk_due *first = b, *child = a;

	if (!a || !b)
		return a ? a : b;
	if (a->at_ns <= b->at_ns) {
		first = a;
		child = b;
	}
	child->next = first->child;
	if (child->next)
		child->next->pprev = &child->next;
	child->pprev = &first->child;
	first->child = child;
	first->next = NULL;
	return first;
}

/* Of siblings one heap: by pairs, and then the pairs from the last one on. */
static struct dlk_due *meld_all(struct dlk_due *list)
{
	struct dlk_due *pairs = NULL, *all = NULL;

	while (list) {
		struct dlk_due *a = list, *b = a->next, *pair;

		list = b ? b->next : NULL;
		pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct dlk_due *pair = pairs;

		pairs = pair->next;
		pair->next = NULL;
		all = meld(all, pair);
	}
	return all;
}

static void add(struct dlk_dues *dues, struct dlk_due *heap)
{
	dues->first = meld(dues->first, heap);
	if (dues->first)
		dues->first->pprev = &dues->first;
}

void dlk_due_clear(struct dlk_dues *dues, struct dlk_due *d)
{
	struct dlk_due *children = d->child;

	if (!d->pprev)
		return;
	*d->pprev = d->next;
	if (d->next)
		d->next->pprev = d->pprev;
	d->child = d->next = NULL;
	d->pprev = NULL;
	add(dues, meld_all(children));
}

void dlk_due_set(struct dlk_dues *dues, struct dlk_due *d, uint64_t at_ns)
{
	dlk_due_clear(dues, d);
	d->at_ns = at_ns;
	if (at_ns != UINT64_MAX)
		add(dues, d);
}

unsigned dlk_dues_take(struct dlk_dues *dues, uint64_t now_ns,
		       struct dlk_due **taken, unsigned most)
{
	unsigned n = 0;

	while (n < most && dues->first) {
		struct dlk_due *d = dues->first;

		if (d->at_ns > now_ns + (n ? d->early_ns : 0))
			break;
		dlk_due_clear(dues, d);
		taken[n++] = d;
	}
	return n;
}
