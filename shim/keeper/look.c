/* SPDX-License-Identifier: MIT */
/*
 * When to look whether a lock has ended, where no wait in the kernel will
 * tell, or not soon: readers that come and go keep it waiting (DESIGN L4).
 *
 *	a description is closed	at once, and four times more: inotify tells of it
 *				before its locks are gone (fs/file_table.c), and
 *				who closes may lose its core in between
 *	nobody tells		at the tick
 *	it is not renewed	at once: its lock has ended perhaps, and those of
 *				others keep the wait waiting
 *
 * A look costs as much as there are locks on the machine, so it takes no more
 * than a twentieth of the time.
 */
#include "keeper/keeper.h"
#include "keeper/protocol.h"

#include "os/sys.h"
#include "model/timeline.h"

enum { SHARE = 20, LAST_ECHO = 5 };

/* After the first look, in ms. */
static const unsigned echo_ms[LAST_ECHO] = { 0, 1, 3, 25, 100 };

static uint64_t due_ns = UINT64_MAX;
static uint64_t not_before_ns, tick_ns = UINT64_MAX;
static unsigned echo = LAST_ECHO;
static unsigned stirs;                    /* that were looked for */
static uint64_t shortest_ns = UINT64_MAX; /* period, of those looked at since
					     the last tick and by it */

uint64_t dlk_look_due_ns(void)
{
	return due_ns > not_before_ns && dlk_watch_stirs() == stirs
		       ? due_ns
		       : not_before_ns;
}

/* Nothing but a look will tell of its end, or not as soon. */
static bool is_looked_at(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT &&
	       (k->lease.shared || !k->watch->has_thread || k->failing);
}

/* The kernel's wait tells of most ends: then a tick is a renewal's. */
static uint64_t period_ns(const struct dlk_kept *k)
{
	uint64_t ns = k->lease.ttl_ms / 12 * DLK_MS;

	if (k->watch->has_thread)
		return k->lease.ttl_ms / 3 * DLK_MS;
	return ns < 100 * DLK_MS    ? 100 * DLK_MS
	       : ns > 1000 * DLK_MS ? 1000 * DLK_MS
				    : ns;
}

static unsigned count_same(const struct dlk_kept *k)
{
	const struct dlk_kept *o;
	unsigned n = 0;

	LIST_FOREACH(o, &k->watch->leases, beside)
	n += o->state == DLK_KEPT && dlk_guard_same(&o->guard, &k->guard);
	return n;
}

static void judge(struct dlk_kept *k)
{
	const bool was_first = k->guard.was_first;
	enum dlk_verdict verdict;

	/* Of several alike it is not this one. */
	if (k->shadow && dlk_shadow_copy_is_locked(k->shadow))
		return;
	verdict = dlk_guard_judge(&k->guard, count_same(k),
				  dlk_watch_waits_since(k->watch,
							k->add.granted_ns));
	if (k->guard.was_first != was_first)
		dlk_mirror_state(k);
	k->reads = verdict == DLK_SHARED_NOW;
	switch (verdict) {
	case DLK_GONE_NOW:
		dlk_carry_owe(k);
		break;
	case DLK_SOME_GONE:
		/* Which is all the same to who has none of them. */
		if (k->shadow || k->by != DLK_BY_PROCESS || !dlk_shim_lives())
			dlk_carry_owe(k);
		break;
	case DLK_UNKNOWN:
		if (dlk_watch_is_shut(k->watch) &&
		    !dlk_guard_can_tell(&k->guard))
			dlk_carry_lapse(k);
		break;
	default:
		break;
	}
}

static bool wants_list(const struct dlk_kept *k)
{
	return k->add.kind == DLK_KEPT_FLOCK &&
	       (k->lease.shared || dlk_watch_is_shut(k->watch) || k->failing);
}

static void schedule(uint64_t began_ns, uint64_t cost_ns, bool tick, bool again)
{
	const uint64_t now = dlk_now_ns();

	if (shortest_ns == UINT64_MAX)
		tick_ns = UINT64_MAX; /* nothing to look for */
	else if (began_ns >= tick_ns || tick_ns > began_ns + shortest_ns)
		tick_ns = began_ns + shortest_ns;
	due_ns = tick_ns;
	not_before_ns = 0;
	if (stirs != dlk_watch_stirs())
		echo = 0;
	stirs = dlk_watch_stirs();
	if (again) {
		/* It could not be read: nothing was learnt. */
		due_ns = now + echo_ms[LAST_ECHO - 1] * DLK_MS;
		if (tick)
			tick_ns = due_ns;
	} else if (++echo < LAST_ECHO &&
		   now + echo_ms[echo] * DLK_MS < due_ns) {
		due_ns = now + echo_ms[echo] * DLK_MS;
	} else {
		dlk_watch_calm();
	}
	if (due_ns != UINT64_MAX)
		not_before_ns = now + SHARE * cost_ns;
}

static void judge_records(struct dlk_kept *k)
{
	const enum dlk_verdict verdict = dlk_records_judge(k);

	if (verdict == DLK_GONE_NOW)
		dlk_carry_owe(k);
	else if (verdict == DLK_UNKNOWN)
		dlk_carry_lapse(k);
}

/* A look at thousands takes longer than the shim waits; is k carried yet? */
static bool heard_of(const struct dlk_kept *k)
{
	dlk_carry_hear();
	return k->state < DLK_ENDING;
}

/* Each lease of whose end nothing but a look tells; at a tick, or stirred. */
static void each(bool tick, void (*look_at)(struct dlk_kept *k))
{
	struct dlk_watch *w = NULL;
	struct dlk_kept *k;

	if (tick) {
		LIST_FOREACH(k, &dlk_carried, next)
		if (is_looked_at(k))
			look_at(k);
		return;
	}
	while ((w = dlk_watch_stirred(w)))
		LIST_FOREACH(k, &w->leases, beside)
	if (is_looked_at(k))
		look_at(k);
}

static bool list; /* it is to be read */

static void ask(struct dlk_kept *k)
{
	if (!heard_of(k))
		return;
	if (period_ns(k) < shortest_ns)
		shortest_ns = period_ns(k);
	if (k->add.kind != DLK_KEPT_FLOCK) {
		judge_records(k);
		return;
	}
	/* (By another thread perhaps, which asks file servers first.) */
	dlk_watch_probe(k->watch);
	dlk_carry_owe_freed(k->watch);
	list |= wants_list(k);
}

static void look_in_list(struct dlk_kept *k)
{
	if (heard_of(k) && wants_list(k))
		judge(k);
}

static void look_again(struct dlk_watch *w)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &w->leases, beside)
	if (is_looked_at(k)) {
		ask(k);
		dlk_carry_is_seen(k);
	}
}

void dlk_look_at_answered(void)
{
	const uint64_t cost = dlk_cpu_ns();
	uint64_t until;

	dlk_watch_answered(look_again);
	until = dlk_now_ns() + SHARE * (dlk_cpu_ns() - cost);
	if (due_ns != UINT64_MAX && until > not_before_ns)
		not_before_ns = until;
}

void dlk_look(void)
{
	const uint64_t began = dlk_now_ns(), cost = dlk_cpu_ns();
	const bool tick = began >= tick_ns;
	bool again;

	if (tick)
		shortest_ns = UINT64_MAX;
	list = false;
	each(tick, ask);
	again = list && !dlk_locks_look();
	if (list && !again)
		each(tick, look_in_list);
	schedule(began, dlk_cpu_ns() - cost, tick, again);
}
