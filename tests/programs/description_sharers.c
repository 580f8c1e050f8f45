/* SPDX-License-Identifier: MIT */
/*
 * Two processes, or threads of one by two descriptors, share a description;
 * neither ever unlocks it.  One tries flock(2) with LOCK_NB again and again
 * while the other waits: what that was granted is there when the last refused
 * one has returned.
 *
 *	description_sharers processes|threads FILE
 *				a line on standard input for each round; answers
 *				"waits", then "RESULT LOOKS MISSED": the wait's,
 *				and how often the kernel did not list its lock
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { LOOKS = 3 };

static bool is_listed(int fd)
{
	char name[64], line[256];
	bool listed = false;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		listed |= strstr(line, "FLOCK") != NULL;
	if (f)
		fclose(f);
	return listed;
}

static volatile sig_atomic_t ended;

static void on_term(int signo)
{
	(void)signo;
	ended = 1;
}

static void try_until_told(int fd)
{
	while (!ended) {
		flock(fd, LOCK_EX | LOCK_NB);
		pause_us(300);
	}
}

/* It ends by itself, so that what it took over is carried on. */
static pid_t start_process(int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		try_until_told(fd);
		exit(0);
	}
	return pid;
}

static void *thread_tries(void *fd)
{
	try_until_told(*(int *)fd);
	return NULL;
}

static void one_round(const char *file, bool threads)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600), got,
	    missed = 0, second = -1;
	pthread_t thread;
	pid_t other = -1;

	ended = 0;
	if (!threads)
		other = start_process(fd);
	else if ((second = dup(fd)) < 0 ||
		 pthread_create(&thread, NULL, thread_tries, &second))
		exit(71);
	puts("waits");
	got = flock(fd, LOCK_EX);
	ended = 1;
	if (!threads) {
		kill(other, SIGTERM);
		waitpid(other, NULL, 0);
	} else {
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < LOOKS; i++) {
		missed += !is_listed(fd);
		pause_us(1000);
	}
	printf("%d %d %d\n", got, LOOKS, missed);
	flock(fd, LOCK_UN);
	close(fd);
	if (second >= 0)
		close(second);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc != 3)
		return 64;
	signal(SIGTERM, on_term);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		one_round(argv[2], strcmp(argv[1], "threads") == 0);
	return 0;
}
