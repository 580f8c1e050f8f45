/* SPDX-License-Identifier: MIT */
/*
 * A library whose constructor runs before the shim's (it is preloaded after
 * it: constructors run from the last to the first), and does there what others
 * do in main(): children, a close loop, locks of $EARLY.  Says what came of
 * it: "CHILD-LOCKS LOCKS AGAIN SYSTEM".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int lock(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	return flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
}

static const char *late;

__attribute__((destructor)) static void last(void)
{
	if (late && lock(late))
		(void)!write(STDOUT_FILENO, "failed\n", 7);
}

static int child_locks(const char *name)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(lock(name));
	return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : -1;
}

__attribute__((constructor)) static void early(void)
{
	const char *name = getenv("EARLY");
	int child, first, second, shell;
	char line[64];

	late = getenv("LATE");
	if (!name)
		return;
	unsetenv("EARLY");
	child = child_locks(name);
	first = lock(name);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	second = lock(name);
	closefrom(3);
	shell = system("exit 5");
	snprintf(line, sizeof(line), "%d %d %d %d\n", child, first, second,
		 WEXITSTATUS(shell));
	(void)!write(STDOUT_FILENO, line, strlen(line));
}
