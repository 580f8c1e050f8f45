/* SPDX-License-Identifier: MIT */
/*
 * What the shim's messages (protocol.h) have done.  None of them is waited for:
 * they are obeyed while Redis is waited for, too (carry.c).
 */
#include <errno.h>
#include <stddef.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "model/timeline.h"
#include "model/seeded.h"

static bool stays; /* without a lease too, for as long as the shim lives */

bool dlk_shim_wants_us(void)
{
	return stays && dlk_shim_lives() && !dlk_shim_is_mute();
}

/* --- is it a message? ----------------------------------------------------- */

static bool ends_at(const char *bytes, size_t len)
{
	return bytes[len] == '\0';
}

static bool is_add(const struct dlk_keep_add *m, size_t n)
{
	size_t key, token, ranges_key;

	if (n < sizeof(*m) || m->key_len > DLK_KEY_MAX ||
	    m->token_len >= DLK_TOKEN_MAX ||
	    m->ranges_key_len > DLK_KEY_MAX + 8)
		return false;
	key = m->key_len;
	token = m->token_len;
	ranges_key = m->ranges_key_len;
	return n == sizeof(*m) + key + token + ranges_key + 3 &&
	       ends_at(m->bytes, key) && ends_at(m->bytes + key + 1, token) &&
	       ends_at(m->bytes + key + token + 2, ranges_key) &&
	       m->kind <= DLK_KEPT_OFD && m->on_lost <= DLK_LOST_REPORT &&
	       m->pause_ms <= DLK_TTL_MAX_MS && m->ttl_ms > 0 &&
	       m->ttl_ms <= DLK_TTL_MAX_MS && m->pid > 0 &&
	       m->stays_until_ns <= m->granted_ns + DLK_TTL_MAX_MS * DLK_MS &&
	       m->pid <= INT32_MAX &&
	       (m->kind == DLK_KEPT_FLOCK) == !ranges_key;
}

static bool is_well_formed(const struct dlk_keep *m, size_t n)
{
	if (n < sizeof(*m) || m->magic != DLK_KEEP_MAGIC)
		return false;
	switch (m->type) {
	case DLK_KEEP_ADD:
		return is_add((const struct dlk_keep_add *)m, n);
	case DLK_KEEP_RENEWED:
		return (n - sizeof(*m)) % sizeof(struct dlk_keep_renewal) == 0;
	case DLK_KEEP_CUT:
		return n == sizeof(struct dlk_keep_cut) &&
		       ((const struct dlk_keep_cut *)m)->ttl_ms > 0 &&
		       ((const struct dlk_keep_cut *)m)->ttl_ms <=
			       DLK_TTL_MAX_MS;
	case DLK_KEEP_DROP:
	case DLK_KEEP_OWE:
	case DLK_KEEP_LEFT:
	case DLK_KEEP_CLOSED:
	case DLK_KEEP_STAY:
	case DLK_KEEP_READY:
		return n == sizeof(*m);
	default:
		return false; /* START is over */
	}
}

/* --- what it asks for ----------------------------------------------------- */

static void obey_renewed(const struct dlk_keep_renewed *m, size_t n)
{
	const size_t end = (n - sizeof(*m)) / sizeof(*m->renewals);

	for (size_t i = 0; i < end; i++) {
		struct dlk_kept *k = dlk_carried_find(m->renewals[i].lease);

		if (k)
			dlk_carry_renewed(k, m->renewals[i].deadline_ns,
					  m->renewals[i].timed);
	}
}

static void obey_cut(const struct dlk_keep_cut *m)
{
	struct dlk_kept *k = dlk_carried_find(m->head.lease);

	if (k)
		dlk_carry_cut(k, m->ttl_ms);
}

/* For all of them: who is stopped can say it of no other one. */
static void obey_ready(void)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	k->ready = true;
}

/* What was granted is over, or may be. */
static void obey_end(const struct dlk_keep *m)
{
	struct dlk_kept *k = dlk_carried_find(m->lease);

	if (!k)
		return;
	/* By itself, just before it was stopped. */
	if (m->type != DLK_KEEP_LEFT && k->holders == DLK_HOLDERS_PAUSED)
		dlk_carry_holders(k, DLK_HOLDERS_RUN);
	if (m->type == DLK_KEEP_DROP) {
		dlk_carry_given_up(k);
	} else if (m->type == DLK_KEEP_OWE) {
		dlk_carry_owe(k);
	} else {
		if (k->by == DLK_BY_PROCESS)
			dlk_carry_by(k, DLK_LEFT);
		dlk_watch_stir(k->watch);
	}
}

/*
 * A downgrade keeps its token (DESIGN 11.5): what was carried by that is this lease
 * from here on.  Its shim would tell us to drop it next, and may not live to.
 */
static int obey_add(const struct dlk_keep_add *m, int *fds)
{
	const int status = dlk_carry(m, fds);
	const struct dlk_kept *k = dlk_carried_find(m->head.seq);
	const struct dlk_kept *twin = k ? dlk_carried_twin(k) : NULL;

	if (twin)
		obey_end(&(struct dlk_keep){ .type = DLK_KEEP_DROP,
					     .lease = twin->number });
	return status;
}

/* As dlk_carry(): 0, -errno, or 1 for an answer that comes later. */
static int act(const struct dlk_keep *m, size_t n, int *fds)
{
	switch (m->type) {
	case DLK_KEEP_ADD:
		return obey_add((const struct dlk_keep_add *)m, fds);
	case DLK_KEEP_RENEWED:
		obey_renewed((const struct dlk_keep_renewed *)m, n);
		break;
	case DLK_KEEP_CUT:
		obey_cut((const struct dlk_keep_cut *)m);
		break;
	case DLK_KEEP_READY:
		obey_ready();
		break;
	case DLK_KEEP_CLOSED:
		dlk_settle_begin(m->seq);
		break;
	case DLK_KEEP_STAY:
		stays = true;
		dlk_mirror_owed()->stays = true;
		break;
	default:
		obey_end(m);
	}
	return 0;
}

int dlk_obey_message(const struct dlk_keep *m, size_t n, int *fds)
{
	return is_well_formed(m, n) ? act(m, n, fds) : -EPROTO;
}

/* --- all that it says ----------------------------------------------------- */

/*
 * One that has not got what it needs is heard again when the watchdogs have given up
 * theirs.
 */
static bool hear_one(struct dlk_heard *h, int *status)
{
	for (int tries = 0; tries < 2; tries++) {
		if (!dlk_hear(h))
			return false;
		*status =
			h->err ?: dlk_obey_message(h->m, (size_t)h->n, h->fds);
		if (*status != -EMFILE || tries)
			break;
		dlk_heard_close(h);
		dlk_watchdog_rest();
	}
	return true;
}

/* The standby knows of it before it is answered. */
static bool obey_one(void)
{
	struct dlk_heard h;
	int status;

	if (!hear_one(&h, &status))
		return false;
	if (!h.err && status <= 0) {
		dlk_mirror_owed()->answered = h.m->seq;
		dlk_mirror_owed()->status = status;
	}
	dlk_mirror_flush();
	dlk_heard(&h, status);
	return true;
}

/*
 * The other keeper has ended after it had acted on a message, and perhaps
 * before it was answered.  (An answer that comes twice says nothing new.)
 */
void dlk_obey_wake(const struct dlk_owed *owed)
{
	/* Our own standby is to know it, too. */
	*dlk_mirror_owed() = *owed;
	stays = owed->stays;
	if (owed->answered)
		dlk_shim_answer(owed->answered, owed->status);
	if (owed->settling)
		dlk_settle_begin(owed->settling);
}

/* What was told of its leases is all that will be. */
static void shim_ended(bool mute)
{
	struct dlk_kept *k;

	if (mute)
		dlk_carry_mute_ended();
	LIST_FOREACH(k, &dlk_carried, next)
	{
		dlk_watch_stir(k->watch);
		dlk_carry_uncut(k);
		if (dlk_seeded(12))
			dlk_carry_owe(k);
	}
}

/* Of many not one alone, for each round looks at all leases; nor for ever. */
void dlk_obey(void)
{
	const bool lived = dlk_shim_lives(), mute = dlk_shim_is_mute();

	for (int i = 0; i < 64 && dlk_shim_lives() && obey_one(); i++)
		;
	if (lived && !dlk_shim_lives())
		shim_ended(mute);
}

/* A close is kept by no server, the one that we ask just now neither. */
static void obey_meanwhile(void)
{
	dlk_obey();
	dlk_settle(true);
	dlk_watchdog_mark();
}

static bool start(const struct dlk_keep_server *servers, unsigned n)
{
	return dlk_carry_begin(servers, n, obey_meanwhile);
}

bool dlk_obey_begin(int fd)
{
	return dlk_hear_begin(fd, start);
}
