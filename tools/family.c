/* SPDX-License-Identifier: MIT */
/* A command and its descendants; see family.h. */
#include "tools/family.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

pid_t family_start(char *const argv[], const sigset_t *mask)
{
	pid_t self = getpid(), pid;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become(argv, mask, self);
	return pid < 0 ? -errno : pid;
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

static void list_all(struct members *m)
{
	DIR *d = opendir("/proc");
	unsigned pid;

	while ((pid = proc_next(&d))) {
		pid_t parent = parent_of(pid);

		if (!parent)
			continue;
		m->v = tool_grow(m->v, m->n, &m->room, sizeof(*m->v));
		m->v[m->n++] = (struct member){ (pid_t)pid, parent,
						parent == getpid() };
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

bool family_reap(pid_t pid, int *status)
{
	bool ended = false;
	int one;
	pid_t who;

	while ((who = waitpid(-1, &one, WNOHANG)) > 0)
		if (who == pid) {
			*status = one;
			ended = true;
		}
	return ended;
}
