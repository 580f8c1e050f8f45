/* SPDX-License-Identifier: MIT */
/*
 * One call into dlock: what surrounds every hook.
 *
 *  1. All signals are blocked while we hold a mutex or a connection: a
 *     handler that locks would meet them half-done.
 *  2. Cancellation is off: flock(2) is no cancellation point, recv(2) is.
 *  3. A wait in the kernel runs with the program's own mask, so that the
 *     kernel itself decides between EINTR and a restart (signal(7)).
 *  4. A wait for Redis runs masked and looks for pending signals every 20 ms;
 *     whether one of them interrupts is read from its disposition.
 */
#include "lock/state.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model/timeline.h"

struct dlk_state dlk = { .mutex = PTHREAD_MUTEX_INITIALIZER };
struct dlk_birth *dlk_birth;

bool dlk_alive(void)
{
	pid_t self, born;

	if (!dlk.on)
		dlk_begin();
	if (!dlk.on)
		return false;
	self = dlk_pid();
	born = atomic_load(&dlk_birth->pid);
	if (born == 0) {
		dlk_after_fork();
		return true;
	}
	return born == self;
}

void dlk_mask(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

void dlk_unmask(struct dlk_call *call)
{
	pthread_setcancelstate(call->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

void dlk_enter(struct dlk_call *call)
{
	sigset_t all;

	call->err = errno;
	call->wait = false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &call->mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
}

void dlk_leave(struct dlk_call *call)
{
	dlk_unmask(call);
	errno = call->err;
}

/* What a pending signal will do: nothing, run on, or interrupt. */
enum effect { NOTHING, RESTARTS, INTERRUPTS };

static enum effect effect_of(int sig)
{
	struct sigaction sa;

	if (sigaction(sig, NULL, &sa) < 0 || sa.sa_handler == SIG_IGN)
		return NOTHING;
	if (sa.sa_handler == SIG_DFL)
		return sig == SIGCHLD || sig == SIGURG || sig == SIGWINCH ||
				       sig == SIGCONT
			       ? NOTHING
			       : RESTARTS;
	return sa.sa_flags & SA_RESTART ? RESTARTS : INTERRUPTS;
}

static enum effect pending_effect(const struct dlk_call *call)
{
	enum effect most = NOTHING;
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return NOTHING;
	for (int sig = 1; sig < NSIG; sig++) {
		enum effect e;

		if (sigismember(&pending, sig) != 1 ||
		    sigismember(&call->mask, sig) == 1)
			continue;
		e = effect_of(sig);
		if (e > most)
			most = e;
	}
	return most;
}

int dlk_let_signals_in(struct dlk_call *call)
{
	enum effect most = pending_effect(call);

	if (most == NOTHING)
		return 0;
	dlk_unmask(call);
	dlk_mask();
	return most == INTERRUPTS ? -EINTR : 0;
}

bool dlk_signal_waits(void *arg)
{
	struct dlk_call *call = arg;

	if (call->wait && pending_effect(call) == INTERRUPTS)
		return true;
	dlk_let_signals_in(call);
	return false;
}

/*
 * In slices, masked, rather than in one sleep with the program's mask: a
 * signal that came while we were masked is handled the moment the mask is
 * lifted, before the sleep begins, and would not end it.
 */
int dlk_sleep(struct dlk_call *call, uint64_t ns)
{
	const uint64_t slice = 20 * DLK_MS, until = dlk_now_ns() + ns;
	uint64_t now;

	while ((now = dlk_now_ns()) < until) {
		int err = dlk_let_signals_in(call);

		if (err && call->wait)
			return err;
		dlk_pause_ns(until - now < slice ? until - now : slice);
	}
	return 0;
}

/* --- scratch -------------------------------------------------------------- */

enum { SPARES = 8 };
/* One is always there: a lock that we only pass on needs it, too. */
static struct dlk_scratch first;
static _Atomic(struct dlk_scratch *) spares[SPARES] = { &first };

struct dlk_scratch *dlk_scratch_get(void)
{
	struct dlk_scratch *s;

	for (int i = 0; i < SPARES; i++) {
		s = atomic_exchange(&spares[i], NULL);
		if (s)
			return s;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return s == MAP_FAILED ? NULL : s;
}

void dlk_scratch_put(struct dlk_scratch *s)
{
	for (int i = 0; s && i < SPARES; i++) {
		struct dlk_scratch *none = NULL;

		if (atomic_compare_exchange_strong(&spares[i], &none, s))
			return;
	}
	/* (`first`, if a place was free only while we looked, stays lost.) */
	if (s && s != &first)
		munmap(s, sizeof(*s));
}
