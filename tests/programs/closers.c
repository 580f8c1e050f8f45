/* SPDX-License-Identifier: MIT */
/*
 * R times: locks N files, makes a child that has them all, too, and closes them,
 * each in a thread of its own, in the same moment, or (alone) one after the other;
 * then the child ends.  Prints how many ms the slowest close took.
 *	closers together|alone R N FILE
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { MOST = 64 };

static pthread_barrier_t all;
static bool together;

struct closer {
	pthread_t thread;
	int fd;
	long long took;
};

static void *close_one(void *arg)
{
	struct closer *c = arg;
	long long began;

	if (together)
		pthread_barrier_wait(&all);
	began = now_ns();
	close(c->fd);
	c->took = now_ns() - began;
	return NULL;
}

static pid_t sharer(void)
{
	const pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return pid;
	for (;;)
		pause();
}

static long long one_round(struct closer *c, unsigned n, const char *file)
{
	long long slowest = 0;
	char path[4096];
	pid_t child;

	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s.%u", file, i);
		c[i].fd = locked(path);
	}
	child = sharer();
	for (unsigned i = 0; i < n; i++) {
		if (pthread_create(&c[i].thread, NULL, close_one, &c[i]))
			die("pthread_create");
		if (!together)
			pthread_join(c[i].thread, NULL);
	}
	for (unsigned i = 0; i < n; i++) {
		if (together)
			pthread_join(c[i].thread, NULL);
		if (c[i].took > slowest)
			slowest = c[i].took;
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return slowest;
}

int main(int argc, char **argv)
{
	struct closer closers[MOST];
	long long slowest = 0;
	unsigned n, rounds;

	if (argc != 5)
		return 64;
	together = strcmp(argv[1], "together") == 0;
	rounds = (unsigned)strtoul(argv[2], NULL, 10);
	n = (unsigned)strtoul(argv[3], NULL, 10);
	if (n == 0 || n > MOST)
		return 64;
	pthread_barrier_init(&all, NULL, n);
	while (rounds--) {
		const long long took = one_round(closers, n, argv[4]);

		if (took > slowest)
			slowest = took;
	}
	printf("%lld\n", slowest / 1000000);
	return 0;
}
