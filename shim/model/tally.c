/* SPDX-License-Identifier: MIT */
/* The votes of n masters; see tally.h. */
#include "model/tally.h"

static void note_first(struct tally *t, unsigned master, bool yes)
{
	if (master >= t->first)
		return;
	t->first = master;
	t->first_yes = yes;
}

void dlk_tally_yes(struct tally *t, unsigned master)
{
	t->yes++;
	note_first(t, master, true);
}

void dlk_tally_no(struct tally *t, unsigned master, uint64_t holder)
{
	unsigned i = 0;

	t->no++;
	note_first(t, master, false);
	while (i < t->n_refusals &&
	       (!holder || t->refusals[i].holder != holder))
		i++;
	if (i == t->n_refusals)
		t->refusals[t->n_refusals++].holder = holder;
	t->refusals[i].n++;
}

void dlk_tally_silent(struct tally *t, bool passing)
{
	t->silent++;
	t->passing += passing;
}

enum tally_state dlk_tally_state(const struct tally *t)
{
	if (t->yes >= dlk_majority(t->n))
		return TALLY_YES;
	return t->n - t->no - t->silent < dlk_majority(t->n) ? TALLY_NO
							     : TALLY_OPEN;
}

bool dlk_tally_is_split(const struct tally *t)
{
	const unsigned open = t->n - t->yes - t->no;

	if (t->no == 0)
		return false;
	for (unsigned i = 0; i < t->n_refusals; i++)
		if (!t->refusals[i].holder ||
		    t->refusals[i].n + open >= dlk_majority(t->n))
			return false;
	return true;
}
