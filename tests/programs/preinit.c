/* SPDX-License-Identifier: MIT */
/*
 * A program that calls before any constructor has run, libc's own included:
 * from its .preinit_array.  What came of it, a word each: dup2(), fcntl(),
 * fork(), flock() of FILE (LOCK_NB), its unlocking, close().
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int results[6];

static int result(int r)
{
	return r < 0 ? errno : 0;
}

static void before_all(int argc, char **argv, char **envp)
{
	int fd = open(argc > 1 ? argv[1] : "preinit", O_RDWR | O_CREAT, 0666);
	pid_t pid;

	(void)envp;
	results[0] = result(dup2(fd, 100));
	results[1] = result(fcntl(fd, F_GETFD));
	pid = fork();
	if (pid == 0)
		_exit(0);
	results[2] = result(waitpid(pid, NULL, 0));
	results[3] = result(flock(fd, LOCK_EX | LOCK_NB));
	results[4] = result(flock(fd, LOCK_UN));
	results[5] = result(close(fd));
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const entry)(int, char **,
						 char **) = before_all;

int main(void)
{
	for (int i = 0; i < 6; i++)
		printf("%s ", results[i] ? strerrorname_np(results[i]) : "0");
	printf("\n");
	return 0;
}
