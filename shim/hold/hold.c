/* SPDX-License-Identifier: MIT */
/* The life of a hold: its state and its deadline; see hold.h. */

#include "hold/hold.h"

#include <stdatomic.h>

#include "os/check.h"
#include "os/sys.h"
#include "hold/backstop.h"
#include "hold/holds.h"
#include "hold/schedule.h"
#include "model/outbox.h"
#include "model/timeline.h"

/* --- the state ------------------------------------------------------------ */

#define TO(state) (1U << (state))

/*
 * From each state to which?  Of the threads that share a description one
 * converts at a time (lock/turn.c); another one may unlock meanwhile.
 */
static const unsigned legal[] = {
	[HOLD_FREE] = TO(HOLD_HELD) | TO(HOLD_RELEASING),
	[HOLD_HELD] = TO(HOLD_CONVERTING) | TO(HOLD_HELD) | TO(HOLD_RELEASING) |
		      TO(HOLD_ENDED),
	[HOLD_CONVERTING] = TO(HOLD_HELD) | TO(HOLD_RELEASING) | TO(HOLD_ENDED),
	[HOLD_RELEASING] = TO(HOLD_ENDED),
	[HOLD_ENDED] = TO(HOLD_FREE),
};

static _Atomic unsigned n_held, n_owed;

bool dlk_any_held(void)
{
	return atomic_load(&n_held) != 0;
}

bool dlk_any_owed(void)
{
	return atomic_load(&n_owed) != 0;
}

void dlk_hold_forget(void)
{
	atomic_store(&n_held, 0);
	atomic_store(&n_owed, 0);
}

static void count(const struct dlk_hold *h, unsigned by)
{
	if (dlk_hold_is_held(h))
		atomic_fetch_add(&n_held, by);
	else if (h->state == HOLD_RELEASING)
		atomic_fetch_add(&n_owed, by);
}

static void set_state(struct dlk_hold *h, enum hold_state state)
{
	const bool was_held = dlk_hold_is_held(h);

	dlk_holds_check();
	dlk_check(legal[h->state] & TO(state));
	count(h, -1U);
	h->state = state;
	count(h, 1);
	if (was_held != dlk_hold_is_held(h))
		dlk_backstop_watch(h);
}

/* Whoever works on it, or sends an answer that is to come, has it still. */
static bool is_over(const struct dlk_hold *h)
{
	return h->state == HOLD_ENDED && !h->pins && !h->out.unanswered;
}

/* What is to be done for it is another now; if nothing is, it is freed. */
static void settle(struct dlk_hold *h)
{
	if (!is_over(h)) {
		dlk_schedule(h);
		return;
	}
	set_state(h, HOLD_FREE);
	dlk_schedule_clear(h);
	dlk_holds_remove(h);
}

struct dlk_hold *dlk_hold_pin(struct dlk_hold *h)
{
	dlk_holds_check();
	if (h)
		h->pins++;
	return h;
}

void dlk_hold_unpin(struct dlk_hold *h)
{
	dlk_holds_check();
	if (!h)
		return;
	dlk_check(h->pins);
	h->pins--;
	settle(h);
}

void dlk_unpin(struct dlk_hold *h)
{
	if (!h)
		return;
	DLK_GUARD(&dlk_holds_mutex);
	dlk_hold_unpin(h);
}

struct dlk_hold *dlk_hold_next(struct dlk_hold *from, dlk_match_fn *match,
			       const void *arg)
{
	struct dlk_hold *h;

	DLK_GUARD(&dlk_holds_mutex);
	h = from ? from->next : dlk_holds_first();
	while (h && !match(h, arg))
		h = h->next;
	dlk_hold_pin(h);
	dlk_hold_unpin(from);
	return h;
}

unsigned dlk_hold_next_some(struct dlk_hold **at, dlk_match_fn *match,
			    struct dlk_hold **all, unsigned most)
{
	const struct dlk_redis *redis = (*at)->rule->redis;
	unsigned n = 0;

	while (*at && n < most && (*at)->rule->redis == redis) {
		all[n++] = *at;
		dlk_holds_lock();
		dlk_hold_pin(*at);
		dlk_holds_unlock();
		*at = dlk_hold_next(*at, match, NULL);
	}
	return n;
}

void dlk_unpin_all(struct dlk_hold *const *all, unsigned n)
{
	DLK_GUARD(&dlk_holds_mutex);
	for (unsigned i = 0; i < n; i++)
		dlk_hold_unpin(all[i]);
}

/* --- granted, renewed ----------------------------------------------------- */

static void is_well(struct dlk_hold *h)
{
	h->valid.trouble = HOLD_WELL;
	dlk_backstop_watch(h);
	if (h->valid.stands_back && !dlk_backstop_stands_back()) {
		h->valid.stands_back = false;
		dlk_backstop_watch(h);
	}
}

static uint64_t look_ns(const struct dlk_hold *h)
{
	return h->valid.renew_ns < h->keeper.due_ns ? h->valid.renew_ns
						    : h->keeper.due_ns;
}

uint64_t dlk_hold_install(struct dlk_hold *h, uint64_t asked_ns,
			  uint32_t claim_ms)
{
	h->valid.granted_ns = dlk_now_ns();
	h->valid.span_ms = claim_ms ? claim_ms : h->lease.ttl_ms;
	h->valid.deadline_ns = dlk_deadline_ns(asked_ns, h->valid.span_ms);
	h->valid.renew_ns =
		claim_ms ? dlk_confirm_ns(h->valid.granted_ns, claim_ms)
			 : dlk_renew_ns(asked_ns, h->lease.ttl_ms);
	h->keeper.due_ns = dlk_handover_ns(h->valid.granted_ns);
	/* Too late, it was never held, and nobody is stopped for it. */
	h->valid.elsewhere = h->valid.granted_ns >= dlk_hold_final_ns(h);
	h->valid.stands_back = dlk_backstop_stands_back();
	set_state(h, HOLD_HELD);
	dlk_holds_add(h);
	dlk_schedule(h);
	dlk_hold_pin(h);
	return look_ns(h);
}

uint64_t dlk_hold_extend(struct dlk_hold *h, uint64_t asked_ns)
{
	dlk_holds_check();
	h->valid.span_ms = h->lease.ttl_ms;
	h->valid.deadline_ns = dlk_deadline_ns(asked_ns, h->lease.ttl_ms);
	h->valid.renew_ns = dlk_renew_ns(asked_ns, h->lease.ttl_ms);
	h->valid.elsewhere = false;
	h->valid.robbed_ns = 0;
	is_well(h);
	/* It is there: time to say what Redis did not answer before. */
	if (h->out.message == OUTBOX_DOWNGRADE && h->out.unsent)
		dlk_outbox_put(&h->out, OUTBOX_DOWNGRADE, dlk_now_ns());
	dlk_schedule(h);
	return look_ns(h);
}

void dlk_hold_keep(struct dlk_hold *h, uint64_t deadline_ns)
{
	dlk_holds_check();
	h->valid.span_ms = h->lease.ttl_ms;
	h->valid.deadline_ns = deadline_ns;
	h->valid.robbed_ns = 0;
	is_well(h);
	dlk_schedule(h);
}

void dlk_hold_heard(struct dlk_hold *h, uint64_t deadline_ns, bool lasting)
{
	const uint64_t asked = dlk_asked_ns(deadline_ns, h->lease.ttl_ms);

	dlk_holds_check();
	if (lasting)
		h->valid.elsewhere = false;
	if (deadline_ns > h->valid.deadline_ns) {
		h->valid.span_ms = h->lease.ttl_ms;
		h->valid.deadline_ns = h->keeper.known_until_ns = deadline_ns;
		h->valid.renew_ns = dlk_renew_ns(asked, h->lease.ttl_ms);
		is_well(h);
	}
	dlk_backstop_watch(h);
	dlk_schedule(h);
}

void dlk_hold_retry(struct dlk_hold *h, uint64_t now_ns)
{
	const uint64_t final = dlk_hold_final_ns(h);
	const uint64_t warn = dlk_hold_warn_ns(h);
	/* At its next mark something is said. */
	const uint64_t mark = now_ns >= warn && dlk_hold_pauses(h)
				      ? dlk_hold_stop_ns(h)
				      : warn;

	dlk_holds_check();
	h->valid.renew_ns = dlk_retry_ns(now_ns, h->lease.ttl_ms);
	/* A claim is short (lease/queue.h). */
	if (now_ns < final && h->valid.renew_ns > now_ns + (final - now_ns) / 4)
		h->valid.renew_ns = now_ns + (final - now_ns) / 4;
	if (now_ns < mark && h->valid.renew_ns > mark)
		h->valid.renew_ns = mark;
	dlk_schedule(h);
}

void dlk_hold_hurry(struct dlk_hold *h, uint64_t by_ns)
{
	dlk_holds_check();
	if (h->valid.renew_ns > by_ns)
		h->valid.renew_ns = by_ns;
	dlk_schedule(h);
}

void dlk_hold_cut(struct dlk_hold *h, uint64_t now_ns, uint32_t ttl_ms)
{
	const uint64_t deadline_ns = dlk_deadline_ns(now_ns, ttl_ms);

	h->lease.ttl_ms = ttl_ms;
	if (h->valid.deadline_ns > deadline_ns) {
		h->valid.deadline_ns = deadline_ns;
		h->valid.span_ms = ttl_ms;
		dlk_backstop_watch(h);
	}
	dlk_hold_hurry(h, dlk_renew_ns(now_ns, ttl_ms));
}

static _Atomic uint32_t left_ms;

void dlk_hold_left(const struct dlk_hold *h)
{
	dlk_holds_check();
	if ((h->keeper.carried || h->keeper.number) &&
	    atomic_load(&left_ms) < h->lease.ttl_ms)
		atomic_store(&left_ms, h->lease.ttl_ms);
}

void dlk_hold_left_all(void)
{
	DLK_GUARD(&dlk_holds_mutex);
	for (const struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (dlk_hold_is_held(h))
			dlk_hold_left(h);
}

uint32_t dlk_keepers_ttl_ms(void)
{
	return atomic_load(&left_ms);
}

void dlk_keepers_have_nothing(void)
{
	atomic_store(&left_ms, 0);
}

void dlk_hold_leave(struct dlk_hold *h)
{
	dlk_holds_check();
	if (!dlk_hold_is_held(h) || !h->keeper.carried)
		return;
	h->valid.elsewhere = true;
	dlk_hold_left(h);
	dlk_backstop_watch(h);
	dlk_schedule(h);
}

void dlk_hold_leave_all(void)
{
	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		dlk_hold_leave(h);
}

void dlk_hold_return_all(void)
{
	const uint64_t now = dlk_now_ns();

	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		const uint64_t half =
			dlk_hold_asked_ns(h) + h->valid.span_ms / 2 * DLK_MS;

		if (!dlk_hold_is_held(h) || !h->valid.elsewhere ||
		    dlk_schedule_renewal_ns(h) == UINT64_MAX)
			continue;
		h->valid.elsewhere = now >= half && h->keeper.carried;
		dlk_backstop_watch(h);
		dlk_hold_hurry(h, now >= half ? now : UINT64_MAX);
	}
}

/* --- converted ------------------------------------------------------------ */

void dlk_hold_convert(struct dlk_hold *h)
{
	if (h->state != HOLD_HELD)
		return;
	set_state(h, HOLD_CONVERTING);
	h->weakens = false;
	h->conversions++;
}

void dlk_hold_convert_weaker(struct dlk_hold *h)
{
	dlk_hold_convert(h);
	h->weakens = true;
}

void dlk_hold_unchanged(struct dlk_hold *h)
{
	if (h->state != HOLD_CONVERTING)
		return;
	set_state(h, HOLD_HELD);
	/* The keeper was told to drop it. */
	if (!h->keeper.number)
		h->keeper.due_ns = dlk_now_ns();
	dlk_schedule(h);
}

bool dlk_hold_weaken(struct dlk_hold *h, uint64_t now_ns)
{
	if (!dlk_hold_is_held(h))
		return false;
	set_state(h, HOLD_HELD);
	h->lease.shared = true;
	/* Said after a renewal, which is due now. */
	dlk_outbox_put(&h->out, OUTBOX_DOWNGRADE, UINT64_MAX);
	h->valid.renew_ns = h->keeper.due_ns = now_ns;
	dlk_backstop_watch(h); /* it was taken from the keeper before */
	dlk_schedule(h);
	return true;
}

/* --- over ----------------------------------------------------------------- */

void dlk_hold_release(struct dlk_hold *h)
{
	set_state(h, HOLD_RELEASING);
	dlk_outbox_put_release(&h->out, dlk_now_ns(), h->lease.ttl_ms);
	dlk_schedule(h);
}

void dlk_hold_install_released(struct dlk_hold *h)
{
	dlk_hold_release(h);
	dlk_holds_add(h);
	dlk_schedule(h);
}

void dlk_hold_drop(struct dlk_hold *h)
{
	set_state(h, HOLD_ENDED);
	dlk_outbox_clear(&h->out, dlk_now_ns());
	settle(h);
}
