/* SPDX-License-Identifier: MIT */
/*
 * The backstop: a timer that kills this process before a lease of it ends
 * unrenewed, if its rule says "kill" or "pause" (DESIGN L6).
 *
 * A thread can look at a clock and end the process; but not while that is
 * stopped, frozen, suspended with its machine, or not given a core:
 *
 *	holder			server			another host
 *	lock: granted ->
 *	SIGSTOP
 *				the ttl is over
 *							lock: granted
 *	SIGCONT
 *	write()			(before the thread has looked)
 *
 * A timer of the kernel's own (timer_create(2)) with SIGKILL is not kept from
 * that by any of these: a stopped process dies, a frozen one too, and of a
 * suspended machine CLOCK_BOOTTIME has gone on, so it dies before it runs.  It
 * outlives setuid(2), and kills a parent that waits in vfork(2).
 *
 *  1. The timer is armed for the first stop of those that are watched, and set
 *     to nothing when there is none: it asks nobody, so it MUST never be set to
 *     a moment at which all that is held can be proved, nor be left to one
 *     that was.  So it is set by whoever writes a deadline, under the mutex.
 *  2. What the keeper alone renews (dlk_hold.valid.elsewhere) is not watched,
 *     for nobody here knows until when it is held.  The keeper stops us.
 *  3. A child of fork(2) has none, and execve(2) ends it: then the keeper, who
 *     has the lease by then (L4), stops whoever has the lock.
 *  4. Of a rule that says "pause" it is the keeper that stops the holders, and
 *     lets them go on.  At the stop mark the thread tells it READY, and from
 *     then on the mark is a second timer's, with SIGSTOP: it is for who is
 *     frozen until after it.  The one with SIGKILL is behind: nobody is stopped
 *     for longer than the rule allows, whoever is there yet to let him go on.
 *     Who cannot say READY is stopped by somebody else, who would continue him
 *     when the lease is another's: so he is killed, as under "kill".  READY is
 *     said for all leases of such rules: what is renewed by the keeper while we
 *     are stopped for another one MUST NOT kill us.  Each is watched again once
 *     it was renewed, and none is READY.
 *  5. Process 1 of a pid namespace is not killed by it (pid_namespaces(7)):
 *     there the thread ends it at the mark.
 *
 * Each timer counts as a pending signal of the user's (RLIMIT_SIGPENDING); one
 * that is refused is said once, and the thread remains.  The program may delete
 * it, if it deletes timers that it has not made: then another is made.
 */
#include "hold/backstop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/log.h"
#include "os/sys.h"
#include "hold/holds.h"
#include "hold/self.h"
#include "model/due.h"
#include "model/timeline.h"

/* A timer, and those that it watches. */
struct watch {
	struct dlk_dues due;
	uint64_t armed_ns; /* UINT64_MAX: it is not */
	int signal, timer;
	bool made;
};

/* Guarded by the mutex of the holds, but for the last two. */
static struct watch kills = { .armed_ns = UINT64_MAX, .signal = SIGKILL };
static struct watch pauses = { .armed_ns = UINT64_MAX, .signal = SIGSTOP };
static _Atomic unsigned n_ready; /* leases that READY was said for */
static _Atomic int failed;       /* errno of one, till it is said; -1: it was */

void dlk_backstop_forget(void)
{
	kills = (struct watch){ .armed_ns = UINT64_MAX, .signal = SIGKILL };
	pauses = (struct watch){ .armed_ns = UINT64_MAX, .signal = SIGSTOP };
	atomic_store(&n_ready, 0);
}

/* --- the timer ------------------------------------------------------------ */

static bool make_timer(struct watch *w)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = w->signal };
	int none = 0;

	w->made = dlk_syscall(SYS_timer_create, CLOCK_BOOTTIME, &ev,
			      &w->timer) == 0;
	if (!w->made)
		atomic_compare_exchange_strong(&failed, &none, errno);
	return w->made;
}

static bool set_timer(const struct watch *w, uint64_t at_ns)
{
	struct itimerspec at = { 0 };

	if (at_ns != UINT64_MAX)
		at.it_value = dlk_timespec(at_ns);
	return w->made && dlk_syscall(SYS_timer_settime, w->timer,
				      TIMER_ABSTIME, &at, NULL) == 0;
}

/* The first of its marks has passed: who runs by now was continued, and hears
 * of one lease after the other that it was renewed. */
static bool is_late_to_stop(const struct watch *w)
{
	return w == &pauses && dlk_dues_ns(&w->due) <= dlk_now_ns();
}

/* What could not be armed is tried again at the next change. */
static void arm(struct watch *w)
{
	uint64_t at = dlk_dues_ns(&w->due);

	if (at == w->armed_ns || dlk_self.pid == 1)
		return;
	if (is_late_to_stop(w))
		at = UINT64_MAX;
	if (at == w->armed_ns)
		return;
	if (set_timer(w, at) || at == UINT64_MAX ||
	    (make_timer(w) && set_timer(w, at)))
		w->armed_ns = at;
	else
		w->armed_ns = UINT64_MAX;
}

/* --- what is watched ------------------------------------------------------ */

static uint64_t backstop_ns(const struct dlk_hold *h)
{
	if (!dlk_hold_is_held(h) || h->valid.elsewhere ||
	    !dlk_lost_stops(h->rule->on_lost))
		return UINT64_MAX;
	return dlk_backstop_ns(h->valid.deadline_ns, h->valid.span_ms);
}

static void set_marks(struct dlk_hold *h)
{
	const uint64_t mark = backstop_ns(h);
	const bool paused = mark != UINT64_MAX && dlk_hold_is_paused(h);

	dlk_due_set(&kills.due, &h->kill,
		    paused ? dlk_pause_end_ns(h->valid.deadline_ns,
					      h->lease.pause_ms)
			   : mark);
	dlk_due_set(&pauses.due, &h->pause, paused ? mark : UINT64_MAX);
}

bool dlk_backstop_stands_back(void)
{
	return atomic_load(&n_ready) > 0;
}

/* One is READY, the first: the timers of all stand back. */
static void stand_back(void)
{
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		h->valid.stands_back = true;
		set_marks(h);
	}
}

static void count_ready(struct dlk_hold *h)
{
	const bool ready = backstop_ns(h) != UINT64_MAX && dlk_hold_pauses(h) &&
			   h->valid.trouble >= HOLD_READY;

	if (ready == h->valid.ready)
		return;
	h->valid.ready = ready;
	if (!ready)
		atomic_fetch_sub(&n_ready, 1);
	else if (atomic_fetch_add(&n_ready, 1) == 0)
		stand_back();
}

void dlk_backstop_watch(struct dlk_hold *h)
{
	dlk_holds_check();
	count_ready(h);
	set_marks(h);
	arm(&kills);
	arm(&pauses);
}

bool dlk_backstop_is_armed(void)
{
	return kills.armed_ns != UINT64_MAX || dlk_self.pid == 1;
}

/* Of both timers' first leases the one whose last mark comes first, or NULL. */
static struct dlk_hold *first(void)
{
	struct dlk_hold *k = NULL, *p = NULL;

	dlk_holds_check();
	if (kills.due.first)
		k = dlk_hold_of(kills.due.first, kill);
	if (pauses.due.first)
		p = dlk_hold_of(pauses.due.first, pause);
	return !k || (p && dlk_hold_final_ns(p) < dlk_hold_final_ns(k)) ? p : k;
}

uint64_t dlk_backstop_ns_first(void)
{
	const struct dlk_hold *h = first();

	return h ? dlk_hold_final_ns(h) : UINT64_MAX;
}

struct dlk_hold *dlk_backstop_due(uint64_t now_ns)
{
	return dlk_backstop_ns_first() <= now_ns ? first() : NULL;
}

/* --- the end -------------------------------------------------------------- */

void dlk_backstop_complain(void)
{
	int err = atomic_load(&failed);

	if (err <= 0 || !atomic_compare_exchange_strong(&failed, &err, -1))
		return;
	dlk_log(DLK_WARNING,
		"no timer that would stop this process, should it be stopped "
		"or frozen for longer than its lease: ",
		strerrordesc_np(err) ?: "unknown error",
		err == EAGAIN ? " (RLIMIT_SIGPENDING)" : "",
		"; while it runs, its thread does", NULL);
}

void dlk_backstop_kill(void)
{
	dlk_syscall(SYS_kill, dlk_pid(), SIGKILL);
	/* Process 1 of a pid namespace is here still. */
	dlk_syscall(SYS_exit_group, 128 + SIGKILL);
}
