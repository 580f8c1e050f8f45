/* SPDX-License-Identifier: MIT */
/*
 * The stage of the tests of leases: a Redis of their own, emptied before each,
 * a connection to it as to a server known to be new or as to one that is too
 * young, and three tokens of different places.
 */
#ifndef DLK_TEST_LEASES_H
#define DLK_TEST_LEASES_H

#include "lease/lease.h"
#include "tests/unit/redis.h"

#define HOST  "0123456789abcdef0123456789abcdef"
#define FILE_ "fd00:1f:1.00"

enum { TTL = 30000, HOUR_MS = 3600 * 1000 };

static struct own_redis redis;
static struct dlk_conn *c; /* the one under test */
static struct dlk_answer answer;
static char ours[DLK_TOKEN_MAX], other[DLK_TOKEN_MAX], third[DLK_TOKEN_MAX];

static int start(void **state)
{
	(void)state;
	own_redis_start(&redis);
	token_of(ours, 'a', HOST, FILE_, 2000);
	token_of(other, 'b', "elsewhere", FILE_, 1000);
	token_of(third, 'e', "somewhere", FILE_, 3000);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	own_redis_stop(&redis);
	return 0;
}

static int connect_with(uint64_t restart_delay_ms)
{
	/* A test may have one connection with a delay and one without. */
	static struct dlk_endpoint eps[2];
	struct dlk_endpoint *ep = &eps[restart_delay_ms != 0];

	*ep = redis.ep;
	ep->restart_delay_ms = restart_delay_ms;
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	memset(&answer, 0x55, sizeof(answer));
	c = dlk_conn_new(ep);
	return c ? dlk_conn_open(c, in_ms(5000)) : -1;
}

/*
 * What a client with this restart_delay would teach (redis/script.h), having
 * found the server old enough.
 */
static inline void teach(const char *script, uint64_t restart_delay_ms)
{
	static char text[256 * 1024];

	snprintf(text, sizeof(text), "%s-- restart_delay %llums, db 0\n",
		 script, (unsigned long long)restart_delay_ms);
	assert_int_equal(tell(redis.c, "SCRIPT", "LOAD", text, NULL)->type,
			 REDIS_REPLY_STRING);
	snprintf(text, sizeof(text), "dlock%%run:0:%llu",
		 (unsigned long long)restart_delay_ms);
	tell_ok(tell(redis.c, "SET", text, "1", NULL));
}

/* To a server known to be new, and empty. */
static int connect_at_once(void **state)
{
	(void)state;
	return connect_with(0);
}

static inline long long server_ms(void)
{
	const redisReply *r = tell(redis.c, "TIME", NULL);

	return strtoll(r->element[0]->str, NULL, 10) * 1000 +
	       strtoll(r->element[1]->str, NULL, 10) / 1000;
}

/* Its memory began so long ago, by that; as young.lua has noted it. */
static inline void note_memory(int age_ms, const char *why)
{
	char run[DLK_RUN_ID_LEN + 1], said[99];
	const redisReply *r = tell(redis.c, "INFO", "server", NULL);

	assert_int_equal(sscanf(strstr(r->str, "run_id:"), "run_id:%40s", run),
			 1);
	snprintf(said, sizeof(said), "%s %lld %s", run, server_ms() - age_ms,
		 why);
	tell_ok(tell(redis.c, "SET", "dlock%run:0", said, NULL));
}

/* To a server that is younger than it must be. */
static inline int connect_young(void **state)
{
	(void)state;
	return connect_with(HOUR_MS);
}

/* Given back, by the script's name or its text; what comes of it. */
static inline int release_lease(const struct dlk_lease *lease, bool by_text)
{
	const redisReply *r;

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_release(c, lease, by_text), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	return dlk_lease_released(r, &(uint64_t){ 0 });
}

static int disconnect(void **state)
{
	(void)state;
	dlk_conn_delete(c);
	return 0;
}

#endif
