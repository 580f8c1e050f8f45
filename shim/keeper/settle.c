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
 *  2. A thread that waits in the kernel for the end is given NOTICE_MS to run;
 *     all else is looked at once, but not while we have the descriptor ourselves,
 *     which a thread closes where a file server may be dead (errand.c).
 *  3. The answer MUST come in time: a server that is away keeps nobody.
 */
#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { NOTICE_MS = 5, GIVE_UP_MS = 20 };

static struct {
	uint32_t seq; /* 0: nobody waits */
	uint64_t since_ns;
	bool looked;
} asked;

void dlk_settle_begin(uint32_t seq)
{
	asked.seq = seq;
	asked.since_ns = dlk_now_ns();
	asked.looked = false;
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->by == DLK_LEFT)
			dlk_watch_stir(k->watch);
}

/* A look hears the shim, too: of what was closed amidst it, it says nothing. */
void dlk_settle_looked(uint64_t began_ns)
{
	asked.looked |= began_ns >= asked.since_ns;
}

/* May it end yet, by this close? */
static bool is_open(const struct dlk_kept *k, uint64_t now_ns)
{
	if (k->by != DLK_LEFT)
		return false;
	if (k->state != DLK_KEPT || dlk_watch_is_lent(k->watch))
		return true;
	if (k->kind == DLK_KEPT_FLOCK && dlk_watch_waits(k->watch))
		return now_ns < asked.since_ns + NOTICE_MS * DLK_MS;
	return !asked.looked;
}

void dlk_settle(void)
{
	const uint64_t now = dlk_now_ns();
	bool open = false;

	if (!asked.seq)
		return;
	for (struct dlk_kept *k = dlk_carried; k && !open; k = k->next)
		open = is_open(k, now);
	if (open && now < asked.since_ns + GIVE_UP_MS * DLK_MS)
		return;
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->by == DLK_LEFT && k->state == DLK_KEPT)
			k->by = DLK_BY_OTHERS;
	dlk_shim_answer(asked.seq, DLK_KEEP_SETTLED);
	asked.seq = 0;
}

uint64_t dlk_settle_due_ns(void)
{
	return asked.seq ? dlk_now_ns() + DLK_MS : UINT64_MAX;
}
