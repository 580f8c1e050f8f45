/* SPDX-License-Identifier: MIT */
/* What is due, of all that this process holds; see schedule.h. */
#include "hold/schedule.h"

#include <stdatomic.h>

#include "hold/holds.h"
#include "hold/self.h"
#include "lease/store.h"
#include "model/due.h"
#include "model/outbox.h"
#include "model/timeline.h"

static struct {
	struct dlk_dues due, unsaid, marks;
	LIST_HEAD(, dlk_hold) undelegated; /* a look costs what is in it */
	uint32_t least_ttl_ms;
} schedule;

void dlk_schedule_forget(void)
{
	schedule.due = schedule.unsaid = schedule.marks =
		(struct dlk_dues){ 0 };
	LIST_INIT(&schedule.undelegated);
}

/* Away from where the keeper is, a lease that it carries is its alone. */
uint64_t dlk_schedule_renewal_ns(const struct dlk_hold *h)
{
	return h->keeper.carried && atomic_load(&dlk_self.away)
		       ? UINT64_MAX
		       : h->valid.renew_ns;
}

uint64_t dlk_schedule_handover_ns(const struct dlk_hold *h)
{
	return h->keeper.carried || h->keeper.number ? UINT64_MAX
						     : h->keeper.due_ns;
}

bool dlk_schedule_is_news(const struct dlk_hold *h)
{
	return dlk_hold_is_held(h) && h->keeper.number &&
	       h->valid.deadline_ns >=
		       h->keeper.known_until_ns + dlk_early_ns(h->lease.ttl_ms);
}

enum dlk_duty dlk_schedule_duty(const struct dlk_hold *h, uint64_t now_ns)
{
	const uint64_t renewal = dlk_schedule_renewal_ns(h);

	if (!dlk_hold_is_held(h))
		return DLK_NO_DUTY;
	if (renewal <= now_ns)
		return DLK_RENEW;
	if (dlk_schedule_handover_ns(h) <= now_ns)
		return DLK_HAND_OVER;
	if (dlk_schedule_is_news(h))
		return DLK_TELL;
	return renewal <= now_ns + dlk_early_ns(h->lease.ttl_ms) ? DLK_RENEW
								 : DLK_NO_DUTY;
}

static uint64_t due_ns(const struct dlk_hold *h)
{
	const uint64_t renewal = dlk_schedule_renewal_ns(h);
	const uint64_t handover = dlk_schedule_handover_ns(h);

	if (!dlk_hold_is_held(h))
		return UINT64_MAX;
	if (dlk_schedule_is_news(h))
		return 0;
	return renewal < handover ? renewal : handover;
}

/* Its next mark after `now_ns`, and after what it was granted by. */
static uint64_t mark_ns(const struct dlk_hold *h, uint64_t now_ns)
{
	const uint64_t marks[] = {
		dlk_hold_asked_ns(h) + h->valid.span_ms / 2 * DLK_MS,
		dlk_hold_warn_ns(h),
		dlk_hold_pauses(h) ? dlk_hold_stop_ns(h) : 0,
		dlk_hold_final_ns(h),
	};

	if (!dlk_hold_is_held(h) || h->valid.elsewhere)
		return UINT64_MAX;
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (marks[i] > now_ns)
			return marks[i];
	return UINT64_MAX;
}

static void list(struct dlk_hold *h, bool undelegated)
{
	if (undelegated == (h->undelegated.le_prev != NULL))
		return;
	if (undelegated) {
		LIST_INSERT_HEAD(&schedule.undelegated, h, undelegated);
	} else {
		LIST_REMOVE(h, undelegated);
		h->undelegated.le_prev = NULL;
	}
}

struct dlk_hold *dlk_schedule_undelegated(void)
{
	dlk_holds_check();
	return LIST_FIRST(&schedule.undelegated);
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A renewal may be early, along with others; all else comes at its time. */
void dlk_schedule_after(struct dlk_hold *h, uint64_t until_ns)
{
	const uint64_t at = later_of(due_ns(h), until_ns);
	const uint32_t ttl_ms = h->lease.ttl_ms;

	dlk_holds_check();
	if (!h->pprev)
		return; /* not in the table yet */
	list(h, dlk_hold_is_held(h) && !h->keeper.carried);
	if (!schedule.due.first || ttl_ms < schedule.least_ttl_ms)
		schedule.least_ttl_ms = ttl_ms;
	h->due.early_ns =
		at == dlk_schedule_renewal_ns(h) ? dlk_early_ns(ttl_ms) : 0;
	dlk_due_set(&schedule.due, &h->due, at);
	dlk_due_set(&schedule.unsaid, &h->unsaid,
		    later_of(dlk_outbox_due_ns(&h->out), until_ns));
	dlk_due_set(&schedule.marks, &h->mark, mark_ns(h, 0));
}

void dlk_schedule(struct dlk_hold *h)
{
	dlk_schedule_after(h, 0);
}

void dlk_schedule_clear(struct dlk_hold *h)
{
	dlk_due_clear(&schedule.due, &h->due);
	dlk_due_clear(&schedule.unsaid, &h->unsaid);
	dlk_due_clear(&schedule.marks, &h->mark);
	list(h, false);
}

uint64_t dlk_schedule_ns(void)
{
	const uint64_t due = dlk_dues_ns(&schedule.due);
	const uint64_t unsaid = dlk_dues_ns(&schedule.unsaid);

	dlk_holds_check();
	return due < unsaid ? due : unsaid;
}

uint64_t dlk_schedule_mark_ns(uint64_t now_ns, bool *last)
{
	struct dlk_due *due;

	dlk_holds_check();
	while (dlk_dues_take(&schedule.marks, now_ns, &due, 1)) {
		const struct dlk_hold *h = dlk_hold_of(due, mark);

		dlk_due_set(&schedule.marks, due, mark_ns(h, now_ns));
	}
	*last = schedule.marks.first &&
		dlk_hold_final_ns(dlk_hold_of(schedule.marks.first, mark)) ==
			schedule.marks.first->at_ns;
	return dlk_dues_ns(&schedule.marks);
}

uint64_t dlk_schedule_mark_elsewhere_ns(const struct dlk_store *store,
					uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	dlk_holds_check();
	for (const struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		const uint64_t mark = mark_ns(h, now_ns);

		if (mark < first && dlk_store_of(h->rule->redis) != store)
			first = mark;
	}
	return first;
}

uint32_t dlk_schedule_least_ttl(void)
{
	return schedule.least_ttl_ms;
}

unsigned dlk_schedule_take(uint64_t now_ns,
			   struct dlk_hold *taken[DLK_RENEW_BATCH])
{
	static struct dlk_due *due[DLK_RENEW_BATCH]; /* only the thread's */
	unsigned n;

	dlk_holds_check();
	n = dlk_dues_take(&schedule.due, now_ns, due, DLK_RENEW_BATCH);
	for (unsigned i = 0; i < n; i++)
		taken[i] = dlk_hold_of(due[i], due);
	return n;
}

struct dlk_hold *dlk_schedule_take_unsaid(uint64_t now_ns)
{
	struct dlk_due *due;

	dlk_holds_check();
	return dlk_dues_take(&schedule.unsaid, now_ns, &due, 1)
		       ? dlk_hold_of(due, unsaid)
		       : NULL;
}
