/* SPDX-License-Identifier: MIT */
/*
 * Record locks in conformance programs: short calls, and a prober, a child
 * that tells what others than itself hold.  It is made before the first lock,
 * for a child that opens and closes the file is no part of what is tested.
 */
#ifndef RECORDS_H
#define RECORDS_H

#include "conform.h"

#include <stdint.h>

static inline int record(int fd, int cmd, int type, off_t start, off_t len)
{
	struct flock l = {
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len,
	};

	return fcntl(fd, cmd, &l);
}

#define SET(fd, type, start, len)  record(fd, F_SETLK, type, start, len)
#define WAIT(fd, type, start, len) record(fd, F_SETLKW, type, start, len)
#define OFD(fd, type, start, len)  record(fd, F_OFD_SETLK, type, start, len)

static const char *prober_name;
static int prober_ask[2], prober_told[2];

static inline const char *prober_who(const struct flock64 *l)
{
	if (l->l_pid == -1)
		return "a description";
	return l->l_pid == getppid() ? "the parent" : "another";
}

/* What keeps us from [at, to] (-1: the end); of several, the first there. */
static inline int prober_first(int fd, off64_t at, off64_t to,
			       struct flock64 *found)
{
	struct flock64 l;
	int n = 0;

	do {
		l = (struct flock64){ .l_type = F_WRLCK, .l_start = at };
		if (to >= 0)
			l.l_len = to - at + 1;
		if (fcntl64(fd, F_GETLK64, &l) || l.l_type == F_UNLCK)
			break;
		*found = l;
		to = l.l_start - 1;
		n++;
	} while (l.l_start > at);
	return n;
}

static inline void prober_list(int line)
{
	int fd = opened(prober_name, O_RDWR), n = 0;
	struct flock64 l = { 0 };
	off64_t at = 0;

	printf("%d held:", line);
	while (prober_first(fd, at, -1, &l)) {
		const char *mode = l.l_type == F_WRLCK ? "write" : "read";

		at = l.l_start + l.l_len;
		printf("%s %s %lld-", n++ ? "," : "", mode,
		       (long long)l.l_start);
		if (l.l_len)
			printf("%lld", (long long)at - 1);
		printf(" by %s", prober_who(&l));
		if (l.l_len == 0)
			break;
	}
	printf("%s\n", n ? "" : " nothing");
	fflush(stdout);
	close(fd);
}

static inline void prober_run(void)
{
	int line;

	while (read(prober_ask[0], &line, sizeof(line)) == sizeof(line)) {
		prober_list(line);
		pass_turn(prober_told);
	}
	_exit(0);
}

/* The first call of main(). */
static inline void prober_start(const char *name)
{
	prober_name = name;
	if (pipe2(prober_ask, O_CLOEXEC) || pipe2(prober_told, O_CLOEXEC))
		_exit(2);
	fflush(stdout);
	if (fork() == 0) {
		close(prober_ask[1]);
		prober_run();
	}
	close(prober_ask[0]);
}

static inline void held_at(int line)
{
	fflush(stdout);
	if (write(prober_ask[1], &line, sizeof(line)) != sizeof(line))
		_exit(2);
	wait_turn(prober_told);
}

#define HELD() held_at(__LINE__)

/*
 * The last call: whoever locks a whole file has seen all others end, and
 * leaves nothing.
 */
static inline void leave_nothing(const char *name)
{
	int fd = opened(name, O_RDWR);

	SHOW(WAIT(fd, F_WRLCK, 0, 0));
	SHOW(SET(fd, F_UNLCK, 0, 0));
	close(fd);
	close(prober_ask[1]);
}

/* A child does `work`, and its status is shown. */
#define IN_CHILD(work)                                                         \
	do {                                                                   \
		pid_t child_pid;                                               \
                                                                               \
		fflush(stdout);                                                \
		child_pid = fork();                                            \
		if (child_pid == 0) {                                          \
			work;                                                  \
			fflush(stdout);                                        \
			_exit(0);                                              \
		}                                                              \
		SHOW(child_status(child_pid));                                 \
	} while (0)

#endif
