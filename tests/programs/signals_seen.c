/* SPDX-License-Identifier: MIT */
/*
 * The signals of a program that locks are its own (DESIGN L7).
 *
 *	signals_seen signals FILE	1,000 signals while a lock is held: how
 *			many came, and to which thread
 *	signals_seen children FILE	makes children while locks come and go:
 *			what SIGCHLD and wait(-1) tell of them
 *	signals_seen alarm nothing|lock FILE OTHER MS	a 1 kHz SIGALRM for MS,
 *			and until a hundred have come, whose handler does
 *			nothing, or locks OTHER with LOCK_NB
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

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
	for (long end = now_ms() + 30000; n && now_ms() < end; pause_ms(20))
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

static const struct command commands[] = {
	{ "signals", 1, signals },
	{ "children", 1, children },
	{ "alarm", 4, under_alarm },
	{ 0 },
};

int main(int argc, char **argv)
{
	return run_command(commands, argc, argv);
}
