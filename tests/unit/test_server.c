/* SPDX-License-Identifier: MIT */
/*
 * What a server says of itself, and what this process remembers of it: another
 * run id is another memory only if both were running at one time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "redis/server.h"
#include "model/timeline.h"

#define ONE "0123456789abcdef0123456789abcdef01234567"
#define TWO "0123456789abcdef0123456789abcdef01234568"
#define NIL "0000000000000000000000000000000000000000"

#define MASTER(id, up)                                                         \
	"# Server\r\nredis_version:7.0.15\r\nrun_id:" id                       \
	"\r\nuptime_in_seconds:" up "\r\nmaxmemory:0\r\n"                      \
	"maxmemory_policy:allkeys-lru\r\nrole:master\r\n"                      \
	"master_replid2:" NIL "\r\n"

enum { SECOND = 1000 };

static struct dlk_server_info s;

static struct dlk_endpoint endpoint(const char *host)
{
	struct dlk_endpoint ep = { .port = 6379, .restart_delay_ms = 30000 };

	strcpy(ep.host, host);
	return ep;
}

/* What INFO says, of any of them. */
static void read_info(const char *info)
{
	static const struct dlk_endpoint any = { .host = "any" };

	dlk_server_read(&s, &any, info);
}

static void a_master_is_fit(void **state)
{
	char room[100];

	(void)state;
	read_info(MASTER(ONE, "77"));
	assert_string_equal(s.run_id, ONE);
	assert_string_equal(s.version, "7.0.15");
	assert_int_equal(s.major, 7);
	assert_int_equal(s.uptime_s, 77);
	assert_false(s.replica);
	assert_false(s.promoted);
	assert_string_equal(s.evicts, "");
	assert_null(dlk_server_unfit(&s, room, sizeof(room)));
}

static void a_replica_is_not(void **state)
{
	char room[100];

	(void)state;
	read_info("redis_version:7.2.0\n"
		  "\nrole:slave\r\nmaster_host:10.0.0.1\r\n"
		  "master_port:6380\r\n");
	assert_string_equal(dlk_server_unfit(&s, room, sizeof(room)),
			    "it is a replica of 10.0.0.1:6380: url must name "
			    "the master");
}

static void nor_is_an_old_one(void **state)
{
	char room[100];

	(void)state;
	read_info("\nredis_version:6.2.14\r\n");
	assert_non_null(strstr(dlk_server_unfit(&s, room, sizeof(room)),
			       "Redis 6.2.14"));
	read_info("\nredis_version:255.255.255\r\n");
	assert_null(dlk_server_unfit(&s, room, sizeof(room)));
}

static void a_promoted_one_is_known(void **state)
{
	(void)state;
	read_info("\nrole:master\r\nmaster_replid2:" ONE "\r\n");
	assert_true(s.promoted);
}

static void a_policy_matters_with_a_limit(void **state)
{
	(void)state;
	read_info("\nmaxmemory:1\r\nmaxmemory_policy:volatile-ttl\r");
	assert_string_equal(s.evicts, "volatile-ttl");
	read_info("\nmaxmemory:1\r\nmaxmemory_policy:noeviction\r");
	assert_string_equal(s.evicts, "");
}

/* Nothing, ends without an end, names within names, values without room. */
static void odd_texts_say_nothing(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"\nrun_id",
		"\nrun_id:",
		"run_id:" ONE,
		"\nxrun_id:" ONE,
		"\nrun_id:" ONE "0",
		"\nrun_idx:" ONE,
		"\nredis_version:\nuptime_in_seconds:-1\nmaxmemory:x\n",
		"\nredis_version:1234567890123456.0\nrole:slaves\n",
	};
	char room[100];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		read_info(texts[i]);
		assert_string_equal(s.run_id, "");
		assert_int_equal(s.major, 0);
		assert_int_equal(s.uptime_s, 0);
		assert_null(dlk_server_unfit(&s, room, sizeof(room)));
	}
}

static void words_are_kept_and_explained(void **state)
{
	static const char long_one[] =
		"DENIED Redis is running in protected mode because protected "
		"mode is enabled and no password is set for the default user. "
		"In this mode connections are only accepted from the loopback "
		"interface. If you want to connect from external computers ...";
	char room[256];
	struct dlk_text t;

	(void)state;
	s = (struct dlk_server_info){ 0 };
	dlk_text_init(&t, room, sizeof(room));
	dlk_server_explain(&t, "ERR as it is", &s);
	assert_string_equal(room, "ERR as it is");
	dlk_text_init(&t, room, sizeof(room));
	dlk_server_explain(&t, "NOAUTH Authentication required.", &s);
	assert_string_equal(room, "NOAUTH Authentication required. (it wants a "
				  "password: password_file (and username))");
	dlk_text_init(&t, room, sizeof(room));
	dlk_server_explain(&t, long_one, &s);
	assert_non_null(strstr(room, "for the default user. (it is in"));
	assert_int_equal(room[strlen(room) - 1], ')');
}

static void who_is_met_is_remembered(void **state)
{
	const struct dlk_endpoint here = endpoint("here");
	const struct dlk_endpoint there = endpoint("there");

	(void)state;
	dlk_server_read(&s, &here, MASTER(ONE, "77"));
	assert_false(dlk_server_meet(&s));
	assert_false(dlk_server_meet(&s));
	dlk_server_read(&s, &there, MASTER(TWO, "77"));
	assert_false(dlk_server_meet(&s));
	dlk_server_read(&s, &here, MASTER(TWO, "77"));
	assert_true(dlk_server_meet(&s));
	assert_false(dlk_server_meet(&s));
	dlk_server_read(&s, &here, "role:master\r\n");
	assert_false(dlk_server_meet(&s));
}

static void a_restarted_one_is_no_other(void **state)
{
	const struct dlk_endpoint ep = endpoint("restarted");
	const uint64_t at = 1000ULL * SECOND * DLK_MS;

	(void)state;
	dlk_server_read(&s, &ep, MASTER(ONE, "77"));
	assert_false(dlk_server_is_other(&s, at));
	dlk_server_granted(&s, at);
	assert_false(dlk_server_is_other(&s, at));
	/* Ten seconds later, up for nine of them; and for a hundred. */
	dlk_server_read(&s, &ep, MASTER(TWO, "9"));
	assert_false(dlk_server_is_other(&s, at + 10000 * DLK_MS));
	dlk_server_read(&s, &ep, MASTER(TWO, "100"));
	assert_true(dlk_server_is_other(&s, at + 10000 * DLK_MS));
	dlk_server_granted(&s, at + 20000 * DLK_MS);
	assert_false(dlk_server_is_other(&s, at + 20000 * DLK_MS));
}

#define NAMED(id, history) MASTER(id, "100") "master_replid:" history "\r\n"

/* It has freed its backlog: one process, and so one memory, of another history. */
static void one_without_replicas_is_no_other(void **state)
{
	struct dlk_endpoint ep[2] = { endpoint("backlog"),
				      endpoint("sentinel") };
	const uint64_t at = 1000ULL * SECOND * DLK_MS;

	(void)state;
	ep->n_sentinels = 1;
	dlk_server_read(&s, ep, NAMED(ONE, ONE));
	dlk_server_granted(&s, at);
	dlk_server_read(&s, ep, NAMED(ONE, TWO));
	assert_false(dlk_server_is_known(&s));
	assert_false(dlk_server_is_other(&s, at));
	dlk_server_read(&s, ep, NAMED(TWO, TWO));
	assert_true(dlk_server_is_other(&s, at));
}

/* Two sections may have one master's name, and differ in where it is asked for. */
static void a_master_is_known_by_its_sentinel(void **state)
{
	struct dlk_endpoint a[2] = { endpoint("m"), endpoint("sentinel-1") };
	struct dlk_endpoint b[2];

	(void)state;
	a->n_sentinels = 1;
	strcpy(a->name, "m/0 (by Sentinel sentinel-)"); /* for messages: cut */
	memcpy(b, a, sizeof(b));
	assert_non_null(dlk_server_known(a));
	assert_ptr_equal(dlk_server_known(b), dlk_server_known(a));
	strcpy(b[1].host, "sentinel-2");
	assert_ptr_not_equal(dlk_server_known(b), dlk_server_known(a));
	memcpy(b, a, sizeof(b));
	b[1].port++;
	assert_ptr_not_equal(dlk_server_known(b), dlk_server_known(a));
	memcpy(b, a, sizeof(b));
	strcpy(b[1].path, "/s");
	assert_ptr_not_equal(dlk_server_known(b), dlk_server_known(a));
}

static void too_many_are_forgotten(void **state)
{
	char name[16] = "n00";

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct dlk_endpoint ep;

		name[1] = (char)('0' + i / 10);
		name[2] = (char)('0' + i % 10);
		ep = endpoint(name);
		dlk_server_read(&s, &ep, MASTER(ONE, "77"));
		assert_false(dlk_server_meet(&s));
		dlk_server_granted(&s, 1);
		assert_false(dlk_server_is_other(&s, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_master_is_fit),
		cmocka_unit_test(a_replica_is_not),
		cmocka_unit_test(nor_is_an_old_one),
		cmocka_unit_test(a_promoted_one_is_known),
		cmocka_unit_test(a_policy_matters_with_a_limit),
		cmocka_unit_test(odd_texts_say_nothing),
		cmocka_unit_test(words_are_kept_and_explained),
		cmocka_unit_test(who_is_met_is_remembered),
		cmocka_unit_test(a_restarted_one_is_no_other),
		cmocka_unit_test(one_without_replicas_is_no_other),
		cmocka_unit_test(a_master_is_known_by_its_sentinel),
		cmocka_unit_test(too_many_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
