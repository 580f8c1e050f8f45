/* SPDX-License-Identifier: MIT */
/* A command and its descendants; see family.h. */
#include "tools/family.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/text.h"
#include "os/proc.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/processes.h"

/* A process, and whether it is below us.  One that has ended only leads to others. */
struct member {
	pid_t pid, parent;
	uint64_t began; /* proc(5): no other of this pid has begun then */
	bool ended, below;
};

struct members {
	struct member *v;
	size_t n, room;
};

/* What came of a signal to all: those who got it, and those who may not. */
struct reach {
	size_t reached, spared;
	char pids[128]; /* of some of the latter */
};

/* Between this process and the family; 0: there is none, or it is this one. */
static pid_t guard;
/* Those who were below this process before. */
static struct members before;
/* For messages: whose lease it is, and who is killed. */
static const char *held, *command_name;

static _Noreturn void become(char *const argv[], const sigset_t *mask,
			     pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(DLK_EXIT_CANNOT);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	tool_say("%s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? DLK_EXIT_NOT_FOUND : DLK_EXIT_CANNOT);
}

/* --- who is there? -------------------------------------------------------- */

/* A zombie may be a first thread that others outlive: pthread_exit(3). */
static bool has_ended(const char *stat)
{
	uint64_t threads;

	return *dlk_stat_field(stat, 3) == 'Z' &&
	       (!dlk_number(dlk_stat_field(stat, 20), 10, &threads) ||
		threads < 2);
}

/* False: it is gone. */
static bool read_member(unsigned pid, struct member *m)
{
	char text[1024] = "";
	uint64_t parent;

	dlk_slurp(proc_file(pid, "stat"), text, sizeof(text));
	if (!dlk_number(dlk_stat_field(text, 4), 10, &parent) || !parent)
		return false;
	*m = (struct member){ .pid = (pid_t)pid,
			      .parent = (pid_t)parent,
			      .ended = has_ended(text) };
	return dlk_number(dlk_stat_field(text, 22), 10, &m->began);
}

static int by_pid(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct member *find(const struct members *m, pid_t pid)
{
	const struct member key = { .pid = pid };

	return m->n ? bsearch(&key, m->v, m->n, sizeof(key), by_pid) : NULL;
}

static bool was_before(const struct member *m)
{
	const struct member *b = find(&before, m->pid);

	return b && b->below && b->began == m->began;
}

/* Those of whom an ancestor is below us, too. */
static void mark(struct members *m)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < m->n; i++) {
			const struct member *parent = find(m, m->v[i].parent);

			if (!m->v[i].below && parent && parent->below &&
			    !was_before(&m->v[i]))
				m->v[i].below = more = true;
		}
	}
}

/* All processes, and which of them are below that one. */
static void list_all(struct members *m, pid_t top)
{
	DIR *d = opendir("/proc");
	struct member one;
	unsigned pid;

	while ((pid = proc_next(&d))) {
		if (!read_member(pid, &one))
			continue;
		one.below = one.parent == top && !was_before(&one);
		m->v = tool_grow(m->v, m->n, &m->room, sizeof(*m->v));
		m->v[m->n++] = one;
	}
	if (m->n)
		qsort(m->v, m->n, sizeof(*m->v), by_pid);
	mark(m);
}

/* Most have no child yet (ECHILD), and /proc is not read for them. */
static void note_before(void)
{
	struct members m = { 0 };
	siginfo_t info;

	if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT))
		list_all(&m, getpid());
	before = m;
}

static void note_spared(struct reach *r, pid_t pid)
{
	size_t n = strlen(r->pids);

	r->spared++;
	if (n < sizeof(r->pids) - 16)
		snprintf(r->pids + n, sizeof(r->pids) - n, " %d", (int)pid);
}

static struct reach signal_all(int signal)
{
	struct members m = { 0 };
	struct reach r = { 0 };

	list_all(&m, guard ? guard : getpid());
	for (size_t i = 0; i < m.n; i++) {
		if (!m.v[i].below || m.v[i].ended)
			continue;
		if (!kill(m.v[i].pid, signal))
			r.reached++;
		else if (errno == EPERM)
			note_spared(&r, m.v[i].pid);
	}
	free(m.v);
	return r;
}

static const char *in_words(int signal, const struct reach *r, bool any,
			    const char *spared)
{
	const char *name = signal == SIGKILL ? "SIGKILL" : "SIGTERM";
	static char text[1024];

	if (!r->spared)
		snprintf(text, sizeof(text), "%s to %s and all that it started",
			 name, command_name);
	else
		snprintf(text, sizeof(text),
			 "%s is not permitted to this user for %zu of %s and "
			 "what it started, which %s: end them as root, "
			 "kill%s%s",
			 name, r->spared, command_name, spared, r->pids,
			 any ? "; all others were sent it" : "");
	return text;
}

/*
 * Not the command before all are listed: the guard ends with it, and who has no other
 * parent is not below us any more.  Who was just being made is found the next time.
 */
const char *family_kill(int signal, const char *spared)
{
	struct reach r = signal_all(signal);
	const bool any = r.reached;

	for (int i = 0; signal == SIGKILL && r.reached && i < 1000; i++) {
		dlk_pause_ns(1000000);
		r = signal_all(signal);
	}
	return in_words(signal, &r, any, spared);
}

/* --- the guard ------------------------------------------------------------ */

/* Whoever else has ended is reaped; the command is not (family.h, 1). */
static bool is_over(pid_t command)
{
	siginfo_t info = { 0 };

	while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       info.si_pid) {
		if (info.si_pid == command)
			return true;
		waitpid(info.si_pid, NULL, 0);
	}
	return false;
}

/* SIGCHLD comes of either (a parent's end: PR_SET_PDEATHSIG). */
static _Noreturn void stand_guard(pid_t command, pid_t parent)
{
	const char *done;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (getppid() == parent && !is_over(command))
		sigwaitinfo(&child, NULL);
	if (getppid() == parent)
		_exit(DLK_EXIT_OK);
	done = family_kill(SIGKILL, "RUN ON, soon without the lease");
	if (tool_is_read())
		tool_say("%s: process %d, which renews the lease, was killed: "
			 "%s; the lease ends by its ttl, or dlockctl break",
			 held, (int)parent, done);
	_exit(DLK_EXIT_CANNOT);
}

/* Nothing is open then but 0, 1, 2 and the report, which becomes 3. */
static int keep_report(int report)
{
	if (report != 3 && dup2(report, 3) < 0)
		return -errno;
	return dlk_close_from(4);
}

/* All signals are blocked. */
static _Noreturn void become_guard(char *const argv[], const sigset_t *mask,
				   pid_t parent, int report)
{
	const pid_t self = getpid();
	pid_t command;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGCHLD);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (getppid() != parent)
		_exit(DLK_EXIT_CANNOT);
	command = fork();
	if (command == 0)
		become(argv, mask, self);
	if (command < 0)
		command = -errno;
	/* (Who ends all of a name does not mean this one.) */
	prctl(PR_SET_NAME, "dlock-guard");
	err = keep_report(report);
	if (err && command > 0) {
		kill(command, SIGKILL);
		command = err;
	}
	if (write(err ? report : 3, &command, sizeof(command)) !=
		    sizeof(command) ||
	    command < 0)
		_exit(DLK_EXIT_CANNOT);
	close(3);
	stand_guard(command, parent);
}

/* The command's pid, or -errno. */
static pid_t hear_of_command(int report)
{
	pid_t pid;

	if (read(report, &pid, sizeof(pid)) == sizeof(pid))
		return pid;
	/* The guard was killed already. */
	guard = 0;
	family_kill(SIGKILL, "RUN ON");
	return -ESRCH;
}

pid_t family_start(char *const argv[], const sigset_t *mask, const char *key)
{
	pid_t self = getpid(), command;
	sigset_t all, was;
	int report[2];

	held = key;
	command_name = argv[0];
	if (pipe2(report, O_CLOEXEC))
		return -errno;
	note_before();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &was);
	guard = fork();
	if (guard == 0)
		become_guard(argv, mask, self, report[1]);
	command = guard < 0 ? -errno : 0;
	if (guard < 0)
		guard = 0;
	sigprocmask(SIG_SETMASK, &was, NULL);
	close(report[1]);
	if (!command)
		command = hear_of_command(report[0]);
	close(report[0]);
	return command;
}

/* Those who were below it are below this process now; the lease is held still. */
static void guard_was_killed(void)
{
	const char *done = family_kill(
		SIGKILL, "RUN ON, under the lease until the command ends");

	if (tool_is_read())
		tool_say("%s: the process between (dlock-guard) was killed: %s",
			 held, done);
}

bool family_reap(pid_t pid, int *status)
{
	bool ended = false, unguarded = false;
	int one;
	pid_t who;

	while ((who = waitpid(-1, &one, WNOHANG)) > 0) {
		if (who == pid) {
			*status = one;
			ended = true;
		}
		if (who == guard) {
			guard = 0;
			unguarded = WIFSIGNALED(one);
		}
	}
	if (unguarded)
		guard_was_killed();
	return ended;
}
