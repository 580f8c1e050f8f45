/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for a file, each under a signal a millisecond.
 *
 *	alarmed_waiters FILE THREADS
 *
 * They ask for an exclusive flock lock, each by a description of its own, and
 * unlock; the handler has SA_RESTART.  At the end it prints how many signals
 * were handled.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id /* glibc has no name for it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { MAX = 16 };

static atomic_ulong handled;

static void on_alarm(int signo)
{
	(void)signo;
	handled++;
}

static void alarm_me(timer_t *timer)
{
	struct itimerspec ms = { { 0, 1000000 }, { 0, 1000000 } };
	struct sigevent to = { .sigev_notify = SIGEV_THREAD_ID,
			       .sigev_signo = SIGALRM };

	to.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &to, timer);
	timer_settime(*timer, 0, &ms, NULL);
}

static void *wait_for(void *file)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	timer_t timer;

	alarm_me(&timer);
	if (flock(fd, LOCK_EX))
		perror("flock");
	timer_delete(timer);
	flock(fd, LOCK_UN);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm,
				.sa_flags = SA_RESTART };
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
	pthread_t threads[MAX];

	if (n > MAX)
		return 2;
	sigaction(SIGALRM, &sa, NULL);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, wait_for, argv[1]);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%lu\n", handled);
	return 0;
}
