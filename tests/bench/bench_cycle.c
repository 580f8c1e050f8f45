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
 * and of each but ping, compared block by block, for what changes from block to
 * block hits both: "NAME_over" is how many nanoseconds it is more than a ping,
 * "NAME_pings" how many pings and "NAME_leasts" how many leasts it is, in
 * thousandths; medians over the blocks.
 */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { BLOCK = 100 };
enum { PING, RAW, FLOCK, FCNTL, LEAST, KINDS };

static redisContext *redis, *other;
static char delete_sha[64];
static int file = -1;
static long long lock_ns; /* of the last flock cycle */

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
	[PING] = { "ping", ping },       [RAW] = { "raw", raw },
	[FLOCK] = { "flock", by_flock }, [FCNTL] = { "fcntl", by_fcntl },
	[LEAST] = { "least", least },
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

/* The means of a kind's blocks, beside those of ping and of least. */
static void beside(const char *name, const long long *its,
		   long long *const mean[KINDS], size_t blocks)
{
	long long *over = figures(blocks), *pings = figures(blocks);
	long long *leasts = figures(blocks);

	for (size_t b = 0; b < blocks; b++) {
		over[b] = its[b] - mean[PING][b];
		pings[b] = its[b] * 1000 / mean[PING][b];
		leasts[b] = its[b] * 1000 / mean[LEAST][b];
	}
	printf("%s_over %lld\n", name, median(over, blocks));
	printf("%s_pings %lld\n", name, median(pings, blocks));
	printf("%s_leasts %lld\n", name, median(leasts, blocks));
	free(over);
	free(pings);
	free(leasts);
}

static void measure(size_t blocks)
{
	const size_t n = blocks * BLOCK;
	long long *ns[KINDS], *locks[KINDS], *mean[KINDS];

	for (int k = 0; k < KINDS; k++) {
		ns[k] = figures(n);
		locks[k] = figures(n);
		mean[k] = figures(blocks);
	}
	for (size_t b = 0; b < blocks; b++)
		for (int k = 0; k < KINDS; k++)
			mean[k][b] = block(&kinds[k], ns[k] + b * BLOCK,
					   locks[k] + b * BLOCK);
	for (int k = 0; k < KINDS; k++) {
		printf("%s %lld\n", kinds[k].name, median(ns[k], n));
		if (k != PING)
			beside(kinds[k].name, mean[k], mean, blocks);
	}
	printf("flock_lock %lld\n", median(locks[FLOCK], n));
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
