/* SPDX-License-Identifier: MIT */
/*
 * A command in the mount and pid namespaces of PID, in DIR as it is seen there;
 * ends as the command did.	in_host PID DIR COMMAND [ARG...]
 *
 * As nsenter(1), but for one thing: that stops itself when its child is stopped,
 * at a moment of its own, and a test that lets the child go on may come too early
 * for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int namespace_of(const char *pid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static int ended_as(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int pids, mounts;
	pid_t child;

	if (argc < 4)
		return 64;
	pids = namespace_of(argv[1], "pid");
	mounts = namespace_of(argv[1], "mnt");
	if (setns(pids, CLONE_NEWPID) || setns(mounts, CLONE_NEWNS))
		die("setns");
	if (chdir(argv[2]))
		die(argv[2]);
	child = fork();
	if (child < 0)
		die("fork");
	if (child > 0)
		return ended_as(child);
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return errno == ENOENT ? 127 : 126;
}
