/* SPDX-License-Identifier: MIT */
/*
 * One call into dlock, and the signals meanwhile: what surrounds every hook.
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
 *  5. A handler may leave the thread another mask than it found (uc_sigmask), or
 *     another cancellation state.  So what is there after it is the program's
 *     from then on, in this call and after it.
 */
#include "os/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/sys.h"
#include "model/timeline.h"

/*
 * How long a call of ours may leave signals unheard, at first; and a
 * cancellation.
 */
enum { SIGNAL_DELAY_MS = 100, CANCEL_MS = 50 };

/*
 * A program that blocks SIGURG may wait for its own, in any thread: ours is not
 * used then, and it is looked for bytes.
 */
enum { POLL_MS = 5 };

/* The innermost call of this thread; looked at between enter and leave only. */
static __thread const struct dlk_call *current
	__attribute__((tls_model("initial-exec")));

void dlk_mask(struct dlk_call *call)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &call->mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
}

static void restore_mask(void *arg)
{
	const struct dlk_call *call = arg;

	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

/*
 * By pthread_testcancel(3), for glibc's pthread_setcancelstate(3) forgets to say
 * PTHREAD_CANCELED of what is asynchronous [m: 2.36].
 */
static void set_cancel(int state, bool test)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcancelstate(state, NULL);
	if (test || type == PTHREAD_CANCEL_ASYNCHRONOUS)
		pthread_testcancel();
	pthread_setcanceltype(type, NULL);
}

void dlk_cancel_state(int state)
{
	set_cancel(state, false);
}

/*
 * The program's cancellation state.  A cancellation that came meanwhile and is
 * asynchronous ends the thread here: its cleanup handlers run as the program
 * masked them.
 */
static void allow_cancel(struct dlk_call *call)
{
	pthread_cleanup_push(restore_mask, call);
	set_cancel(call->cancel, false);
	pthread_cleanup_pop(0);
}

void dlk_unmask(struct dlk_call *call)
{
	allow_cancel(call);
	pthread_sigmask(SIG_SETMASK, &call->mask, NULL);
}

void dlk_enter(struct dlk_call *call)
{
	call->err = errno;
	call->wait = false;
	call->handled = false;
	call->signal_delay_ns = SIGNAL_DELAY_MS * DLK_MS;
	call->cancels = false;
	dlk_mask(call);
	call->outer = current;
	current = call;
}

void dlk_leave(struct dlk_call *call)
{
	current = call->outer;
	dlk_unmask(call);
	errno = call->err;
}

bool dlk_has_handler(int sig)
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
		if (sigismember(&current->mask, sig) == 1 &&
		    dlk_has_handler(sig))
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
	       (most != NOTHING && dlk_now_ns() >= call->signal_until_ns);
}

/* What the program has not blocked; sigtimedwait(2) takes no SIGKILL. */
static void unblocked(const struct dlk_call *call, sigset_t *set)
{
	sigfillset(set);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&call->mask, sig) == 1)
			sigdelset(set, sig);
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
	/* No signal is let in: it would be handled, and nobody hear of it. */
	pthread_cleanup_push(restore_mask, call);
	set_cancel(call->cancel, true);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

/* A sleep on a socket of ours, or on none (fd -1). */
struct sleeper {
	struct dlk_call *call;
	int fd;
	dlk_away_fn *away; /* or NULL */
	void *arg;
	bool listens;
};

static bool is_ours(const struct sleeper *s, int sig, const siginfo_t *info)
{
	return s->fd >= 0 && sig == SIGURG && info->si_code >= POLL_IN &&
	       info->si_code <= POLL_HUP && info->si_fd == s->fd;
}

static int take_signal(const sigset_t *set, uint64_t ns, siginfo_t *info)
{
	const struct timespec time = dlk_timespec(ns);

	return (int)dlk_syscall(SYS_rt_sigtimedwait, set, info, &time,
				_NSIG / 8);
}

/*
 * Bytes that come are told to this thread by a signal, for it is by
 * sigtimedwait(2) that it sleeps.  SIGURG: the kernel sends it on behalf of
 * sockets anyway, and where it is not handled it does nothing; it is blocked
 * all the time that this one can come (F_SETSIG, F_SETOWN_EX: fcntl(2)).
 */
static bool is_told(const struct sleeper *s)
{
	return s->fd >= 0 && sigismember(&s->call->mask, SIGURG) == 0;
}

static void begin_listening(struct sleeper *s)
{
	struct f_owner_ex me = { F_OWNER_TID, (pid_t)dlk_syscall(SYS_gettid) };

	/* (The program may have closed it.) */
	if (!is_told(s) || !dlk_own_is(s->fd))
		return;
	dlk_syscall(SYS_fcntl, s->fd, F_SETOWN_EX, &me);
	dlk_syscall(SYS_fcntl, s->fd, F_SETSIG, SIGURG);
	dlk_syscall(SYS_fcntl, s->fd, F_SETFL, O_ASYNC);
	s->listens = true;
}

static void end_listening(struct sleeper *s)
{
	siginfo_t info;
	sigset_t set;

	if (!s->listens)
		return;
	s->listens = false;
	if (dlk_own_is(s->fd))
		dlk_syscall(SYS_fcntl, s->fd, F_SETFL, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	if (take_signal(&set, 0, &info) == SIGURG && !is_ours(s, SIGURG, &info))
		give_back(SIGURG, &info);
}

static bool has_bytes(const struct sleeper *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	return s->fd >= 0 && dlk_poll(&p, 1, 0) != 0;
}

enum { SLEPT, BYTES, HANDLED };

/*
 * What would interrupt the call and is there as well, taken: its number, or 0.  (No
 * signal of job control: one that is taken and given back discards others, which
 * are pending or in hand.)
 */
static int take_interrupting(const struct sleeper *s, siginfo_t *info)
{
	sigset_t set;
	int sig;

	if (sigpending(&set) < 0)
		return 0;
	for (sig = 1; sig < NSIG; sig++)
		if (sigismember(&set, sig) == 1 &&
		    (sigismember(&s->call->mask, sig) == 1 || sig == SIGCONT ||
		     sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU ||
		     effect_of(sig) != INTERRUPTS))
			sigdelset(&set, sig);
	sig = take_signal(&set, 0, info);
	return sig > 0 ? sig : 0;
}

static void go_away(struct sleeper *s, bool handled)
{
	if (handled && s->away)
		s->away(s->arg);
}

/*
 * The signal was taken, and does now what it would have done by itself.  So does
 * all that came meanwhile, and what came behind it: one that interrupts among that
 * is not to be lost.
 */
static int let_act(struct sleeper *s, int sig, siginfo_t *info,
		   enum effect *effect)
{
	bool handled = dlk_has_handler(sig);
	siginfo_t other;
	int more = 0;

	go_away(s, handled);
	if (*effect != INTERRUPTS && s->call->wait)
		more = take_interrupting(s, &other);
	if (more) {
		*effect = INTERRUPTS;
		go_away(s, !handled);
		handled = true;
	}
	s->call->handled |= handled;
	give_back(sig, info);
	if (more)
		give_back(more, &other);
	dlk_unmask(s->call);
	dlk_mask(s->call);
	return handled ? HANDLED : SLEPT;
}

/*
 * Which handler ran decides between EINTR and a restart.  No system call with
 * a timeout tells, and is restarted as flock(2) is [futex_waitv(2) is, but what
 * comes a moment before it is handled without ending it: the alarm was lost 3
 * of 60 times on a busy machine].  So all signals are kept blocked and taken by
 * sigtimedwait(2), given back to this thread, and the mask is lifted: the
 * handler runs as the program has arranged it.  (What has one is asked when the
 * signal is there: another thread may change it at any time.)  A thread in
 * sigtimedwait(2) is one that the kernel may choose for what is sent to the
 * process; of several, one takes it (kernel/signal.c, do_sigtimedwait).
 *
 * A signal without a handler is none to the call: it ends the program, or stops
 * it for a while.
 */
static int handle_one(struct sleeper *s, uint64_t ns, enum effect *effect)
{
	sigset_t set;
	siginfo_t info;
	int sig;

	unblocked(s->call, &set);
	begin_listening(s);
	if (has_bytes(s)) {
		end_listening(s);
		return BYTES;
	}
	sig = take_signal(&set, ns, &info);
	if (is_ours(s, sig, &info)) {
		end_listening(s);
		return BYTES;
	}
	end_listening(s);
	if (sig <= 0)
		return SLEPT;
	*effect = effect_of(sig);
	return *effect == NOTHING ? SLEPT : let_act(s, sig, &info, effect);
}

static void cancelled(void *arg)
{
	struct sleeper *s = arg;
	sigset_t all, was;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	end_listening(s);
	if (s->away)
		s->away(s->arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

/* Nothing is pushed around a handler: what it jumps over would stay so. */
static void let_cancel(struct sleeper *s)
{
	pthread_cleanup_push(cancelled, s);
	if (s->call->cancels)
		test_cancel(s->call);
	allow_cancel(s->call);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

int dlk_sleep_on(struct dlk_call *call, int fd, uint64_t ns, dlk_away_fn *away,
		 void *arg)
{
	struct sleeper s = {
		.call = call,
		.fd = fd,
		.away = away,
		.arg = arg,
	};
	uint64_t until = dlk_now_ns() + ns, now = until - ns;
	int got;

	do {
		enum effect effect = NOTHING;
		uint64_t left = until - now;

		let_cancel(&s);
		/* Nothing tells that it is cancelled, by another thread. */
		if (!__libc_single_threaded && left > CANCEL_MS * DLK_MS)
			left = CANCEL_MS * DLK_MS;
		if (fd >= 0 && !is_told(&s) && left > POLL_MS * DLK_MS)
			left = POLL_MS * DLK_MS;
		got = handle_one(&s, left, &effect);
		if (got == HANDLED && effect == INTERRUPTS && call->wait)
			got = -EINTR;
		now = dlk_now_ns();
	} while (now < until && (got == SLEPT || (got == HANDLED && !away)));
	return got == HANDLED ? 0 : got;
}

int dlk_sleep_on_word(struct dlk_call *call, _Atomic unsigned *word,
		      unsigned seen, dlk_away_fn *away, void *arg)
{
	int err = call ? dlk_sleep_on(call, -1, 0, away, arg) : 0;

	if (err && call->wait)
		return err;
	dlk_futex_wait(word, seen, 20 * DLK_MS);
	return 0;
}

int dlk_sleep(struct dlk_call *call, uint64_t ns)
{
	return dlk_sleep_on(call, -1, ns, NULL, NULL);
}

int dlk_let_signals_in(struct dlk_call *call)
{
	return dlk_sleep(call, 0);
}
