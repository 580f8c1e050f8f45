/* SPDX-License-Identifier: MIT */
/*
 * Two processes share a description; neither ever unlocks it.  One tries
 * flock(2) with LOCK_NB again and again while the other waits: what that was
 * granted is there from then on.
 *
 *	sharers FILE		a line on standard input for each round; answers
 *				"waits", then "RESULT LOOKS MISSED": the wait's,
 *				and how often the kernel did not list its lock
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
#include <time.h>
#include <unistd.h>

enum { LOOKS = 10 };

static void pause_us(long us)
{
	struct timespec t = { .tv_nsec = us * 1000 };

	nanosleep(&t, NULL);
}

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

/* It ends by itself, so that what it took over is carried on. */
static void try_until_told(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!ended) {
		flock(fd, LOCK_EX | LOCK_NB);
		pause_us(300);
	}
	exit(0);
}

static void one_round(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600), got,
	    missed = 0;
	pid_t other = fork();

	if (other == 0)
		try_until_told(fd);
	puts("waits");
	got = flock(fd, LOCK_EX);
	for (int i = 0; i < LOOKS; i++) {
		missed += !is_listed(fd);
		pause_us(1000);
	}
	kill(other, SIGTERM);
	waitpid(other, NULL, 0);
	printf("%d %d %d\n", got, LOOKS, missed);
	flock(fd, LOCK_UN);
	close(fd);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc != 2)
		return 64;
	signal(SIGTERM, on_term);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		one_round(argv[1]);
	return 0;
}
