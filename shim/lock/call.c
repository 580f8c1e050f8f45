/* SPDX-License-Identifier: MIT */
/*
 * One call into dlock: what surrounds every hook.
 *
 *  1. All signals are blocked while we hold a mutex or a connection: a
 *     handler that locks would meet them half-done.
 *  2. Cancellation is off: flock(2) is no cancellation point, recv(2) is.
 *  3. A wait in the kernel runs with the program's own mask, so that the
 *     kernel itself decides between EINTR and a restart (signal(7)).  A wait
 *     for Redis takes the signals itself and gives them back: see dlk_sleep().
 *  4. Where signals and cancellation are let in, nothing MUST be in hand: the
 *     call may never come back (siglongjmp(3), pthread_exit(3) in a handler,
 *     an asynchronous cancellation, an exception).
 */
#include "lock/state.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model/timeline.h"

/* How long a call of ours may leave signals unheard, at first. */
enum { DEAF_MS = 100 };

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

/* The innermost call of this thread; looked at between enter and leave only. */
static __thread const struct dlk_call *current
	__attribute__((tls_model("initial-exec")));

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
 * masked them.  By pthread_testcancel(3), for glibc's pthread_setcancelstate(3)
 * forgets to say PTHREAD_CANCELED [m: 2.36].
 */
static void allow_cancel(struct dlk_call *call)
{
	int type;

	pthread_cleanup_push(restore_mask, call);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcancelstate(call->cancel, NULL);
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		pthread_testcancel();
	pthread_setcanceltype(type, NULL);
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
	call->cancels = false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &call->mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
	call->outer = current;
	current = call;
}

void dlk_leave(struct dlk_call *call)
{
	current = call->outer;
	dlk_unmask(call);
	errno = call->err;
}

static bool has_handler(int sig)
{
	struct sigaction sa;

	return sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL &&
	       sa.sa_handler != SIG_IGN;
}

bool dlk_in_handler(void)
{
	stack_t stack;

	if (!current)
		return false;
	if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK))
		return true;
	for (int sig = 1; sig < NSIG && !sigisemptyset(&current->mask); sig++)
		if (sigismember(&current->mask, sig) == 1 && has_handler(sig))
			return true;
	return false;
}

void dlk_program_mask(sigset_t *mask)
{
	sigemptyset(mask);
	if (current)
		*mask = current->mask;
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

bool dlk_signal_waits(void *arg)
{
	const struct dlk_call *call = arg;
	enum effect most = pending_effect(call);

	return (call->wait && most == INTERRUPTS) ||
	       (most != NOTHING && dlk_now_ns() >= call->deaf_until_ns);
}

/* What the program handles, and has not blocked. */
static void handled(const struct dlk_call *call, sigset_t *set)
{
	struct sigaction sa;

	sigemptyset(set);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&call->mask, sig) == 0 &&
		    sigaction(sig, NULL, &sa) == 0 &&
		    sa.sa_handler != SIG_IGN && sa.sa_handler != SIG_DFL)
			sigaddset(set, sig);
}

/* To this thread, as it came; where that is forbidden, without its siginfo. */
static void give_back(int sig, siginfo_t *info)
{
	pid_t pid = dlk_pid();
	pid_t tid = (pid_t)dlk_syscall(SYS_gettid);

	if (dlk_syscall(SYS_rt_tgsigqueueinfo, pid, tid, sig, info) < 0)
		dlk_syscall(SYS_tgkill, pid, tid, sig);
}

/* fcntl(F_SETLKW) and lockf(3) are cancellation points, and hold nothing now */
static void test_cancel(struct dlk_call *call)
{
	dlk_unmask(call);
	pthread_testcancel();
	dlk_mask();
}

/*
 * Sleep until a signal comes that has a handler, and let it run: its number, 0
 * for none.  Signals without handlers do what they do, and are none.
 */
static int handle_one(struct dlk_call *call, uint64_t ns, enum effect *effect)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000U),
				 .tv_nsec = (long)(ns % 1000000000U) };
	sigset_t set, mask;
	siginfo_t info;
	int sig;

	handled(call, &set);
	sigorset(&mask, &call->mask, &set);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	sig = (int)dlk_syscall(SYS_rt_sigtimedwait, &set, &info, &time,
			       _NSIG / 8);
	dlk_mask();
	if (sig <= 0)
		return 0;
	*effect = effect_of(sig);
	give_back(sig, &info);
	dlk_unmask(call);
	dlk_mask();
	return sig;
}

/*
 * Which handler ran decides between EINTR and a restart.  No system call with
 * a timeout tells, and is restarted as flock(2) is [futex_waitv(2) is, but what
 * comes a moment before it is handled without ending it: the alarm was lost 3
 * of 60 times on a busy machine].  So the signals that have a handler are kept
 * blocked and taken by sigtimedwait(2), given back to this thread, and the
 * mask is lifted: the handler runs as the program has arranged it.  A thread in
 * sigtimedwait(2) is one that the kernel may choose for what is sent to the
 * process; of several, one takes it (kernel/signal.c, do_sigtimedwait).
 */
int dlk_sleep(struct dlk_call *call, uint64_t ns)
{
	uint64_t until = dlk_now_ns() + ns, now = until - ns;

	do {
		enum effect effect = NOTHING;

		if (call->cancels)
			test_cancel(call);
		allow_cancel(call);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		if (handle_one(call, until - now, &effect) &&
		    effect == INTERRUPTS && call->wait)
			return -EINTR;
		now = dlk_now_ns();
	} while (now < until);
	return 0;
}

int dlk_let_signals_in(struct dlk_call *call)
{
	return dlk_sleep(call, 0);
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
