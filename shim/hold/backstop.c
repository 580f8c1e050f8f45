/* SPDX-License-Identifier: MIT */
/*
 * The backstop: a timer that kills this process before a lease of it ends
 * unrenewed, if its rule says "kill" (DESIGN L6).
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
 *  4. Process 1 of a pid namespace is not killed by it (pid_namespaces(7)):
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

/* Guarded by the mutex of the holds, but for the last. */
static struct {
	struct dlk_dues stops;
	uint64_t armed_ns; /* UINT64_MAX: it is not */
	int timer;
	bool made;
	_Atomic int err; /* why not, till it is said; -1: it was */
} backstop = { .armed_ns = UINT64_MAX };

void dlk_backstop_forget(void)
{
	backstop.stops = (struct dlk_dues){ 0 };
	backstop.armed_ns = UINT64_MAX;
	backstop.made = false;
}

/* --- the timer ------------------------------------------------------------ */

static bool make_timer(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGKILL };
	int none = 0;

	backstop.made = dlk_syscall(SYS_timer_create, CLOCK_BOOTTIME, &ev,
				    &backstop.timer) == 0;
	if (!backstop.made)
		atomic_compare_exchange_strong(&backstop.err, &none, errno);
	return backstop.made;
}

static bool set_timer(uint64_t at_ns)
{
	struct itimerspec at = { 0 };

	if (at_ns != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(at_ns / 1000000000U);
		at.it_value.tv_nsec = (long)(at_ns % 1000000000U);
	}
	return backstop.made && dlk_syscall(SYS_timer_settime, backstop.timer,
					    TIMER_ABSTIME, &at, NULL) == 0;
}

static uint64_t first_ns(void)
{
	return dlk_dues_ns(&backstop.stops);
}

/* What could not be armed is tried again at the next change. */
static void arm(void)
{
	const uint64_t at = first_ns();

	if (at == backstop.armed_ns || dlk_self.pid == 1)
		return;
	if (set_timer(at) || at == UINT64_MAX ||
	    (make_timer() && set_timer(at)))
		backstop.armed_ns = at;
	else
		backstop.armed_ns = UINT64_MAX;
}

/* --- what is watched ------------------------------------------------------ */

static struct dlk_hold *of_due(struct dlk_due *due)
{
	return due ? (struct dlk_hold *)(void *)((char *)due -
						 offsetof(struct dlk_hold,
							  stop))
		   : NULL;
}

static uint64_t backstop_ns(const struct dlk_hold *h)
{
	if (!dlk_hold_is_held(h) || h->valid.elsewhere ||
	    h->rule->on_lost != DLK_LOST_KILL)
		return UINT64_MAX;
	return dlk_backstop_ns(h->valid.deadline_ns, h->valid.span_ms);
}

void dlk_backstop_watch(struct dlk_hold *h)
{
	dlk_holds_check();
	dlk_due_set(&backstop.stops, &h->stop, backstop_ns(h));
	arm();
}

uint64_t dlk_backstop_ns_first(void)
{
	const struct dlk_hold *h = of_due(backstop.stops.first);

	dlk_holds_check();
	return h ? dlk_hold_final_ns(h) : UINT64_MAX;
}

struct dlk_hold *dlk_backstop_due(uint64_t now_ns)
{
	return dlk_backstop_ns_first() <= now_ns ? of_due(backstop.stops.first)
						 : NULL;
}

/* --- the end -------------------------------------------------------------- */

void dlk_backstop_complain(void)
{
	int err = atomic_load(&backstop.err);

	if (err <= 0 ||
	    !atomic_compare_exchange_strong(&backstop.err, &err, -1))
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
