/* SPDX-License-Identifier: MIT */
/*
 * The server has a newer token of our host and file in place of a lease's: a process
 * of this host has taken the lock since, and proved it (DESIGN L3).  Mostly ours had
 * ended by then.  But who shares the description has asked for what is there yet,
 * and may be killed before a keeper knows of it, or never have the answer:
 *
 *	exec 9>f; flock 9	its keeper		flock -x 9
 *	granted, ended		has it
 *							proof ->
 *							killed
 *				renew ->
 *				replaced: whose is it?
 *
 *  1. While our lock may be there, what the server has is its lease, and is carried on
 *     as such, be it carried by others as well.
 *  2. A lock that an exclusive one of another taker stands in place of is gone, but
 *     for a shared one: it may have been converted (locks.c, 3).
 *  3. That the newer one is lost is for who took it over to see to, if he lives: he may
 *     have released it, and be about to unlock.  So he has the time to (carry.c,
 *     is_lost).
 *
 * What stays without a lock (hold_at_least) is nobody's.  Of record locks the kernel
 * does not tell whose they are: theirs is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "keeper/keeper.h"

static bool may_be_there(const struct dlk_kept *k, uint64_t *taker)
{
	*taker = k->guard.pid;
	if (k->shadow)
		return dlk_shadow_copy_is_locked(k->shadow);
	if (dlk_watch_free_at(k->watch) > k->add.granted_ns)
		return false;
	return dlk_guard_is_exclusive(&k->guard,
				      dlk_watch_is_shut(k->watch) ||
					      dlk_watch_is_blocked(k->watch),
				      taker);
}

static bool adopt(struct dlk_kept *k, const char *token, uint64_t taker)
{
	char *copy = strdup(token);

	if (!copy)
		return false;
	free(k->newer);
	k->newer = copy;
	k->lease.token = copy;
	k->lease.token_len = strlen(copy);
	k->lease.shared = false;
	k->reads = false;
	if (!k->shadow)
		dlk_guard_convert(&k->guard, taker);
	return true;
}

enum dlk_takeover dlk_takeover(struct dlk_kept *k, const char *token)
{
	uint64_t taker;
	bool older;

	if (k->add.kind != DLK_KEPT_FLOCK ||
	    !dlk_token_same_place(k->lease.token, k->lease.token_len, token,
				  strlen(token), &older))
		return DLK_OTHERS_LOCK;
	if (!k->shadow && k->guard.mode && !dlk_locks_look())
		return DLK_UNTOLD;
	if (!may_be_there(k, &taker))
		return DLK_OTHERS_LOCK;
	return adopt(k, token, taker) ? DLK_TAKEN_OVER : DLK_UNTOLD;
}

bool dlk_takeover_of_reader(struct dlk_kept *k)
{
	struct dlk_attempt at = dlk_section_attempt(k->section);
	struct dlk_store *s = k->section->store;
	char newer[DLK_TOKEN_MAX];
	struct dlk_renewal r = { .lease = &k->lease,
				 .deadline_ns = k->deadline_ns,
				 .newer = newer };
	uint64_t taker;

	if (!k->lease.shared || s->silent || !may_be_there(k, &taker))
		return false;
	s->ops->renew(s, &at, &r, 1);
	return r.result == DLK_REPLACED && k->state == DLK_KEPT &&
	       dlk_takeover(k, newer) == DLK_TAKEN_OVER;
}
