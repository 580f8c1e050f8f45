/* SPDX-License-Identifier: MIT */
/*
 * A server that misbehaves: a thread with a listening unix socket that gives
 * each connection to a function of the test.
 *
 *  1. The function MUST return when its peer is gone; so a test deletes its
 *     connection first and stops the server second.
 *  2. It MUST NOT raise SIGPIPE: whether the code under test does is a test.
 */
#ifndef TESTS_UNIT_FAKE_H
#define TESTS_UNIT_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/redis.h"

typedef void serve_fn(int fd, void *arg);

struct fake {
	bool running;
	int listener;
	pthread_t thread;
	serve_fn *serve;
	void *arg;
	char dir[64];
	struct dlk_endpoint ep;
};

static inline void *fake_thread(void *arg)
{
	struct fake *f = arg;
	int fd;

	while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		f->serve(fd, f->arg);
		close(fd);
	}
	return NULL;
}

/* Listening, with nobody who accepts. */
static inline void fake_listen(struct fake *f, int backlog)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	make_dir(f->dir, sizeof(f->dir));
	unix_endpoint(&f->ep, f->dir);
	memcpy(un.sun_path, f->ep.path, sizeof(un.sun_path));
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(f->listener >= 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&un, sizeof(un)),
			 0);
	assert_int_equal(listen(f->listener, backlog), 0);
}

static inline void fake_start(struct fake *f, serve_fn *serve, void *arg)
{
	fake_listen(f, 16);
	f->serve = serve;
	f->arg = arg;
	assert_int_equal(pthread_create(&f->thread, NULL, fake_thread, f), 0);
	f->running = true;
}

static inline void fake_stop(struct fake *f)
{
	if (f->dir[0] == '\0')
		return;
	shutdown(f->listener, SHUT_RDWR);
	if (f->running)
		pthread_join(f->thread, NULL);
	close(f->listener);
	remove_dir(f->dir, "s");
}

/* Send all of it, or as much as the peer takes. */
static inline bool say(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* What the peer asks; it sends all that it has queued at once. */
static inline bool hear(int fd)
{
	char buf[65536];

	return recv(fd, buf, sizeof(buf), 0) > 0;
}

static inline void hear_out(int fd)
{
	while (hear(fd))
		;
}

#endif
