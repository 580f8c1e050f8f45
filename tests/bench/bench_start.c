/* SPDX-License-Identifier: MIT */
/*
 * What the start of a program costs.
 *
 *	bench_start N VARIANT...
 *
 * A VARIANT is words with blanks between: NAME=VALUE, its whole environment,
 * and then a command, /bin/true if there is none.  Runs each N times, in
 * turns, and prints the medians in nanoseconds, one a line.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/lib/helper.h"

enum { WORDS = 16, VARIANTS = 16 };

struct variant {
	char *env[WORDS + 1];
	char *argv[WORDS + 1];
};

static long long run(const struct variant *v)
{
	long long begin = now_ns();
	int status = -1;
	pid_t pid;

	if (posix_spawn(&pid, v->argv[0], NULL, NULL, v->argv, v->env) ||
	    waitpid(pid, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "%s did not run\n", v->argv[0]);
		exit(1);
	}
	return now_ns() - begin;
}

static void parse(struct variant *v, char *words)
{
	static char command[] = "/bin/true";
	char *save = NULL, *word = strtok_r(words, " ", &save);
	int n_env = 0, n = 0;

	while (word && n_env < WORDS && n < WORDS) {
		if (n == 0 && strchr(word, '='))
			v->env[n_env++] = word;
		else
			v->argv[n++] = word;
		word = strtok_r(NULL, " ", &save);
	}
	if (n == 0)
		v->argv[0] = command;
}

int main(int argc, char **argv)
{
	static struct variant variants[VARIANTS];
	size_t runs = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	int n = argc - 2;
	long long *ns;

	if (!runs || n < 1 || n > VARIANTS)
		return 64;
	for (int v = 0; v < n; v++)
		parse(&variants[v], argv[v + 2]);
	ns = calloc((size_t)n * runs, sizeof(*ns));
	if (!ns)
		return 1;
	for (size_t i = 0; i < runs; i++)
		for (int v = 0; v < n; v++)
			ns[(size_t)v * runs + i] = run(&variants[v]);
	for (int v = 0; v < n; v++)
		printf("%lld\n", median(ns + (size_t)v * runs, runs));
	free(ns);
	return 0;
}
