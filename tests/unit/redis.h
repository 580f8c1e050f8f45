/* SPDX-License-Identifier: MIT */
/*
 * A Redis of a test's own, and what the tests of leases say to it.
 *
 *  1. It MUST listen nowhere but on a unix socket in a directory of its own.
 *  2. It MUST keep nothing on disk, and die with the test.
 *
 * Include after cmocka.h: what goes wrong here fails the test.
 */
#ifndef TESTS_UNIT_REDIS_H
#define TESTS_UNIT_REDIS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis/conn.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "model/token.h"

struct own_redis {
	pid_t pid;
	uint64_t started_ns; /* before it was */
	char dir[64];
	struct dlk_endpoint ep;
	struct dlk_conn *c; /* the tests' own */
};

static inline uint64_t in_ms(unsigned ms)
{
	return dlk_now_ns() + ms * DLK_MS;
}

static inline void make_dir(char *dir, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	/* A socket's path has 107 bytes (unix(7)). */
	if (!tmp || strlen(tmp) > 40)
		tmp = "/tmp";
	snprintf(dir, size, "%s/dlk-unit.XXXXXX", tmp);
	assert_non_null(mkdtemp(dir));
}

static inline void remove_dir(const char *dir, const char *file)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	unlink(path);
	rmdir(dir);
}

static inline void unix_endpoint(struct dlk_endpoint *ep, const char *dir)
{
	*ep = (struct dlk_endpoint){ .scheme = DLK_UNIX,
				     .connect_timeout_ms = 2000 };
	snprintf(ep->path, sizeof(ep->path), "%s/s", dir);
	snprintf(ep->name, sizeof(ep->name), "the test's own");
}

/* One command of words, ended by NULL; what came before is forgotten. */
static inline const redisReply *tell(struct dlk_conn *c, ...)
{
	struct dlk_arg args[16];
	const redisReply *r;
	va_list ap;
	int n = 0;

	va_start(ap, c);
	while (n < 16 && (args[n].text = va_arg(ap, const char *))) {
		args[n].len = strlen(args[n].text);
		n++;
	}
	va_end(ap);
	dlk_conn_reset(c);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_call(c, in_ms(5000), n, args, &r), 0);
	return r;
}

static inline void tell_ok(const redisReply *r)
{
	assert_true(r->type == REDIS_REPLY_STATUS ||
		    r->type == REDIS_REPLY_INTEGER);
}

/* The text at a key: "" for none. */
static inline const char *value_at(struct dlk_conn *c, const char *key)
{
	const redisReply *r = tell(c, "GET", key, NULL);

	return r->type == REDIS_REPLY_STRING ? r->str : "";
}

static inline long long ttl_at(struct dlk_conn *c, const char *key)
{
	const redisReply *r = tell(c, "PTTL", key, NULL);

	assert_int_equal(r->type, REDIS_REPLY_INTEGER);
	return r->integer;
}

/* How many keys there are, but for what is kept of the server's past. */
static inline size_t keys_left(struct dlk_conn *c)
{
	const redisReply *r = tell(c, "KEYS", "*", NULL);
	size_t n = 0;

	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	for (size_t i = 0; i < r->elements; i++)
		n += strncmp(r->element[i]->str, "dlock%run:", 10) != 0;
	return n;
}

static inline void own_redis_exec(const struct own_redis *r)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
	       r->ep.path, "--save", "", "--appendonly", "no", "--dir", r->dir,
	       "--daemonize", "no", (char *)NULL);
	_exit(127);
}

static inline void own_redis_await(struct own_redis *r)
{
	const uint64_t until = in_ms(10000);

	while (dlk_conn_open(r->c, in_ms(1000)) != 0) {
		assert_int_equal(waitpid(r->pid, NULL, WNOHANG), 0);
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(2 * DLK_MS);
	}
	tell_ok(tell(r->c, "PING", NULL));
}

static inline void own_redis_start(struct own_redis *r)
{
	make_dir(r->dir, sizeof(r->dir));
	unix_endpoint(&r->ep, r->dir);
	r->started_ns = dlk_now_ns();
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0)
		own_redis_exec(r);
	r->c = dlk_conn_new(&r->ep);
	assert_non_null(r->c);
	own_redis_await(r);
}

static inline void own_redis_stop(struct own_redis *r)
{
	dlk_conn_delete(r->c);
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	remove_dir(r->dir, "s");
}

/* A token's text; `tag` makes it unique, the rest is what proofs look at. */
static inline const char *token_of(char *buf, char tag, const char *host,
				   const char *file, uint64_t since_ns)
{
	struct dlk_token t = { .since_ns = since_ns, .pid = 4711 };

	memset(t.random, tag, DLK_RANDOM_LEN);
	snprintf(t.host, sizeof(t.host), "%s", host);
	snprintf(t.file, sizeof(t.file), "%s", file);
	snprintf(t.hostname, sizeof(t.hostname), "host");
	snprintf(t.command, sizeof(t.command), "job");
	assert_true(dlk_token_format(&t, buf, DLK_TOKEN_MAX) > 0);
	return buf;
}

#endif
