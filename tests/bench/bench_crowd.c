/* SPDX-License-Identifier: MIT */
/*
 * Many processes, each with a lock of its own.
 *
 *	bench_crowd N PREFIX [PRELOAD]
 *
 * N processes lock PREFIX0, PREFIX1 and so on.  Says "locked MS" when all have;
 * when standard input ends, so do they, one and all, and it says "ended".
 * They are its children, and the only ones.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { READY = 3 };

static int member(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	char byte;

	if (fd < 0 || flock(fd, LOCK_EX))
		die(name);
	if (write(READY, "", 1) != 1)
		return 1;
	close(READY);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

static void start(int i, const char *prefix, char *preload, int ready)
{
	char self[] = "/proc/self/exe", verb[] = "member", name[4096];
	char *argv[] = { self, verb, name, NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "%s%d", prefix, i);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	if (ready != READY && dup2(ready, READY) < 0)
		die("dup2");
	closefrom(READY + 1);
	execv(self, argv);
	die("exec");
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 0, ready[2], status;
	long long from = now_ns();
	bool well = true;
	char byte;

	if (argc == 3 && strcmp(argv[1], "member") == 0)
		return member(argv[2]);
	if (n <= 0 || pipe(ready))
		return 64;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			start(i, argv[2], argc > 3 ? argv[3] : NULL, ready[1]);
	}
	close(ready[1]);
	for (int i = 0; i < n; i++)
		if (read(ready[0], &byte, 1) != 1)
			die("a member has no lock");
	printf("locked %lld\n", (now_ns() - from) / 1000000);
	fflush(stdout);
	while (wait(&status) > 0)
		well &= status == 0;
	puts(well ? "ended" : "failed");
	return !well;
}
