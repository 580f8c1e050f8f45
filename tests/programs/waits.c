/* SPDX-License-Identifier: MIT */
/*
 * What ends a wait in flock(2), and what does not.
 *
 *	waits FILE CASE...
 *
 * FILE is held by somebody else.  Each case waits for it and prints what came
 * of it, so that bare and under dlock it must be the same, wherever the holder
 * is: a line
 *
 *	CASE: RESULT, what else there is to say
 *
 * A case that is not ended by a signal prints "release" first, on a line of
 * its own: then the holder lets go; and "hold" afterwards: then the holder
 * takes it again and writes a line to standard input.
 *
 * CASE `confined`: from here on rt_tgsigqueueinfo(2) is forbidden.  `jumps` and
 * `few-jumps` leave the wait by siglongjmp(3), many times, and say what has
 * leaked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <dirent.h>

#include "tests/lib/helper.h"

static const char *file;
static const char *name; /* of the case */
static int fd;           /* a description of each case's own */
static volatile sig_atomic_t handled[NSIG];
static sigjmp_buf back;

/* --- what there is to say ------------------------------------------------- */

static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

/* Lock lines of the case's own description. */
static int locks(void)
{
	char path[64], line[256];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", fd);
	f = fopen(path, "r");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f))
		n += strncmp(line, "lock:", 5) == 0;
	fclose(f);
	return n;
}

/* Not counting those between, which are glibc's own. */
static int blocked(void)
{
	sigset_t set;
	int n = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	for (int sig = 1; sig < NSIG; sig++)
		n += (sig < 32 || sig >= SIGRTMIN) &&
		     sigismember(&set, sig) == 1;
	return n;
}

static const char *cancellation(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	pthread_setcancelstate(state, NULL);
	return state == PTHREAD_CANCEL_ENABLE ? "on" : "off";
}

static void report(const char *result)
{
	printf("%s: %s, %d locks, %d blocked, cancellation %s, handled", name,
	       result, locks(), blocked(), cancellation());
	for (int sig = 1; sig < NSIG; sig++)
		if (handled[sig])
			printf(" %s", sigabbrev_np(sig) ?: "RT");
	say("");
}

/* --- signals -------------------------------------------------------------- */

static void note(int sig)
{
	handled[sig]++;
}

static void jump(int sig)
{
	handled[sig]++;
	siglongjmp(back, 1);
}

static void leave(int sig)
{
	handled[sig]++;
	pthread_exit(NULL);
}

static void timer_us(long us, long each_us)
{
	const struct itimerval it = {
		.it_value = { us / 1000000, us % 1000000 },
		.it_interval = { each_us / 1000000, each_us % 1000000 },
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

static timer_t posix_timer_us(int sig, long us, long each_us)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL };
	const struct itimerspec it = {
		.it_value = { 0, us * 1000 },
		.it_interval = { 0, each_us * 1000 },
	};
	timer_t timer;

	event.sigev_signo = sig;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &it, NULL))
		die("timer_create");
	return timer;
}

static timer_t posix_timer_ms(int sig, long ms, long each_ms)
{
	return posix_timer_us(sig, ms * 1000, each_ms * 1000);
}

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(how, &set, NULL);
}

/* A handler that is told of the thread it interrupted; USR1 waits for its end. */
static void handle_by(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {
		.sa_sigaction = handler,
		.sa_flags = flags | SA_SIGINFO,
	};

	sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(SIGALRM, &sa, NULL);
}

/* --- other threads and processes ------------------------------------------ */

static const char *wait_for_lock(void)
{
	return outcome(flock(fd, LOCK_EX));
}

/* The state letter of proc_pid_stat(5). */
static char state_of(pid_t pid, pid_t tid)
{
	char path[64], text[512] = "";
	const char *p;
	int from;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0 || read(from, text, sizeof(text) - 1) < 0)
		die(path);
	close(from);
	p = strrchr(text, ')');
	return p ? p[2] : '?';
}

static void until_state(pid_t pid, pid_t tid, const char *letters)
{
	while (!strchr(letters, state_of(pid, tid)))
		pause_ms(1);
}

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid; /* set as the last thing before it waits */
	int type;          /* of cancellation */
	_Atomic int eintr;
	_Atomic bool ended;
	char result[32];
};

static void cleanup(void *arg)
{
	struct waiter *w = arg;

	snprintf(w->result, sizeof(w->result), "ended, %d blocked", blocked());
}

static void *wait_in_thread(void *arg)
{
	struct waiter *w = arg;

	pthread_setcanceltype(w->type, NULL);
	pthread_cleanup_push(cleanup, w);
	w->tid = gettid();
	strcpy(w->result, wait_for_lock());
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	pthread_cleanup_pop(0);
	pthread_testcancel();
	return w;
}

/* It is asleep: in flock(2), for it does nothing else. */
static void start(struct waiter *w)
{
	if (pthread_create(&w->thread, NULL, wait_in_thread, w))
		die("pthread_create");
	while (!w->tid)
		pause_ms(1);
	until_state(getpid(), w->tid, "S");
}

/* Its result, and whether it came to its end. */
static void join(struct waiter *w)
{
	void *how;
	char line[80];

	pthread_join(w->thread, &how);
	snprintf(line, sizeof(line), "%s%s", w->result,
		 how == PTHREAD_CANCELED ? ", cancelled" : "");
	report(line);
}

/* A child that does something to this process while it waits. */
static pid_t child(void (*act)(pid_t parent))
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		act(parent);
		_exit(0);
	}
	return pid;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The holder lets go. */
static void release(void)
{
	say("release");
}

static void released_by_child(pid_t parent)
{
	until_state(parent, parent, "S");
	pause_ms(150);
	until_state(parent, parent, "S");
	release();
}

/* --- cases: ended by a signal --------------------------------------------- */

/*
 * Their timers tick: a process without a core may be before its wait when the
 * first signal comes, or have two at once, of which the kernel lets the first one
 * decide whether the call goes on.
 */

static void ended_by(void (*handler)(int))
{
	const char *result;

	handle(SIGALRM, handler, 0);
	timer_us(60000, 60000);
	result = wait_for_lock();
	timer_us(0, 0);
	report(result);
}

static void interval(void)
{
	ended_by(note);
}

static void alarm_clock(void)
{
	handle(SIGALRM, note, 0);
	alarm(1);
	report(wait_for_lock());
}

static void posix_timer(void)
{
	const char *result;
	timer_t ticks;

	handle(SIGUSR1, note, 0);
	ticks = posix_timer_ms(SIGUSR1, 60, 60);
	result = wait_for_lock();
	timer_delete(ticks);
	report(result);
}

/* The first handler lets it go on, the second does not. */
static void mix(long each_us)
{
	const char *result;
	timer_t ticks;

	handle(SIGUSR1, note, SA_RESTART);
	handle(SIGALRM, note, 0);
	ticks = posix_timer_us(SIGUSR1, each_us, each_us);
	timer_us(170050, 170000);
	result = wait_for_lock();
	timer_us(0, 0);
	timer_delete(ticks);
	report(result);
}

static void mixed(void)
{
	mix(40000);
}

/* So many of the first that one is always there. */
static void mixed_often(void)
{
	mix(100);
}

static void stop_and_go(pid_t parent)
{
	until_state(parent, parent, "S");
	kill(parent, SIGSTOP);
	until_state(parent, parent, "T");
	kill(parent, SIGCONT);
}

static void continued_handler(void)
{
	pid_t pid;

	handle(SIGCONT, note, 0);
	pid = child(stop_and_go);
	report(wait_for_lock());
	reap(pid);
}

static void thread_kill(void)
{
	struct waiter w = { 0 };

	handle(SIGUSR1, note, 0);
	start(&w);
	pthread_kill(w.thread, SIGUSR1);
	join(&w);
}

/* Until it has the lock, or what no signal explains. */
static void *wait_again(void *arg)
{
	struct waiter *w = arg;

	do {
		w->tid = gettid();
		strcpy(w->result, wait_for_lock());
		w->eintr += strcmp(w->result, "EINTR") == 0;
	} while (strcmp(w->result, "EINTR") == 0);
	w->ended = true;
	return NULL;
}

enum { CROWD = 6, ROUNDS = 40 };

static int ended(struct waiter *w)
{
	int n = 0;

	for (int i = 0; i < CROWD; i++)
		n += w[i].eintr;
	return n;
}

static void until_asleep(struct waiter *w)
{
	for (int i = 0; i < CROWD; i++) {
		while (!w[i].tid)
			pause_ms(1);
		if (w[i].ended) {
			report(w[i].result);
			exit(1);
		}
		until_state(getpid(), w[i].tid, "S");
	}
}

/* Many wait and one signal comes, to the process: it ends one wait. */
static void crowd(void)
{
	static struct waiter w[CROWD];
	int good = 0;
	char line[64];

	handle(SIGUSR1, note, 0);
	for (int i = 0; i < CROWD; i++) {
		w[i] = (struct waiter){ 0 };
		if (pthread_create(&w[i].thread, NULL, wait_again, &w[i]))
			die("pthread_create");
	}
	block(SIG_BLOCK, SIGUSR1);
	for (int n = 1; n <= ROUNDS; n++) {
		until_asleep(w);
		kill(getpid(), SIGUSR1);
		for (int ms = 0; ended(w) < n && ms < 10000; ms++)
			pause_ms(1);
	}
	until_asleep(w);
	release();
	for (int i = 0; i < CROWD; i++) {
		pthread_join(w[i].thread, NULL);
		good += strcmp(w[i].result, "0") == 0;
	}
	snprintf(line, sizeof(line), "%d of %d ended, %d granted", ended(w),
		 (int)handled[SIGUSR1], good);
	block(SIG_UNBLOCK, SIGUSR1);
	report(line);
}

/* --- cases: not ended ----------------------------------------------------- */

static void released(void)
{
	pid_t pid = child(released_by_child);

	report(wait_for_lock());
	reap(pid);
}

static void restart(void)
{
	handle(SIGALRM, note, SA_RESTART);
	timer_us(60000, 0);
	released();
}

static void blocked_signal(void)
{
	handle(SIGALRM, note, 0);
	block(SIG_BLOCK, SIGALRM);
	timer_us(60000, 0);
	released();
	block(SIG_UNBLOCK, SIGALRM);
	report("unblocked");
}

/* What has no handler, and does nothing. */
static void ignored(void)
{
	handle(SIGALRM, SIG_IGN, 0);
	timer_us(60000, 0);
	posix_timer_ms(SIGCHLD, 30, 0);
	posix_timer_ms(SIGWINCH, 90, 0);
	released();
	handle(SIGALRM, SIG_DFL, 0);
}

static void stop_then_release(pid_t parent)
{
	stop_and_go(parent);
	released_by_child(parent);
}

static void stopped(void)
{
	pid_t pid = child(stop_then_release);

	report(wait_for_lock());
	reap(pid);
}

static void trace_then_release(pid_t parent)
{
	int status;

	until_state(parent, parent, "S");
	if (ptrace(PTRACE_ATTACH, parent, NULL, NULL) ||
	    waitpid(parent, &status, __WALL) != parent ||
	    ptrace(PTRACE_DETACH, parent, NULL, NULL))
		die("ptrace");
	released_by_child(parent);
}

static void traced(void)
{
	pid_t pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid = child(trace_then_release);
	report(wait_for_lock());
	reap(pid);
}

/* A signal of another thread's. */
static void other_thread(void)
{
	struct waiter w = { 0 };

	handle(SIGUSR1, note, 0);
	start(&w);
	raise(SIGUSR1);
	pause_ms(50);
	release();
	join(&w);
}

/* flock(2) is no cancellation point: pthreads(7). */
static void deferred(void)
{
	struct waiter w = { .type = PTHREAD_CANCEL_DEFERRED };

	start(&w);
	pthread_cancel(w.thread);
	pause_ms(100);
	release();
	join(&w);
}

/* --- cases: what a handler leaves to the thread ---------------------------- */

/* From here on the thread has USR1 blocked, and one of it waits. */
static void block_more(int sig, siginfo_t *info, void *context)
{
	(void)info;
	handled[sig]++;
	sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR1);
	raise(SIGUSR1);
}

static void unblock_more(int sig, siginfo_t *info, void *context)
{
	(void)info;
	handled[sig]++;
	sigdelset(&((ucontext_t *)context)->uc_sigmask, SIGUSR1);
}

static void forbid_cancel(int sig)
{
	handled[sig]++;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void mask_added(void)
{
	const char *result;

	handle(SIGUSR1, note, 0);
	handle_by(block_more, 0);
	timer_us(60000, 60000);
	result = wait_for_lock();
	timer_us(0, 0);
	report(result);
	block(SIG_UNBLOCK, SIGUSR1);
	report("unblocked");
}

/* It goes on, and is not ended by what is blocked since. */
static void mask_added_restart(void)
{
	handle(SIGUSR1, note, 0);
	handle_by(block_more, SA_RESTART);
	timer_us(60000, 0);
	released();
	block(SIG_UNBLOCK, SIGUSR1);
	report("unblocked");
}

static void mask_removed(void)
{
	handle(SIGUSR1, note, 0);
	handle_by(unblock_more, SA_RESTART);
	block(SIG_BLOCK, SIGUSR1);
	raise(SIGUSR1);
	timer_us(60000, 0);
	released();
	block(SIG_UNBLOCK, SIGUSR1);
}

static void cancel_forbidden(void)
{
	ended_by(forbid_cancel);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/* --- cases: the call never comes back ------------------------------------- */

static void asynchronous(void)
{
	struct waiter w = { .type = PTHREAD_CANCEL_ASYNCHRONOUS };

	start(&w);
	pthread_cancel(w.thread);
	join(&w);
}

static void thread_exit(void)
{
	struct waiter w = { 0 };

	handle(SIGUSR1, leave, SA_RESTART);
	start(&w);
	pthread_kill(w.thread, SIGUSR1);
	join(&w);
}

static void jump_out(int flags)
{
	handle(SIGALRM, jump, flags);
	if (sigsetjmp(back, 1) == 0) {
		timer_us(60000, 0);
		report(wait_for_lock());
	}
	report("jumped");
}

static void jump_once(void)
{
	jump_out(0);
}

static void jump_restart(void)
{
	jump_out(SA_RESTART);
}

/* --- what leaks ----------------------------------------------------------- */

static long entries(const char *dir)
{
	DIR *d = opendir(dir);
	long n = 0;

	if (!d)
		die(dir);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long pages(void)
{
	char line[128] = "";
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || !fgets(line, sizeof(line), f))
		die("statm");
	fclose(f);
	return strtol(line, NULL, 10);
}

/* A moment for the jump to come at that differs each time. */
static void jump_many(int n, long from_us, long span_us)
{
	for (volatile int i = 0; i < n; i++)
		if (sigsetjmp(back, 1) == 0) {
			timer_us(from_us + i * 7L % span_us, 0);
			wait_for_lock();
			report("not ended");
			exit(1);
		}
}

static void count_leaks(int n, long from_us, long span_us)
{
	long had_pages, had_fds;
	char line[128];

	handle(SIGALRM, jump, 0);
	jump_many(n / 50 + 3, from_us, span_us);
	had_pages = pages();
	had_fds = entries("/proc/self/fd");
	jump_many(n, from_us, span_us);
	snprintf(line, sizeof(line),
		 "%d jumps, %ld pages, %ld descriptors, %ld threads more", n,
		 pages() - had_pages, entries("/proc/self/fd") - had_fds,
		 entries("/proc/self/task") - 3);
	report(line);
}

static void jumps(void)
{
	count_leaks(10000, 100, 400);
}

/* For a server that does not answer: each takes a while. */
static void few_jumps(void)
{
	count_leaks(8, 250000, 200000);
}

/* --- main ----------------------------------------------------------------- */

static void confine(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_tgsigqueueinfo, 0,
			 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { 4, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		die("seccomp");
}

static const struct {
	const char *name;
	void (*run)(void);
	bool released;
} cases[] = {
	{ "setitimer", interval, false },
	{ "alarm", alarm_clock, false },
	{ "timer_create", posix_timer, false },
	{ "mixed", mixed, false },
	{ "mixed-often", mixed_often, false },
	{ "SIGCONT", continued_handler, false },
	{ "pthread_kill", thread_kill, false },
	{ "crowd", crowd, true },
	{ "mask-added", mask_added, false },
	{ "mask-added-restart", mask_added_restart, true },
	{ "mask-removed", mask_removed, true },
	{ "cancel-forbidden", cancel_forbidden, false },
	{ "SA_RESTART", restart, true },
	{ "blocked", blocked_signal, true },
	{ "ignored", ignored, true },
	{ "SIGSTOP", stopped, true },
	{ "ptrace", traced, true },
	{ "other-thread", other_thread, true },
	{ "cancel-deferred", deferred, true },
	{ "cancel-asynchronous", asynchronous, false },
	{ "pthread_exit", thread_exit, false },
	{ "siglongjmp", jump_once, false },
	{ "siglongjmp-restart", jump_restart, false },
	{ "jumps", jumps, false },
	{ "few-jumps", few_jumps, false },
	{ "confined", confine, false },
};

static void wait_for_line(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static void run(size_t i)
{
	name = cases[i].name;
	memset((void *)(uintptr_t)handled, 0, sizeof(handled));
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		die(file);
	cases[i].run();
	close(fd);
	for (int sig = 1; sig < NSIG; sig++)
		if (handled[sig])
			signal(sig, SIG_DFL);
	if (!cases[i].released)
		return;
	say("hold");
	wait_for_line();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	file = argv[1];
	for (int a = 2; a < argc; a++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			if (strcmp(argv[a], cases[i].name) == 0)
				run(i);
	say("end");
	/* As a shell that has the description yet. */
	wait_for_line();
	return 0;
}
