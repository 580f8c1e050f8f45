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

/* A process that was found below us. */
struct member {
	pid_t pid, parent;
	bool below;
};

struct members {
	struct member *v;
	size_t n, room;
};

/* Between this process and the family; 0: there is none, or it is this one. */
static pid_t guard;
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

/* 0: it is gone. */
static pid_t parent_of(unsigned pid)
{
	char text[1024] = "";
	uint64_t parent;

	dlk_slurp(proc_file(pid, "stat"), text, sizeof(text));
	return !has_ended(text) &&
			       dlk_number(dlk_stat_field(text, 4), 10, &parent)
		       ? (pid_t)parent
		       : 0;
}

/* (Below this process there may be others, who were there before the family.) */
static void list_all(struct members *m)
{
	const pid_t top = guard ? guard : getpid();
	DIR *d = opendir("/proc");
	unsigned pid;

	while ((pid = proc_next(&d))) {
		pid_t parent = parent_of(pid);

		if (!parent)
			continue;
		m->v = tool_grow(m->v, m->n, &m->room, sizeof(*m->v));
		m->v[m->n++] =
			(struct member){ (pid_t)pid, parent, parent == top };
	}
}

static bool is_below(const struct members *m, pid_t pid)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].pid == pid)
			return m->v[i].below;
	return false;
}

/* Those of whom an ancestor is below us, too. */
static void mark(struct members *m)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < m->n; i++)
			if (!m->v[i].below && is_below(m, m->v[i].parent))
				m->v[i].below = more = true;
	}
}

static size_t signal_all(int signal)
{
	struct members m = { 0 };
	size_t n = 0;

	list_all(&m);
	mark(&m);
	for (size_t i = 0; i < m.n; i++)
		if (m.v[i].below) {
			kill(m.v[i].pid, signal);
			n++;
		}
	free(m.v);
	return n;
}

/* Who was just being made is found the next time. */
void family_kill(int signal)
{
	size_t n = signal_all(signal);

	for (int i = 0; signal == SIGKILL && n && i < 1000; i++) {
		dlk_pause_ns(1000000);
		n = signal_all(signal);
	}
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
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (getppid() == parent && !is_over(command))
		sigwaitinfo(&child, NULL);
	if (getppid() == parent)
		_exit(DLK_EXIT_OK);
	family_kill(SIGKILL);
	if (tool_is_read())
		tool_say(
			"%s: process %d, which renews the lease, was killed: "
			"SIGKILL to %s and all that it started; the lease ends "
			"by its ttl, or dlockctl break",
			held, (int)parent, command_name);
	_exit(DLK_EXIT_CANNOT);
}

/* All signals are blocked. */
static _Noreturn void become_guard(char *const argv[], const sigset_t *mask,
				   pid_t parent, int report)
{
	const pid_t self = getpid();
	pid_t command;

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
	if (write(report, &command, sizeof(command)) != sizeof(command) ||
	    command < 0)
		_exit(DLK_EXIT_CANNOT);
	dlk_syscall(SYS_close_range, 3U, ~0U, 0U);
	stand_guard(command, parent);
}

/* The command's pid, or -errno. */
static pid_t hear_of_command(int report)
{
	pid_t command;

	if (read(report, &command, sizeof(command)) == sizeof(command))
		return command;
	/* The guard was killed already. */
	guard = 0;
	family_kill(SIGKILL);
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

/* Those who were below it are below this process now. */
static void guard_was_killed(void)
{
	family_kill(SIGKILL);
	if (tool_is_read())
		tool_say("%s: the process between (dlock-guard) was killed: "
			 "SIGKILL to %s and all that it started",
			 held, command_name);
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
