/* SPDX-License-Identifier: MIT */
/*
 * What an uncontended lock costs, beside what it is made of, in one process.
 *
 *	bench_cycle PORT FILE N
 *
 * In alternating blocks, N times each, over TCP to 127.0.0.1:PORT; prints
 * "NAME NS" for each, medians:
 *
 *	ping	one PING by hiredis
 *	raw	SET NX PX and a compare-and-delete by EVALSHA, by hiredis
 *	least	SET NX PX, and a DEL whose answer is read with the next one:
 *		what dlock does, without a check
 *	flock	flock(LOCK_EX) and LOCK_UN; `flock_lock`, of it the first call
 *	fcntl	F_SETLKW, a write lock of the whole file, and F_UNLCK
 *
 * and "flock_ratio" and "flock_to_least", the medians over the blocks of flock
 * against ping and against least, in thousandths: what changes from block to
 * block hits both.
 */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/bench.h"

enum { BLOCK = 100, KINDS = 5 };

static redisContext *redis, *other;
static char delete_sha[64];
static int file = -1;
static long long lock_ns; /* of the last flock cycle */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void must(redisReply *r, const char *what)
{
	if (!r || r->type == REDIS_REPLY_ERROR || r->type == REDIS_REPLY_NIL) {
		fprintf(stderr, "bench_cycle: %s: %s\n", what,
			r && r->str ? r->str : "no answer");
		exit(1);
	}
	freeReplyObject(r);
}

static redisContext *connect_to(const char *port)
{
	redisContext *c =
		redisConnect("127.0.0.1", (int)strtol(port, NULL, 10));

	if (!c || c->err)
		die("connect");
	return c;
}

static void load_delete(void)
{
	redisReply *r =
		redisCommand(redis, "SCRIPT LOAD %s",
			     "if redis.call('get', KEYS[1]) == ARGV[1] then "
			     "return redis.call('del', KEYS[1]) end return 0");

	if (!r || r->type != REDIS_REPLY_STRING)
		die("SCRIPT LOAD");
	snprintf(delete_sha, sizeof(delete_sha), "%s", r->str);
	freeReplyObject(r);
}

/* --- the cycles ----------------------------------------------------------- */

static void ping(void)
{
	must(redisCommand(redis, "PING"), "PING");
}

static void raw(void)
{
	static const char token[] = "0123456789abcdef0123456789abcdef";

	must(redisCommand(redis, "SET bench-raw %s NX PX 30000", token), "SET");
	must(redisCommand(redis, "EVALSHA %s 1 bench-raw %s", delete_sha,
			  token),
	     "EVALSHA");
}

static void *answer(redisContext *c)
{
	void *r = NULL;

	redisGetReply(c, &r);
	return r;
}

static void least(void)
{
	static bool unread;
	int wrote = 0;

	redisAppendCommand(other, "SET bench-least token NX PX 30000");
	if (unread)
		must(answer(other), "DEL");
	must(answer(other), "SET");
	redisAppendCommand(other, "DEL bench-least");
	while (!wrote)
		if (redisBufferWrite(other, &wrote))
			die("DEL");
	unread = true;
}

static void by_flock(void)
{
	long long from = now_ns();

	if (flock(file, LOCK_EX))
		die("lock");
	lock_ns = now_ns() - from;
	if (flock(file, LOCK_UN))
		die("unlock");
}

static void by_fcntl(void)
{
	struct flock fl = { .l_type = F_WRLCK };

	if (fcntl(file, F_SETLKW, &fl))
		die("F_SETLKW");
	fl.l_type = F_UNLCK;
	if (fcntl(file, F_SETLKW, &fl))
		die("F_UNLCK");
}

static const struct kind {
	const char *name;
	void (*cycle)(void);
} kinds[KINDS] = {
	{ "ping", ping },      { "raw", raw },     { "flock", by_flock },
	{ "fcntl", by_fcntl }, { "least", least },
};

/* --- measuring ------------------------------------------------------------ */

static long long *figures(size_t n)
{
	long long *v = calloc(n, sizeof(*v));

	if (!v)
		die("calloc");
	return v;
}

/* The mean of a block. */
static long long block(const struct kind *k, long long *ns, long long *locks)
{
	long long from = now_ns();

	for (size_t i = 0; i < BLOCK; i++) {
		long long t = now_ns();

		k->cycle();
		ns[i] = now_ns() - t;
		locks[i] = lock_ns;
	}
	return (now_ns() - from) / BLOCK;
}

static void measure(size_t blocks)
{
	const size_t n = blocks * BLOCK;
	long long *ns[KINDS], *locks[KINDS], *ratio = figures(blocks);
	long long *to_least = figures(blocks);

	for (int k = 0; k < KINDS; k++) {
		ns[k] = figures(n);
		locks[k] = figures(n);
	}
	for (size_t b = 0; b < blocks; b++) {
		long long mean[KINDS];

		for (int k = 0; k < KINDS; k++)
			mean[k] = block(&kinds[k], ns[k] + b * BLOCK,
					locks[k] + b * BLOCK);
		ratio[b] = mean[2] * 1000 / mean[0];
		to_least[b] = mean[2] * 1000 / mean[4];
	}
	for (int k = 0; k < KINDS; k++)
		printf("%s %lld\n", kinds[k].name, median(ns[k], n));
	printf("flock_lock %lld\n", median(locks[2], n));
	printf("flock_ratio %lld\n", median(ratio, blocks));
	printf("flock_to_least %lld\n", median(to_least, blocks));
}

int main(int argc, char **argv)
{
	size_t n = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;

	if (n < BLOCK)
		return 64;
	redis = connect_to(argv[1]);
	other = connect_to(argv[1]);
	file = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (file < 0)
		die(argv[2]);
	load_delete();
	for (int k = 0; k < KINDS; k++)
		kinds[k].cycle();
	measure(n / BLOCK);
	redisFree(redis);
	redisFree(other);
	return 0;
}
