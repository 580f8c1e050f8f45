/* SPDX-License-Identifier: MIT */
/*
 * One call into dlock: what surrounds every hook.
 *
 *  1. All signals are blocked while we hold a mutex or a connection: a
 *     handler that locks would meet them half-done.
 *  2. Cancellation is off: flock(2) is no cancellation point, recv(2) is.
 *  3. A wait runs with the program's own mask, in a system call that the
 *     kernel restarts, or does not, as it would flock(2): signal(7).  What
 *     stops or traces the thread does not end it.
 *  4. Where signals and cancellation are let in, nothing MUST be in hand: the
 *     call may never come back (siglongjmp(3), pthread_exit(3) in a handler,
 *     an asynchronous cancellation, an exception).
 */
#include "lock/state.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "model/timeline.h"

/* How long a call of ours may leave signals unheard, at first. */
enum { DEAF_MS = 100, SLICE_MS = 20 };

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

static void restore_mask(void *arg)
{
	const struct dlk_call *call = arg;

	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

/*
 * The program's cancellation state.  A cancellation that came meanwhile and is
 * asynchronous ends the thread here: its cleanup handlers run as the program
 * masked them.
 */
static void allow_cancel(struct dlk_call *call)
{
	pthread_cleanup_push(restore_mask, call);
	pthread_setcancelstate(call->cancel, NULL);
	pthread_cleanup_pop(0);
}

void dlk_unmask(struct dlk_call *call)
{
	allow_cancel(call);
	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

void dlk_enter(struct dlk_call *call)
{
	sigset_t all;

	call->err = errno;
	call->wait = false;
	call->deaf_ns = DEAF_MS * DLK_MS;
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

/*
 * Of a signal that was sent to the process, and that other threads wait to
 * take as well, sigpending(2) tells all of them: only ppoll(2) knows whether a
 * handler ran here.
 */
int dlk_let_signals_in(struct dlk_call *call)
{
	const struct timespec no_time = { 0 };
	enum effect most = pending_effect(call);
	bool handled;

	allow_cancel(call);
	handled = most != NOTHING && dlk_syscall(SYS_ppoll, NULL, 0, &no_time,
					     &call->mask, _NSIG / 8) < 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return handled && call->wait && most == INTERRUPTS ? -EINTR : 0;
}

bool dlk_signal_waits(void *arg)
{
	const struct dlk_call *call = arg;
	enum effect most = pending_effect(call);

	return (call->wait && most == INTERRUPTS) ||
	       (most != NOTHING && dlk_now_ns() >= call->deaf_until_ns);
}

/*
 * Of all system calls with a timeout, futex_waitv(2) is the one that is
 * restarted exactly when flock(2) is; Linux 5.16.  ETIMEDOUT or EINTR; else it
 * is not to be had.
 */
static int wait_in_kernel(uint64_t ns)
{
	uint32_t word = 0;
	struct futex_waitv never = {
		.uaddr = (uintptr_t)&word,
		.flags = FUTEX_32 | FUTEX_PRIVATE_FLAG,
	};
	struct timespec until;

	dlk_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000U);
	until.tv_nsec = (long)(ns % 1000000000U);
	dlk_syscall(SYS_futex_waitv, &never, 1, 0, &until, CLOCK_MONOTONIC);
	return errno;
}

/* Masked, in slices, on an older kernel, or where seccomp(2) forbids it. */
static int wait_in_slices(struct dlk_call *call, uint64_t until_ns)
{
	const uint64_t slice = SLICE_MS * DLK_MS;
	uint64_t now;
	int err = 0;

	while (!err && (now = dlk_now_ns()) < until_ns) {
		dlk_pause_ns(until_ns - now < slice ? until_ns - now : slice);
		err = dlk_let_signals_in(call);
	}
	return err;
}

/*
 * A signal that came while we were masked counts as well: it goes first.  (One
 * that comes between the two is handled, and does not end the sleep: as one
 * that comes a moment before flock(2) does not end that.)
 */
int dlk_sleep(struct dlk_call *call, uint64_t ns)
{
	uint64_t until = dlk_now_ns() + ns, now;
	int err = dlk_let_signals_in(call);

	while (!err && (now = dlk_now_ns()) < until) {
		int why;

		dlk_unmask(call);
		why = wait_in_kernel(until - now);
		dlk_mask();
		if (why == EINTR && call->wait)
			err = -EINTR;
		else if (why != EINTR && why != ETIMEDOUT)
			err = wait_in_slices(call, until);
	}
	return err;
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
