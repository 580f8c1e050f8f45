/* SPDX-License-Identifier: MIT */
/*
 * Contenders for one lock, on hosts of their own.
 *
 *	bench_contend FAMILY HOSTS WAITERS HOLD_US REST_US FILE OUT [PRELOAD]
 *	bench_contend section HOLD_US WAITER ASKED OUT
 *	bench_contend now
 *
 * The first, of a FAMILY flock or fcntl, starts HOSTS hosts, each a mount
 * namespace with a tmpfs of its own where FILE lies, and WAITERS processes in
 * each, with PRELOAD as LD_PRELOAD and the host's number as BENCH_HOST.  Says
 * "ready" when all of them are; reads "BEGIN END" (CLOCK_MONOTONIC, ns); then
 * each locks, sleeps HOLD_US, unlocks and sleeps REST_US, again and again, from
 * BEGIN to END; who is granted the lock later gives it back at once.  Says
 * "done".
 *
 * The second is one such section, of a process that somebody starts with a
 * lock in hand that was asked for at ASKED.  The third prints the time.
 *
 * Written to OUT, a line for each acquisition, when the waiter ends:
 *
 *	WAITER ASKED LOCKED UNLOCK
 *
 * ASKED before the lock call, LOCKED after it, UNLOCK before the unlock call.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* That of its peers in Python and JavaScript. */
#define DLK_TEST_CLOCK CLOCK_MONOTONIC
#include "tests/lib/helper.h"

enum { READY = 3, GO = 4 }; /* a waiter's descriptors */

/* --- a waiter ------------------------------------------------------------- */

struct line {
	long long asked, locked, unlock;
};

static struct line *lines;
static size_t n_lines, room;

static struct line *new_line(void)
{
	if (n_lines == room) {
		room = room ? 2 * room : 1024;
		lines = realloc(lines, room * sizeof(*lines));
		if (!lines)
			die("realloc");
	}
	return &lines[n_lines++];
}

/* A write(2) for many lines: O_APPEND keeps each write whole. */
static void write_lines(const char *out, const char *waiter)
{
	int fd = open(out, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (fd < 0 || !f)
		die(out);
	for (size_t i = 0; i < n_lines; i++)
		fprintf(f, "%s %lld %lld %lld\n", waiter, lines[i].asked,
			lines[i].locked, lines[i].unlock);
	if (fclose(f) || write(fd, text, len) != (ssize_t)len)
		die(out);
	free(text);
	close(fd);
}

static int lock(int fd, bool records, bool on)
{
	struct flock fl = { .l_type = on ? F_WRLCK : F_UNLCK };

	return records ? fcntl(fd, F_SETLKW, &fl)
		       : flock(fd, on ? LOCK_EX : LOCK_UN);
}

/* waiter flock|fcntl NAME HOLD_US REST_US FILE OUT */
static int waiter(char **argv)
{
	const bool records = strcmp(argv[0], "fcntl") == 0;
	const long long hold = strtoll(argv[2], NULL, 10) * 1000;
	const long long rest = strtoll(argv[3], NULL, 10) * 1000;
	int fd = open(argv[4], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	long long at[2];

	if (fd < 0)
		die(argv[4]);
	if (write(READY, "", 1) != 1 || read(GO, at, sizeof(at)) != sizeof(at))
		return 1;
	pause_ns(at[0] - now_ns());
	while (now_ns() < at[1]) {
		struct line *l = new_line();

		l->asked = now_ns();
		if (lock(fd, records, true))
			die("lock");
		l->locked = now_ns();
		pause_ns(l->locked < at[1] ? hold : 0);
		l->unlock = now_ns();
		if (lock(fd, records, false))
			die("unlock");
		pause_ns(rest);
	}
	write_lines(argv[5], argv[1]);
	return 0;
}

static int section(char **argv)
{
	struct line *l = new_line();

	l->locked = now_ns();
	l->asked = strtoll(argv[2], NULL, 10);
	pause_ns(strtoll(argv[0], NULL, 10) * 1000);
	l->unlock = now_ns();
	write_lines(argv[3], argv[1]);
	return 0;
}

/* --- hosts ---------------------------------------------------------------- */

struct plan {
	char *family, *hold, *rest, *file, *out;
	const char *preload;
	int waiters;
	int ready[2], go[2];
};

/* A child that dies with us. */
static pid_t child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static bool all_ended_well(void)
{
	bool well = true;
	int status;

	while (wait(&status) > 0)
		well &= status == 0;
	return well;
}

static void run_waiter(const struct plan *p, int host, int number)
{
	char self[] = "/proc/self/exe", verb[] = "waiter", name[32];
	char *argv[] = { self,    verb,    p->family, name, p->hold,
			 p->rest, p->file, p->out,    NULL };

	snprintf(name, sizeof(name), "%d.%d", host, number);
	if (p->preload)
		setenv("LD_PRELOAD", p->preload, 1);
	/* Each first elsewhere: one may have the other's number. */
	if (dup2(fcntl(p->ready[1], F_DUPFD, 10), READY) < 0 ||
	    dup2(fcntl(p->go[0], F_DUPFD, 10), GO) < 0)
		die("dup2");
	closefrom(GO + 1);
	execv(self, argv);
	die("exec");
}

static int run_host(const struct plan *p, int host)
{
	char name[32], dir[4096];

	snprintf(name, sizeof(name), "bench-%d", host);
	snprintf(dir, sizeof(dir), "%s", p->file);
	*strrchr(dir, '/') = '\0';
	setenv("BENCH_HOST", name, 1);
	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(name, dir, "tmpfs", 0, NULL))
		die("a host");
	for (int i = 0; i < p->waiters; i++)
		if (child() == 0)
			run_waiter(p, host, i);
	close(p->ready[1]);
	return all_ended_well() ? 0 : 1;
}

static void meet(const struct plan *p, int n)
{
	char line[64], *rest = line, byte;
	long long at[2];

	for (int i = 0; i < n; i++)
		if (read(p->ready[0], &byte, 1) != 1)
			die("a waiter is not ready");
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("BEGIN END");
	for (int i = 0; i < 2; i++)
		at[i] = strtoll(rest, &rest, 10);
	for (int i = 0; i < n; i++)
		if (write(p->go[1], at, sizeof(at)) != sizeof(at))
			die("go");
}

/* FAMILY HOSTS WAITERS HOLD_US REST_US FILE OUT [PRELOAD] */
static int contend(int argc, char **argv)
{
	struct plan p = {
		.family = argv[0],
		.hold = argv[3],
		.rest = argv[4],
		.file = argv[5],
		.out = argv[6],
		.preload = argc > 7 ? argv[7] : NULL,
		.waiters = (int)strtol(argv[2], NULL, 10),
	};
	int hosts = (int)strtol(argv[1], NULL, 10);
	bool well;

	if (pipe2(p.ready, O_CLOEXEC) || pipe2(p.go, O_CLOEXEC))
		die("pipe");
	for (int h = 0; h < hosts; h++)
		if (child() == 0)
			exit(run_host(&p, h));
	close(p.ready[1]);
	meet(&p, hosts * p.waiters);
	well = all_ended_well();
	puts(well ? "done" : "failed");
	return !well;
}

int main(int argc, char **argv)
{
	if (argc == 8 && strcmp(argv[1], "waiter") == 0)
		return waiter(argv + 2);
	if (argc == 6 && strcmp(argv[1], "section") == 0)
		return section(argv + 2);
	if (argc == 2 && strcmp(argv[1], "now") == 0)
		return printf("%lld\n", now_ns()) < 0;
	if (argc >= 8 &&
	    (strcmp(argv[1], "flock") == 0 || strcmp(argv[1], "fcntl") == 0))
		return contend(argc - 1, argv + 1);
	return 64;
}
