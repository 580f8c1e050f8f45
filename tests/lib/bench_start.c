/* SPDX-License-Identifier: MIT */
/*
 * What the start of a program costs.
 *
 *	bench_start N VARIANT...
 *
 * A VARIANT is an environment, NAME=VALUE words with blanks between, or "".
 * Runs /bin/true N times in each, in turns, and prints the medians in
 * nanoseconds, one a line.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/lib/bench.h"

static long long run(char **env)
{
	char name[] = "/bin/true", *argv[] = { name, NULL };
	long long begin = now_ns();
	int status = -1;
	pid_t pid;

	if (posix_spawn(&pid, name, NULL, NULL, argv, env) ||
	    waitpid(pid, &status, 0) < 0 || status != 0) {
		fputs("/bin/true did not run\n", stderr);
		exit(1);
	}
	return now_ns() - begin;
}

int main(int argc, char **argv)
{
	char *env[16][8] = { { NULL } };
	size_t runs = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	int variants = argc - 2;
	long long *ns;

	if (!runs || variants < 1 || variants > 16)
		return 64;
	for (int v = 0; v < variants; v++) {
		char *save = NULL, *word = strtok_r(argv[v + 2], " ", &save);

		for (int i = 0; word && i < 7; i++) {
			env[v][i] = word;
			word = strtok_r(NULL, " ", &save);
		}
	}
	ns = calloc((size_t)variants * runs, sizeof(*ns));
	if (!ns)
		return 1;
	for (size_t i = 0; i < runs; i++)
		for (int v = 0; v < variants; v++)
			ns[(size_t)v * runs + i] = run(env[v]);
	for (int v = 0; v < variants; v++)
		printf("%lld\n", median(ns + (size_t)v * runs, runs));
	free(ns);
	return 0;
}
