/* SPDX-License-Identifier: MIT */
/*
 * Handing leases to the keeper (DESIGN L4): which, when, and who waits for its
 * word.
 *
 * The renewal thread waits neither for the keeper nor for a thread that does:
 * what it asks for is sent or left for the next tick, and answers are read at a
 * tick.  Only who ends or splits the process waits, and who closes what the
 * keeper is to have first.
 */
#include "hold/end.h"
#include "hold/handover.h"

#include <errno.h>

#include "os/signals.h"
#include "os/sys.h"
#include "hold/delegation.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/keeper_client.h"
#include "hold/schedule.h"
#include "model/seeded.h"
#include "model/timeline.h"

enum { WINDOW = 32, FULL_MS = 5 };

/* --- handing over --------------------------------------------------------- */

enum progress { OVER, CARRIED, REFUSED, WAITING, UNTOLD };

/* Given back, or given up just now by a conversion: its affair no more. */
static enum progress progress_of(const struct dlk_hold *h, uint64_t began_ns)
{
	DLK_GUARD(&dlk_holds_mutex);
	return !dlk_hold_goes_on(h)               ? OVER
	       : h->keeper.carried                ? CARRIED
	       : h->keeper.number                 ? WAITING
	       : h->keeper.refused_ns >= began_ns ? REFUSED
						  : UNTOLD;
}

/* (keeper_mutex) Ask for what it was not told of; are answers to come? */
static bool ask_all(struct dlk_hold *const *all, unsigned n, uint64_t began_ns)
{
	bool open = false;

	for (unsigned i = 0; i < n; i++) {
		if (progress_of(all[i], began_ns) == UNTOLD)
			dlk_delegation_ask(all[i], true);
		open |= progress_of(all[i], began_ns) >= WAITING;
	}
	return open;
}

/* (keeper_mutex) The keepers hang, or end, one after the other. */
static void give_up(struct dlk_hold *const *all, unsigned n, uint64_t began_ns)
{
	for (unsigned i = 0; i < n; i++)
		if (progress_of(all[i], began_ns) >= WAITING)
			dlk_delegation_refused(all[i],
					       dlk_delegation_lost_by());
}

/* Who waits for it has waited as long as he may. */
static bool is_in_vain(unsigned lost_before)
{
	return dlk_delegation_lost() - lost_before >= DLK_DEATHS ||
	       dlk_keeper_is_silent();
}

/* Until each is carried, or refused. */
static void hand_over(struct dlk_hold *const *all, unsigned n)
{
	const uint64_t began = dlk_now_ns();
	unsigned lost_before;

	if (dlk_seeded(9))
		return;
	/* By a descriptor that is surely the lock's. */
	for (unsigned i = 0; i < n; i++)
		dlk_hold_is_there(all[i]);
	DLK_GUARD(&dlk_keeper_mutex);
	lost_before = dlk_delegation_lost();
	while (!is_in_vain(lost_before)) {
		uint64_t until = dlk_now_ns() + FULL_MS * DLK_MS;

		dlk_delegation_listen();
		if (!ask_all(all, n, began))
			break;
		if (dlk_keeper_look_ns() < UINT64_MAX)
			until = dlk_keeper_look_ns();
		dlk_keeper_wait(until);
	}
	if (is_in_vain(lost_before))
		give_up(all, n, began);
}

static bool has_keeper(const struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	return !dlk_hold_is_held(h) || h->keeper.carried;
}

bool dlk_handover(struct dlk_hold *h)
{
	hand_over(&h, 1);
	return has_keeper(h);
}

/*
 * Those that no keeper has, pinned; but not what was refused since.  One that a
 * conversion gives up just now is no lock of its mode any more; its successor
 * is handed over.  One that is weakened is: we may become another program, or end,
 * before that is answered, and the shared lock goes on by its token.
 */
static unsigned collect_undelegated(struct dlk_hold **all, uint64_t since_ns)
{
	unsigned n = 0;

	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_schedule_undelegated(); h && n < WINDOW;
	     h = LIST_NEXT(h, undelegated)) {
		if (!dlk_hold_goes_on(h) || h->keeper.carried ||
		    h->keeper.refused_ns >= since_ns)
			continue;
		all[n++] = dlk_hold_pin(h);
	}
	return n;
}

void dlk_handover_all(void)
{
	uint64_t began = dlk_now_ns();
	struct dlk_hold *all[WINDOW];
	unsigned n;

	if (!dlk_any_held())
		return;
	DLK_INSIDE(call);
	pthread_mutex_lock(&dlk_keeper_mutex);
	dlk_delegation_listen();
	pthread_mutex_unlock(&dlk_keeper_mutex);
	while (!dlk_seeded(9) && (n = collect_undelegated(all, began)) > 0) {
		hand_over(all, n);
		dlk_unpin_all(all, n);
	}
}

/* --- the thread ----------------------------------------------------------- */

/*
 * Not told, for another thread starts one, or its queue is full: then those
 * that are behind `before` others come a little later than these.
 */
static void later(struct dlk_hold *h, unsigned before)
{
	const uint64_t now = dlk_now_ns();

	DLK_GUARD(&dlk_holds_mutex);
	if (!h->keeper.number && h->keeper.due_ns <= now)
		h->keeper.due_ns =
			now + FULL_MS * (1 + before / WINDOW) * DLK_MS;
}

static bool tell_now(struct dlk_hold *h)
{
	DLK_GUARD(&dlk_keeper_mutex);
	return progress_of(h, UINT64_MAX) != UNTOLD ||
	       dlk_delegation_ask(h, false);
}

/* Without room it is over for this time: the answers are to be read first. */
void dlk_handover_some(struct dlk_hold *const *all, unsigned n)
{
	unsigned before = 0;
	bool room = !dlk_seeded(9);

	for (unsigned i = 0; i < n; i++) {
		if (room && !dlk_hold_is_there(all[i]))
			continue;
		room = room && tell_now(all[i]);
		later(all[i], room ? 0 : before++);
	}
}

/* --- a close -------------------------------------------------------------- */

__thread unsigned char dlk_closed_how
	__attribute__((tls_model("initial-exec")));

void dlk_leave_to_keeper(struct dlk_hold *h, bool last)
{
	dlk_handover(h);
	dlk_holds_lock();
	h->fd = -1;
	/* Another descriptor has it, of which we do not know. */
	if (!last && h->keeper.carried && dlk_hold_is_held(h)) {
		dlk_hold_left(h);
		dlk_hold_drop(h);
	}
	dlk_holds_unlock();
	if (last && dlk_hold_end(h, END_LEFT))
		dlk_closed_how = DLK_CLOSED_LEFT;
}
