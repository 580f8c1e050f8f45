/* SPDX-License-Identifier: MIT */
/*
 * Leases from C: each answer of a server becomes the one condition that the
 * caller decides on (lease.h), a server that forgot its scripts is taught
 * again, and one that is young grants nothing (DESIGN L5, delayed restart).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <time.h>
#include <cmocka.h>

#include "lease/lease.h"
#include "lease/upkeep.h"
#include "model/timeline.h"
#include "model/token.h"
#include "os/sys.h"
#include "redis/script.h"
#include "scripts.h"
#include "tests/unit/fake.h"
#include "tests/unit/leases.h"

static uint64_t stays_until_ns; /* of lease_at() */

static struct dlk_lease lease_at(const char *key, const char *token)
{
	return (struct dlk_lease){ .key = key,
				   .key_len = strlen(key),
				   .token = token,
				   .token_len = strlen(token),
				   .ttl_ms = TTL,
				   .stays_until_ns = stays_until_ns };
}

static int acquire(const char *token, bool proof)
{
	struct dlk_lease lease = lease_at("k", token);

	dlk_conn_reset(c);
	return dlk_lease_acquire(c, in_ms(5000), &lease, proof, NULL, NULL,
				 &answer);
}

static int release(const char *token, bool text)
{
	struct dlk_lease lease = lease_at("k", token);

	return release_lease(&lease, text);
}

static int renew(const char *token, bool text)
{
	struct dlk_lease lease = lease_at("k", token);
	struct dlk_renewal u = { .lease = &lease };

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_renew(c, &lease, text), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	return dlk_lease_renewed(c, in_ms(5000), &u);
}

static int reclaim_lease(const struct dlk_lease *lease)
{
	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_reclaim(c, lease, 0), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	return dlk_lease_reclaimed(c, in_ms(5000), NULL);
}

static int reclaim(const char *token)
{
	struct dlk_lease lease = lease_at("k", token);

	return reclaim_lease(&lease);
}

static void put(const char *value)
{
	tell_ok(tell(redis.c, "SET", "k", value, "PX", "9000", NULL));
}

static void assert_value(const char *want)
{
	assert_string_equal(value_at(redis.c, "k"), want);
}

static void assert_full_ttl(const char *key)
{
	long long ttl = ttl_at(redis.c, key);

	assert_true(ttl > TTL - 5000 && ttl <= TTL);
}

/* --- acquire -------------------------------------------------------------- */

static void a_free_lease_is_granted(void **state)
{
	uint64_t before = dlk_now_ns();

	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	assert_true(answer.asked_ns >= before);
	assert_true(answer.asked_ns <= dlk_now_ns());
	assert_false(answer.replaced);
	assert_value(ours);
	assert_full_ttl("k");
}

/* The deadline counts from before the request that was granted (L5). */
static void the_deadline_ends_before_the_servers(void **state)
{
	uint64_t deadline;
	long long left;

	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	deadline = dlk_deadline_ns(answer.asked_ns, TTL);
	left = ttl_at(redis.c, "k");
	assert_true(dlk_now_ns() + (uint64_t)left * DLK_MS >= deadline);
}

static void a_held_lease_is_busy_with_its_holder(void **state)
{
	(void)state;
	put(other);
	assert_int_equal(acquire(ours, false), DLK_BUSY);
	assert_true(answer.left_ms > 4000 && answer.left_ms <= 9000);
	assert_string_equal(answer.holder, other);
	assert_int_equal(answer.holder_len, strlen(other));
	assert_value(other);
}

static void our_own_token_is_held_again(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(acquire(ours, false), 0);
	assert_full_ttl("k");
}

static void another_type_is_odd_and_named(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SADD", "k", "x", NULL));
	assert_int_equal(acquire(ours, true), DLK_WRONG_TYPE);
	assert_string_equal(answer.holder, "set");
}

static void a_huge_value_is_busy_without_a_holder(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SETRANGE", "k", "1048575", "x", NULL));
	assert_int_equal(acquire(ours, true), DLK_BUSY);
	assert_string_equal(answer.holder, "");
	assert_int_equal(answer.holder_len, 0);
}

static void a_lease_without_a_ttl_is_busy(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SET", "k", other, NULL));
	assert_int_equal(acquire(ours, false), DLK_BUSY);
	assert_true(answer.left_ms == -1);
}

static void proof_replaces_a_dead_lease(void **state)
{
	char dead[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(dead, 'd', HOST, FILE_, 1999));
	assert_int_equal(acquire(ours, false), DLK_BUSY);
	assert_int_equal(acquire(ours, true), 0);
	assert_true(answer.replaced);
	assert_value(ours);
}

static void proof_does_not_replace_a_living_lease(void **state)
{
	char alive[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(alive, 'd', HOST, FILE_, 2001));
	assert_int_equal(acquire(ours, true), DLK_BUSY);
	assert_value(alive);
	put(token_of(alive, 'd', HOST, FILE_, 2000));
	assert_int_equal(acquire(ours, true), DLK_BUSY);
	put(token_of(alive, 'd', HOST ":id", FILE_, 1));
	assert_int_equal(acquire(ours, true), DLK_BUSY);
	put(token_of(alive, 'd', HOST, FILE_ "1", 1));
	assert_int_equal(acquire(ours, true), DLK_BUSY);
}

/* A key is bytes: spaces, quotes, line ends and format characters too. */
static void a_key_is_any_bytes(void **state)
{
	static const char key[] = "a b\r\n$3\r\n%s%n\"\xff\x01";
	struct dlk_lease lease = lease_at(key, ours);

	(void)state;
	assert_int_equal(dlk_lease_acquire(c, in_ms(5000), &lease, false, NULL,
					   NULL, &answer),
			 0);
	assert_string_equal(value_at(redis.c, key), ours);
}

static int forbid(void **state)
{
	int err = connect_at_once(state);

	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "-evalsha", NULL));
	return err;
}

static int allow(void **state)
{
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "+@all", NULL));
	return disconnect(state);
}

static void a_refusal_is_told_in_the_servers_words(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, false), -EREMOTEIO);
	assert_non_null(strstr(c->error, "NOPERM"));
	assert_true(dlk_conn_is_open(c));
}

static int demote(void **state)
{
	int err = connect_at_once(state);

	assert_int_equal(acquire(ours, false), 0);
	tell_ok(tell(redis.c, "EVAL", DLK_LUA_release, "2", "x", "{x}%q", "y",
		     "", NULL));
	tell(redis.c, "EVAL", DLK_LUA_renew, "2", "x", "{x}%q", "y", "9", NULL);
	tell_ok(tell(redis.c, "REPLICAOF", "127.0.0.1", "1", NULL));
	return err;
}

static int promote(void **state)
{
	tell_ok(tell(redis.c, "REPLICAOF", "NO", "ONE", NULL));
	return disconnect(state);
}

/* By a connection of its own, for another server may be there by then. */
static void is_opened_anew(void)
{
	assert_false(dlk_conn_is_open(c));
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
}

static void a_demoted_master_is_asked_again(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, false), -EAGAIN);
	is_opened_anew();
	assert_int_equal(release(ours, false), -EAGAIN);
	dlk_conn_close(c);
	is_opened_anew();
	assert_int_equal(renew(ours, false), -EAGAIN);
	is_opened_anew();
	assert_value(ours);
}

/* --- release -------------------------------------------------------------- */

static void release_removes_ours(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(release(ours, true), 0);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void what_stays_is_nobodys(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	stays_until_ns = dlk_now_ns() + 60000 * DLK_MS;
	for (int i = 0; i < 2; i++) { /* it may be sent again */
		assert_int_equal(release(ours, false), 0);
		assert_in_range(tell(redis.c, "PTTL", "k", NULL)->integer,
				50000, 60000);
	}
	stays_until_ns = 0;
	assert_non_null(strstr(tell(redis.c, "GET", "k", NULL)->str,
			       " " DLK_STAYS " "));
	assert_int_equal(acquire(ours, false), DLK_BUSY);
	assert_int_equal(acquire(ours, true), DLK_BUSY);
	assert_int_equal(renew(ours, true), DLK_REPLACED);
	assert_int_equal(release(ours, false), 0);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 1);
}

/* By a proof it reads (acquire.lua), beside others whom nothing is to end. */
static void what_reads_by_now_does_not_stay(void **state)
{
	char reader[DLK_TOKEN_MAX];
	struct dlk_lease lease;

	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	lease = lease_at("k", token_of(reader, 'h', HOST, FILE_, 2001));
	lease.shared = true;
	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_acquire(c, in_ms(5000), &lease, true, NULL,
					   NULL, &answer),
			 0);
	assert_int_equal(renew(ours, true), 0);
	stays_until_ns = dlk_now_ns() + 60000 * DLK_MS;
	assert_int_equal(release(ours, false), 0);
	stays_until_ns = 0;
	assert_int_equal(renew(reader, true), 0);
	assert_int_equal(renew(ours, true), DLK_GONE);
}

static void release_removes_no_other(void **state)
{
	(void)state;
	put(other);
	assert_int_equal(release(ours, true), 0);
	assert_value(other);
}

static void release_removes_no_huge_value(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SETRANGE", "k", "1048575", "x", NULL));
	assert_int_equal(release(ours, true), 0);
	assert_int_equal(tell(redis.c, "STRLEN", "k", NULL)->integer, 1048576);
}

static void an_answer_that_never_came_is_a_broken_pipe(void **state)
{
	(void)state;
	assert_int_equal(dlk_lease_released(NULL, &(uint64_t){ 0 }), -EPIPE);
}

/* --- renew ---------------------------------------------------------------- */

static void renew_sets_the_ttl_anew(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(renew(ours, true), 0);
	assert_full_ttl("k");
}

static void renew_of_nothing_is_gone(void **state)
{
	(void)state;
	assert_int_equal(renew(ours, true), DLK_GONE);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void renew_of_anothers_is_lost(void **state)
{
	static const char *const foreign[] = { "", "x", "dlock1 ", "dlock1 x" };

	(void)state;
	put(other);
	assert_int_equal(renew(ours, true), DLK_LOST);
	assert_value(other);
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		put(foreign[i]);
		assert_int_equal(renew(ours, true), DLK_LOST);
	}
	tell_ok(tell(redis.c, "SETRANGE", "k", "1048575", "x", NULL));
	assert_int_equal(renew(ours, true), DLK_LOST);
}

static void renew_sees_a_successor(void **state)
{
	char heir[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(heir, 'h', HOST, FILE_, 2001));
	assert_int_equal(renew(ours, true), DLK_REPLACED);
	assert_value(heir);
}

static void a_successor_is_newer_and_of_this_file(void **state)
{
	char heir[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(heir, 'h', HOST, FILE_, 2000));
	assert_int_equal(renew(ours, true), DLK_LOST);
	put(token_of(heir, 'h', HOST, FILE_, 1999));
	assert_int_equal(renew(ours, true), DLK_LOST);
	put(token_of(heir, 'h', HOST, FILE_ "1", 2001));
	assert_int_equal(renew(ours, true), DLK_LOST);
	put(token_of(heir, 'h', HOST ":id", FILE_, 2001));
	assert_int_equal(renew(ours, true), DLK_LOST);
	/* Nobody's, which stays, or a claim. */
	put(token_of(heir, 'h', HOST, FILE_, DLK_NO_LOCK_NS));
	assert_int_equal(renew(ours, true), DLK_LOST);
	put(token_of(heir, 'h', HOST, FILE_, UINT64_MAX));
	assert_int_equal(renew(ours, true), DLK_LOST);
}

/* --- a server that forgets ------------------------------------------------ */

static void acquire_teaches_the_script(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	assert_int_equal(acquire(ours, false), 0);
	assert_value(ours);
}

static void release_is_asked_again_as_text(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(release(ours, false), -ENOENT);
	assert_value(ours);
	assert_int_equal(release(ours, true), 0);
	assert_value("");
	/* It wakes nobody, so it teaches nothing either (DESIGN L5). */
	put(ours);
	assert_int_equal(release(ours, false), -ENOENT);
	assert_value(ours);
}

static void renew_is_asked_again_as_text(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(renew(ours, false), -ENOENT);
	assert_int_equal(renew(ours, true), 0);
	assert_int_equal(renew(ours, false), 0);
	assert_full_ttl("k");
}

static void a_young_server_grants_nothing(void **state)
{
	long long up_ms;

	(void)state;
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	up_ms = (long long)((dlk_now_ns() - redis.started_ns) / DLK_MS);
	assert_true(answer.left_ms <= HOUR_MS);
	assert_true(answer.left_ms >= HOUR_MS - up_ms);
	assert_value("");
}

/* Its clock was wrong when it began, or is now; its uptime (INFO) is by that. */
static void a_clock_that_is_set_back_delays_once(void **state)
{
	struct dlk_youth youth;

	(void)state;
	/* That it began is noted anew. */
	note_memory(-2 * HOUR_MS, "restarted");
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	assert_int_equal(dlk_script_young(c, in_ms(5000), &youth), 0);
	assert_true(youth.since_ns && youth.since_ms <= youth.now_ms);
	/* What is old enough by that is so, whatever the uptime. */
	note_memory(2 * HOUR_MS, "restarted");
	assert_int_equal(acquire(ours, false), 0);
	/* And stays so. */
	note_memory(-2 * HOUR_MS, "restartedopen");
	assert_int_equal(dlk_script_young(c, in_ms(5000), &youth), 0);
	assert_int_equal(youth.left_ms, 0);
	assert_int_equal(acquire(other, false), DLK_BUSY);
}

/* A snapshot has it, or a replica, and who has another delay has noted the run. */
static void the_gate_of_another_run_opens_nothing(void **state)
{
	char gate[64];

	(void)state;
	snprintf(gate, sizeof(gate), "dlock%%run:0:%d", HOUR_MS);
	note_memory(2000, "restartedopen");
	tell_ok(tell(redis.c, "SET", gate, "0123456789abcdef", NULL));
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	assert_value("");
}

/* Not even by proof: another host may hold it, for all the server knows. */
static void a_young_server_replaces_nothing(void **state)
{
	char dead[DLK_TOKEN_MAX];

	(void)state;
	put(token_of(dead, 'd', HOST, FILE_, 1));
	assert_int_equal(acquire(ours, true), DLK_GRACE);
	assert_value(dead);
}

/* The script's presence says that a client found the server old enough. */
static void a_server_once_found_old_is_not_asked_again(void **state)
{
	(void)state;
	teach(DLK_LUA_acquire, HOUR_MS);
	assert_int_equal(acquire(ours, false), 0);
}

/* A client for which it is old enough has its own scripts there. */
static void a_stranger_opens_nothing(void **state)
{
	struct dlk_endpoint at_once = redis.ep;
	struct dlk_conn *young = c;

	(void)state;
	c = dlk_conn_new(&at_once);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	assert_int_equal(acquire(other, false), 0);
	dlk_conn_delete(c);
	c = young;
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	put(ours);
	assert_int_equal(release(ours, false), -ENOENT);
	assert_value(ours);
}

/* Nor one of another database, who knows of other leases. */
static void nor_does_another_database(void **state)
{
	struct dlk_endpoint aside = redis.ep;
	struct dlk_conn *young = c;

	(void)state;
	aside.db = 1;
	c = dlk_conn_new(&aside);
	assert_string_not_equal(dlk_script_name(c, DLK_ACQUIRE).text,
				dlk_script_name(young, DLK_ACQUIRE).text);
	dlk_conn_delete(c);
	c = young;
}

static void a_name_is_that_of_the_text(void **state)
{
	char text[256 * 1024];

	(void)state;
	snprintf(text, sizeof(text), "%s-- restart_delay %dms, db 0\n",
		 DLK_LUA_acquire, HOUR_MS);
	assert_string_equal(tell(redis.c, "SCRIPT", "LOAD", text, NULL)->str,
			    dlk_script_name(c, DLK_ACQUIRE).text);
}

/* What a client knew to be old, and has taught all that it asks for. */
static void begin_old(void)
{
	static char text[64 * 1024];

	teach(DLK_LUA_acquire, HOUR_MS);
	snprintf(text, sizeof(text), "%s-- db 0\n", DLK_LUA_young);
	assert_int_equal(tell(redis.c, "SCRIPT", "LOAD", text, NULL)->type,
			 REDIS_REPLY_STRING);
	assert_int_equal(acquire(ours, false), 0);
}

/* Its leases are deleted: nobody else is granted them, and they are put back. */
static void assert_emptied(void)
{
	struct dlk_lease lease = lease_at("k", ours);
	struct dlk_renewal u = { .lease = &lease, .deadline_ns = in_ms(20000) };

	assert_value("");
	assert_int_equal(acquire(other, false), DLK_GRACE);
	assert_true(answer.emptied);
	assert_true(answer.left_ms <= HOUR_MS);
	assert_true(answer.left_ms > HOUR_MS - 10000);
	assert_true(c->restarted);
	assert_int_equal(acquire(third, true), DLK_GRACE);
	dlk_renew_batch(c, in_ms(5000), &u, 1);
	assert_int_equal(u.result, 0);
	assert_true(u.reclaimed);
	assert_value(ours);
}

static void a_server_that_was_emptied_is_young(void **state)
{
	(void)state;
	begin_old();
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	assert_emptied();
}

static void so_is_one_whose_database_was(void **state)
{
	(void)state;
	begin_old();
	tell_ok(tell(redis.c, "FLUSHDB", NULL));
	assert_emptied();
}

/* What dlock has said of the other database is of that one. */
static void so_is_one_whose_databases_were_swapped(void **state)
{
	(void)state;
	begin_old();
	tell_ok(tell(redis.c, "SELECT", "1", NULL));
	tell_ok(tell(redis.c, "SET", "dlock%run:1:3600000", "1", NULL));
	tell_ok(tell(redis.c, "SET", "dlock%run:1", "1 1 restarted", NULL));
	tell_ok(tell(redis.c, "SELECT", "0", NULL));
	tell_ok(tell(redis.c, "SWAPDB", "0", "1", NULL));
	assert_emptied();
}

/* Without a delay nobody knows: B is granted what A has (control). */
static void without_a_delay_nobody_is_kept_out(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, false), 0);
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	assert_int_equal(acquire(other, false), 0);
}

/* Another delay's first client was not there before, and knows all the same. */
static void a_newcomer_opens_nothing_either(void **state)
{
	struct dlk_endpoint short_ep = redis.ep;
	struct dlk_conn *young = c;

	(void)state;
	begin_old();
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	short_ep.restart_delay_ms = 5000;
	c = dlk_conn_new(&short_ep);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	assert_int_equal(acquire(other, false), DLK_GRACE);
	assert_true(answer.emptied);
	assert_true(answer.left_ms <= 5000 && answer.left_ms > 1000);
	dlk_conn_delete(c);
	c = young;
	assert_int_equal(acquire(other, false), DLK_GRACE);
	assert_true(answer.left_ms > HOUR_MS - 10000);
}

/* Nobody of us was there, for all that anybody knows: it is as old as it says. */
static void who_is_the_first_is_not_kept_waiting(void **state)
{
	struct dlk_endpoint ep = redis.ep;
	struct dlk_conn *young = c;

	(void)state;
	ep.restart_delay_ms = HOUR_MS - 1;
	c = dlk_conn_new(&ep);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	assert_false(answer.emptied);
	dlk_conn_delete(c);
	c = young;
}

/* (By a delay of its own, for which this process has been granted nothing.) */
static void nor_is_who_was_refused_before(void **state)
{
	struct dlk_endpoint ep = redis.ep;
	struct dlk_conn *young = c;

	(void)state;
	ep.restart_delay_ms = HOUR_MS - 2;
	c = dlk_conn_new(&ep);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "-evalsha", NULL));
	assert_int_equal(acquire(ours, false), -EREMOTEIO);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "+evalsha", NULL));
	assert_int_equal(acquire(ours, false), DLK_GRACE);
	assert_false(answer.emptied);
	dlk_conn_delete(c);
	c = young;
}

/* But who was granted something there knows that it was. */
static void who_was_there_remembers(void **state)
{
	(void)state;
	begin_old();
	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	assert_emptied();
}

static void other_scripts_do_not_make_a_server_old(void **state)
{
	(void)state;
	put(ours);
	assert_int_equal(renew(ours, true), 0);
	assert_int_equal(release(ours, true), 0);
	assert_int_equal(acquire(ours, false), DLK_GRACE);
}

static int connect_to_grow_old(void **state)
{
	(void)state;
	return connect_with((dlk_now_ns() - redis.started_ns) / DLK_MS + 4000);
}

static void a_server_grows_old(void **state)
{
	const uint64_t until = in_ms(15000);
	unsigned young = 0;
	int err;

	(void)state;
	while ((err = acquire(ours, false)) == DLK_GRACE &&
	       dlk_now_ns() < until) {
		young++;
		dlk_pause_ns(20 * DLK_MS);
	}
	assert_int_equal(err, 0);
	assert_true(young > 0);
	/* And those with a longer delay are told. */
	assert_non_null(
		strstr(tell(redis.c, "GET", "dlock%run:0", NULL)->str, "open"));
}

/* --- reclaim -------------------------------------------------------------- */

static void a_young_server_takes_a_lease_back(void **state)
{
	(void)state;
	assert_int_equal(reclaim(ours), 0);
	assert_value(ours);
	assert_full_ttl("k");
}

static void a_lease_is_not_put_over_another(void **state)
{
	(void)state;
	put(other);
	assert_int_equal(reclaim(ours), DLK_LOST);
	assert_value(other);
	assert_int_equal(acquire(ours, false), DLK_GRACE);
}

/* Of our host and file, and older: its lock has ended before ours was granted. */
static void a_lease_is_put_over_one_that_is_proved_dead(void **state)
{
	char dead[DLK_TOKEN_MAX], next[DLK_TOKEN_MAX], claim[DLK_TOKEN_MAX];
	struct dlk_lease shared = lease_at("k", ours);

	(void)state;
	token_of(dead, 'd', HOST, FILE_, 1999);
	token_of(next, 'h', HOST, FILE_, 2001);
	token_of(claim, 'h', HOST, FILE_, UINT64_MAX);
	put(dead);
	assert_int_equal(reclaim(ours), 0);
	assert_value(ours);
	assert_full_ttl("k");
	put(next);
	assert_int_equal(reclaim(ours), DLK_LOST);
	put(claim);
	assert_int_equal(reclaim(ours), DLK_LOST);
	put(ours);
	assert_int_equal(reclaim(claim), DLK_LOST);
	assert_value(ours);

	/* It may have become a reader, says a reader's; a writer's says more. */
	tell(redis.c, "DEL", "k", NULL);
	put(dead);
	shared.shared = true;
	assert_int_equal(reclaim_lease(&shared), 0);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 3);
	assert_int_equal(tell(redis.c, "HEXISTS", "k", dead, NULL)->integer, 1);
	assert_int_equal(reclaim(next), 0);
	assert_value(next);

	/* So may one that lingers; and what is longer than a token is none. */
	tell(redis.c, "DEL", "k", NULL);
	tell(redis.c, "HSET", "k", "dlock", "1", dead,
	     "99999999999999 EX 60000 -", NULL);
	assert_int_equal(reclaim_lease(&shared), 0);
	assert_string_equal(tell(redis.c, "HGET", "k", dead, NULL)->str,
			    "99999999999999");
	tell(redis.c, "DEL", "k", NULL);
	put(dead);
	tell(redis.c, "SETRANGE", "k", "900", "x", NULL);
	assert_int_equal(reclaim(ours), DLK_LOST);
}

/* --- memory --------------------------------------------------------------- */

static int fill_memory(void **state)
{
	int err = connect_at_once(state);

	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "1", NULL));
	return err;
}

static int fill_young_memory(void **state)
{
	int err = connect_young(state);

	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "1", NULL));
	return err;
}

static int free_memory(void **state)
{
	tell_ok(tell(redis.c, "CONFIG", "SET", "maxmemory", "0", NULL));
	return disconnect(state);
}

static void a_full_server_serves_leases(void **state)
{
	const redisReply *r = tell(redis.c, "SET", "x", "y", NULL);

	(void)state;
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_int_equal(acquire(ours, false), 0);
	assert_int_equal(renew(ours, true), 0);
	assert_int_equal(release(ours, true), 0);
	assert_value("");
}

static void a_full_server_takes_a_lease_back(void **state)
{
	const redisReply *r = tell(redis.c, "SET", "x", "y", NULL);

	(void)state;
	assert_int_equal(r->type, REDIS_REPLY_ERROR);
	assert_int_equal(reclaim(ours), 0);
	assert_value(ours);
	assert_full_ttl("k");
}

/* --- batches -------------------------------------------------------------- */

enum { BATCH = DLK_RENEW_BATCH };

struct batch {
	char keys[BATCH][16];
	struct dlk_lease leases[BATCH];
	struct dlk_renewal u[BATCH];
};

static void make_batch(struct batch *b)
{
	for (unsigned i = 0; i < BATCH; i++) {
		snprintf(b->keys[i], sizeof(b->keys[i]), "batch%u", i);
		b->leases[i] = lease_at(b->keys[i], ours);
		b->u[i] = (struct dlk_renewal){ .lease = &b->leases[i],
						.deadline_ns = in_ms(9000) };
	}
}

static void put_at(const char *key, const char *value)
{
	tell_ok(tell(redis.c, "SET", key, value, "PX", "9000", NULL));
}

static void a_batch_renews_all(void **state)
{
	uint64_t before;
	struct batch b;

	(void)state;
	make_batch(&b);
	for (unsigned i = 0; i < BATCH; i++)
		put_at(b.keys[i], ours);
	before = dlk_now_ns();
	dlk_renew_batch(c, in_ms(5000), b.u, BATCH);
	for (unsigned i = 0; i < BATCH; i++) {
		assert_int_equal(b.u[i].result, 0);
		assert_true(b.u[i].asked_ns >= before);
		assert_full_ttl(b.keys[i]);
	}
}

static void a_batch_gives_each_its_own_answer(void **state)
{
	char heir[DLK_TOKEN_MAX];
	struct batch b;

	(void)state;
	make_batch(&b);
	put_at(b.keys[0], ours);
	put_at(b.keys[1], other);
	put_at(b.keys[3], token_of(heir, 'h', HOST, FILE_, 2001));
	put_at(b.keys[4], ours);
	dlk_renew_batch(c, in_ms(5000), b.u, 5);
	assert_int_equal(b.u[0].result, 0);
	assert_int_equal(b.u[1].result, DLK_LOST);
	assert_int_equal(b.u[2].result, DLK_GONE);
	assert_int_equal(b.u[3].result, DLK_REPLACED);
	assert_int_equal(b.u[4].result, 0);
}

static void a_batch_connects(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	put_at(b.keys[0], ours);
	dlk_conn_close(c);
	dlk_renew_batch(c, in_ms(5000), b.u, 1);
	assert_int_equal(b.u[0].result, 0);
}

static void a_batch_reclaims_at_a_young_server(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	put_at(b.keys[1], other);
	dlk_renew_batch(c, in_ms(5000), b.u, 2);
	assert_int_equal(b.u[0].result, 0);
	assert_full_ttl(b.keys[0]);
	assert_int_equal(b.u[1].result, -EAGAIN);
	assert_string_equal(value_at(redis.c, b.keys[1]), other);
}

static void a_batch_reclaims_nothing_at_an_old_server(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	dlk_renew_batch(c, in_ms(5000), b.u, 1);
	assert_int_equal(b.u[0].result, DLK_GONE);
	assert_false(b.u[0].reclaimed);
	assert_string_equal(value_at(redis.c, b.keys[0]), "");
}

/* How old the server is, is asked once. */
static void a_batch_reclaims_all_at_once(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	assert_int_equal(renew(ours, true), DLK_GONE); /* connected */
	tell_ok(tell(redis.c, "CONFIG", "RESETSTAT", NULL));
	dlk_renew_batch(c, in_ms(5000), b.u, BATCH);
	for (unsigned i = 0; i < BATCH; i++) {
		assert_int_equal(b.u[i].result, 0);
		assert_true(b.u[i].reclaimed);
		assert_string_equal(value_at(redis.c, b.keys[i]), ours);
	}
	assert_non_null(strstr(tell(redis.c, "INFO", "commandstats", NULL)->str,
			       "cmdstat_info:calls=1,"));
}

/* Its memory is new, it puts one lease back, and the connection breaks. */
static void forget_and_break(int fd, void *unused)
{
	static const char info[] = "$22\r\n\nuptime_in_seconds:1\r\n\r\n";
	static const char none[] = "*2\r\n:-1\r\n$0\r\n\r\n";
	static const char young[] = "*4\r\n:9\r\n$9\r\nrestarted\r\n"
				    ":1\r\n:2\r\n";

	(void)unused;
	if (hear(fd) && say(fd, "+OK\r\n", 5) &&
	    say(fd, info, sizeof(info) - 1) &&
	    say(fd, none, sizeof(none) - 1) &&
	    say(fd, none, sizeof(none) - 1) && hear(fd) &&
	    say(fd, info, sizeof(info) - 1) && hear(fd) &&
	    say(fd, young, sizeof(young) - 1) && hear(fd))
		say(fd, ":1\r\n", 4);
}

static void a_batch_that_is_cut_off_has_lost_nothing(void **state)
{
	struct fake fake = { 0 };
	struct dlk_conn *cut;
	struct batch b;

	(void)state;
	fake_start(&fake, forget_and_break, NULL);
	fake.ep.restart_delay_ms = 60000;
	cut = dlk_conn_new(&fake.ep);
	assert_non_null(cut);
	make_batch(&b);
	dlk_renew_batch(cut, in_ms(5000), b.u, 2);
	assert_int_equal(b.u[0].result, 0);
	assert_true(b.u[1].result < 0);
	dlk_conn_delete(cut);
	fake_stop(&fake);
}

static void a_batch_reclaims_nothing_past_its_deadline(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	b.u[0].deadline_ns = dlk_now_ns() - 1;
	dlk_renew_batch(c, in_ms(5000), b.u, 1);
	assert_int_equal(b.u[0].result, DLK_GONE);
	assert_string_equal(value_at(redis.c, b.keys[0]), "");
}

/* Of a batch: a writer's lease, a reader's, and one that is no lease of ours. */
static void put_others(const struct batch *b)
{
	char until[24];

	snprintf(until, sizeof(until), "%llu",
		 (unsigned long long)(time(NULL) + 60) * 1000);
	put_at(b->keys[0], other);
	tell(redis.c, "HSET", b->keys[1], "dlock", "1", other, until, NULL);
	put_at(b->keys[2], "a lock of another algorithm");
}

static void renew_behind_others(struct batch *b)
{
	make_batch(b);
	put_others(b);
	dlk_renew_batch(c, in_ms(5000), b->u, 4);
	assert_int_equal(b->u[2].result, c->server.named ? -EAGAIN : DLK_LOST);
	assert_int_equal(b->u[3].result, 0);
}

/*
 * The memory of a server that is young is of a while ago: a replica's, or what was
 * saved.  What others have in it of our key is as old.  It is waited out, as long as
 * nobody can be granted it: a ttl since the memory began, by which that has ended.
 */
static void what_an_old_memory_has_is_waited_out(void **state)
{
	static struct dlk_endpoint ep[2]; /* the second is the Sentinel */
	struct batch b;

	(void)state;
	ep[0] = *c->ep;
	c->ep = ep;
	for (int by_sentinels = 0; by_sentinels < 2; by_sentinels++) {
		const uint64_t before = dlk_now_ns();

		ep->n_sentinels = (unsigned)by_sentinels;
		c->server.named = by_sentinels;
		note_memory(2000, "restarted");
		renew_behind_others(&b);
		for (unsigned i = 0; i < 2; i++) {
			const uint64_t until = b.u[i].until_ns;

			assert_int_equal(b.u[i].result, -EAGAIN);
			assert_true(until <=
				    dlk_deadline_ns(dlk_now_ns(), TTL));
			if (by_sentinels) {
				assert_true(until > redis.started_ns);
				continue;
			}
			assert_true(
				until >=
				dlk_deadline_ns(before - 6000 * DLK_MS, TTL));
			assert_true(until <=
				    dlk_deadline_ns(
					    dlk_now_ns() - 1980 * DLK_MS, TTL));
		}
		assert_true(b.u[2].until_ns == 0 && b.u[3].until_ns == 0);

		b.u[1].deadline_ns = dlk_now_ns() - 1;
		dlk_renew_batch(c, in_ms(5000), b.u + 1, 1);
		assert_int_equal(b.u[1].result, DLK_GONE);
		assert_true(b.u[1].until_ns == 0);
	}
}

static uint64_t kept_until(uint32_t delay_ms, unsigned replicas)
{
	static struct dlk_endpoint ep;
	struct batch b;

	ep = *c->ep;
	ep.restart_delay_ms = delay_ms;
	ep.replicas = replicas;
	c->ep = &ep;
	note_memory(0, "restarted");
	make_batch(&b);
	put_at(b.keys[0], other);
	dlk_renew_batch(c, in_ms(replicas ? 800 : 5000), b.u, 2);
	assert_true(replicas ? b.u[0].result < 0 : b.u[0].result == -EAGAIN);
	/* (Where no replica has it, it is asked for again.) */
	assert_true(replicas ? b.u[1].result < 0 : b.u[1].result == 0);
	assert_string_equal(value_at(redis.c, b.keys[1]), ours);
	return b.u[0].until_ns;
}

/* Others may be granted it after the delay; and by a master that is cut off. */
static void it_is_so_for_no_longer_than_is_sure(void **state)
{
	const uint64_t before = dlk_now_ns();
	uint64_t until;

	(void)state;
	until = kept_until(TTL / 2, 0);
	assert_true(until >= dlk_deadline_ns(before - 4000 * DLK_MS, TTL / 2));
	assert_true(until <= dlk_deadline_ns(dlk_now_ns(), TTL / 2));
	until = kept_until(HOUR_MS, 0);
	assert_true(until >= dlk_deadline_ns(before - 4000 * DLK_MS, TTL));
	assert_true(until <= dlk_deadline_ns(dlk_now_ns(), TTL));
	assert_true(kept_until(HOUR_MS, 1) == 0);
}

/*
 * A client with a shorter delay may have been granted it, and others than us ask for
 * it whenever they like: then another's lease is a loss.
 */
static void nothing_is_waited_out_where_some_may_be_granted_it(void **state)
{
	struct batch b;

	(void)state;
	note_memory(2000, "restartedopen");
	make_batch(&b);
	put_others(&b);
	dlk_renew_batch(c, in_ms(5000), b.u, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(b.u[i].result, i == 1 ? DLK_GONE : DLK_LOST);
		assert_true(b.u[i].until_ns == 0);
	}
	note_memory(2000, "restarted");
	for (unsigned i = 0; i < 3; i++)
		b.leases[i].interop = true;
	dlk_renew_batch(c, in_ms(5000), b.u, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(b.u[i].result, i == 1 ? DLK_GONE : DLK_LOST);
		assert_true(b.u[i].until_ns == 0);
	}
}

/*
 * Who had it would have renewed it twice by then; who renewed it has it, and what is
 * no lease of ours stays.
 */
static void what_is_not_renewed_any_more_is_put_over(void **state)
{
	char soon[24];
	struct batch b;

	(void)state;
	for (int late = 0; late < 2; late++) {
		note_memory(TTL * 3 / 4 + (late ? 100 : -9000), "restarted");
		make_batch(&b);
		snprintf(soon, sizeof(soon), "%lld", server_ms() + TTL / 5);
		for (unsigned i = 0; i < 4; i++)
			tell(redis.c, "DEL", b.keys[i], NULL);
		put_at(b.keys[0], other);
		tell_ok(tell(redis.c, "PEXPIREAT", b.keys[0], soon, NULL));
		tell(redis.c, "HSET", b.keys[1], "dlock", "1", other, soon,
		     NULL);
		put_at(b.keys[2], other);
		tell_ok(tell(redis.c, "PEXPIRE", b.keys[2], "30000", NULL));
		put_at(b.keys[3], "a lock of another algorithm");
		b.leases[1].shared = false;
		dlk_renew_batch(c, in_ms(5000), b.u, 4);
		assert_int_equal(b.u[0].result, late ? 0 : -EAGAIN);
		assert_int_equal(b.u[1].result, late ? 0 : -EAGAIN);
		assert_int_equal(b.u[2].result, -EAGAIN);
		assert_int_equal(b.u[3].result, DLK_LOST);
		if (!late)
			continue;
		assert_string_equal(value_at(redis.c, b.keys[0]), ours);
		assert_string_equal(value_at(redis.c, b.keys[1]), ours);
		assert_full_ttl(b.keys[0]);
		assert_full_ttl(b.keys[1]);
	}
}

/* A reader's takes a writer's place as well, who is none that stays to read. */
static void a_reader_is_put_over_it_alone(void **state)
{
	struct dlk_renewal u = { .deadline_ns = in_ms(9000) };
	struct dlk_lease lease = lease_at("k", ours);

	(void)state;
	lease.shared = true;
	u.lease = &lease;
	put_at("k", other);
	note_memory(TTL * 3 / 4 + 100, "restarted");
	tell(redis.c, "PEXPIRE", "k", "2000", NULL);
	dlk_renew_batch(c, in_ms(5000), &u, 1);
	assert_int_equal(u.result, 0);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 2);
	assert_int_equal(tell(redis.c, "HEXISTS", "k", ours, NULL)->integer, 1);
}

/*
 * A replica that was promoted, and was a master before, grants by its old scripts
 * until somebody asks how old it is: what is there may have been granted by it.
 */
static void what_it_may_have_granted_is_anothers(void **state)
{
	struct batch b;

	(void)state;
	note_memory(0, "promoted");
	make_batch(&b);
	put_others(&b);
	dlk_renew_batch(c, in_ms(5000), b.u, 4);
	assert_int_equal(b.u[0].result, DLK_LOST);
	assert_int_equal(b.u[1].result, DLK_GONE);
	assert_int_equal(b.u[2].result, DLK_LOST);
	assert_int_equal(b.u[3].result, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_true(b.u[i].until_ns == 0);
}

/* It was seen; that more was to be asked, and could not, hides nothing. */
static void what_is_anothers_stays_so_if_no_more_is_learnt(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	put_at(b.keys[1], other);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "-info", NULL));
	dlk_renew_batch(c, in_ms(5000), b.u, 2);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "+info", NULL));
	assert_true(b.u[0].result < 0);
	assert_int_equal(b.u[1].result, DLK_LOST);
}

/* (Of several masters: quorum_upkeep.c says so of what no majority has.) */
static void what_is_not_gone_is_not_put_back(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	b.u[0].result = DLK_GONE;
	b.u[1].result = DLK_LOST;
	assert_int_equal(dlk_put_back_batch(c, in_ms(5000), b.u, 2), 0);
	assert_int_equal(b.u[0].result, 0);
	assert_int_equal(b.u[1].result, DLK_LOST);
	assert_string_equal(value_at(redis.c, b.keys[0]), ours);
	assert_string_equal(value_at(redis.c, b.keys[1]), "");
}

/*
 * The second cannot be sent: no key is that long.  What the first was
 * answered must not be taken for the answer to a later question.
 */
static void a_batch_that_fails_leaves_no_answer_behind(void **state)
{
	static char huge[300 * 1024];
	struct batch b;

	(void)state;
	memset(huge, 'k', sizeof(huge) - 1);
	make_batch(&b);
	put_at(b.keys[0], ours);
	b.leases[1] = lease_at(huge, ours);
	dlk_renew_batch(c, in_ms(5000), b.u, 2);
	assert_true(b.u[0].result < 0);
	assert_true(b.u[1].result < 0);
	b.leases[0] = lease_at("none", ours);
	dlk_renew_batch(c, in_ms(5000), b.u, 1);
	assert_int_equal(b.u[0].result, DLK_GONE);
}

/* One text teaches the server: a restart costs no more than that. */
static void a_batch_teaches_its_script_once(void **state)
{
	struct batch b;

	(void)state;
	make_batch(&b);
	for (unsigned i = 0; i < 20; i++)
		put_at(b.keys[i], ours);
	tell_ok(tell(redis.c, "CONFIG", "RESETSTAT", NULL));
	dlk_renew_batch(c, in_ms(5000), b.u, 20);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(b.u[i].result, 0);
	assert_non_null(strstr(tell(redis.c, "INFO", "commandstats", NULL)->str,
			       "cmdstat_eval:calls=1,"));
}

/* A server that was taught, and one that was not, and serves nobody then. */
static void a_batch_releases_all(void **state)
{
	struct batch b;

	(void)state;
	for (int taught = 0; taught < 2; taught++) {
		make_batch(&b);
		if (taught)
			assert_int_equal(acquire(ours, false), 0);
		for (unsigned i = 0; i < BATCH; i++)
			put_at(b.keys[i], i == 1 ? other : ours);
		dlk_release_batch(c, in_ms(5000), b.u, BATCH);
		for (unsigned i = 0; i < BATCH; i++) {
			assert_int_equal(b.u[i].result, 0);
			assert_string_equal(value_at(redis.c, b.keys[i]),
					    i == 1 ? other : "");
		}
	}
}

static void a_batch_without_a_server_is_not_done(void **state)
{
	static const struct dlk_endpoint nowhere = {
		.scheme = DLK_UNIX,
		.path = "/nonexistent",
	};
	struct dlk_conn *none = dlk_conn_new(&nowhere);
	struct batch b;

	(void)state;
	assert_non_null(none);
	make_batch(&b);
	dlk_renew_batch(none, in_ms(100), b.u, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_true(b.u[i].result < 0);
	dlk_release_batch(none, in_ms(100), b.u, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_true(b.u[i].result < 0);
	dlk_conn_delete(none);
}

#define lease_test(f)                                                          \
	cmocka_unit_test_setup_teardown(f, connect_at_once, disconnect)
#define young_test(f)                                                          \
	cmocka_unit_test_setup_teardown(f, connect_young, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lease_test(a_free_lease_is_granted),
		lease_test(without_a_delay_nobody_is_kept_out),
		lease_test(the_deadline_ends_before_the_servers),
		lease_test(a_held_lease_is_busy_with_its_holder),
		lease_test(our_own_token_is_held_again),
		lease_test(another_type_is_odd_and_named),
		lease_test(a_huge_value_is_busy_without_a_holder),
		lease_test(a_lease_without_a_ttl_is_busy),
		lease_test(proof_replaces_a_dead_lease),
		lease_test(proof_does_not_replace_a_living_lease),
		lease_test(a_key_is_any_bytes),
		cmocka_unit_test_setup_teardown(
			a_refusal_is_told_in_the_servers_words, forbid, allow),
		lease_test(release_removes_ours),
		lease_test(what_stays_is_nobodys),
		lease_test(what_reads_by_now_does_not_stay),
		lease_test(release_removes_no_other),
		lease_test(release_removes_no_huge_value),
		lease_test(an_answer_that_never_came_is_a_broken_pipe),
		lease_test(renew_sets_the_ttl_anew),
		lease_test(renew_of_nothing_is_gone),
		lease_test(renew_of_anothers_is_lost),
		lease_test(renew_sees_a_successor),
		lease_test(a_successor_is_newer_and_of_this_file),
		lease_test(acquire_teaches_the_script),
		lease_test(release_is_asked_again_as_text),
		lease_test(renew_is_asked_again_as_text),
		young_test(a_young_server_grants_nothing),
		young_test(a_clock_that_is_set_back_delays_once),
		young_test(the_gate_of_another_run_opens_nothing),
		young_test(a_young_server_replaces_nothing),
		young_test(a_server_once_found_old_is_not_asked_again),
		young_test(a_server_that_was_emptied_is_young),
		young_test(so_is_one_whose_database_was),
		young_test(so_is_one_whose_databases_were_swapped),
		young_test(a_newcomer_opens_nothing_either),
		young_test(who_is_the_first_is_not_kept_waiting),
		young_test(nor_is_who_was_refused_before),
		young_test(who_was_there_remembers),
		young_test(a_stranger_opens_nothing),
		young_test(nor_does_another_database),
		young_test(a_name_is_that_of_the_text),
		young_test(other_scripts_do_not_make_a_server_old),
		cmocka_unit_test_setup_teardown(
			a_server_grows_old, connect_to_grow_old, disconnect),
		young_test(a_young_server_takes_a_lease_back),
		young_test(a_lease_is_not_put_over_another),
		young_test(a_lease_is_put_over_one_that_is_proved_dead),
		cmocka_unit_test_setup_teardown(a_full_server_serves_leases,
						fill_memory, free_memory),
		cmocka_unit_test_setup_teardown(
			a_full_server_takes_a_lease_back, fill_young_memory,
			free_memory),
		lease_test(a_batch_renews_all),
		lease_test(a_batch_teaches_its_script_once),
		lease_test(a_batch_releases_all),
		lease_test(a_batch_without_a_server_is_not_done),
		lease_test(a_batch_gives_each_its_own_answer),
		lease_test(a_batch_connects),
		young_test(a_batch_reclaims_at_a_young_server),
		young_test(a_batch_reclaims_nothing_past_its_deadline),
		lease_test(a_batch_reclaims_nothing_at_an_old_server),
		young_test(a_batch_reclaims_all_at_once),
		young_test(what_an_old_memory_has_is_waited_out),
		young_test(it_is_so_for_no_longer_than_is_sure),
		young_test(nothing_is_waited_out_where_some_may_be_granted_it),
		young_test(what_is_not_renewed_any_more_is_put_over),
		young_test(a_reader_is_put_over_it_alone),
		young_test(what_it_may_have_granted_is_anothers),
		young_test(a_batch_that_is_cut_off_has_lost_nothing),
		young_test(what_is_anothers_stays_so_if_no_more_is_learnt),
		young_test(what_is_not_gone_is_not_put_back),
		lease_test(a_batch_that_fails_leaves_no_answer_behind),
		/* (The last one: from then on it is a replica that was promoted.) */
		cmocka_unit_test_setup_teardown(a_demoted_master_is_asked_again,
						demote, promote),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
