/* SPDX-License-Identifier: MIT */
/*
 * A program that has little of something, and locks (DESIGN L7).  A word a line
 * on standard output; at each line on standard input it goes on.
 *
 *	broken FILE	standard error is a pipe that nobody reads:
 *			the errno of flock()
 *	full FILE	... that is full
 *	memory FILE MIB	under RLIMIT_AS of MIB
 *	alone FILE	as a user who may have no further process, or
 *			thread
 *	again FILE MODE	locks (SH, EX), becomes another program and then that
 *			user, and locks by the same description (SH)
 *	split FILE	locks bytes 0 to 999, and has no more memory; unlocks
 *			each second one until it fails, 400 of them at most;
 *			reads byte 901; locks byte 799; and unlocks all
 *	empty FILE	clearenv(), and then it locks
 *	daemon FILE	becomes one (descriptors closed, two forks),
 *			locks, writes its pid into FILE and waits for SIGTERM
 *	bare FILE	without descriptors 0, 1 and 2: locks, then
 *			opens three files: their numbers, into FILE
 *	late FILE	locks in an atexit() handler and a destructor
 *	quick FILE	a child locks that an at_quick_exit(3) handler made,
 *			until standard input ends
 *	sizes FILE	VmSize and VmRSS in kB
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int broken(char **arg)
{
	int ends[2], fd = opened(arg[0]);

	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		die("pipe");
	close(ends[0]);
	close(ends[1]);
	/* Still the pipe that we began with, for what it is worth. */
	execl("/proc/self/exe", "without_resources", "broken2", arg[0], NULL);
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
	execl("/proc/self/exe", "without_resources", "broken2", arg[0], NULL);
	return 1;
}

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

static int again(char **arg)
{
	char number[16];
	const int fd = dup(opened(arg[0]));

	if (flock(fd, *arg[1] == 'E' ? LOCK_EX : LOCK_SH))
		die("flock");
	snprintf(number, sizeof(number), "%d", fd);
	execl("/proc/self/exe", "without_resources", "again2", number, NULL);
	return 1;
}

static int again2(char **arg)
{
	const struct rlimit one = { 1, 1 };

	if (setrlimit(RLIMIT_NPROC, &one) || setuid(54321))
		die("setuid");
	tell(outcome(flock((int)strtol(arg[0], NULL, 10), LOCK_SH | LOCK_NB)));
	wait_for_go();
	return 0;
}

static int set(int fd, short type, off_t start, off_t len)
{
	struct flock l = { .l_type = type, .l_start = start, .l_len = len };

	return fcntl(fd, F_SETLK, &l);
}

static int split(char **arg)
{
	struct rlimit limit;
	int fd = opened(arg[0]), n = 0, err;

	if (set(fd, F_WRLCK, 0, 1000) || getrlimit(RLIMIT_AS, &limit))
		die("split");
	limit.rlim_cur = 1;
	setrlimit(RLIMIT_AS, &limit);
	do {
		err = set(fd, F_UNLCK, 2 * n + 1, 1);
	} while (!err && ++n < 400);
	tell(outcome(err));
	tell(outcome(set(fd, F_RDLCK, 901, 1)));
	wait_for_go();
	tell(outcome(set(fd, F_WRLCK, 799, 1)));
	wait_for_go();
	return set(fd, F_UNLCK, 0, 0);
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

static void fork_late(void)
{
	if (fork() == 0) {
		tell(outcome(flock(opened(late_name), LOCK_EX)));
		while (getchar() != EOF)
			;
		_exit(0);
	}
	wait(NULL);
}

static int quick(char **arg)
{
	late_name = arg[0];
	if (at_quick_exit(fork_late))
		return 1;
	quick_exit(0);
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

static const struct command commands[] = {
	{ "broken", 1, broken },
	{ "broken2", 1, broken2 },
	{ "full", 1, full },
	{ "memory", 2, memory },
	{ "split", 1, split },
	{ "empty", 1, empty },
	{ "bare", 1, bare },
	{ "daemon", 1, become_daemon },
	{ "late", 1, late },
	{ "sizes", 1, sizes },
	{ "alone", 1, alone },
	{ "again", 2, again },
	{ "again2", 1, again2 },
	{ "quick", 1, quick },
	{ 0 },
};

int main(int argc, char **argv)
{
	return run_command(commands, argc, argv);
}
