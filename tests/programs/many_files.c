/* SPDX-License-Identifier: MIT */
/*
 * A program that holds many locks: N files, a lock on each.
 *
 *	many_files N EX|SH [PREFIX]
 *
 * A command a line on standard input, "RESULT US" a line on standard output:
 * how many calls failed, and the time it took.
 *
 *	open | lock | unlock | close	all of them
 *	cpu			"NS US": the CPU time so far, all threads
 *	exit			at once, with the locks held
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long long clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static long each(int *fds, int n, const char *prefix, const char *what, int op)
{
	char name[256];
	long failed = 0;

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		if (strcmp(what, "open") == 0)
			fds[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		failed += strcmp(what, "open") == 0   ? fds[i] < 0
			  : strcmp(what, "lock") == 0 ? flock(fds[i], op) < 0
			  : strcmp(what, "unlock") == 0
				  ? flock(fds[i], LOCK_UN) < 0
			  : strcmp(what, "close") == 0 ? close(fds[i]) < 0
						       : 1;
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct rlimit rl;
	char line[64];
	static int fds[65536];
	int n, op;

	if (argc < 3)
		return 64;
	n = (int)strtol(argv[1], NULL, 10);
	op = strcmp(argv[2], "SH") == 0 ? LOCK_SH : LOCK_EX;
	if (n < 0 || n > 65536 || getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 64;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		long long began = clock_us(CLOCK_MONOTONIC);
		long failed;

		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "exit") == 0)
			exit(0);
		if (strcmp(line, "cpu") == 0) {
			printf("%lld 0\n", clock_us(CLOCK_PROCESS_CPUTIME_ID));
			continue;
		}
		failed = each(fds, n, argc > 3 ? argv[3] : "many.", line, op);
		printf("%ld %lld\n", failed, clock_us(CLOCK_MONOTONIC) - began);
	}
	return 0;
}
