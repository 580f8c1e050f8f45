/* SPDX-License-Identifier: MIT */
/*
 * What a program has that dlock must not touch (DESIGN L7).  A word a line on
 * standard output; at each line on standard input it goes on.
 *
 *	guest numbers HOW FILE LAST	locks FILE; takes every other number
 *			up to LAST away, HOW: close, closefrom, close_range,
 *			unshare (CLOSE_RANGE_UNSHARE), dup2, dup3 (a file's
 *			onto each), raw (system calls that nobody sees:
 *			a file of its own for each), sockets (the same):
 *			"held", and of what is closed how many sockets of
 *			others are lost; locks and unlocks for 2 s: what is
 *			different in the files, or sockets
 *	guest state FILE	locks, waits, unlocks; a line for each thing
 *			that a process has: "same" or "changed"
 *	guest signals FILE	1,000 signals while a lock is held: how many
 *			came, and to which thread
 *	guest children FILE	makes children while locks come and go: what
 *			SIGCHLD and wait(-1) tell of them
 *	guest alarm nothing|lock FILE OTHER MS	a 1 kHz SIGALRM for MS, and
 *			until a hundred have come, whose handler does nothing,
 *			or locks OTHER with LOCK_NB
 *	guest broken FILE	standard error is a pipe that nobody reads:
 *			the errno of flock()
 *	guest full FILE		... that is full
 *	guest memory FILE MIB	under RLIMIT_AS of MIB
 *	guest alone FILE	as a user who may have no further process, or
 *			thread
 *	guest empty FILE	clearenv(), and then it locks
 *	guest daemon FILE	becomes one (descriptors closed, two forks),
 *			locks, writes its pid into FILE and waits for SIGTERM
 *	guest bare FILE		without descriptors 0, 1 and 2: locks, then
 *			opens three files: their numbers, into FILE
 *	guest late FILE		locks in an atexit() handler and a destructor
 *	guest again FILE	unlocks and locks again (LOCK_NB) 30 times, of
 *			a lock long held: how many were refused
 *	guest sizes FILE	VmSize and VmRSS in kB
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int locked(const char *name)
{
	int fd = opened(name);

	if (flock(fd, LOCK_EX))
		die("flock");
	return fd;
}

static const char *outcome(int result)
{
	return result ? strerrorname_np(errno) : "0";
}

/* --- numbers -------------------------------------------------------------- */

/* By no function at all: nothing that is preloaded can know. */
static long raw(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
#else
	return syscall(number, a, b, c, d);
#endif
}

enum { KEEP = 3, FIRST = 4, MOST = 65536 };

static ino_t inodes[MOST];

/* A socket that is not the program's may come and go. */
static void note_inode(int fd, bool sockets)
{
	struct stat st;

	if (fd < MOST && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) == sockets)
		inodes[fd] = st.st_ino;
}

static void raw_file(int fd)
{
	char name[32];
	long file;

	snprintf(name, sizeof(name), "numbers/%d", fd);
	raw(SYS_close, fd, 0, 0, 0);
	file = raw(SYS_openat, AT_FDCWD, (long)name, O_RDWR | O_CREAT, 0666);
	if (file != fd) {
		raw(SYS_dup3, file, fd, 0, 0);
		raw(SYS_close, file, 0, 0, 0);
	}
}

/* The other ends are beyond LAST. */
static void raw_socket(int fd, int last)
{
	int ends[2] = { -1, -1 };

	raw(SYS_close, fd, 0, 0, 0);
	if (raw(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (long)ends))
		_exit(2);
	raw(SYS_dup3, ends[1], last + 1 + fd, 0, 0);
	if (ends[1] != last + 1 + fd)
		raw(SYS_close, ends[1], 0, 0, 0);
	if (ends[0] != fd) {
		raw(SYS_dup3, ends[0], fd, 0, 0);
		raw(SYS_close, ends[0], 0, 0, 0);
	}
}

static void take_numbers(const char *how, int last)
{
	bool sockets = strcmp(how, "sockets") == 0;
	int other = opened("numbers/other");

	for (int fd = FIRST; fd <= last; fd++) {
		if (fd == other && strncmp(how, "dup", 3) == 0)
			continue;
		if (strcmp(how, "close") == 0)
			close(fd);
		else if (strcmp(how, "dup2") == 0)
			dup2(other, fd);
		else if (strcmp(how, "dup3") == 0)
			dup3(other, fd, 0);
		else if (strcmp(how, "raw") == 0)
			raw_file(fd);
		else if (sockets)
			raw_socket(fd, last);
	}
	if (strcmp(how, "closefrom") == 0)
		closefrom(FIRST);
	else if (strcmp(how, "close_range") == 0)
		close_range(FIRST, ~0U, 0);
	else if (strcmp(how, "unshare") == 0)
		close_range(FIRST, ~0U, CLOSE_RANGE_UNSHARE);
}

/* The lowest free numbers, to the last. */
static void fill_numbers(int last, bool sockets)
{
	char name[32];
	int fd;

	for (int i = 0; i <= last; i++) {
		snprintf(name, sizeof(name), "numbers/%d", i);
		fd = opened(name);
		if (fd > last) {
			close(fd);
			break;
		}
	}
	for (fd = FIRST; fd <= last; fd++)
		note_inode(fd, sockets);
}

/* Did something come out of the other end, or is it in the file? */
static bool touched(int fd, int last, bool sockets)
{
	struct stat st;
	char byte;

	if (fstat(fd, &st) || st.st_ino != inodes[fd])
		return true; /* moved, or gone */
	if (sockets)
		return recv(last + 1 + fd, &byte, 1, MSG_DONTWAIT) >= 0;
	return st.st_size || lseek(fd, 0, SEEK_CUR);
}

static int differences(int last, bool sockets)
{
	int found = 0;

	for (int fd = FIRST; fd <= last; fd++)
		if (inodes[fd] && touched(fd, last, sockets))
			found++;
	return found;
}

static void raise_limit(rlim_t to)
{
	const struct rlimit limit = { to, to };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
}

/* Sockets that we did not open: whose are they?  Their inodes. */
static int sockets_of_others(ino_t *found, int last)
{
	struct stat st;
	int n = 0;

	for (int fd = FIRST; fd <= last; fd++)
		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
			found[n++] = st.st_ino;
	return n;
}

/* Those that are gone, of a set. */
static int gone(const ino_t *before, int n, int last)
{
	static ino_t now[MOST];
	int left = sockets_of_others(now, last), lost = n;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < left; j++)
			lost -= before[i] == now[j];
	return lost;
}

/* A child has our keeper's socket appear, where there is a keeper. */
static int numbers(char **arg)
{
	static ino_t before[MOST];
	int last = (int)strtol(arg[2], NULL, 10), fd;
	bool sockets = strcmp(arg[0], "sockets") == 0;
	char line[64];
	int n;

	raise_limit((rlim_t)last * (sockets ? 2 : 1) + 1024);
	mkdir("numbers", 0777);
	fd = locked(arg[1]);
	if (fd != KEEP || system("true"))
		die("not descriptor 3");
	n = sockets_of_others(before, last);
	take_numbers(arg[0], last);
	if (strncmp(arg[0], "close", 5) == 0 || arg[0][0] == 'u')
		n = gone(before, n, last);
	else
		n = 0;
	fill_numbers(last, sockets);
	snprintf(line, sizeof(line), "held, %d lost", n);
	tell(line);
	wait_for_go();
	for (long end = now_ms() + 2000; now_ms() < end; pause_ms(50))
		if (flock(fd, LOCK_UN) || flock(fd, LOCK_EX | LOCK_NB))
			die("flock again");
	snprintf(line, sizeof(line), "%d different",
		 differences(last, sockets));
	tell(line);
	wait_for_go();
	return 0;
}

/* --- what a process has --------------------------------------------------- */

static void same(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "same" : "changed");
}

static const char *status_line(const char *task, const char *key)
{
	static char line[256];
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%s/status", task);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			break;
	if (f)
		fclose(f);
	return line;
}

struct state {
	void (*handlers[NSIG])(int);
	int action_flags[NSIG];
	sigset_t mask;
	char ignored[256], caught[256], blocked[256];
	mode_t umask;
	char cwd[256], locale[256];
	int flags[3], fd_flags[3];
	struct rlimit limits[RLIM_NLIMITS];
	char **environment;
	pid_t group, session;
	int priority;
	unsigned alarm;
	struct itimerval timers[3];
};

static void look(struct state *s)
{
	char task[32];

	memset(s, 0, sizeof(*s));
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa = { 0 };

		sigaction(sig, NULL, &sa);
		s->handlers[sig] = sa.sa_handler;
		/* The kernel's own SA_RESTORER comes with any handler. */
		s->action_flags[sig] = sa.sa_flags & ~0x04000000;
	}
	pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
	snprintf(task, sizeof(task), "%d", getpid());
	strcpy(s->ignored, status_line(task, "SigIgn"));
	strcpy(s->caught, status_line(task, "SigCgt"));
	/*
	 * glibc catches 33 from the first thread on, whoever starts it; it may
	 * have been ignored before.
	 */
	s->caught[strlen(s->caught) - 10] = '-';
	s->ignored[strlen(s->ignored) - 10] = '-';
	strcpy(s->blocked, status_line(task, "SigBlk"));
	s->umask = umask(0);
	umask(s->umask);
	if (!getcwd(s->cwd, sizeof(s->cwd)))
		die("getcwd");
	strcpy(s->locale, setlocale(LC_ALL, NULL));
	for (int fd = 0; fd < 3; fd++) {
		s->flags[fd] = fcntl(fd, F_GETFL);
		s->fd_flags[fd] = fcntl(fd, F_GETFD);
	}
	for (int i = 0; i < (int)RLIM_NLIMITS; i++)
		getrlimit((__rlimit_resource_t)i, &s->limits[i]);
	s->environment = environ;
	s->group = getpgrp();
	s->session = getsid(0);
	s->priority = getpriority(PRIO_PROCESS, 0);
	for (int i = 0; i < 3; i++)
		getitimer((__itimer_which_t)i, &s->timers[i]);
	s->alarm = alarm(0);
	alarm(s->alarm);
}

static bool same_timers(const struct state *a, const struct state *b)
{
	for (int i = 0; i < 3; i++)
		if ((a->timers[i].it_value.tv_sec == 0) !=
			    (b->timers[i].it_value.tv_sec == 0) ||
		    b->timers[i].it_interval.tv_sec !=
			    a->timers[i].it_interval.tv_sec ||
		    a->timers[i].it_value.tv_sec -
				    b->timers[i].it_value.tv_sec >
			    60)
			return false;
	return true;
}

static void compare(const struct state *a, const struct state *b)
{
	same("dispositions",
	     memcmp(a->handlers, b->handlers, sizeof(a->handlers)) == 0 &&
		     memcmp(a->action_flags, b->action_flags,
			    sizeof(a->action_flags)) == 0);
	same("mask", memcmp(&a->mask, &b->mask, sizeof(a->mask)) == 0);
	same("SigIgn", strcmp(a->ignored, b->ignored) == 0);
	same("SigCgt", strcmp(a->caught, b->caught) == 0);
	same("SigBlk", strcmp(a->blocked, b->blocked) == 0);
	same("umask", a->umask == b->umask);
	same("directory", strcmp(a->cwd, b->cwd) == 0);
	same("locale", strcmp(a->locale, b->locale) == 0);
	same("flags of 0-2",
	     memcmp(a->flags, b->flags, sizeof(a->flags)) == 0 &&
		     memcmp(a->fd_flags, b->fd_flags, sizeof(a->fd_flags)) ==
			     0);
	same("limits", memcmp(a->limits, b->limits, sizeof(a->limits)) == 0);
	same("environment", a->environment == b->environment);
	same("group", a->group == b->group && a->session == b->session);
	same("priority", a->priority == b->priority);
	same("timers", same_timers(a, b));
	same("alarm", a->alarm && b->alarm && a->alarm - b->alarm < 60);
}

enum { NUMBERS = 32 };

/* A lock between every two: does anybody else draw from the sequences? */
static void draw(long *to, int fd)
{
	srand(1);
	srandom(2);
	srand48(3);
	for (int i = 0; i < NUMBERS; i++) {
		if (fd >= 0 && flock(fd, i % 2 ? LOCK_UN : LOCK_EX))
			die("flock");
		to[i] = i % 3 == 0   ? (long)rand() /* NOLINT: it is to be
						     predictable */
			: i % 3 == 1 ? random()
				     : lrand48();
	}
}

static void handler(int sig)
{
	(void)sig;
}

static void unusual(void)
{
	const struct itimerval day = { { 77, 0 }, { 86400, 0 } };
	struct sigaction sa = { .sa_flags = SA_RESTART | SA_ONSTACK };
	sigset_t some;

	sa.sa_handler = handler;
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGHUP, &sa, NULL);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	sigaddset(&some, SIGRTMIN + 3);
	pthread_sigmask(SIG_BLOCK, &some, NULL);
	umask(031);
	setlocale(LC_ALL, "C.UTF-8");
	setitimer(ITIMER_VIRTUAL, &day, NULL);
	setitimer(ITIMER_PROF, &day, NULL);
	alarm(86400);
}

static bool errno_stays(int fd, const char *name)
{
	bool stays = true;
	int second;

	for (int i = 0; i < 4; i++) {
		errno = 4711;
		if (flock(fd, i % 2 ? LOCK_UN : LOCK_EX) || errno != 4711)
			stays = false;
	}
	second = opened(name);
	errno = 4711;
	if (flock(second, LOCK_SH) || close(second) || errno != 4711)
		stays = false;
	return stays;
}

static int state(char **arg)
{
	static struct state before, after;
	long bare[NUMBERS], with[NUMBERS];
	int fd;

	unusual();
	look(&before);
	draw(bare, -1);
	fd = opened(arg[0]);
	draw(with, fd);
	flock(fd, LOCK_EX);
	if (system("true"))
		die("system");
	pause_ms(1500); /* renewals, a handover */
	look(&after);
	compare(&before, &after);
	flock(fd, LOCK_UN);
	same("sequences", memcmp(bare, with, sizeof(bare)) == 0);
	same("errno", errno_stays(fd, arg[0]));
	close(fd);
	look(&after);
	compare(&before, &after);
	return 0;
}

/* --- signals -------------------------------------------------------------- */

static volatile sig_atomic_t here, elsewhere;
static pid_t main_thread;

static void count(int sig)
{
	(void)sig;
	if ((pid_t)syscall(SYS_gettid) == main_thread)
		here++;
	else
		elsewhere++;
}

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_flags = flags };

	sa.sa_handler = fn;
	if (sigaction(sig, &sa, NULL))
		die("sigaction");
}

/* The threads but the first, and the signals that these let in. */
static void other_threads(int *n, unsigned long long *open_to)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	*n = 0;
	*open_to = 0;
	while (d && (e = readdir(d))) {
		long tid = strtol(e->d_name, NULL, 10);

		if (tid == 0 || tid == getpid())
			continue;
		++*n;
		*open_to |= ~strtoull(status_line(e->d_name, "SigBlk") + 7,
				      NULL, 16);
	}
	if (d)
		closedir(d);
}

/* From a child, so that the kernel chooses the thread. */
static void pelt(int times)
{
	pid_t pid = fork(), parent;

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		parent = getppid();
		for (int i = 0; i < times; i++) {
			kill(parent, i % 2 ? SIGUSR1 : SIGTERM);
			kill(parent, SIGRTMIN + i % 2);
		}
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int signals(char **arg)
{
	enum { TIMES = 500 };
	/* KILL, STOP, and the two that are glibc's own */
	const unsigned long long never = 1ULL << 8 | 1ULL << 18 | 3ULL << 31;
	unsigned long long open_to;
	char line[128];
	int fd, n;

	main_thread = (pid_t)syscall(SYS_gettid);
	handle(SIGUSR1, count, SA_RESTART);
	handle(SIGTERM, count, SA_RESTART);
	handle(SIGRTMIN, count, SA_RESTART);
	handle(SIGRTMIN + 1, count, SA_RESTART);
	fd = opened(arg[0]);
	other_threads(&n, &open_to);
	snprintf(line, sizeof(line), "before %d", n);
	tell(line);
	flock(fd, LOCK_EX);
	other_threads(&n, &open_to);
	snprintf(line, sizeof(line), "held %d open to %llx", n,
		 open_to & ~never);
	tell(line);
	pelt(TIMES);
	/* Real-time signals queue: every one of them counts. */
	snprintf(line, sizeof(line), "%s, %d elsewhere",
		 here >= TIMES + 2 ? "all came" : "some did not come",
		 (int)elsewhere);
	tell(line);
	flock(fd, LOCK_UN);
	for (long end = now_ms() + 5000; n && now_ms() < end; pause_ms(20))
		other_threads(&n, &open_to);
	snprintf(line, sizeof(line), "after %d", n);
	tell(line);
	return 0;
}

static volatile sig_atomic_t chld, alarms, got, refused, odd;

static void on_chld(int sig)
{
	(void)sig;
	chld++;
}

static int children(char **arg)
{
	int fd = opened(arg[0]), seen = 0;
	char line[64];

	handle(SIGCHLD, on_chld, SA_RESTART);
	for (int i = 0; i < 20; i++) {
		pid_t pid, ended;

		flock(fd, LOCK_EX);
		pid = fork();
		if (pid == 0)
			_exit(0);
		flock(fd, LOCK_UN);
		pause_ms(20); /* a keeper that has nothing left ends */
		while ((ended = waitpid(-1, NULL, 0)) > 0)
			seen += ended == pid ? 1 : 100;
	}
	pause_ms(300);
	snprintf(line, sizeof(line), "%d children, %d SIGCHLD, then %s", seen,
		 (int)chld, waitpid(-1, NULL, WNOHANG) < 0 ? "none" : "one");
	tell(line);
	return 0;
}

static int other_fd;

static void on_alarm(int sig)
{
	int saved = errno;

	(void)sig;
	alarms++;
	if (other_fd >= 0) {
		if (flock(other_fd, LOCK_EX | LOCK_NB) == 0) {
			got++;
			if (flock(other_fd, LOCK_UN))
				odd++;
		} else if (errno == EWOULDBLOCK) {
			refused++;
		} else {
			odd++;
		}
	}
	errno = saved;
}

/* No SA_RESTART: what EINTR there is shall be seen. */
static int under_alarm(char **arg)
{
	const struct itimerval khz = { { 0, 1000 }, { 0, 1000 } };
	const struct itimerval off = { 0 };
	long end = now_ms() + strtol(arg[3], NULL, 10);
	const int fd = opened(arg[1]);
	int times = 0, failed = 0, err = 0;
	char line[128];

	other_fd = strcmp(arg[0], "lock") == 0 ? opened(arg[2]) : -1;
	handle(SIGALRM, on_alarm, 0);
	setitimer(ITIMER_REAL, &khz, NULL);
	for (; now_ms() < end || times < 100 || alarms < 100; times++)
		if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN)) {
			err = errno;
			failed++;
		}
	setitimer(ITIMER_REAL, &off, NULL);
	snprintf(line, sizeof(line), "%d failed (%s), %d odd, %d refused",
		 failed, err ? strerrorname_np(err) : "0", (int)odd,
		 (int)refused);
	tell(line);
	fprintf(stderr, "%d locks, %d alarms, %d locks in them\n", times,
		(int)alarms, (int)got);
	return 0;
}

/* --- standard error ------------------------------------------------------- */

static int broken(char **arg)
{
	int ends[2], fd = opened(arg[0]);

	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		die("pipe");
	close(ends[0]);
	close(ends[1]);
	/* Still the pipe that we began with, for what it is worth. */
	execl("/proc/self/exe", "guest", "broken2", arg[0], NULL);
	close(fd);
	return 1;
}

static int broken2(char **arg)
{
	sigset_t pending;
	int fd = opened(arg[0]);

	tell(outcome(flock(fd, LOCK_EX)));
	sigpending(&pending);
	tell(sigismember(&pending, SIGPIPE) ? "pending" : "none pending");
	return 0;
}

static int full(char **arg)
{
	char some[4096] = { 0 };
	int ends[2];

	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		die("pipe");
	fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
	while (write(STDERR_FILENO, some, sizeof(some)) > 0)
		;
	fcntl(STDERR_FILENO, F_SETFL, 0);
	execl("/proc/self/exe", "guest", "broken2", arg[0], NULL);
	return 1;
}

/* --- little of something -------------------------------------------------- */

static int memory(char **arg)
{
	struct rlimit limit;
	int fd = opened(arg[0]);

	limit.rlim_cur = limit.rlim_max = strtoul(arg[1], NULL, 10) << 20;
	if (setrlimit(RLIMIT_AS, &limit))
		die("setrlimit");
	tell(outcome(flock(fd, LOCK_EX)));
	wait_for_go();
	return 0;
}

static int alone(char **arg)
{
	const struct rlimit one = { 1, 1 };
	int fd = opened(arg[0]);

	if (setrlimit(RLIMIT_NPROC, &one) || setuid(54321))
		die("setuid");
	tell(outcome(flock(fd, LOCK_EX)));
	return 0;
}

static int empty(char **arg)
{
	int fd = opened(arg[0]);

	clearenv();
	tell(outcome(flock(fd, LOCK_EX)));
	wait_for_go();
	return 0;
}

static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static void daemon_body(const char *name)
{
	sigset_t none, all;
	char line[32];
	int fd;

	for (int i = 0; i < 1024; i++)
		close(i);
	fd = open(name, O_RDWR | O_CREAT, 0666);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	handle(SIGTERM, on_term, 0);
	snprintf(line, sizeof(line), "%d %d %s\n", getpid(), fd,
		 outcome(flock(fd, LOCK_EX)));
	if (write(fd, line, strlen(line)) < 0)
		_exit(1);
	sigemptyset(&none);
	while (!ended)
		sigsuspend(&none);
	_exit(0);
}

static int become_daemon(char **arg)
{
	if (fork())
		_exit(0);
	setsid();
	if (fork())
		_exit(0);
	daemon_body(arg[0]);
	return 1;
}

static int bare(char **arg)
{
	char line[64];
	int keep, fd[3];

	for (int i = 0; i < 3; i++)
		close(i);
	keep = open(arg[0], O_RDWR | O_CREAT, 0666); /* 0 */
	if (keep != 0 || flock(keep, LOCK_EX))
		return 2;
	pause_ms(1200); /* a handover, a renewal */
	for (int i = 0; i < 3; i++)
		fd[i] = open("/dev/null", O_RDONLY);
	snprintf(line, sizeof(line), "%d %d %d\n", fd[0], fd[1], fd[2]);
	if (write(keep, line, strlen(line)) < 0)
		return 1;
	flock(keep, LOCK_UN);
	return 0;
}

static int again(char **arg)
{
	int fd = locked(arg[0]), failed = 0;
	char line[32];

	if (system("true"))
		die("system");
	for (int i = 0; i < 30; i++) {
		pause_ms(70);
		if (flock(fd, LOCK_UN) || flock(fd, LOCK_EX | LOCK_NB))
			failed++;
	}
	snprintf(line, sizeof(line), "%d refused", failed);
	tell(line);
	return 0;
}

static const char *late_name;

static void lock_late(void)
{
	static char name[64];
	int fd;

	if (!late_name)
		return;
	strcat(strcpy(name, late_name), name[0] ? "-2" : "");
	fd = opened(name);
	tell(outcome(flock(fd, LOCK_EX | LOCK_NB)));
	if (fork() == 0)
		_exit(0);
	wait(NULL);
	tell(outcome(flock(fd, LOCK_UN)));
	tell(outcome(flock(fd, LOCK_EX | LOCK_NB)));
}

__attribute__((destructor)) static void last(void)
{
	lock_late();
}

static int late(char **arg)
{
	atexit(lock_late);
	late_name = arg[0];
	return 0;
}

static int sizes(char **arg)
{
	char task[32];

	locked(arg[0]);
	snprintf(task, sizeof(task), "%d", getpid());
	fputs(status_line(task, "VmSize"), stdout);
	fputs(status_line(task, "VmRSS"), stdout);
	fflush(stdout);
	return 0;
}

static const struct {
	const char *name;
	int args;
	int (*run)(char **arg);
} commands[] = {
	{ "numbers", 3, numbers },   { "state", 1, state },
	{ "signals", 1, signals },   { "children", 1, children },
	{ "alarm", 4, under_alarm }, { "broken", 1, broken },
	{ "broken2", 1, broken2 },   { "full", 1, full },
	{ "memory", 2, memory },     { "empty", 1, empty },
	{ "bare", 1, bare },         { "daemon", 1, become_daemon },
	{ "late", 1, late },         { "sizes", 1, sizes },
	{ "again", 1, again },       { "alone", 1, alone },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (argc - 2 >= commands[i].args &&
		    strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argv + 2);
	return 64;
}
