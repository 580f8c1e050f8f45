/* SPDX-License-Identifier: MIT */
/*
 * Processes that want one lock, and say when they had it.
 *
 *	herd OUT NAME
 *
 * starts them as it is told, a command a line on standard input, and answers
 * with a line on standard output: "PID PID ... 0"
 *
 *	N FILE EX|SH HOLD_US ROUNDS HOW
 *
 * N of them, each with a description of its own, lock FILE, sleep HOLD_US and
 * unlock, ROUNDS times, or for so many "s", or until SIGUSR1.  HOW is a word of
 * letters, "-" for none:
 *
 *	h	on a host of its own: FILE's directory is a tmpfs of its own
 *	n	LOCK_NB, again and again until granted
 *	e	a signal each 3 ms, whose handler makes the call return EINTR:
 *		the round is asked for again, so that a wait ends many times
 *	r	the same with SA_RESTART
 *	j	the same, and the handler leaves by siglongjmp(3)
 *	u	SH first, then converted
 *	w	the first round, after which what it has is counted, is for
 *		FILE.first
 *
 * Of each round two lines are in OUT, one after the lock call, one before the
 * unlock; times are CLOCK_BOOTTIME, ns:
 *
 *	+ PID EX|SH ASKED LOCKED ENDED
 *	- PID EX|SH UNLOCK
 *
 * ENDED is how many times the wait was ended by a signal.  At its end each adds
 * what it has more than after its first round: descriptors and pages,
 *
 *	. PID FDS PAGES ENDED
 *
 * where PID is NAME and the pid, which may be that of others on other hosts.
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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static sigjmp_buf back;
static volatile sig_atomic_t may_jump, is_last;
static const char *name;
static int out;
static long ended;

/* One write(2) each: O_APPEND keeps it whole. */
static void say(char sign, const char *mode, long long a, long long b, long c)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "%c %s%d %s %lld %lld %ld\n", sign,
			 name, getpid(), mode, a, b, c);

	if (write(out, line, (size_t)n) != n)
		die("write");
}

/* --- signals -------------------------------------------------------------- */

static void note(int sig)
{
	(void)sig;
}

static void jump(int sig)
{
	(void)sig;
	if (may_jump)
		siglongjmp(back, 1);
}

static void end_soon(int sig)
{
	(void)sig;
	is_last = 1;
}

static void annoy(const char *how)
{
	const bool restart = strchr(how, 'r'), jumps = strchr(how, 'j');
	struct sigaction sa = { .sa_flags = restart ? SA_RESTART : 0 };
	const struct itimerval it = { { 0, 3000 }, { 0, 3000 } };

	sa.sa_handler = jumps ? jump : note;
	if (!restart && !jumps && !strchr(how, 'e'))
		return;
	if (sigaction(SIGALRM, &sa, NULL) || setitimer(ITIMER_REAL, &it, NULL))
		die("a timer");
}

/* --- a waiter ------------------------------------------------------------- */

static int fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		die("/proc/self/fd");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* The second number of proc_pid_statm(5). */
static long pages(void)
{
	char line[128] = "", *resident = line;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, line, sizeof(line) - 1) <= 0)
		die("/proc/self/statm");
	close(fd);
	strtol(line, &resident, 10);
	return strtol(resident, NULL, 10);
}

/* Granted, or the wait has ended: errno. */
static int once(int fd, int op)
{
	volatile int err = EINTR;

	if (sigsetjmp(back, 1) == 0) {
		may_jump = 1;
		err = flock(fd, op) ? errno : 0;
	}
	may_jump = 0;
	return err;
}

static void lock(int fd, int op)
{
	int err;

	while ((err = once(fd, op))) {
		if (err == EINTR)
			ended++;
		else if (err != EWOULDBLOCK) {
			errno = err;
			die("flock");
		}
	}
}

static void round_of(int fd, int op, const char *mode, long hold_us,
		     const char *how)
{
	long long asked = now_ns(), locked;

	if (strchr(how, 'u'))
		lock(fd, LOCK_SH);
	ended = 0;
	lock(fd, op | (strchr(how, 'n') ? LOCK_NB : 0));
	locked = now_ns();
	say('+', mode, asked, locked, ended);
	pause_ns(hold_us * 1000LL);
	say('-', mode, now_ns(), 0, 0);
	if (flock(fd, LOCK_UN))
		die("unlock");
}

static int with_suffix(const char *file, const char *suffix)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s%s", file, suffix);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		die(path);
	return fd;
}

/* waiter OUT FILE MODE HOLD_US ROUNDS HOW NAME */
static int waiter(char **argv)
{
	const char *mode = argv[2], *how = argv[5];
	const int op = strcmp(mode, "SH") == 0 ? LOCK_SH : LOCK_EX;
	int fd = with_suffix(argv[1], ""), first = fd;
	long had_fds = 0, had_pages = 0, all = 0;
	char *unit;
	long rounds = strtol(argv[4], &unit, 10);
	const bool timed = *unit == 's';
	const long long until = now_ns() + rounds * 1000000000LL;

	name = argv[6];
	out = open(argv[0], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (out < 0)
		die(argv[0]);
	if (strchr(how, 'w'))
		first = with_suffix(argv[1], ".first");
	handle(SIGUSR1, end_soon, SA_RESTART);
	annoy(how);
	for (long i = 0; !is_last && (timed ? now_ns() < until : i < rounds);
	     i++) {
		round_of(i ? fd : first, op, mode, strtol(argv[3], NULL, 10),
			 how);
		all += ended;
		if (i > 0)
			continue;
		had_fds = fds();
		had_pages = pages();
	}
	say('.', "-", fds() - had_fds, pages() - had_pages, all);
	return 0;
}

/* --- starting them -------------------------------------------------------- */

static void own_host(const char *file)
{
	char dir[4096];

	snprintf(dir, sizeof(dir), "%s", file);
	*strrchr(dir, '/') = '\0';
	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("own", dir, "tmpfs", 0, NULL))
		die("a host");
}

static void start(char **own, char **arg)
{
	char self[] = "/proc/self/exe", verb[] = "waiter";
	char *argv[] = { self,   verb,   own[0], arg[1], arg[2],
			 arg[3], arg[4], arg[5], own[1], NULL };
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid > 0) {
		printf("%d ", pid);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (strchr(arg[5], 'h'))
		own_host(arg[1]);
	execv(self, argv);
	die("exec");
}

static void herd(char **own)
{
	char line[4096], *arg[6];

	signal(SIGCHLD, SIG_IGN);
	while (fgets(line, sizeof(line), stdin)) {
		int n = 0;

		for (char *w = strtok(line, " \n"); w && n < 6;
		     w = strtok(NULL, " \n"))
			arg[n++] = w;
		if (n < 6)
			die("a command");
		for (long i = strtol(arg[0], NULL, 10); i > 0; i--)
			start(own, arg);
		puts("0");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	if (argc == 9 && strcmp(argv[1], "waiter") == 0)
		return waiter(argv + 2);
	if (argc != 3)
		return 64;
	herd(argv + 1);
	return 0;
}
