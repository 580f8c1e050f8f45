/* SPDX-License-Identifier: MIT */
/*
 * What it takes to wake a process that waits for a message through Redis, and
 * what a PING takes, each at once after the last and after a pause.
 *
 *	bench_wake PORT N PAUSE_US
 *
 * Two processes send each other messages, N there and N back, each on a
 * channel of its own: PUBLISH by one connection, the message arrives on
 * another.  Prints "NAME NS" for each, medians: `wake` from the call until
 * the other has the message, `ping` a PING; `paced_wake` and `paced_ping` the
 * same with PAUSE_US of sleep before each, as a holder sleeps.  After each the
 * 99th percentile, "NAME_p99 NS": what the machine itself adds.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int port;
static size_t n;

static redisContext *connected(void)
{
	redisContext *c = redisConnect("127.0.0.1", port);

	if (!c || c->err)
		die("connect");
	return c;
}

static void take(redisReply *r)
{
	if (!r || r->type == REDIS_REPLY_ERROR)
		die("redis");
	freeReplyObject(r);
}

/* Of n figures, which are freed. */
static void figure(const char *name, long long *ns)
{
	printf("%s %lld\n", name, median(ns, n));
	printf("%s_p99 %lld\n", name, ns[n * 99 / 100]);
	fflush(stdout); /* before the next fork */
	free(ns);
}

/* --- messages ------------------------------------------------------------- */

struct side {
	redisContext *to, *from;
	const char *there;
};

static struct side side(const char *here, const char *there)
{
	struct side s = { connected(), connected(), there };

	take(redisCommand(s.from, "SUBSCRIBE %s", here));
	return s;
}

static void send_time(const struct side *s)
{
	take(redisCommand(s->to, "PUBLISH %s %lld", s->there, now_ns()));
}

/* How long ago it was sent. */
static long long age(const struct side *s)
{
	redisReply *r = NULL;
	long long ns;

	if (redisGetReply(s->from, (void **)&r) != REDIS_OK || r->elements != 3)
		die("message");
	ns = now_ns() - strtoll(r->element[2]->str, NULL, 10);
	freeReplyObject(r);
	return ns;
}

static void echo(long us)
{
	struct side s = side("bench-b", "bench-a");
	redisContext *c = connected();

	take(redisCommand(c, "LPUSH bench-ready 1"));
	for (size_t i = 0; i < n; i++) {
		age(&s);
		pause_us(us);
		send_time(&s);
	}
	_exit(0);
}

static void wake(const char *name, long us)
{
	struct side s = side("bench-a", "bench-b");
	long long *ns = calloc(n, sizeof(*ns));
	pid_t pid = fork();

	if (pid < 0 || !ns)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		echo(us);
	}
	take(redisCommand(s.to, "BLPOP bench-ready 10"));
	for (size_t i = 0; i < n; i++) {
		pause_us(us);
		send_time(&s);
		ns[i] = age(&s);
	}
	waitpid(pid, NULL, 0);
	figure(name, ns);
	redisFree(s.to);
	redisFree(s.from);
}

/* --- PING ----------------------------------------------------------------- */

static void ping(const char *name, long us)
{
	redisContext *c = connected();
	long long *ns = calloc(n, sizeof(*ns));

	if (!ns)
		die("calloc");
	for (size_t i = 0; i < n; i++) {
		long long from;

		pause_us(us);
		from = now_ns();
		take(redisCommand(c, "PING"));
		ns[i] = now_ns() - from;
	}
	figure(name, ns);
	redisFree(c);
}

int main(int argc, char **argv)
{
	long us;

	if (argc != 4)
		return 64;
	port = (int)strtol(argv[1], NULL, 10);
	n = strtoul(argv[2], NULL, 10);
	us = strtol(argv[3], NULL, 10);
	if (!n)
		return 64;
	ping("ping", 0);
	wake("wake", 0);
	ping("paced_ping", us);
	wake("paced_wake", us);
	return 0;
}
