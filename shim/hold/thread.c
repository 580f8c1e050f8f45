/* SPDX-License-Identifier: MIT */
/*
 * The life of the renewal thread: when it may be started, and when it must be
 * gone (DESIGN L7).
 *
 *  1. While the program changes its privileges or namespaces there MUST be no
 *     thread of ours, down to the kernel: glibc aborts a setuid(2) that ends
 *     differently in two threads, and unshare(2) and setns(2) refuse threads.
 *     It is there again afterwards, with the credentials of the caller.
 *  2. It MUST NOT be started from a signal handler: pthread_create(3)
 *     allocates, and the handler may have interrupted malloc(3).
 *  3. It MUST NOT keep a process alive whose own threads have all ended.
 *  4. What may take long and is not a question to a server it MUST have done
 *     beside it, by a second thread, which is there for no longer than that
 *     takes.  (1) to (3) hold for both: the first outlives the second.
 *
 * Where there may be none, the keeper takes a lease over at once, and sees to
 * its release as well; the next lock call outside of all that starts it.
 *
 * A handler is told by a blocked signal that has one, or by
 * the alternate stack.  So a program that blocks such a signal around its
 * locks has the keeper instead of a thread; a handler with SA_NODEFER, an
 * empty sa_mask and no stack of its own is not recognized.
 */
#include "hold/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "model/timeline.h"

/* A thread that has told of its end (ended_ns) is gone by then, anywhere. */
enum { GONE_MS = 1000 };

/* A thread that has ended, until the kernel has none of that number. */
struct task {
	pid_t tid; /* 0: none */
	uint64_t ended_ns;
};

static struct {
	pthread_mutex_t mutex;
	void *(*run)(void *unused);
	bool (*is_wanted)(void);

	/* With the mutex. */
	bool runs;
	struct task task;
	uint64_t wakes_ns; /* when it looks next */
	sigset_t mask;     /* of who started it */

	_Atomic unsigned futex;  /* counts what it is woken for */
	_Atomic unsigned paused; /* who want no thread; set with the mutex */
	_Atomic bool missed;     /* wanted where none may be started */
	_Atomic bool main_ends;  /* by pthread_exit(3) */
	_Atomic int exit_code;   /* SYS_exit's, of a thread; + 1 */
} thread = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* The second thread; all of this is the first one's, but for `task.tid`. */
static struct {
	void (*work)(void);
	pthread_t id;
	bool begun;       /* it is to be joined */
	struct task task; /* its number is written by that one itself */
} beside;

void dlk_thread_forget(void)
{
	pthread_mutex_init(&thread.mutex, NULL);
	thread.runs = false;
	thread.task.tid = 0;
	beside.begun = false;
	beside.task.tid = 0;
	atomic_store(&thread.paused, 0);
	atomic_store(&thread.missed, false);
	atomic_store(&thread.main_ends, false);
	atomic_store(&thread.exit_code, 0);
}

static void ring(void)
{
	atomic_fetch_add(&thread.futex, 1);
	dlk_futex_wake(&thread.futex, 1);
}

/* --- start ---------------------------------------------------------------- */

void dlk_thread_set(void *(*run)(void *unused), bool (*is_wanted)(void))
{
	thread.run = run;
	thread.is_wanted = is_wanted;
}

/* All signals are blocked in the caller, so the thread is born with that. */
static int create(pthread_t *id, int detached, void *(*run)(void *unused))
{
	pthread_attr_t attr;
	size_t usual;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	pthread_attr_setdetachstate(&attr, detached);
	pthread_attr_getstacksize(&attr, &usual);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	err = pthread_create(id, &attr, run, NULL);
	/* Thread-local storage lies there too, and some programs have much. */
	if (err == EINVAL && pthread_attr_setstacksize(&attr, usual) == 0)
		err = pthread_create(id, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* After unshare(CLONE_NEWPID) there can be none (clone(2), EINVAL): no news. */
static bool start(void)
{
	pthread_t id;
	int err = create(&id, PTHREAD_CREATE_DETACHED, thread.run);

	if (!err)
		return true;
	pthread_mutex_lock(&thread.mutex);
	thread.runs = false;
	pthread_mutex_unlock(&thread.mutex);
	dlk_hold_leave_all();
	if (err != EINVAL || !dlk_children_elsewhere())
		dlk_log(DLK_ERROR, "cannot start the renewal thread: ",
			strerrordesc_np(err), NULL);
	return false;
}

bool dlk_thread_need(uint64_t at_ns)
{
	bool refused, must_start = false, must_ring = false;

	pthread_mutex_lock(&thread.mutex);
	refused = atomic_load(&thread.paused) ||
		  (!thread.runs && dlk_in_handler());
	if (!refused) {
		must_start = !thread.runs;
		must_ring = !must_start && at_ns < thread.wakes_ns;
		thread.runs = true;
	}
	if (must_start)
		dlk_program_mask(&thread.mask);
	if (must_ring)
		thread.wakes_ns = at_ns;
	pthread_mutex_unlock(&thread.mutex);
	if (must_ring)
		ring();
	if (!refused && (!must_start || start()))
		return true;
	atomic_store(&thread.missed, true);
	return false;
}

void dlk_thread_catch_up(void)
{
	if (!atomic_load(&thread.missed) || !thread.is_wanted() ||
	    dlk_in_handler())
		return;
	atomic_store(&thread.missed, false);
	dlk_thread_need(dlk_now_ns());
}

bool dlk_thread_here(void)
{
	DLK_GUARD(&thread.mutex);
	return thread.runs && atomic_load(&thread.paused) == 0;
}

bool dlk_thread_comes(void)
{
	DLK_GUARD(&thread.mutex);
	return thread.runs || atomic_load(&thread.paused);
}

/* --- pause ---------------------------------------------------------------- */

/*
 * One that has told of its end is no task of the kernel's some microseconds
 * later.  Much later its number may be another thread's.
 */
static bool is_gone(const struct task *task)
{
	return task->tid == 0 || dlk_thread_is_gone(task->tid) ||
	       dlk_now_ns() > task->ended_ns + GONE_MS * DLK_MS;
}

/*
 * The kernel forgets the number of a task an instant before it takes it off
 * the list that unshare(2) looks at, both under a lock that every wait for
 * children takes as well.  WNOWAIT: the program's children stay as they are.
 */
static void let_the_kernel_finish(void)
{
	siginfo_t info;

	dlk_syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT,
		    NULL);
}

static void wait_until_gone(void)
{
	bool gone = false, was_there = false;

	while (!gone) {
		pthread_mutex_lock(&thread.mutex);
		was_there |= thread.runs || thread.task.tid;
		gone = !thread.runs && is_gone(&thread.task);
		if (gone)
			thread.task.tid = 0;
		pthread_mutex_unlock(&thread.mutex);
		if (!gone)
			dlk_pause_ns(DLK_MS / 50);
	}
	if (was_there)
		let_the_kernel_finish();
}

/* Nobody is there to hear what the keeper renews meanwhile. */
void dlk_thread_pause(void)
{
	pthread_mutex_lock(&thread.mutex);
	atomic_fetch_add(&thread.paused, 1);
	pthread_mutex_unlock(&thread.mutex);
	ring();
	wait_until_gone();
	dlk_hold_leave_all();
}

void dlk_thread_resume(void)
{
	bool wanted;

	pthread_mutex_lock(&thread.mutex);
	wanted = atomic_fetch_sub(&thread.paused, 1) == 1;
	/* Before another pause. */
	if (wanted)
		dlk_hold_return_all();
	wanted = wanted && thread.is_wanted();
	pthread_mutex_unlock(&thread.mutex);
	if (wanted)
		dlk_thread_need(dlk_now_ns());
}

bool dlk_thread_is_paused(void *unused)
{
	(void)unused;
	return atomic_load(&thread.paused) != 0;
}

/* --- the thread itself ---------------------------------------------------- */

static __thread bool in_thread __attribute__((tls_model("initial-exec")));

bool dlk_in_thread(void)
{
	return in_thread;
}

/* One at a time: what it has of its own is static. */
void dlk_thread_begin(void)
{
	bool alone = false;

	in_thread = true;

	while (!alone) {
		pthread_mutex_lock(&thread.mutex);
		alone = is_gone(&thread.task);
		if (alone)
			thread.task.tid = (pid_t)dlk_syscall(SYS_gettid);
		pthread_mutex_unlock(&thread.mutex);
		if (!alone)
			dlk_pause_ns(DLK_MS / 50);
	}
}

/* --- beside it ------------------------------------------------------------ */

static void *run_beside(void *unused)
{
	(void)unused;
	beside.task.tid = (pid_t)dlk_syscall(SYS_gettid);
	beside.work();
	ring();
	return NULL;
}

int dlk_thread_beside(void (*work)(void))
{
	int err;

	if (!dlk_thread_beside_is_over())
		return -EBUSY;
	beside.work = work;
	err = create(&beside.id, PTHREAD_CREATE_JOINABLE, run_beside);
	beside.begun = !err;
	return -err;
}

bool dlk_thread_beside_is_over(void)
{
	if (beside.begun && pthread_tryjoin_np(beside.id, NULL) == 0) {
		beside.begun = false;
		beside.task.ended_ns = dlk_now_ns();
	}
	if (beside.begun || !is_gone(&beside.task))
		return false;
	beside.task.tid = 0;
	return true;
}

/* --- who is left ---------------------------------------------------------- */

/*
 * The main thread has ended: its memory is gone though its number is not.  (Where
 * that may not be asked, by seccomp(2), its state is what /proc says.)
 */
static bool main_has_ended(void)
{
	char from = 0, to;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	if (process_vm_readv(dlk_pid(), &local, 1, &remote, 1, 0) >= 0 ||
	    errno == EFAULT)
		return false;
	return errno == ESRCH ||
	       dlk_kernel_task_state("/proc/self/stat") == 'Z';
}

/* A dead main one too; proc_pid_task(5): links - 2 are threads. */
static unsigned long threads(void)
{
	struct stat st;

	return dlk_stat("/proc/self/task", &st, 0) < 0 ? 0 : st.st_nlink - 2;
}

/*
 * This thread and the dead main one; or nobody can tell (no /proc), and the
 * process must not be kept alive: the leases are the keeper's then, and the
 * next lock starts a thread again.
 */
static bool only_two(void)
{
	unsigned long n = threads();

	return n == 2 || n == 0;
}

enum dlk_remaining dlk_thread_remaining(void)
{
	if (!main_has_ended())
		return atomic_load(&thread.main_ends) ? DLK_MAIN_ENDS
						      : DLK_OTHERS;
	return only_two() && dlk_thread_beside_is_over() ? DLK_ALONE
							 : DLK_MAIN_ENDS;
}

/*
 * glibc's last thread calls exit(3) for the process.  Bare, that would be one
 * of the program's, with its signals.
 */
void dlk_thread_last(void)
{
	sigset_t mask;
	int code;

	pthread_mutex_lock(&thread.mutex);
	thread.runs = false;
	thread.task.tid = 0;
	mask = thread.mask;
	pthread_mutex_unlock(&thread.mutex);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	code = atomic_load(&thread.exit_code);
	if (code)
		dlk_syscall(SYS_exit, code - 1);
}

void dlk_thread_main_ends(void)
{
	atomic_store(&thread.main_ends, true);
	ring();
}

bool dlk_thread_is_last_other(void)
{
	unsigned long n = threads();

	return n && dlk_thread_here() && n - main_has_ended() <= 2;
}

void dlk_thread_exit_code(int code)
{
	atomic_store(&thread.exit_code, (code & 0xff) + 1);
}

/* --- its sleep ------------------------------------------------------------ */

unsigned dlk_thread_futex(void)
{
	return atomic_load(&thread.futex);
}

/* Until at_ns, or rung for; it had been `seen` times before we looked. */
static void wait_until(uint64_t at_ns, unsigned seen)
{
	const uint64_t now = dlk_now_ns(), most = 3600 * 1000 * DLK_MS;

	if (at_ns > now)
		dlk_futex_wait(&thread.futex, seen,
			       at_ns - now < most ? at_ns - now : most);
}

/*
 * Whoever needs the thread has said before for what, and takes the mutex: so
 * is_over() sees that, or the thread is rung for, or another one is started.
 */
bool dlk_thread_sleep(unsigned seen,
		      bool (*is_over)(void *arg, uint64_t *at_ns), void *arg)
{
	uint64_t at;
	bool end;

	pthread_mutex_lock(&thread.mutex);
	end = is_over(arg, &at);
	if (end && !dlk_thread_beside_is_over()) {
		end = false;
		at = dlk_now_ns() + DLK_MS;
	}
	thread.wakes_ns = at;
	thread.runs = !end;
	thread.task.ended_ns = dlk_now_ns();
	pthread_mutex_unlock(&thread.mutex);
	if (!end)
		wait_until(at, seen);
	return !end;
}
