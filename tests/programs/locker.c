/* SPDX-License-Identifier: MIT */
/*
 * A program that locks as it is told: a command a line on standard input, a
 * line of answer on standard output,
 *
 *	RESULT START END
 *
 * RESULT is 0 or a number, or the name of the errno; START and END are
 * CLOCK_BOOTTIME nanoseconds before and after the call.  A SLOT is a letter.
 *
 *	open SLOT PATH		O_RDWR | O_CREAT; in PATH %XX is a byte
 *	close SLOT
 *	dup SLOT SLOT2
 *	lock SLOT EX|SH|UN [NB]		flock(2)
 *	record SLOT F_RDLCK|F_WRLCK|F_UNLCK [OFD]	fcntl(2) F_SETLK, or
 *				F_OFD_SETLK
 *	range SLOT F_RDLCK|F_WRLCK|F_UNLCK START LENGTH [WAIT] [OFD]
 *				fcntl(2) F_SETLK, F_SETLKW or their OFD forms
 *	lockf SLOT			lockf(3) F_TLOCK
 *	read SLOT			the file's content as a number
 *	write SLOT NUMBER
 *	map SLOT			mmap(2) of its first page, shared
 *	peek SLOT			the number there
 *	poke SLOT NUMBER
 *	closeall			close(2) of 3 .. 1023
 *	closeraw			close_range(2) of 3 and more, past
 *				whoever stands between libc and the kernel
 *	fork				a child that waits for death: its pid
 *	reap PID			SIGKILL and waitpid(2)
 *	twin SLOT		a process that has our descriptor table
 *				(CLONE_FILES), not our memory, closes it, and
 *				ends
 *	cycle PATH N		opens it, locks a byte (OFD), closes it, N times
 *	pid | threads | fds | sockets	this process' own
 *	alarm MS			SIGALRM MS after the next command has
 *				begun, if it still runs; handler without
 *				SA_RESTART; 0: the handler alone
 *	tick US			SIGALRM each US microseconds, handler with
 *				SA_RESTART; 0: no more
 *	jump MS			the same, and it leaves the command by
 *				siglongjmp(3): RESULT is JUMPED
 *	swap SLOT SLOT2 MS	the same, handler with SA_RESTART, which makes
 *				SLOT2's file SLOT's by dup2(2)
 *	exec			execve(2) of itself, with its slots
 *	exit NUMBER
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int slots[26];
static char *pages[26];
static sigjmp_buf out;

static int *slot(const char *name)
{
	static int none = -1;

	return name && *name >= 'a' && *name <= 'z' ? &slots[*name - 'a']
						    : &none;
}

static char **page(const char *name)
{
	static char *none;

	return name && *name >= 'a' && *name <= 'z' ? &pages[*name - 'a']
						    : &none;
}

static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		char hex[3] = { 0 };

		if (*s == '%' && s[1] && s[2]) {
			hex[0] = s[1];
			hex[1] = s[2];
			*to++ = (char)strtol(hex, NULL, 16);
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

static long do_open(char **arg)
{
	int fd;

	if (!arg[2])
		return errno = EINVAL, -1;
	unescape(arg[2]);
	fd = open(arg[2], O_RDWR | O_CREAT, 0666);
	*slot(arg[1]) = fd;
	return fd < 0 ? -1 : 0;
}

static long do_close(char **arg)
{
	return close(*slot(arg[1]));
}

static long do_dup(char **arg)
{
	int fd = dup(*slot(arg[1]));

	*slot(arg[2]) = fd;
	return fd < 0 ? -1 : 0;
}

static long do_lock(char **arg)
{
	int op = -1;

	if (arg[2] && strcmp(arg[2], "EX") == 0)
		op = LOCK_EX;
	else if (arg[2] && strcmp(arg[2], "SH") == 0)
		op = LOCK_SH;
	else if (arg[2] && strcmp(arg[2], "UN") == 0)
		op = LOCK_UN;
	if (arg[2] && arg[3] && strcmp(arg[3], "NB") == 0)
		op |= LOCK_NB;
	return flock(*slot(arg[1]), op);
}

static short type_of(const char *name)
{
	if (name && strcmp(name, "F_WRLCK") == 0)
		return F_WRLCK;
	return name && strcmp(name, "F_RDLCK") == 0 ? F_RDLCK : F_UNLCK;
}

static long do_range(char **arg)
{
	struct flock l = { .l_type = type_of(arg[2]) };
	bool wait = false, ofd = false;

	if (!arg[2] || !arg[3] || !arg[4])
		return errno = EINVAL, -1;
	l.l_start = strtoll(arg[3], NULL, 10);
	l.l_len = strtoll(arg[4], NULL, 10);
	for (char **more = arg + 5; *more; more++) {
		wait |= strcmp(*more, "WAIT") == 0;
		ofd |= strcmp(*more, "OFD") == 0;
	}
	if (ofd)
		return fcntl(*slot(arg[1]), wait ? F_OFD_SETLKW : F_OFD_SETLK,
			     &l);
	return fcntl(*slot(arg[1]), wait ? F_SETLKW : F_SETLK, &l);
}

static long do_record(char **arg)
{
	struct flock l = { .l_type = type_of(arg[2]) };
	int cmd = F_SETLK;

	if (arg[2] && arg[3] && strcmp(arg[3], "OFD") == 0)
		cmd = F_OFD_SETLK;
	return fcntl(*slot(arg[1]), cmd, &l);
}

static long do_lockf(char **arg)
{
	return lockf(*slot(arg[1]), F_TLOCK, 0);
}

static long do_read(char **arg)
{
	char text[32] = { 0 };

	if (pread(*slot(arg[1]), text, sizeof(text) - 1, 0) < 0)
		return -1;
	return strtol(text, NULL, 10);
}

static long do_write(char **arg)
{
	size_t len = arg[2] ? strlen(arg[2]) : 0;

	return pwrite(*slot(arg[1]), arg[2], len, 0) == (ssize_t)len ? 0 : -1;
}

static long do_map(char **arg)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
		       *slot(arg[1]), 0);

	*page(arg[1]) = p == MAP_FAILED ? NULL : p;
	return p == MAP_FAILED ? -1 : 0;
}

static long do_peek(char **arg)
{
	const char *p = *page(arg[1]);

	return p ? strtol(p, NULL, 10) : (errno = EINVAL, -1);
}

static long do_poke(char **arg)
{
	char *p = *page(arg[1]);

	if (!p || !arg[2])
		return errno = EINVAL, -1;
	memcpy(p, arg[2], strlen(arg[2]));
	return 0;
}

static long do_closeall(char **arg)
{
	(void)arg;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	return 0;
}

static long do_fork(char **arg)
{
	pid_t pid = fork();

	(void)arg;
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static long do_reap(char **arg)
{
	pid_t pid = arg[1] ? (pid_t)strtol(arg[1], NULL, 10) : -1;

	if (pid <= 0)
		return errno = EINVAL, -1;
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static int close_slot(void *slot)
{
	close(*(int *)slot);
	return 0;
}

static long do_twin(char **arg)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(close_slot, stack + sizeof(stack),
			  CLONE_FILES | SIGCHLD, slot(arg[1]));

	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static long do_cycle(char **arg)
{
	long n = arg[1] && arg[2] ? strtol(arg[2], NULL, 10) : 0;

	for (long i = 0; i < n; i++) {
		struct flock l = { .l_type = F_WRLCK,
				   .l_start = 10000 + i,
				   .l_len = 1 };
		int fd = open(arg[1], O_RDWR | O_CREAT | O_CLOEXEC, 0666);

		if (fd < 0 || fcntl(fd, F_OFD_SETLKW, &l))
			return -1;
		close(fd);
	}
	return 0;
}

static long do_pid(char **arg)
{
	(void)arg;
	return getpid();
}

/* Entries of a directory below /proc/self; of sockets only, if wanted. */
static long entries(const char *dir, bool sockets)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	long n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (sockets && (fstatat(dirfd(d), e->d_name, &st, 0) ||
				!S_ISSOCK(st.st_mode)))
			continue;
		n++;
	}
	closedir(d);
	return n;
}

static long do_threads(char **arg)
{
	(void)arg;
	return entries("/proc/self/task", false);
}

static long do_fds(char **arg)
{
	(void)arg;
	return entries("/proc/self/fd", false);
}

static long do_sockets(char **arg)
{
	(void)arg;
	return entries("/proc/self/fd", true);
}

static long do_closeraw(char **arg)
{
	(void)arg;
	return raw_syscall(SYS_close_range, 3, -1, 0, 0);
}

/* The next command's. */
static struct itimerval alarm_due;

static long set_alarm(void (*handler)(int), int flags, const char *arg)
{
	const long ms = arg ? strtol(arg, NULL, 10) : 0;

	handle(SIGALRM, handler, flags);
	alarm_due.it_value = (struct timeval){ .tv_sec = ms / 1000,
					       .tv_usec = ms % 1000 * 1000 };
	return 0;
}

static void on_alarm(int signo)
{
	(void)signo;
}

static long do_alarm(char **arg)
{
	return set_alarm(on_alarm, 0, arg[1]);
}

static long do_tick(char **arg)
{
	const struct timeval each = {
		.tv_usec = arg[1] ? strtol(arg[1], NULL, 10) : 0,
	};
	const struct itimerval it = { each, each };

	handle(SIGALRM, on_alarm, SA_RESTART);
	return setitimer(ITIMER_REAL, &it, NULL);
}

static int swap_to, swap_from;

static void on_swap(int signo)
{
	(void)signo;
	dup2(swap_from, swap_to);
}

static long do_swap(char **arg)
{
	swap_to = *slot(arg[1]);
	swap_from = *slot(arg[2]);
	return set_alarm(on_swap, SA_RESTART, arg[3]);
}

static void on_jump(int signo)
{
	(void)signo;
	siglongjmp(out, 1);
}

static long do_jump(char **arg)
{
	return set_alarm(on_jump, 0, arg[1]);
}

static long do_exec(char **arg)
{
	char name[] = "locker", given[26][16];
	char *argv[28] = { name };
	int n = 1;

	(void)arg;
	for (int i = 0; i < 26; i++) {
		if (slots[i] < 0)
			continue;
		snprintf(given[i], sizeof(given[i]), "%c%d", 'a' + i, slots[i]);
		argv[n++] = given[i];
	}
	return execv("/proc/self/exe", argv);
}

static long do_exit(char **arg)
{
	exit(arg[1] ? (int)strtol(arg[1], NULL, 10) : 0);
}

static const struct {
	const char *name;
	long (*run)(char **arg);
} commands[] = {
	{ "open", do_open },         { "close", do_close },
	{ "dup", do_dup },           { "lock", do_lock },
	{ "record", do_record },     { "lockf", do_lockf },
	{ "read", do_read },         { "write", do_write },
	{ "closeall", do_closeall }, { "fork", do_fork },
	{ "reap", do_reap },         { "pid", do_pid },
	{ "threads", do_threads },   { "fds", do_fds },
	{ "sockets", do_sockets },   { "alarm", do_alarm },
	{ "exit", do_exit },         { "range", do_range },
	{ "map", do_map },           { "peek", do_peek },
	{ "poke", do_poke },         { "jump", do_jump },
	{ "swap", do_swap },         { "exec", do_exec },
	{ "tick", do_tick },         { "closeraw", do_closeraw },
	{ "twin", do_twin },         { "cycle", do_cycle },
};

/* With the alarm that was set for it, if one was; no other is touched. */
static long run_timed(long (*run)(char **arg), char **arg)
{
	const struct itimerval due = alarm_due, none = { 0 };
	const bool timed = timerisset(&due.it_value);
	long n;
	int error;

	alarm_due = none;
	if (timed)
		setitimer(ITIMER_REAL, &due, NULL);
	errno = 0;
	n = run(arg);
	error = errno;
	if (timed)
		setitimer(ITIMER_REAL, &none, NULL);
	errno = error;
	return n;
}

static void answer(char **arg)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const long long start = now_ns();
		long n;
		int error;

		if (strcmp(arg[0], commands[i].name) != 0)
			continue;
		n = run_timed(commands[i].run, arg);
		error = errno;
		if (n == -1)
			printf("%s", strerrorname_np(error));
		else
			printf("%ld", n);
		printf(" %lld %lld\n", start, now_ns());
		return;
	}
	printf("what? 0 0\n");
}

int main(int argc, char **argv)
{
	char line[8192];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < 26; i++)
		slots[i] = -1;
	for (int i = 1; i < argc; i++)
		*slot(argv[i]) = (int)strtol(argv[i] + 1, NULL, 10);
	if (argc > 1)
		printf("0 0 %lld\n", now_ns());
	while (fgets(line, sizeof(line), stdin)) {
		char *arg[9] = { 0 }, *save = NULL;
		int n = 0;

		line[strcspn(line, "\n")] = '\0';
		for (char *w = strtok_r(line, " ", &save); w && n < 8;
		     w = strtok_r(NULL, " ", &save))
			arg[n++] = w;
		if (n && sigsetjmp(out, 1))
			printf("JUMPED 0 %lld\n", now_ns());
		else if (n)
			answer(arg);
	}
	return 0;
}
