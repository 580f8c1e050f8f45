/* SPDX-License-Identifier: MIT */
/*
 * Signals in a wait for a lock that somebody else holds.
 *
 *	exit FILE		a thread jumps out of the wait, from a handler,
 *				and ends by pthread_exit(3); says "joined"
 *	urgent FILE N		one thread waits for the lock, another one for N
 *				SIGURG, which all have blocked; says "ready",
 *				"next" for each, and "urgent" and how many came
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *path;
static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void *jumps(void *unused)
{
	struct sigaction sa = { .sa_handler = jump };
	sigset_t alarms;
	int fd = open(path, O_RDWR);

	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	if (sigsetjmp(back, 1) == 0) {
		pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
		ualarm(100000, 0);
		flock(fd, LOCK_EX);
		puts("granted");
	}
	pthread_exit(unused);
}

static void *waits(void *unused)
{
	int fd = open(path, O_RDWR);

	flock(fd, LOCK_EX);
	return unused;
}

static void urgent(int n)
{
	sigset_t set;
	int came = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	puts("ready");
	while (came < n && sigwaitinfo(&set, NULL) == SIGURG) {
		came++;
		puts("next");
	}
	printf("urgent %d\n", came);
}

int main(int argc, char **argv)
{
	sigset_t set;
	pthread_t t;

	if (argc < 3)
		return 64;
	path = argv[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGURG);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (strcmp(argv[1], "exit") == 0) {
		pthread_create(&t, NULL, jumps, NULL);
		pthread_join(t, NULL);
		puts("joined");
		return 0;
	}
	pthread_create(&t, NULL, waits, NULL);
	urgent(argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1);
	_exit(0);
}
