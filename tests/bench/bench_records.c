/* SPDX-License-Identifier: MIT */
/*
 * What one more record lock costs a file that has many.
 *
 *	bench_records SOCKET [CYCLES]
 *
 * asks the server at a unix socket, which it empties.  For each shape (owners,
 * ranges of each, and how they lie) another owner locks and unlocks, here and
 * there; a row says what CPU the server spent on a lock and an unlock, in the
 * mean, sockets and all, and the medians of the two round trips:
 *
 *	SHAPE OWNERS RANGES CPU_NS LOCK_NS UNLOCK_NS
 *
 * Before them: "ping 0 0 0 NS 0".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/records.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "tests/lib/helper.h"

#define KEY    "bench%rec"
#define PLACES "{" KEY "}%r"

enum { STRIDE = 1000, TTL_MS = 3600 * 1000, BLOCK = 100 };

static struct dlk_conn *c;
static size_t cycles = 2000;
static struct dlk_answer answer;

static void refused(const char *what)
{
	fprintf(stderr, "bench_records: %s: %s\n", what, c->error);
	exit(1);
}

static uint64_t soon(void)
{
	return dlk_now_ns() + 10000 * DLK_MS;
}

static const redisReply *command(int argc, const char *const *argv)
{
	struct dlk_arg args[4];
	const redisReply *r;

	for (int i = 0; i < argc; i++)
		args[i] = (struct dlk_arg){ argv[i], strlen(argv[i]) };
	dlk_conn_reset(c);
	if (dlk_conn_open(c, soon()) ||
	    dlk_conn_call(c, soon(), argc, args, &r) ||
	    r->type == REDIS_REPLY_ERROR)
		refused(argv[0]);
	return r;
}

/* --- owners --------------------------------------------------------------- */

struct owner {
	char token[DLK_TOKEN_MAX];
	uint64_t seq;
	bool known;
};

static struct owner owner(unsigned n)
{
	struct owner o = { .seq = 1 }; /* so that none is a string */
	struct dlk_token t = { .since_ns = 1, .pid = 4711 };

	snprintf(t.random, sizeof(t.random), "%032x", n);
	snprintf(t.host, sizeof(t.host), "0123456789abcdef0123456789abcdef");
	snprintf(t.file, sizeof(t.file), "fd00:%x:1.00", n);
	snprintf(t.hostname, sizeof(t.hostname), "host");
	snprintf(t.command, sizeof(t.command), "job");
	if (dlk_token_format(&t, o.token, sizeof(o.token)) < 0)
		refused("token");
	return o;
}

static struct dlk_lease lease_of(const struct owner *o)
{
	return (struct dlk_lease){ .key = KEY,
				   .key_len = sizeof(KEY) - 1,
				   .ranges_key = PLACES,
				   .ranges_key_len = sizeof(PLACES) - 1,
				   .token = o->token,
				   .token_len = strlen(o->token),
				   .ttl_ms = TTL_MS };
}

static void lock(struct owner *o, struct dlk_range range, int want)
{
	struct dlk_lease lease = lease_of(o);
	struct dlk_records_ask ask = { .range = range,
				       .seq = ++o->seq,
				       .since_ns = 1,
				       .known = o->known };

	dlk_conn_reset(c);
	if (dlk_records_acquire(c, soon(), &lease, &ask, &answer) != want)
		refused("acquire");
	o->known |= want == 0;
}

static void unlock(struct owner *o, struct dlk_range window)
{
	struct dlk_lease lease = lease_of(o);
	const struct dlk_ranges none = { 0 };
	const redisReply *r;
	uint64_t seq;

	dlk_conn_reset(c);
	if (dlk_records_set(c, &lease, ++o->seq, &window, &none, false) ||
	    dlk_conn_flush(c, soon()) || dlk_conn_reply(c, soon(), &r) ||
	    dlk_lease_released(r, &seq))
		refused("set");
}

/* --- the server ----------------------------------------------------------- */

/* One of "name:seconds.micros", ns. */
static long long cpu_field(const char *info, const char *name)
{
	const char *at = strstr(info, name);

	return at ? (long long)(strtod(at + strlen(name), NULL) * 1e9) : 0;
}

/* What the server has spent so far: scripts, sockets and all. */
static long long cpu_ns(void)
{
	static const char *const info[] = { "INFO", "cpu" };
	const redisReply *r = command(2, info);

	return cpu_field(r->str, "used_cpu_sys_main_thread:") +
	       cpu_field(r->str, "used_cpu_user_main_thread:");
}

static void empty(void)
{
	static const char *const flush[] = { "FLUSHALL" };

	command(1, flush);
}

static void ping(void)
{
	static const char *const words[] = { "PING" };
	long long ns[1000];

	for (size_t i = 0; i < 1000; i++) {
		long long from = now_ns();

		command(1, words);
		ns[i] = now_ns() - from;
	}
	printf("ping 0 0 0 %lld 0\n", median(ns, 1000));
}

/* --- shapes --------------------------------------------------------------- */

struct shape {
	const char *name;
	/* the nth range of all, and where the other one locks */
	struct dlk_range (*there)(uint64_t n);
	struct dlk_range (*wanted)(uint64_t n);
	int want; /* 0, or DLK_BUSY: refused each time */
	bool all; /* unlocks everything, for it holds nothing else */
};

/* Records, one after the other, and room between. */
static struct dlk_range record(uint64_t n)
{
	return (struct dlk_range){ n * STRIDE, n * STRIDE + 99, DLK_WRITE };
}

static struct dlk_range read_record(uint64_t n)
{
	return (struct dlk_range){ n * STRIDE, n * STRIDE + 99, DLK_READ };
}

static struct dlk_range between(uint64_t n)
{
	return (struct dlk_range){ n * STRIDE + 500, n * STRIDE + 599,
				   DLK_WRITE };
}

/* SQLite's: all read the same 510 bytes. */
static struct dlk_range same(uint64_t n)
{
	(void)n;
	return (struct dlk_range){ 0x40000002, 0x40000002 + 509, DLK_READ };
}

static struct dlk_range pending(uint64_t n)
{
	(void)n;
	return (struct dlk_range){ 0x40000000, 0x40000000, DLK_WRITE };
}

/* The first reads all of it; whoever looks finds it last. */
static struct dlk_range read_far(uint64_t n)
{
	return n ? read_record(n)
		 : (struct dlk_range){ 0, DLK_RANGE_MAX, DLK_READ };
}

static struct dlk_range whole(uint64_t n)
{
	(void)n;
	return (struct dlk_range){ 0, DLK_RANGE_MAX, DLK_WRITE };
}

static const struct shape shapes[] = {
	{ "whole", whole, whole, 0, true },
	{ "alone", record, record, 0, true },
	{ "write", record, between, 0, false },
	{ "read", read_record, between, 0, false },
	{ "same", same, same, 0, false },
	{ "pending", same, pending, 0, false },
	{ "refused", record, record, DLK_BUSY, false },
	{ "far", read_far, between, DLK_BUSY, false },
};

static const struct shape *shape_named(const char *name)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	exit(64);
}

static void fill(const struct shape *s, unsigned owners, unsigned ranges)
{
	empty();
	for (unsigned o = 0; o < owners; o++) {
		struct owner by = owner(o + 1);

		for (unsigned i = 0; i < ranges; i++)
			lock(&by, s->there((uint64_t)i * owners + o), 0);
	}
}

/* One lock and unlock more; *lock_ns and *unlock_ns are the round trips. */
static void cycle(const struct shape *s, struct owner *by, uint64_t n,
		  long long *lock_ns, long long *unlock_ns)
{
	const struct dlk_range all = { 0, DLK_RANGE_MAX, DLK_UNLOCKED };
	struct dlk_range r = s->wanted(n);
	long long from = now_ns();

	by->known = false;
	if (s->all)
		by->seq = 0; /* as a new token would */
	lock(by, r, s->want);
	*lock_ns = now_ns() - from;
	from = now_ns();
	if (s->want == 0)
		unlock(by, s->all ? all : r);
	*unlock_ns = now_ns() - from;
}

static void measure(const char *name, unsigned owners, unsigned ranges)
{
	const struct shape *s = shape_named(name);
	const uint64_t half = (uint64_t)owners * ranges / 2;
	const size_t blocks = cycles / BLOCK;
	long long *lock_ns = calloc(cycles, sizeof(*lock_ns));
	long long *unlock_ns = calloc(cycles, sizeof(*unlock_ns));
	long long *cpu = calloc(blocks, sizeof(*cpu));
	struct owner by = owner(0xffffff);

	if (!lock_ns || !unlock_ns || !cpu)
		refused("memory");
	fill(s, owners, ranges);
	for (size_t b = 0; b < blocks; b++) {
		cpu[b] = -cpu_ns();
		for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++)
			cycle(s, &by, half + (half ? i * 7919 % half : 0),
			      &lock_ns[i], &unlock_ns[i]);
		cpu[b] = (cpu[b] + cpu_ns()) / BLOCK;
	}
	printf("%s %u %u %lld %lld %lld\n", name, owners, ranges,
	       median(cpu, blocks), median(lock_ns, blocks * BLOCK),
	       median(unlock_ns, blocks * BLOCK));
	free(lock_ns);
	free(unlock_ns);
	free(cpu);
}

int main(int argc, char **argv)
{
	static const unsigned many[] = { 10, 100, 1000, 10000 };
	struct dlk_endpoint ep = { .scheme = DLK_UNIX,
				   .connect_timeout_ms = 2000 };

	if (argc < 2)
		return 64;
	if (argc > 2)
		cycles = strtoul(argv[2], NULL, 10);
	if (cycles < BLOCK)
		return 64;
	snprintf(ep.path, sizeof(ep.path), "%s", argv[1]);
	c = dlk_conn_new(&ep);
	if (!c)
		return 1;
	ping();
	measure("whole", 0, 0);
	measure("alone", 0, 0);
	for (int i = 0; i < 4; i++)
		measure("write", 1, many[i]);
	for (int i = 0; i < 3; i++)
		measure("write", many[i], 1);
	measure("write", 1000, 10);
	for (int i = 0; i < 4; i++)
		measure("read", 1, many[i]);
	for (int i = 0; i < 3; i++)
		measure("same", many[i], 1);
	for (int i = 0; i < 3; i++)
		measure("pending", many[i], 1);
	for (int i = 0; i < 4; i++)
		measure("refused", 1, many[i]);
	for (int i = 0; i < 4; i++)
		measure("far", 2, many[i] / 2);
	measure("far", 1000, 10);
	empty();
	dlk_conn_delete(c);
	return 0;
}
