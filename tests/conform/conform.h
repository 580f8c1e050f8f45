/* SPDX-License-Identifier: MIT */
/*
 * A conformance program prints what the kernel does; bare and under the shim
 * it must print the same.  So no times, no pids, nothing of chance.  It runs
 * in an empty directory of its own.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* "LINE text: 0", or -1 and the errno's name; errno is 0 before. */
#define SHOW(call)                                                             \
	do {                                                                   \
		long show_n;                                                   \
                                                                               \
		errno = 0;                                                     \
		show_n = (long)(call);                                         \
		show_result(__LINE__, #call, show_n, errno);                   \
	} while (0)

static inline void show_result(int line, const char *text, long n, int error)
{
	if (n == -1)
		printf("%d %s: -1 %s\n", line, text, strerrorname_np(error));
	else
		printf("%d %s: %ld, errno %d\n", line, text, n, error);
	fflush(stdout);
}

static inline int opened(const char *name, int flags)
{
	int fd = open(name, flags | O_CREAT, 0666);

	if (fd < 0) {
		perror(name);
		_exit(2);
	}
	return fd;
}

/* Can another description have it now?  0, or the errno. */
static inline int probe(const char *name)
{
	int fd = opened(name, O_RDWR);
	int error = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;

	close(fd);
	return error;
}

#define PROBE(name)                                                            \
	printf("%d probe: %s\n", __LINE__, probe(name) ? "held" : "free")

/* Two pipes, so that parent and child take turns. */
struct turns {
	int to_child[2], to_parent[2];
};

static inline void turns_new(struct turns *t)
{
	if (pipe2(t->to_child, O_CLOEXEC) || pipe2(t->to_parent, O_CLOEXEC))
		_exit(2);
}

static inline void pass_turn(const int *way)
{
	if (write(way[1], "x", 1) != 1)
		_exit(2);
}

static inline void wait_turn(const int *way)
{
	char c;

	while (read(way[0], &c, 1) < 0 && errno == EINTR)
		;
}

/* SIGALRM again and again, so that one comes amidst the call that follows, however
 * late that begins; 0: none any more. */
static inline void alarm_each_us(long us)
{
	const struct itimerval it = {
		.it_interval.tv_usec = us,
		.it_value.tv_usec = us,
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

static inline int child_status(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

#endif
