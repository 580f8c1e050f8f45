/* SPDX-License-Identifier: MIT */
/*
 * The shim has closed a lock's last descriptor of its process, and its close(2)
 * waits for our word: then what another host is told after that is true.
 *
 *	the program		the keeper		another host
 *	LEFT ->
 *	close(2)
 *	CLOSED ->
 *				gone: release ->
 *		<- settled
 *	"it is yours"						LOCK_NB: granted
 *
 *  1. What is there after that is another process's, and waited for no more.
 *  2. A thread that was woken from its wait for the end is given WOKEN_MS to
 *     run (at a file server, which wakes later, NOTICE_MS in any case), and so
 *     is one that closes a descriptor of it, which we were told of it by
 *     (errand.c); all else is looked at once.
 *  3. The answer MUST come in time: a server that is away keeps nobody.  While one
 *     is asked, and be it to release just this, that is WOKEN_MS; and who closed
 *     first waits no longer than that for those who closed after him.
 */
#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { NOTICE_MS = 5, GIVE_UP_MS = 20, WOKEN_MS = 250 };

static struct {
	uint32_t seq; /* of the last who waits; 0: nobody does */
	uint64_t since_ns;
	uint32_t first_seq; /* who waits for longest */
	uint64_t first_ns;
	bool looked;
} asked;

void dlk_settle_begin(uint32_t seq)
{
	struct dlk_kept *k;

	asked.since_ns = dlk_now_ns();
	if (!asked.seq) {
		asked.first_seq = seq;
		asked.first_ns = asked.since_ns;
	}
	asked.seq = seq;
	asked.looked = false;
	dlk_mirror_owed()->settling = seq;
	LIST_FOREACH(k, &dlk_carried_left, left)
	dlk_watch_stir(k->watch);
}

/* A look hears the shim, too: of what was closed amidst it, it says nothing. */
void dlk_settle_looked(uint64_t began_ns)
{
	asked.looked |= began_ns >= asked.since_ns;
}

/*
 * For how long it may end yet, by this close.  A thread that was woken and has
 * no core yet is waited for; one that sleeps, not: the lock is there.
 */
static unsigned patience_ms(const struct dlk_kept *k)
{
	if (k->state != DLK_KEPT || k->watch->unasked)
		return GIVE_UP_MS;
	/* Its server has just answered the program's close. */
	if (k->watch->lent > 0 ||
	    (k->shadow && dlk_shadow_copy_is_lent(k->shadow)))
		return WOKEN_MS;
	if (k->add.kind != DLK_KEPT_FLOCK || !k->watch->has_thread)
		return asked.looked ? 0 : WOKEN_MS;
	/* A shadow's lock is there until we have let go of our copy of it. */
	switch (k->shadow ? -1 : dlk_watch_is_blocked(k->watch)) {
	case 1:
		return 0;
	case 0:
		return WOKEN_MS;
	default:
		return NOTICE_MS;
	}
}

static bool is_early(uint64_t now, bool asking)
{
	const struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried_left, left)
	if (now <
	    asked.since_ns + (asking ? WOKEN_MS : patience_ms(k)) * DLK_MS)
		return true;
	return false;
}

/* Those who closed after him have their own time (3). */
static void answer_first(uint64_t now)
{
	if (asked.first_seq == asked.seq ||
	    now < asked.first_ns + WOKEN_MS * DLK_MS)
		return;
	dlk_shim_answer(asked.first_seq, DLK_KEEP_SETTLED);
	asked.first_seq = asked.seq;
	asked.first_ns = asked.since_ns;
}

void dlk_settle(bool asking)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_kept *k, *next;

	if (!asked.seq)
		return;
	if (is_early(now, asking)) {
		answer_first(now);
		return;
	}
	for (k = LIST_FIRST(&dlk_carried_left); k; k = next) {
		next = LIST_NEXT(k, left);
		if (k->state == DLK_KEPT)
			dlk_carry_by(k, DLK_BY_OTHERS);
	}
	dlk_mirror_owed()->settling = 0;
	dlk_mirror_flush();
	dlk_shim_answer(asked.seq, DLK_KEEP_SETTLED);
	asked.seq = 0;
}

uint64_t dlk_settle_due_ns(void)
{
	return asked.seq ? dlk_now_ns() + DLK_MS : UINT64_MAX;
}
