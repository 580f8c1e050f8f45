/* SPDX-License-Identifier: MIT */
/*
 * The scripts of a lease, as the server runs them: SET NX PX, compare and
 * delete, compare and expire (DESIGN L9); a foreign value of any kind is left
 * alone (L8); and proof of death replaces what it proves and no more (L3).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "scripts.h"
#include "tests/unit/redis.h"

#define HOST  "0123456789abcdef0123456789abcdef"
#define FILE_ "fd00:1f:1.00"

enum { TTL = 30000 };

static struct own_redis redis;
static char ours[DLK_TOKEN_MAX], other[DLK_TOKEN_MAX];

static int start(void **state)
{
	(void)state;
	own_redis_start(&redis);
	token_of(ours, 'a', HOST, FILE_, 2000);
	token_of(other, 'b', "elsewhere", FILE_, 1000);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	own_redis_stop(&redis);
	return 0;
}

static int empty(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	return 0;
}

struct said {
	long long code, number;
	char text[2 * DLK_TOKEN_MAX];
};

static struct said acquire_by(const char *token, const char *proof)
{
	const redisReply *r =
		tell(redis.c, "EVAL", DLK_LUA_acquire, "2", "k", "{k}%q", token,
		     "30000", " " HOST " " FILE_ " ", proof, "EX", "", "", "",
		     "", "", "0", NULL);
	struct said s = { 0 };

	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->elements, 5);
	s.code = r->element[0]->integer;
	s.number = r->element[1]->integer;
	snprintf(s.text, sizeof(s.text), "%s", r->element[2]->str);
	return s;
}

static struct said acquire(const char *token)
{
	return acquire_by(token, "");
}

static long long release(const char *token)
{
	const redisReply *r = tell(redis.c, "EVAL", DLK_LUA_release, "2", "k",
				   "{k}%q", token, "", "", NULL);

	assert_int_equal(r->type, REDIS_REPLY_INTEGER);
	return r->integer;
}

static struct said renew(const char *token)
{
	const redisReply *r = tell(redis.c, "EVAL", DLK_LUA_renew, "2", "k",
				   "{k}%q", token, "30000", NULL);
	struct said s = { 0 };

	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->elements, 2);
	s.code = r->element[0]->integer;
	snprintf(s.text, sizeof(s.text), "%s", r->element[1]->str);
	return s;
}

static void assert_said(struct said s, long long code, long long number,
			const char *text)
{
	assert_int_equal(s.code, code);
	assert_int_equal(s.number, number);
	assert_string_equal(s.text, text);
}

static void put(const char *value)
{
	tell_ok(tell(redis.c, "SET", "k", value, "PX", "9000", NULL));
}

static void put_huge(void)
{
	tell_ok(tell(redis.c, "SETRANGE", "k", "1048575", "x", NULL));
}

static void put_list(void)
{
	tell_ok(tell(redis.c, "RPUSH", "k", "x", NULL));
}

static void assert_value(const char *want)
{
	assert_string_equal(value_at(redis.c, "k"), want);
}

static void assert_ttl(long long most)
{
	long long ttl = ttl_at(redis.c, "k");

	assert_true(ttl > most - 5000 && ttl <= most);
}

/* --- acquire -------------------------------------------------------------- */

static void a_free_key_is_granted_with_a_ttl(void **state)
{
	(void)state;
	assert_said(acquire(ours), 1, 0, "");
	assert_value(ours);
	assert_ttl(TTL);
}

static void a_held_key_is_refused_with_its_holder(void **state)
{
	struct said s;

	(void)state;
	put(other);
	s = acquire(ours);
	assert_int_equal(s.code, 0);
	assert_true(s.number > 4000 && s.number <= 9000);
	assert_string_equal(s.text, other);
	assert_value(other);
	assert_ttl(9000);
}

static void our_own_token_is_held_with_a_new_ttl(void **state)
{
	(void)state;
	put(ours);
	assert_said(acquire(ours), 1, 0, "");
	assert_value(ours);
	assert_ttl(TTL);
}

static void a_key_of_another_type_is_named(void **state)
{
	(void)state;
	put_list();
	assert_said(acquire(ours), 2, 0, "list");
}

static void a_huge_value_is_busy_and_stays_there(void **state)
{
	(void)state;
	put_huge();
	assert_said(acquire(ours), 0, -1, "");
	assert_int_equal(tell(redis.c, "STRLEN", "k", NULL)->integer, 1048576);
}

/* DLK_TOKEN_MAX has a NUL in it: 767 bytes are a token, 768 are none. */
static void the_longest_token_is_shown(void **state)
{
	char value[DLK_TOKEN_MAX + 1];

	(void)state;
	memset(value, 'v', sizeof(value));
	value[DLK_TOKEN_MAX - 1] = '\0';
	put(value);
	assert_string_equal(acquire(ours).text, value);
	value[DLK_TOKEN_MAX - 1] = 'v';
	value[DLK_TOKEN_MAX] = '\0';
	put(value);
	assert_string_equal(acquire(ours).text, "");
}

static void a_key_without_a_ttl_is_busy(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SET", "k", "foreign", NULL));
	assert_said(acquire(ours), 0, -1, "foreign");
}

static void an_empty_value_is_busy(void **state)
{
	(void)state;
	put("");
	assert_int_equal(acquire(ours).code, 0);
}

/* --- proof of death ------------------------------------------------------- */

/* Is a token of this host, file and since replaced by ours, since 2000? */
static bool replaced(const char *host, const char *file, uint64_t since)
{
	char held[DLK_TOKEN_MAX];
	struct said s;

	put(token_of(held, 'd', host, file, since));
	s = acquire_by(ours, "00000000000000002000");
	if (s.code == 1) {
		assert_said(s, 1, 1, "");
		assert_value(ours);
		assert_ttl(TTL);
		return true;
	}
	assert_string_equal(s.text, held);
	assert_value(held);
	assert_ttl(9000);
	return false;
}

static void proof_replaces_an_older_token(void **state)
{
	(void)state;
	assert_true(replaced(HOST, FILE_, 1999));
	assert_true(replaced(HOST, FILE_, 0));
}

static void proof_replaces_no_newer_token(void **state)
{
	(void)state;
	assert_false(replaced(HOST, FILE_, 2001));
	assert_false(replaced(HOST, FILE_, 10000));
	assert_false(replaced(HOST, FILE_, UINT64_MAX));
}

static void proof_replaces_no_token_of_the_same_moment(void **state)
{
	(void)state;
	assert_false(replaced(HOST, FILE_, 2000));
}

static void proof_replaces_no_other_host(void **state)
{
	(void)state;
	assert_false(replaced("fedcba9876543210fedcba9876543210", FILE_, 1));
}

static void proof_replaces_no_host_that_only_begins_alike(void **state)
{
	(void)state;
	assert_false(replaced(HOST ":blue", FILE_, 1));
	assert_false(replaced("0123456789abcdef", FILE_, 1));
}

static void proof_replaces_no_other_file(void **state)
{
	(void)state;
	assert_false(replaced(HOST, "fd00:2f:1.00", 1));
	assert_false(replaced(HOST, FILE_ "0", 1));
	assert_false(replaced(HOST, "fd00:1f:1.0", 1));
}

static void without_proof_nothing_is_replaced(void **state)
{
	char held[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(held, 'd', HOST, FILE_, 1));
	assert_int_equal(acquire(ours).code, 0);
	assert_value(held);
}

/* 2^53 and 2^53 + 1 are one and the same Lua number. */
static void moments_compare_to_the_last_digit(void **state)
{
	char held[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(held, 'd', HOST, FILE_, 9007199254740993));
	assert_int_equal(acquire_by(ours, "00009007199254740992").code, 0);
	assert_int_equal(acquire_by(ours, "00009007199254740993").code, 0);
	put(token_of(held, 'd', HOST, FILE_, 9007199254740992));
	assert_int_equal(acquire_by(ours, "00009007199254740993").code, 1);
}

static void proof_replaces_no_value_of_another_program(void **state)
{
	static const char *const foreign[] = {
		"",
		"dlock1 ",
		"5f0c8e6f4a1b4c5d9e8f7a6b5c4d3e2f",
		"xlock1 0123456789abcdef0123456789abcdef " HOST " " FILE_
		" 00000000000000000001 7 host job",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		put(foreign[i]);
		assert_int_equal(acquire_by(ours, "00000000000000002000").code,
				 0);
		assert_value(foreign[i]);
	}
}

/* --- release -------------------------------------------------------------- */

static void release_removes_our_token(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(release(ours), 1);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void release_leaves_another_token(void **state)
{
	(void)state;
	put(other);
	assert_int_equal(release(ours), 0);
	assert_value(other);
}

static void release_leaves_another_token_of_our_length(void **state)
{
	char twin[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(twin, 'z', HOST, FILE_, 2000));
	assert_int_equal(release(ours), 0);
	assert_value(twin);
}

static void release_leaves_a_huge_value(void **state)
{
	(void)state;
	put_huge();
	assert_int_equal(release(ours), 0);
	assert_int_equal(tell(redis.c, "STRLEN", "k", NULL)->integer, 1048576);
}

static void release_leaves_a_key_of_another_type(void **state)
{
	(void)state;
	put_list();
	assert_int_equal(release(ours), 0);
	assert_int_equal(tell(redis.c, "LLEN", "k", NULL)->integer, 1);
}

static void release_of_nothing_is_no_error(void **state)
{
	(void)state;
	assert_int_equal(release(ours), 0);
}

/* --- renew ---------------------------------------------------------------- */

static void renew_sets_the_ttl(void **state)
{
	(void)state;
	put(ours);
	assert_said(renew(ours), 1, 0, "EX");
	assert_value(ours);
	assert_ttl(TTL);
}

static void renew_never_creates(void **state)
{
	(void)state;
	assert_said(renew(ours), -1, 0, "");
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void renew_shows_and_leaves_another_token(void **state)
{
	(void)state;
	put(other);
	assert_said(renew(ours), 0, 0, other);
	assert_value(other);
	assert_ttl(9000);
}

static void renew_does_not_carry_a_huge_value(void **state)
{
	(void)state;
	put_huge();
	assert_said(renew(ours), 0, 0, "");
	assert_int_equal(ttl_at(redis.c, "k"), -1);
}

static void renew_of_another_type_is_lost(void **state)
{
	(void)state;
	put_list();
	assert_said(renew(ours), 0, 0, "");
	assert_int_equal(ttl_at(redis.c, "k"), -1);
}

static void renew_of_an_empty_value_is_lost(void **state)
{
	(void)state;
	put("");
	assert_said(renew(ours), 0, 0, "");
	assert_ttl(9000);
}

/* --- the server ----------------------------------------------------------- */

static void the_names_are_the_servers(void **state)
{
	static const char *const both[][2] = {
		{ DLK_LUA_acquire, DLK_SHA_acquire },
		{ DLK_LUA_release, DLK_SHA_release },
		{ DLK_LUA_drop, DLK_SHA_drop },
		{ DLK_LUA_queue, DLK_SHA_queue },
		{ DLK_LUA_renew, DLK_SHA_renew },
		{ DLK_LUA_reclaim, DLK_SHA_reclaim },
		{ DLK_LUA_weaken, DLK_SHA_weaken },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(both) / sizeof(*both); i++)
		assert_string_equal(
			tell(redis.c, "SCRIPT", "LOAD", both[i][0], NULL)->str,
			both[i][1]);
}

static int fill_memory(void **state)
{
	(void)state;
	put(other);
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory-policy", "noeviction",
		     NULL));
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "1", NULL));
	return 0;
}

static int free_memory(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "0", NULL));
	return empty(state);
}

/* First that the server is full indeed. */
static void a_full_server_still_serves_leases(void **state)
{
	const redisReply *r = tell(redis.c, "SET", "x", "y", NULL);

	(void)state;
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_int_equal(strncmp(r->str, "OOM ", 4), 0);
	assert_int_equal(release(other), 1);
	assert_int_equal(acquire(ours).code, 1);
	assert_int_equal(renew(ours).code, 1);
	assert_int_equal(release(ours), 1);
}

static int demote(void **state)
{
	(void)state;
	put(ours);
	tell_ok(tell(redis.c, "REPLICAOF", "127.0.0.1", "1", NULL));
	return 0;
}

static int promote(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "REPLICAOF", "NO", "ONE", NULL));
	return empty(state);
}

/* A plausible 0 of a demoted master would be taken for an answer. */
static void a_replica_refuses_to_answer(void **state)
{
	const redisReply *r = tell(redis.c, "EVAL", DLK_LUA_release, "2", "k",
				   "{k}%q", ours, "", NULL);

	(void)state;
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_int_equal(strncmp(r->str, "READONLY ", 9), 0);
	r = tell(redis.c, "EVAL", DLK_LUA_renew, "2", "k", "{k}%q", ours,
		 "9000", NULL);
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_value(ours);
}

#define key_test(f) cmocka_unit_test_setup(f, empty)

int main(void)
{
	const struct CMUnitTest tests[] = {
		key_test(a_free_key_is_granted_with_a_ttl),
		key_test(a_held_key_is_refused_with_its_holder),
		key_test(our_own_token_is_held_with_a_new_ttl),
		key_test(a_key_of_another_type_is_named),
		key_test(a_huge_value_is_busy_and_stays_there),
		key_test(the_longest_token_is_shown),
		key_test(a_key_without_a_ttl_is_busy),
		key_test(an_empty_value_is_busy),
		key_test(proof_replaces_an_older_token),
		key_test(proof_replaces_no_newer_token),
		key_test(proof_replaces_no_token_of_the_same_moment),
		key_test(proof_replaces_no_other_host),
		key_test(proof_replaces_no_host_that_only_begins_alike),
		key_test(proof_replaces_no_other_file),
		key_test(without_proof_nothing_is_replaced),
		key_test(moments_compare_to_the_last_digit),
		key_test(proof_replaces_no_value_of_another_program),
		key_test(release_removes_our_token),
		key_test(release_leaves_another_token),
		key_test(release_leaves_another_token_of_our_length),
		key_test(release_leaves_a_huge_value),
		key_test(release_leaves_a_key_of_another_type),
		key_test(release_of_nothing_is_no_error),
		key_test(renew_sets_the_ttl),
		key_test(renew_never_creates),
		key_test(renew_shows_and_leaves_another_token),
		key_test(renew_does_not_carry_a_huge_value),
		key_test(renew_of_another_type_is_lost),
		key_test(renew_of_an_empty_value_is_lost),
		key_test(the_names_are_the_servers),
		cmocka_unit_test_setup_teardown(
			a_full_server_still_serves_leases, fill_memory,
			free_memory),
		cmocka_unit_test_setup_teardown(a_replica_refuses_to_answer,
						demote, promote),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
