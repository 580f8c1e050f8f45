/* SPDX-License-Identifier: MIT */
/*
 * Who has a lease's lock, and no timer of his own, dies at its backstop mark
 * though nobody runs: a child, a program that was executed, a shell that only has
 * the descriptor (DESIGN L6).  The keeper would kill them (survive.c), but for
 * that it has to run: not in a frozen host, a suspended machine, without a core.
 *
 *	the keeper		the watchdogs		who has the lock
 *	renewed: until T ->	timer: SIGKILL at T
 *	(frozen)		(frozen)		(frozen)
 *				T: they die, and
 *				their pipe is closed
 *							SIGKILL
 *
 * A timer kills no process but its own (timer_create(2)).  But a process that
 * dies closes its files, and who has asked for it is told of the end of a pipe by
 * a signal, any, sent to any process that he may signal (fcntl(2): O_ASYNC,
 * F_SETSIG, F_SETOWN_EX).  The kernel does all of it, whoever is frozen.  So the
 * watchdogs have the only write ends, and the keeper a read end for each victim.
 *
 *  1. There are two, for the death of one is no reason to kill anybody: it is
 *     replaced.
 *  2. Nobody but they may have a write end, and nobody but the keeper a read end:
 *     a standby lets go of its copies before all else, and takes its own when it
 *     is the keeper.
 *  3. Whose keeper is dead, by its first thread, disarms its timer, and ends when
 *     nobody has a read end, which is when the last of its threads has ended.
 *     They are no part of its process group, which is killed as a whole.
 *  4. It is set for the first mark of all leases of the keeper's, by whatever
 *     moves one or ends one: they are one program's, which dies itself when it has
 *     lost one.
 *  5. Who is to be paused, and was not by then, is killed as well, as its taker
 *     is.  Whose lease is another's is the keeper's to kill.
 *
 *  6. Who they are is looked for when leases have come: their taker, and those
 *     whom it shares its descriptor with; or all processes, where it has the lock
 *     no more.  Then among the children of those who are known.  A look takes a
 *     part of our time (LOOK_PART), so that many keepers are no load.
 *  7. Their descriptors are half of what may be open, at most, and leave ROOM; where
 *     that is not there they rest.  A keeper that lacks one for its connection loses
 *     the lease, and kills who did nothing.  survive.c gets them if it lacks any.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "model/text.h"
#include "model/timeline.h"
#include "os/log.h"
#include "os/precedence.h"
#include "os/proc.h"
#include "os/sys.h"

enum { DOGS = 2 };
enum { FIRST_MS = 250, LEAST_MS = 20, LATE_MS = 50, REST_MS = 10000 };
/*
 * What the keeper needs meanwhile: for a connection, and to find its server's address;
 * for a standby; for a lease that comes, with what it is seen by.
 */
enum { ROOM = 8 };
/* To begin takes so many: the read end, one of each watchdog, and one for a moment. */
enum { BEGINS = 2 + DOGS };
/* Of a core, looks take one part of so many. */
enum { LOOK_PART = 100 };
/* Who lets us renew so often in a row is taken for one without a timer. */
enum { SILENT = 2 };
/* So many looks that had no time are said. */
enum { CUTS = 5 };

unsigned dlk_unreaped;

static struct {
	int read; /* by which the others are opened; -1 */
	struct {
		_Atomic uint64_t at_ns;
		_Atomic int armed[DOGS]; /* 1; 0: not yet; -errno: it cannot */
	} * page;                        /* shared with them */
	struct {
		pid_t pid; /* 0: there is none */
		int fd;
	} v[DOGS];
	struct dlk_victims who;
	uint64_t due_ns;   /* UINT64_MAX: nobody is to be watched */
	uint64_t look_ns;  /* at others than children, at the earliest */
	uint64_t began_ns; /* the last of both */
	uint64_t late_ns;  /* since when one waits to be made; 0: none does */
	unsigned heard;    /* dlk_carried_news, when it was planned */
	unsigned news;     /* the same, when they were looked for */
	unsigned moves;    /* of deadlines, that the mark is of */
	unsigned cuts;     /* so many looks in a row had no time */
	bool stale;        /* others may have to be watched */
	bool failed;       /* said already */
} dogs = { .read = -1, .due_ns = UINT64_MAX };

/* The leases that are watched. */
static struct {
	struct dlk_kept **v;
	size_t n, room;
	uint64_t first_ns; /* the first mark */
	uint64_t stop_ns;  /* and the first stop mark, which is survive.c's */
	uint32_t ttl_ms;   /* the shortest */
	bool left;         /* by their process, one of them */
} watched;

/* --- a watchdog ----------------------------------------------------------- */

static void arm(timer_t timer, uint64_t at_ns)
{
	struct itimerspec at = { 0 };

	if (at_ns != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(at_ns / 1000000000U);
		at.it_value.tv_nsec = (long)(at_ns % 1000000000U);
	}
	timer_settime(timer, TIMER_ABSTIME, &at, NULL);
}

/*
 * It looks again in half the time that is left, so that a mark that has moved on
 * is seen though it gets a core late; SIGUSR1 says that one has come nearer.
 * False: the keeper's first thread is dead (SIGUSR2; prctl(2)), by which it is,
 * though another one of its threads may have no core to end for long.  (All
 * signals are blocked, as the keeper's.)
 */
static bool watch(timer_t timer, const _Atomic uint64_t *at_ns, pid_t keeper)
{
	const uint64_t at = atomic_load(at_ns), now = dlk_now_ns();
	uint64_t nap = at > now ? (at - now) / 2 : DLK_MS;
	struct timespec time;
	siginfo_t who;
	sigset_t told;

	arm(timer, at);
	if (nap > 60000 * DLK_MS)
		nap = 60000 * DLK_MS;
	time.tv_sec = (time_t)(nap / 1000000000U);
	time.tv_nsec = (long)(nap % 1000000000U);
	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigaddset(&told, SIGUSR2);
	return sigtimedwait(&told, &who, &time) != SIGUSR2 ||
	       who.si_pid != keeper;
}

/* Killed, it sets no mark any more; it may lack a core to end. */
static bool is_kept(pid_t keeper)
{
	return getppid() == keeper && dlk_kernel_death(keeper) == DLK_LIVES;
}

/*
 * The threads of a process that is killed end one after the other, and the last
 * one closes its files: so not before nobody has a read end (pipe(7): POLLERR).
 */
static _Noreturn void end_unheard(int write_end)
{
	while (!(dlk_polled(write_end, 0, -1) & POLLERR))
		;
	_exit(0);
}

static _Noreturn void be_watchdog(unsigned i, int write_end, pid_t keeper)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGKILL };
	timer_t timer;

	prctl(PR_SET_NAME, "dlock-watchdog");
	prctl(PR_SET_PDEATHSIG, SIGUSR2);
	/* Who has no core kills who has renewed. */
	dlk_come_first();
	/* What it closes are copies of locked descriptions, and of the read ends. */
	if (dup2(write_end, STDIN_FILENO) < 0) {
		atomic_store(&dogs.page->armed[i], -errno);
		end_unheard(write_end);
	}
	closefrom(STDIN_FILENO + 1);
	if (timer_create(CLOCK_BOOTTIME, &ev, &timer) < 0) {
		atomic_store(&dogs.page->armed[i], -errno);
		end_unheard(STDIN_FILENO);
	}
	arm(timer, atomic_load(&dogs.page->at_ns));
	atomic_store(&dogs.page->armed[i], 1);
	while (is_kept(keeper) && watch(timer, &dogs.page->at_ns, keeper))
		;
	arm(timer, UINT64_MAX);
	end_unheard(STDIN_FILENO);
}

/* --- they begin and end --------------------------------------------------- */

static int open_end(int how)
{
	char name[DLK_NUMBERED_MAX];

	return open(dlk_numbered(name, "/proc/self/fd/", dogs.read, ""),
		    how | O_CLOEXEC | O_NONBLOCK);
}

static bool start(unsigned i)
{
	const pid_t self = getpid();
	const int end = open_end(O_WRONLY);
	pid_t pid;

	if (end < 0)
		return false;
	atomic_store(&dogs.page->armed[i], 0);
	dogs.began_ns = dlk_now_ns();
	pid = fork();
	if (pid == 0)
		be_watchdog(i, end, self);
	close(end);
	if (pid < 0)
		return false;
	/* Before anybody is watched: the group is killed as a whole. */
	setpgid(pid, pid);
	dlk_unreaped++;
	dogs.v[i].pid = pid;
	dogs.v[i].fd = (int)dlk_syscall(SYS_pidfd_open, pid, 0);
	if (dogs.v[i].fd >= 0)
		return true;
	kill(pid, SIGKILL); /* not reaped: the number is its own */
	dogs.v[i].pid = 0;
	return false;
}

/* 1: both; 0: not yet; -errno: one of them cannot. */
static int are_armed(void)
{
	int least = 1;

	for (unsigned i = 0; i < DOGS; i++)
		if (atomic_load(&dogs.page->armed[i]) < least)
			least = atomic_load(&dogs.page->armed[i]);
	return least;
}

static bool lives(unsigned i)
{
	return dogs.v[i].pid && !dlk_polled(dogs.v[i].fd, POLLIN, 0);
}

static void bury(unsigned i)
{
	if (dogs.v[i].pid)
		close(dogs.v[i].fd);
	dogs.v[i].pid = 0;
}

static bool start_all(void)
{
	for (unsigned i = 0; i < DOGS; i++) {
		if (lives(i))
			continue;
		bury(i);
		if (!start(i))
			return false;
	}
	return true;
}

static bool begin(void)
{
	int ends[2];

	if (!dogs.page) {
		void *page =
			mmap(NULL, sizeof(*dogs.page), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return false;
		dogs.page = page;
		atomic_store(&dogs.page->at_ns, UINT64_MAX);
	}
	if (dogs.read >= 0)
		return true;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	dogs.read = ends[0];
	close(ends[1]);
	return true;
}

void dlk_watchdog_yield(void)
{
	dlk_victims_free(&dogs.who, 0);
	dogs.stale = true;
}

/* What is closed here is common with the keeper, and stays as it is. */
void dlk_watchdog_forget(void)
{
	for (size_t i = 0; i < dogs.who.n; i++)
		dlk_close_all(&dogs.who.v[i].pipe, 1);
	dlk_watchdog_yield();
	dlk_close_all(&dogs.read, 1);
	for (unsigned i = 0; i < DOGS; i++)
		bury(i);
	if (dogs.page)
		munmap(dogs.page, sizeof(*dogs.page));
	dogs.page = NULL;
	dogs.look_ns = 0;
	dogs.due_ns = UINT64_MAX;
	dogs.heard = dlk_carried_news - 1; /* as if leases had come just now */
}

/* First nobody is to be killed by their end. */
void dlk_watchdog_end(void)
{
	for (size_t i = 0; i < dogs.who.n; i++)
		dlk_victim_unwatch(&dogs.who.v[i]);
	dlk_close_all(&dogs.read, 1);
	for (unsigned i = 0; i < DOGS; i++) {
		if (dogs.v[i].pid)
			dlk_syscall(SYS_pidfd_send_signal, dogs.v[i].fd,
				    SIGKILL, NULL, 0);
		bury(i);
	}
	if (dogs.page)
		atomic_store(&dogs.page->at_ns, UINT64_MAX);
}

/* --- what is said --------------------------------------------------------- */

static void say_failure(int err)
{
	if (dogs.failed)
		return;
	dogs.failed = true;
	dlk_log(DLK_WARNING,
		"no watchdog, which would kill who shares a lock, should his "
		"host be frozen for longer than the lease: ",
		dlk_victims_why(err),
		err == ENXIO || err == EPERM
			? "; dlock-keeper cannot either"
			: "; while it runs, dlock-keeper does",
		err == EMFILE ? ".  For one, raise the limit of open files "
				"(ulimit -n)"
			      : "",
		NULL);
}

static bool was_killed(const struct dlk_victim *v)
{
	return v->pipe >= 0;
}

static bool may_run_on(const struct dlk_victim *v)
{
	return was_killed(v) && !dlk_victim_has_ended(v);
}

static void say_whose(const struct dlk_kept *k)
{
	struct dlk_line l;

	dlk_kept_line(&l, DLK_ERROR, k);
	dlk_victims_put(&l.text, &dogs.who, k, was_killed,
			": its watchdogs have ended both, which is when it was "
			"not renewed by its last moment, and nobody here ran; "
			"these who had its lock are killed with them:");
	dlk_victims_put(&l.text, &dogs.who, k, may_run_on,
			"; these have not ended yet:");
	dlk_line_alarm(&l);
}

/*
 * Both are dead, and whom they watched is by now, or about to be: who dies gives
 * his lock back first, which has waked us, and is seen to be dead after that.
 */
static void say_fired(void)
{
	const uint64_t late = dlk_now_ns() + LATE_MS * DLK_MS;

	for (size_t i = 0; i < dogs.who.n; i++)
		if (was_killed(&dogs.who.v[i]))
			dlk_victim_ends(&dogs.who.v[i], late);
	for (size_t i = 0; i < dogs.who.n; i++) {
		bool said = !was_killed(&dogs.who.v[i]);

		for (size_t j = 0; j < i && !said; j++)
			said = dogs.who.v[j].k == dogs.who.v[i].k &&
			       was_killed(&dogs.who.v[j]);
		if (!said)
			say_whose(dogs.who.v[i].k);
	}
}

/* --- who is watched ------------------------------------------------------- */

static void collect(void)
{
	struct dlk_kept *k;

	watched.n = 0;
	watched.first_ns = watched.stop_ns = UINT64_MAX;
	watched.ttl_ms = UINT32_MAX;
	watched.left = false;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		const uint32_t ttl_ms = k->lease.ttl_ms;
		const uint64_t mark = dlk_backstop_ns(k->deadline_ns, ttl_ms);
		const uint64_t stop = dlk_stop_ns(k->deadline_ns, ttl_ms);

		if (!dlk_carry_has_marks(k))
			continue;
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
		if (!dlk_grow(&watched.v, &watched.room, watched.n, sizeof(k)))
			continue;
		watched.v[watched.n++] = k;
		watched.left |= k->by != DLK_BY_PROCESS;
		if (mark < watched.first_ns)
			watched.first_ns = mark;
		if (stop < watched.stop_ns)
			watched.stop_ns = stop;
		if (ttl_ms < watched.ttl_ms)
			watched.ttl_ms = ttl_ms;
	}
}

/* The process that took it, while its shim says so. */
static bool has_own_timer(const struct dlk_victim *v)
{
	const struct dlk_kept *k = v->k;

	return v->pid == (pid_t)k->add.pid && k->by == DLK_BY_PROCESS &&
	       !k->untimed && k->silent < SILENT && dlk_shim_lives();
}

static bool ask_for(int fd, pid_t pid)
{
	const struct f_owner_ex owner = { F_OWNER_PID, pid };

	return fcntl(fd, F_SETSIG, SIGKILL) == 0 &&
	       fcntl(fd, F_SETOWN_EX, &owner) == 0 &&
	       fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) == 0;
}

/* Else the kernel would drop the signal, and say nothing (fcntl(2)). */
static bool may_signal(const struct dlk_victim *v)
{
	return dlk_syscall(SYS_pidfd_send_signal, v->fd, 0, NULL, 0) == 0 ||
	       errno != EPERM;
}

/* (The number was his if he lives after that.) */
static void watch_one(struct dlk_victim *v)
{
	if (!may_signal(v)) {
		say_failure(EPERM);
		return;
	}
	v->pipe = open_end(O_RDONLY);
	if (v->pipe < 0)
		say_failure(errno);
	else if (!ask_for(v->pipe, v->pid) || dlk_victim_has_ended(v))
		dlk_victim_unwatch(v);
}

/* Renewals are four times as rare as looks, at the least. */
static uint64_t next_ns(uint64_t now)
{
	const uint64_t pause_ms = watched.ttl_ms / 12;

	if (!watched.n)
		return UINT64_MAX;
	return now + (pause_ms > LEAST_MS ? pause_ms : LEAST_MS) * DLK_MS;
}

static uint64_t first_ns(uint64_t now)
{
	const uint64_t next = next_ns(now);

	return watched.n && next > now + FIRST_MS * DLK_MS
		       ? now + FIRST_MS * DLK_MS
		       : next;
}

/* Looks take a part of our time, but none is more than ttl/3 after the last. */
static void put_off(uint64_t now)
{
	const uint64_t most = now + watched.ttl_ms / 3 * DLK_MS;
	const uint64_t rest = now + LOOK_PART * dogs.who.cpu_ns;

	if (watched.n && dogs.due_ns < rest)
		dogs.due_ns = rest < most ? rest : most;
}

static size_t to_begin(void)
{
	return dogs.read < 0 ? BEGINS : 0;
}

/* Each has two descriptors.  (0 would be any number.) */
static size_t most_watched(void)
{
	struct rlimit rl = { .rlim_cur = 1024 };
	const size_t left = dlk_descriptors_left();
	const size_t taken = ROOM + to_begin();
	const size_t more = left > taken ? (left - taken) / 2 : 0;
	const size_t most = dogs.who.n + more;

	getrlimit(RLIMIT_NOFILE, &rl);
	return most < rl.rlim_cur / 4 ? most ?: 1 : rl.rlim_cur / 4;
}

/* For one, if there is none yet. */
static bool has_room(void)
{
	return dlk_descriptors_are_left(ROOM + (unsigned)to_begin() +
					(dogs.who.n ? 0 : 2));
}

/* All processes: no renewal waits for that, nor who is to be stopped. */
static void find_strangers(void)
{
	uint64_t due = dlk_carry_due_ns();

	if (watched.stop_ns < due)
		due = watched.stop_ns;
	if (due < dogs.who.until_ns)
		dogs.who.until_ns = due;
	if (due < dogs.who.heed_ns)
		dogs.who.heed_ns = due;
	if (dlk_now_ns() < due)
		dlk_victims_find(&dogs.who, watched.v, watched.n, NULL, 0);
	else
		dogs.who.err = ETIME;
}

static void find_all(uint64_t now)
{
	uint64_t took;
	bool all;

	dogs.who.most = most_watched();
	all = dlk_victims_find_family(&dogs.who, watched.v, watched.n);
	took = dogs.who.cpu_ns;
	if (!all || watched.left) {
		find_strangers();
		took += dogs.who.cpu_ns;
	}
	dogs.look_ns = now + LOOK_PART * took;
	dogs.stale = dogs.who.err != 0;
	dogs.cuts = dogs.who.err == ETIME ? dogs.cuts + 1 : 0;
}

/* A look that is cut is made again. */
static void say_lack(void)
{
	if (dogs.who.err && (dogs.who.err != ETIME || dogs.cuts >= CUTS))
		say_failure(dogs.who.err);
}

/* Anybody who needs it? */
static bool look(uint64_t now)
{
	bool any = false;

	dogs.stale |= dogs.news != dlk_carried_news;
	dogs.news = dlk_carried_news;
	/* Who waits for our answer has its patience (keeper_client.c). */
	dogs.who.until_ns = watched.n ? next_ns(now) : 0;
	dogs.who.heed_ns = now + dlk_keeper_patience_ns(watched.ttl_ms) / 4;
	dogs.stale |= !dlk_victims_refresh(&dogs.who, watched.v, watched.n);
	dogs.stale |= dogs.who.err != 0;
	put_off(now);
	if (watched.n && dogs.stale && now >= dogs.look_ns)
		find_all(now);
	say_lack();
	for (size_t i = 0; i < dogs.who.n; i++)
		any |= !has_own_timer(&dogs.who.v[i]);
	return any;
}

static void set_mark(void)
{
	const uint64_t was =
		atomic_exchange(&dogs.page->at_ns, watched.first_ns);

	for (unsigned i = 0; i < DOGS && watched.first_ns < was; i++)
		if (dogs.v[i].pid)
			dlk_syscall(SYS_pidfd_send_signal, dogs.v[i].fd,
				    SIGUSR1, NULL, 0);
}

/* (After set_mark(): nobody is killed by that of another time.) */
static void watch_all(void)
{
	for (size_t i = 0; i < dogs.who.n; i++)
		if (dogs.who.v[i].pipe < 0 && !has_own_timer(&dogs.who.v[i]))
			watch_one(&dogs.who.v[i]);
}

/*
 * Have both ended?  Then nobody has a write end any more (poll(2)); that they are
 * seen to be dead may be after whom they watched.
 */
static bool have_fired(void)
{
	bool any = false;

	for (unsigned i = 0; i < DOGS; i++)
		any |= dogs.v[i].pid != 0;
	return any && (dlk_polled(dogs.read, POLLIN, 0) & POLLHUP);
}

void dlk_watchdog_rest(void)
{
	dlk_watchdog_end();
	dlk_watchdog_yield();
	if (dogs.due_ns != UINT64_MAX)
		dogs.due_ns = dlk_now_ns() + REST_MS * DLK_MS;
}

static void fail_for(int err)
{
	say_failure(err);
	dlk_watchdog_rest();
}

/* What they close may be of a file server that does not answer. */
static void wait_for_both(uint64_t now)
{
	const bool late = now >= dogs.began_ns + REST_MS * DLK_MS;

	if (late)
		say_failure(ETIMEDOUT);
	dogs.due_ns = now + (late ? REST_MS : LEAST_MS) * DLK_MS;
}

static bool live_all(void)
{
	bool all = true;

	for (unsigned i = 0; i < DOGS; i++)
		all &= lives(i);
	return all;
}

/*
 * A child has the keeper's files until it has closed them, and among these what a
 * thread closes just now: who asked us by that, and was told that it is closed, would
 * find its lock there still (shadow_copy.c).  So first that is done; but where its
 * server is away it never may be, and nobody is left unwatched for that.
 */
static bool is_too_early(uint64_t now)
{
	if (live_all() || dlk_errands_open() == 0) {
		dogs.late_ns = 0;
		return false;
	}
	if (!dogs.late_ns)
		dogs.late_ns = now;
	return now < next_ns(dogs.late_ns);
}

static void work(uint64_t now)
{
	int armed;

	if (have_fired()) {
		say_fired();
		dlk_watchdog_end();
	}
	dogs.stale |= !dlk_victims_leave(&dogs.who, dlk_carry_has_marks);
	collect();
	dogs.due_ns = next_ns(now);
	if (dogs.page)
		set_mark();
	if (watched.n && !has_room()) {
		fail_for(EMFILE);
		return;
	}
	if (watched.n && is_too_early(now)) {
		dogs.due_ns = now + LEAST_MS * DLK_MS;
		return;
	}
	if (!look(now)) {
		dlk_watchdog_end();
		return;
	}
	if (!begin() || !start_all()) {
		fail_for(errno);
		return;
	}
	set_mark();
	armed = are_armed();
	if (armed < 0)
		fail_for(-armed);
	else if (armed > 0)
		watch_all();
	else
		wait_for_both(now);
}

/* Whoever was watched for what has ended is watched no more at once. */
static bool has_ended_one(void)
{
	for (size_t i = 0; i < dogs.who.n; i++)
		if (!dlk_carry_has_marks(dogs.who.v[i].k))
			return true;
	return false;
}

void dlk_watchdog_mark(void)
{
	if (!dogs.page || dogs.moves == dlk_carried_moves)
		return;
	dogs.moves = dlk_carried_moves;
	collect();
	set_mark();
}

void dlk_watchdog(uint64_t now_ns)
{
	dlk_watchdog_mark();
	/* A new lease: most have ended by the first look. */
	if (dogs.heard != dlk_carried_news) {
		dogs.heard = dlk_carried_news;
		collect();
		if (dogs.due_ns > first_ns(now_ns))
			dogs.due_ns = first_ns(now_ns);
	}
	if (now_ns >= dogs.due_ns || has_ended_one())
		work(now_ns);
}

uint64_t dlk_watchdog_due_ns(void)
{
	return dogs.due_ns;
}
