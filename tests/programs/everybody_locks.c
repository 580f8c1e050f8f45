/* SPDX-License-Identifier: MIT */
/*
 * Everybody locks one file, in every way there is: POSIX, OFD and flock locks
 * of processes and threads, that fork, exec, close, end and are killed.
 *
 *	everybody_locks new ARENA SECONDS LIMIT
 *		a new arena; a wait of LIMIT seconds is a wedge
 *	everybody_locks host ARENA FILE HOST SEED FLAGS
 *		the workers of a host, 0 to 2: "far" once its far byte is
 *		locked; then, at a line, they begin; "done", or "wedged"; it
 *		ends at a line.  FLAGS are letters: a, SIGALRM at 1 kHz; k, no
 *		kills
 *	everybody_locks report ARENA
 *		"GRANTS VIOLATIONS DEADLOCKS ERRORS STUCK LONGEST KILLS FORKS
 *		EXECS CLOSES LATE": the longest wait in ms, and for how long who
 *		only slept got no core; then who is stuck, and the first thing
 *		that was wrong
 *
 * What is waited for is taken in the order of the bytes, flock first: so bare
 * on one host there is no deadlock, which matters, for the kernel finds none
 * that passes through a waiter for an OFD lock (fcntl(2)).
 *
 * In the arena each thread marks what it has been granted, and looks at the
 * marks of the others: after the grant, and takes them off before it lets go.
 * Who is about to be killed is doomed first, and not looked at any more.
 *
 *  1. POSIX locks are taken by the first thread of a process only; where it
 *     does, the other threads MUST close nothing, for that drops them.
 *  2. What a child is left with is the child's to unmark.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum {
	HOSTS = 3,
	WORKERS = 4, /* of a host; every second one has THREADS threads */
	THREADS = 3,
	UNITS = 17, /* 0 is the flock lock, the others are bytes */
	FAR = 1000000,
	TEXT = 120,
};

enum { READ = 1, WRITE = 2, TYPE = 3, POSIX = 4, OFD = 8, FLOCK = 16 };

struct slot {
	_Atomic bool doomed, runs;
	_Atomic unsigned char mark[UNITS];
	_Atomic long long wait_ns; /* since when */
	char doing[TEXT];
};

struct arena {
	_Atomic long long begin_ns; /* 0: not yet */
	long long run_ns, limit_ns;
	_Atomic bool wedged;
	_Atomic unsigned long grants, violations, deadlocks, errors, stuck;
	_Atomic unsigned long late_ms;
	_Atomic unsigned long longest_ms, kills, forks, execs, closes;
	_Atomic unsigned generations;
	_Atomic bool wrong_is_told;
	char wrong[TEXT];
	struct slot slots[HOSTS][WORKERS][THREADS];
};

struct worker {
	int host, number;
	unsigned seed;
	const char *flags;
	bool posix; /* its first thread takes POSIX locks */
	bool alone; /* it has one thread */
};

struct me {
	struct slot *slot;
	uint64_t random;
	int fd;
	bool posix, closes;
};

static struct arena *arena;
static struct worker worker;
static const char *arena_path, *path;
static _Atomic unsigned long alarms;

/* --- small things --------------------------------------------------------- */

static int number(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

static unsigned any(struct me *me, unsigned n)
{
	me->random ^= me->random << 13;
	me->random ^= me->random >> 7;
	me->random ^= me->random << 17;
	return (unsigned)((me->random >> 20) % n);
}

static bool over(void)
{
	return arena->wedged || now_ns() > arena->begin_ns + arena->run_ns;
}

static void map_arena(const char *name)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);

	arena_path = name;
	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED,
		     fd, 0);
	if (arena == MAP_FAILED)
		exit(1);
	close(fd);
}

static void wrong(struct me *me, const char *what, int unit)
{
	bool told = false;

	if (me->slot->doomed ||
	    !atomic_compare_exchange_strong(&arena->wrong_is_told, &told, true))
		return;
	snprintf(arena->wrong, TEXT, "%s: unit %d, host %d, worker %d, %.60s",
		 what, unit, worker.host, worker.number, me->slot->doing);
}

static void open_file(struct me *me)
{
	me->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (me->fd < 0)
		_exit(1);
}

/* --- who has what --------------------------------------------------------- */

static bool conflict(unsigned char a, unsigned char b)
{
	return (a & TYPE) && (b & TYPE) && ((a | b) & WRITE);
}

/* Whoever of two marks his own last sees the other's. */
static void mark(struct me *me, int unit, unsigned char what)
{
	struct slot *all = &arena->slots[0][0][0];

	me->slot->mark[unit] = what;
	for (int i = 0; i < HOSTS * WORKERS * THREADS; i++) {
		if (&all[i] == me->slot || !conflict(what, all[i].mark[unit]) ||
		    all[i].doomed || me->slot->doomed)
			continue;
		arena->violations++;
		wrong(me, "two owners", unit);
	}
}

static void unmark(struct slot *slot, unsigned kinds)
{
	for (int unit = 0; unit < UNITS; unit++)
		if (slot->mark[unit] & kinds)
			slot->mark[unit] = 0;
}

static bool has(const struct me *me, unsigned kinds)
{
	for (int unit = 0; unit < UNITS; unit++)
		if (me->slot->mark[unit] & kinds)
			return true;
	return false;
}

/* --- calls ---------------------------------------------------------------- */

static int set(int fd, unsigned how, int first, int last, bool wait)
{
	struct flock l = {
		.l_type = how & WRITE  ? F_WRLCK
			  : how & READ ? F_RDLCK
				       : F_UNLCK,
		.l_start = first,
		.l_len = last - first + 1,
	};
	int cmd = how & OFD ? (wait ? F_OFD_SETLKW : F_OFD_SETLK)
			    : (wait ? F_SETLKW : F_SETLK);

	if (how & FLOCK)
		return flock(fd, (how & WRITE  ? LOCK_EX
				  : how & READ ? LOCK_SH
					       : LOCK_UN) |
					 (wait ? 0 : LOCK_NB));
	return fcntl(fd, cmd, &l);
}

static void failed(struct me *me, bool wait, int first)
{
	char what[40];

	if (!wait && (errno == EAGAIN || errno == EACCES))
		return;
	if (me->slot->doomed)
		return;
	if (errno == EDEADLK)
		arena->deadlocks++;
	else
		arena->errors++;
	snprintf(what, sizeof(what), "%s", strerrorname_np(errno) ?: "?");
	wrong(me, what, first);
}

static void waited(struct me *me)
{
	unsigned long ms =
		(unsigned long)(now_ns() - me->slot->wait_ns) / 1000000;
	unsigned long was = arena->longest_ms;

	me->slot->wait_ns = 0;
	while (ms > was &&
	       !atomic_compare_exchange_weak(&arena->longest_ms, &was, ms))
		;
}

/* What is granted is marked. */
static bool take(struct me *me, unsigned how, int first, int last, bool wait)
{
	int result;

	snprintf(me->slot->doing, TEXT, "%s %s %d-%d%s pid %d",
		 how & POSIX ? "POSIX"
		 : how & OFD ? "OFD"
			     : "flock",
		 how & WRITE ? "WRITE" : "READ", first, last,
		 wait ? " waits" : "", getpid());
	if (wait)
		me->slot->wait_ns = now_ns();
	result = set(me->fd, how, first, last, wait);
	if (result)
		failed(me, wait, first);
	if (wait)
		waited(me);
	if (result)
		return false;
	for (int unit = first; unit <= last; unit++)
		mark(me, unit, (unsigned char)how);
	arena->grants++;
	return true;
}

static void release_unit(struct me *me, int unit)
{
	unsigned kind = me->slot->mark[unit] & ~TYPE;

	if (!kind)
		return;
	me->slot->mark[unit] = 0;
	if (set(me->fd, kind, unit, unit, false))
		failed(me, true, unit);
}

static void release_all(struct me *me)
{
	unsigned from = any(me, UNITS);

	for (unsigned i = 0; i < UNITS; i++)
		release_unit(me, (int)((from + i) % UNITS));
}

/* A close of any descriptor drops the process's POSIX locks. */
static void close_file(struct me *me)
{
	unmark(me->slot, POSIX | OFD | FLOCK);
	arena->closes++;
	if (close(me->fd))
		failed(me, true, 0);
	open_file(me);
}

/* --- in the middle of it -------------------------------------------------- */

static void rest(struct me *me)
{
	unsigned which = any(me, 40);

	if (which == 0)
		pause_us(60000 + any(me, 60000));
	else if (which < 20)
		pause_us(any(me, 2000));
}

/* An exclusive one becomes shared; or the other way, if nobody is there. */
static void convert(struct me *me)
{
	int unit = (int)any(me, UNITS);
	unsigned char was = me->slot->mark[unit], becomes = was ^ TYPE;

	if (!was)
		return;
	if (was & WRITE)
		me->slot->mark[unit] = becomes;
	if (unit == 0) /* its old lock may be gone: flock(2), NOTES */
		me->slot->mark[unit] = 0;
	if (set(me->fd, becomes, unit, unit, false) == 0)
		mark(me, unit, becomes);
	else
		failed(me, false, unit);
}

static void question(struct me *me)
{
	struct flock l = {
		.l_type = F_WRLCK,
		.l_start = 1 + (int)any(me, UNITS - 1),
		.l_len = 3,
	};

	if (fcntl(me->fd, any(me, 2) ? F_GETLK : F_OFD_GETLK, &l))
		failed(me, true, 0);
}

/* Its turn is over; it ends, or unlocks what it was left with. */
static void child(struct slot *slot, int fd, unsigned us, bool unlocks)
{
	pause_us(us);
	unmark(slot, OFD | FLOCK);
	if (unlocks) {
		set(fd, OFD, 1, UNITS - 1, false);
		set(fd, FLOCK, 0, 0, false);
	}
	_exit(0);
}

static void become_rest(struct me *me, unsigned us)
{
	char self[] = "/proc/self/exe", verb[] = "rest", n[3][24];
	char name[256];
	char *argv[] = { self, verb, name, n[0], n[1], n[2], NULL };

	snprintf(name, sizeof(name), "%s", arena_path);
	snprintf(n[0], sizeof(n[0]), "%td", me->slot - &arena->slots[0][0][0]);
	snprintf(n[1], sizeof(n[1]), "%d", me->fd);
	snprintf(n[2], sizeof(n[2]), "%u", us);
	fcntl(me->fd, F_SETFD, 0);
	execv(self, argv);
	_exit(1);
}

/*
 * A child that has the description too, for a while; or is left alone with it,
 * as it is or by exec.
 */
static void fork_one(struct me *me)
{
	unsigned what = any(me, 4), us = any(me, 3000);
	bool leave = what > 0 && me->closes, unlocks = any(me, 2);
	pid_t pid;

	if (leave)
		unmark(me->slot, POSIX);
	pid = fork();
	if (pid < 0)
		return;
	if (pid == 0) {
		if (leave && what == 1)
			become_rest(me, us);
		if (leave)
			child(me->slot, me->fd, us, unlocks);
		pause_us(us);
		_exit(0);
	}
	arena->forks++;
	if (leave && close(me->fd))
		failed(me, true, 0);
	if (leave || any(me, 2))
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (!leave)
		return;
	unmark(me->slot, OFD | FLOCK); /* it may have been killed */
	open_file(me);
}

/* The program becomes itself once more, with its locks. */
static void exec_self(struct me *me)
{
	char self[] = "/proc/self/exe", verb[] = "resume", n[4][24];
	char name[256], file[256], flags[16];
	char *argv[] = { self, verb, name, file,  n[0],
			 n[1], n[2], n[3], flags, NULL };

	if (!worker.alone)
		return;
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	snprintf(name, sizeof(name), "%s", arena_path);
	snprintf(file, sizeof(file), "%s", path);
	snprintf(n[0], sizeof(n[0]), "%d", worker.host);
	snprintf(n[1], sizeof(n[1]), "%d", worker.number);
	snprintf(n[2], sizeof(n[2]), "%u", (unsigned)me->random);
	snprintf(n[3], sizeof(n[3]), "%d", me->fd);
	snprintf(flags, sizeof(flags), "%s", worker.flags);
	fcntl(me->fd, F_SETFD, 0);
	arena->execs++;
	execv(self, argv);
	_exit(1);
}

/* Opened, locked, closed, many times: each close drops POSIX locks too. */
static void storm(struct me *me)
{
	const int own = me->fd;
	unsigned char was[UNITS];

	if (!me->closes)
		return;
	unmark(me->slot, POSIX);
	for (int unit = 0; unit < UNITS; unit++)
		was[unit] = me->slot->mark[unit];
	for (int i = 0; i < 30; i++) {
		int unit = 1 + (int)any(me, UNITS - 1);

		open_file(me);
		if (!was[unit] && take(me, OFD | (any(me, 2) ? READ : WRITE),
				       unit, unit, false))
			me->slot->mark[unit] = 0;
		close(me->fd);
		arena->closes++;
	}
	me->fd = own;
}

/* The description has many numbers, which go one by one, or all at once. */
static void dups(struct me *me)
{
	int fds[20];

	if (!me->closes)
		return;
	for (int i = 0; i < 20; i++)
		fds[i] = fcntl(me->fd, F_DUPFD_CLOEXEC, 100);
	unmark(me->slot, POSIX);
	for (int i = 0; i < 20; i++) {
		if (i == 10)
			close(me->fd);
		if (i != 19)
			close(fds[i]);
	}
	me->fd = fds[19];
	arena->closes += 20;
}

static void doom(struct slot *slots)
{
	for (int i = 0; i < THREADS; i++)
		slots[i].doomed = true;
}

static void end_itself(struct me *me)
{
	doom(arena->slots[worker.host][worker.number]);
	(void)me;
	if (alarms % 2)
		_exit(0);
	exit(0);
}

static void act(struct me *me)
{
	unsigned what = any(me, 100);

	rest(me);
	if (what < 15)
		convert(me);
	else if (what < 25)
		question(me);
	else if (what < 32)
		fork_one(me);
	else if (what < 35)
		exec_self(me);
	else if (what < 38)
		storm(me);
	else if (what < 41)
		dups(me);
	else if (what < 50)
		release_unit(me, (int)any(me, UNITS));
	else if (what == 50 && any(me, 4) == 0)
		end_itself(me);
}

/* --- a worker ------------------------------------------------------------- */

static unsigned type(struct me *me)
{
	return any(me, 10) < 4 ? READ : WRITE;
}

/* A turn: upwards, for what is waited for. */
static void turn(struct me *me)
{
	int at = 1 + (int)any(me, UNITS - 1), last;

	if (any(me, 4) == 0)
		take(me, FLOCK | type(me), 0, 0, any(me, 4) != 0);
	for (unsigned n = any(me, 4); n > 0 && at < UNITS; n--) {
		last = at + (int)any(me, 3);
		last = last < UNITS ? last : UNITS - 1;
		take(me, (me->posix && any(me, 2) ? POSIX : OFD) | type(me), at,
		     last, any(me, 4) != 0);
		at = last + 1 + (int)any(me, 3);
	}
	act(me);
	if (me->closes && any(me, 3) == 0)
		close_file(me);
	else
		release_all(me);
	/* Whatever a child of ours still has is not ours. */
	if (has(me, POSIX | OFD | FLOCK))
		wrong(me, "marks are left", 0);
}

static void run(struct me *me)
{
	me->slot->runs = true;
	while (!over())
		turn(me);
	me->slot->runs = false;
}

static void prepare(struct me *me, int thread, unsigned seed)
{
	*me = (struct me){
		.slot = &arena->slots[worker.host][worker.number][thread],
		.random = (uint64_t)seed * 2654435761U + 88172645463325252U +
			  (uint64_t)thread,
		.posix = worker.posix && thread == 0,
		.closes = !worker.posix || thread == 0,
	};
	for (int i = 0; i < 10; i++)
		any(me, 2);
}

static void *run_thread(void *arg)
{
	struct me me;

	prepare(&me, (int)(intptr_t)arg, worker.seed);
	open_file(&me);
	run(&me);
	return NULL;
}

static void on_alarm(int signo)
{
	(void)signo;
	alarms++;
}

static void start_alarms(void)
{
	struct sigaction sa = { .sa_handler = on_alarm,
				.sa_flags = SA_RESTART };
	struct itimerval ms = { { 0, 1000 }, { 0, 1000 } };

	sigaction(SIGALRM, &sa, NULL);
	/* Children that nobody waits for. */
	signal(SIGCHLD, SIG_DFL);
	if (strchr(worker.flags, 'a'))
		setitimer(ITIMER_REAL, &ms, NULL);
}

/* argv: ARENA FILE HOST NUMBER SEED FD FLAGS */
static int be_worker(char **argv, bool resumes)
{
	pthread_t threads[THREADS];
	struct me me;
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	map_arena(argv[0]);
	path = argv[1];
	worker = (struct worker){
		.host = number(argv[2]),
		.number = number(argv[3]),
		.seed = (unsigned)strtoul(argv[4], NULL, 10),
		.flags = argv[6],
		.alone = number(argv[3]) % 2 == 0,
	};
	worker.posix = worker.alone || worker.seed % 2;
	n = worker.alone ? 1 : THREADS;
	start_alarms();
	prepare(&me, 0, worker.seed);
	if (resumes) {
		me.fd = number(argv[5]);
		fcntl(me.fd, F_SETFD, FD_CLOEXEC);
		release_all(&me);
	} else {
		open_file(&me);
	}
	for (intptr_t i = 1; i < n; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)i);
	run(&me);
	for (int i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int be_rest(char **argv)
{
	map_arena(argv[0]);
	child(&arena->slots[0][0][0] + number(argv[1]), number(argv[2]),
	      (unsigned)number(argv[3]), false);
	return 0;
}

/* --- a host --------------------------------------------------------------- */

static pid_t workers[WORKERS];

static pid_t start_worker(int host, int number, char *seed_text, char *flags)
{
	char self[] = "/proc/self/exe", verb[] = "worker", none[] = "-1";
	char n[3][24], name[256], file[256];
	char *argv[] = { self, verb, name, file,  n[0],
			 n[1], n[2], none, flags, NULL };
	struct slot *slots = arena->slots[host][number];
	pid_t pid;

	snprintf(name, sizeof(name), "%s", arena_path);
	snprintf(file, sizeof(file), "%s", path);
	snprintf(n[0], sizeof(n[0]), "%d", host);
	snprintf(n[1], sizeof(n[1]), "%d", number);
	snprintf(n[2], sizeof(n[2]), "%u",
		 (unsigned)strtoul(seed_text, NULL, 10) * 1009 +
			 arena->generations++);
	for (int i = 0; i < THREADS; i++) {
		unmark(&slots[i], POSIX | OFD | FLOCK);
		slots[i].wait_ns = 0;
		slots[i].runs = false;
		slots[i].doomed = false;
	}
	pid = fork();
	if (pid == 0) {
		execv(self, argv);
		_exit(127);
	}
	return pid;
}

static void kill_worker(int host, int number)
{
	if (workers[number] <= 0)
		return;
	doom(arena->slots[host][number]);
	kill(workers[number], SIGKILL);
	waitpid(workers[number], NULL, 0);
	workers[number] = 0;
}

/* Those that have ended; how many are left? */
static int reap(void)
{
	int left = 0;

	for (int i = 0; i < WORKERS; i++) {
		if (workers[i] > 0 &&
		    waitpid(workers[i], NULL, WNOHANG) == workers[i])
			workers[i] = 0;
		left += workers[i] > 0;
	}
	return left;
}

/* Waits of a host that last for too long. */
static void look_for_wedges(int host)
{
	const struct slot *s = &arena->slots[0][0][0];

	for (int i = 0; i < HOSTS * WORKERS * THREADS; i++) {
		long long since = s[i].wait_ns;

		if (i / THREADS / WORKERS == host && since && !s[i].doomed &&
		    now_ns() > since + arena->limit_ns)
			arena->wedged = true;
	}
}

static pid_t lock_far(int host)
{
	char self[] = "/proc/self/exe", verb[] = "far", n[24], file[256];
	char *argv[] = { self, verb, file, n, NULL };
	pid_t pid;
	int ready[2];
	char c;

	if (pipe(ready))
		return -1;
	snprintf(file, sizeof(file), "%s", path);
	snprintf(n, sizeof(n), "%d", FAR + host);
	pid = fork();
	if (pid == 0) {
		dup2(ready[1], 1);
		close(ready[0]);
		close(ready[1]);
		execv(self, argv);
		_exit(127);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		exit(1);
	close(ready[0]);
	return pid;
}

static int be_far(char **argv)
{
	int fd = open(argv[0], O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (set(fd, POSIX | WRITE, number(argv[1]), number(argv[1]), false))
		return 1;
	if (write(1, "f", 1) != 1)
		return 1;
	for (;;)
		pause();
}

static void pause_and_look(void)
{
	const long long began = now_ns();
	unsigned long late;

	pause_us(20000);
	late = (now_ns() - began) / 1000000 - 20;
	if (late > arena->late_ms)
		arena->late_ms = late;
}

/* Until all is over: whoever has ended is started again, some are killed. */
static void drive(int host, char *seed, char *flags)
{
	struct me me = { .random = strtoul(seed, NULL, 10) * 7919 + 1 +
				   (unsigned)host };
	long long next_kill = now_ns();

	while (!over()) {
		for (int i = 0; i < WORKERS; i++)
			if (!workers[i])
				workers[i] = start_worker(host, i, seed, flags);
		pause_and_look();
		reap();
		look_for_wedges(host);
		if (strchr(flags, 'k') || now_ns() < next_kill)
			continue;
		next_kill =
			now_ns() + (300 + (long long)any(&me, 900)) * 1000000;
		kill_worker(host, (int)any(&me, WORKERS));
		arena->kills++;
	}
}

/* argv: ARENA FILE HOST SEED FLAGS */
static int be_host(char **argv)
{
	const int host = number(argv[2]);
	long long zero = 0, end;
	char line[16];
	pid_t far;

	map_arena(argv[0]);
	path = argv[1];
	far = lock_far(host);
	puts("far");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	atomic_compare_exchange_strong(&arena->begin_ns, &zero, now_ns());
	drive(host, argv[3], argv[4]);
	end = now_ns() + arena->limit_ns;
	while (reap() && now_ns() < end && !arena->wedged)
		pause_us(20000);
	if (reap())
		arena->wedged = true;
	puts(arena->wedged ? "wedged" : "done");
	fflush(stdout);
	(void)!fgets(line, sizeof(line), stdin);
	for (int i = 0; i < WORKERS; i++)
		if (workers[i] > 0)
			kill_worker(host, i);
	kill(far, SIGKILL);
	waitpid(far, NULL, 0);
	puts("ended");
	return 0;
}

/* --- the arena ------------------------------------------------------------ */

static int be_new(char **argv)
{
	int fd = open(argv[0], O_RDWR | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(*arena)))
		return 1;
	close(fd);
	map_arena(argv[0]);
	arena->run_ns = strtoul(argv[1], NULL, 10) * 1000000000U;
	arena->limit_ns = strtoul(argv[2], NULL, 10) * 1000000000U;
	return 0;
}

static bool is_stuck(const struct slot *s)
{
	return s->wait_ns && !s->doomed && arena->wedged &&
	       now_ns() > s->wait_ns + arena->limit_ns / 2;
}

static int be_report(char **argv)
{
	const struct slot *all;

	map_arena(argv[0]);
	all = &arena->slots[0][0][0];
	arena->stuck = 0;
	for (int i = 0; i < HOSTS * WORKERS * THREADS; i++)
		arena->stuck += is_stuck(&all[i]);
	if (arena->wedged && !arena->stuck)
		arena->stuck = 1;
	printf("%lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", arena->grants,
	       arena->violations, arena->deadlocks, arena->errors, arena->stuck,
	       arena->longest_ms, arena->kills, arena->forks, arena->execs,
	       arena->closes, arena->late_ms);
	for (int i = 0; i < HOSTS * WORKERS * THREADS; i++)
		if (is_stuck(&all[i]))
			printf("stuck: host %d worker %d thread %d: %s\n",
			       i / THREADS / WORKERS, i / THREADS % WORKERS,
			       i % THREADS, all[i].doing);
	if (arena->wrong_is_told)
		printf("first: %s\n", arena->wrong);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";

	if (!strcmp(verb, "new") && argc == 5)
		return be_new(argv + 2);
	if (!strcmp(verb, "host") && argc == 7)
		return be_host(argv + 2);
	if (!strcmp(verb, "report"))
		return be_report(argv + 2);
	if (!strcmp(verb, "worker") && argc == 9)
		return be_worker(argv + 2, false);
	if (!strcmp(verb, "resume") && argc == 9)
		return be_worker(argv + 2, true);
	if (!strcmp(verb, "rest") && argc == 6)
		return be_rest(argv + 2);
	if (!strcmp(verb, "far") && argc == 4)
		return be_far(argv + 2);
	return 64;
}
