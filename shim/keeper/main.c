/* SPDX-License-Identifier: MIT */
/*
 * dlock-keeper: carries a lease on when the process that took it is gone but
 * its lock is not (DESIGN L4).
 *
 *  1. It renews each lease it was given until the kernel's lock has ended,
 *     then releases it: both whether or not the process still lives.
 *  2. It keeps no descriptor of the program's: whoever waits for the end of
 *     a pipe must not wait for the keeper.
 *  3. No signal ends it but SIGKILL: a service manager's SIGTERM comes while
 *     the job still cleans up.
 *  4. It ends with its last lease; while the process lives, a moment later,
 *     for the next lock may come at once.
 *  5. Its own end ends no lease: a second one stands by (standby.c).
 *
 * Started by the shim only, with a socket as descriptor 3 (protocol.h).
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "os/log.h"
#include "os/spawn.h"
#include "os/sys.h"
#include "redis/tls.h"
#include "model/timeline.h"

enum { SHIM = 3, LINGER_MS = 1000 };

/* --- the lock has ended --------------------------------------------------- */

/*
 * What was granted before is over; a lease that came later waits for its end.
 */
static void ended(struct dlk_watch *w)
{
	struct dlk_kept *k;

	dlk_carry_owe_freed(w);
	LIST_FOREACH(k, &w->leases, beside)
	{
		if (k->state != DLK_KEPT)
			continue;
		dlk_watch_again(w);
		break;
	}
}

static void look(void)
{
	const uint64_t began_ns = dlk_now_ns();

	dlk_look();
	dlk_watch_ended(ended);
	dlk_settle_looked(began_ns);
}

/* A description has ended, and with it, perhaps, the lock of its shadow. */
static void shadows_fell(void)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	if (k->shadow)
		dlk_watch_stir(k->watch);
}

/* --- main ----------------------------------------------------------------- */

static int wait_ms(uint64_t idle_since_ns)
{
	static uint64_t (*const due_ns[])(void) = {
		dlk_carry_due_ns,     dlk_look_due_ns,     dlk_settle_due_ns,
		dlk_survive_wakes_ns, dlk_losses_due_ns,   dlk_paused_due_ns,
		dlk_standby_due_ns,   dlk_watchdog_due_ns,
	};
	const uint64_t now = dlk_now_ns();
	uint64_t at = now + 60000 * DLK_MS;

	for (size_t i = 0; i < sizeof(due_ns) / sizeof(*due_ns); i++) {
		const uint64_t due = due_ns[i]();

		if (due < at)
			at = due;
	}
	if (LIST_EMPTY(&dlk_carried) && !dlk_shim_wants_us() &&
	    at > idle_since_ns + LINGER_MS * DLK_MS)
		at = idle_since_ns + LINGER_MS * DLK_MS;
	return at <= now ? 0 : (int)((at - now) / DLK_MS) + 1;
}

static void wait_once(uint64_t idle_since_ns)
{
	const struct dlk_bells *b = dlk_watch_bells();
	enum { BELLS = 6, SERVERS = 8 };
	struct pollfd p[BELLS + SERVERS] = {
		{ .fd = b->ended, .events = POLLIN },
		{ .fd = dlk_shim_fd(), .events = dlk_shim_events() },
		{ .fd = b->closed, .events = POLLIN },
		{ .fd = dlk_shadow_copies_bell(), .events = POLLIN },
		{ .fd = dlk_errands_bell(), .events = POLLIN },
		{ .fd = dlk_mirror_fd(), .events = POLLIN },
	};
	const unsigned n = dlk_stores_watch(p + BELLS, SERVERS);
	const int ms = wait_ms(idle_since_ns);
	const uint64_t until = dlk_now_ns() + (unsigned)ms * DLK_MS;
	const int got = poll(p, BELLS + n, ms);

	dlk_survive_awake(until);
	if (got <= 0)
		return;
	dlk_carry_heed(p + BELLS, n);
	if (p[5].revents)
		dlk_mirror_hear();
	if (p[4].revents)
		dlk_errands_back();
	if (p[3].revents && dlk_shadow_copies_look())
		shadows_fell();
	/* First what the shim says: a DROP explains why a lock has ended. */
	if (p[1].revents) {
		dlk_obey();
		return;
	}
	if (p[0].revents)
		dlk_watch_ended(ended);
	if (p[2].revents)
		dlk_watch_closed();
}

static bool finished(uint64_t *idle_since_ns)
{
	uint64_t now = dlk_now_ns();

	if (!dlk_carry_bury() || !LIST_EMPTY(&dlk_carried)) {
		*idle_since_ns = now;
		return false;
	}
	if (dlk_losses_due_ns() != UINT64_MAX)
		return false;
	return !dlk_shim_lives() ||
	       (!dlk_shim_wants_us() &&
		now >= *idle_since_ns + LINGER_MS * DLK_MS);
}

/* The program's own limits were for the program. */
static void raise_limit(int which)
{
	struct rlimit rl;

	if (getrlimit((__rlimit_resource_t)which, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit((__rlimit_resource_t)which, &rl);
	}
}

static bool begin(void)
{
	sigset_t everything;

	sigfillset(&everything);
	pthread_sigmask(SIG_SETMASK, &everything, NULL);
	/* Ignored by the program, a child's number would be free at its end. */
	signal(SIGCHLD, SIG_DFL);
	dlk_clock_use(clock_gettime); /* nothing stands in for it here */
	dlk_log_init(getenv("DLOCK_LOG"), false);
	dlk_log_adopt(STDERR_FILENO);
	raise_limit(RLIMIT_NOFILE); /* a descriptor per file */
	raise_limit(RLIMIT_AS);
	raise_limit(RLIMIT_SIGPENDING); /* its watchdogs' timers */
	dlk_victims_reserve();
	dlk_victims_meanwhile(dlk_mirror_hear);
	dlk_tls_begin_beside_program();
	dlk_spawn_without();
	return dlk_watch_init() && dlk_errands_init() && dlk_obey_begin(SHIM);
}

int main(void)
{
	uint64_t idle_since_ns = dlk_now_ns();

	if (!begin()) {
		static const char text[] = "dlock-keeper: is started by "
					   "libdlock-preload.so only\n";

		if (!dlk_shim_has_left())
			(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 64;
	}
	do {
		uint64_t now;

		wait_once(idle_since_ns);
		dlk_standby_keep();
		now = dlk_now_ns();
		dlk_survive(now);
		dlk_carry_look_at_paused(now);
		if (now >= dlk_look_due_ns())
			look();
		dlk_look_at_answered();
		do
			dlk_sections_until(dlk_survive_due_ns());
		while (dlk_carry_some(now) &&
		       dlk_now_ns() < dlk_survive_due_ns());
		dlk_watch_answers_are_old();
		dlk_survive_go_on();
		dlk_settle(false);
		dlk_losses_record(now, LIST_EMPTY(&dlk_carried));
		dlk_mirror_flush();
		dlk_watchdog(dlk_now_ns());
	} while (!finished(&idle_since_ns));
	dlk_watchdog_end();
	dlk_standby_end();
	_exit(0);
}
