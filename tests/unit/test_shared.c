/* SPDX-License-Identifier: MIT */
/*
 * Shared leases: any number of them and no exclusive one beside (DESIGN L9).
 * They stand in a hash that is marked as ours, each with an expiry of its own;
 * a hash without the mark is another program's, and is never written to.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/lease.h"
#include "tests/unit/leases.h"

enum mode { EX, SH };

static struct dlk_lease lease_of(const char *token, enum mode mode)
{
	return (struct dlk_lease){ .key = "k",
				   .key_len = 1,
				   .token = token,
				   .token_len = strlen(token),
				   .ttl_ms = TTL,
				   .shared = mode == SH };
}

static int ask(const char *token, enum mode mode, const char *superseded,
	       bool proof)
{
	struct dlk_lease lease = lease_of(token, mode), old;

	if (superseded)
		old = lease_of(superseded, mode == SH ? EX : SH);
	dlk_conn_reset(c);
	return dlk_lease_acquire(c, in_ms(5000), &lease, proof,
				 superseded ? &old : NULL, NULL, &answer);
}

static int convert(const char *token, enum mode mode, const char *superseded)
{
	return ask(token, mode, superseded, false);
}

static int acquire(const char *token, enum mode mode)
{
	return ask(token, mode, NULL, false);
}

static int acquire_by_proof(const char *token, enum mode mode)
{
	return ask(token, mode, NULL, true);
}

static int release(const char *token)
{
	struct dlk_lease lease = lease_of(token, SH);

	return release_lease(&lease, true);
}

static int renew(const char *token)
{
	struct dlk_lease lease = lease_of(token, SH);
	struct dlk_renewal u = { .lease = &lease };

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_renew(c, &lease, true), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	return dlk_lease_renewed(c, in_ms(5000), &u);
}

static int reclaim(const char *token, enum mode mode)
{
	struct dlk_lease lease = lease_of(token, mode);

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_reclaim(c, &lease, 0), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	return dlk_lease_reclaimed(c, in_ms(5000), NULL);
}

static const redisReply *weakening(const char *token)
{
	struct dlk_lease lease = lease_of(token, SH);
	const redisReply *r;

	dlk_conn_reset(c);
	assert_int_equal(dlk_lease_weaken(c, &lease), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	return r;
}

static int weaken(const char *token)
{
	const redisReply *r = weakening(token);

	assert_int_equal(dlk_lease_released(r, &(uint64_t){ 0 }), 0);
	return r->integer == 1 ? 0 : DLK_GONE;
}

/* How long a shared lease still has, ms; -1 for none. */
static long long left_of(const char *token)
{
	long long now = server_ms();
	const redisReply *r = tell(redis.c, "HGET", "k", token, NULL);

	return r->type == REDIS_REPLY_STRING ? strtoll(r->str, NULL, 10) - now
					     : -1;
}

static void put_shared(const char *token, long long left_ms)
{
	char expiry[32];

	snprintf(expiry, sizeof(expiry), "%lld", server_ms() + left_ms);
	tell_ok(tell(redis.c, "HSET", "k", "dlock", "1", token, expiry, NULL));
	tell_ok(tell(redis.c, "PEXPIRE", "k", "9000", NULL));
}

static void put_exclusive(const char *token)
{
	tell_ok(tell(redis.c, "SET", "k", token, "PX", "9000", NULL));
}

static bool full(long long ttl)
{
	return ttl > TTL - 5000 && ttl <= TTL;
}

/* --- acquire -------------------------------------------------------------- */

static void shared_leases_share(void **state)
{
	(void)state;
	assert_int_equal(acquire(ours, SH), 0);
	assert_int_equal(acquire(other, SH), 0);
	assert_true(full(left_of(ours)));
	assert_true(full(left_of(other)));
	assert_true(full(ttl_at(redis.c, "k")));
}

static void a_shared_lease_keeps_an_exclusive_out(void **state)
{
	(void)state;
	put_shared(other, 8000);
	assert_int_equal(acquire(ours, EX), DLK_BUSY);
	assert_string_equal(answer.holder, other);
	assert_true(answer.left_ms > 4000 && answer.left_ms <= 9000);
	assert_true(left_of(other) > 0);
}

static void an_exclusive_lease_keeps_a_shared_out(void **state)
{
	(void)state;
	put_exclusive(other);
	assert_int_equal(acquire(ours, SH), DLK_BUSY);
	assert_string_equal(answer.holder, other);
	assert_string_equal(value_at(redis.c, "k"), other);
}

static void a_shared_lease_is_held_again(void **state)
{
	(void)state;
	put_shared(ours, 2000);
	assert_int_equal(acquire(ours, SH), 0);
	assert_true(full(left_of(ours)));
	assert_true(full(ttl_at(redis.c, "k")));
}

static void a_shared_lease_does_not_lengthen_another(void **state)
{
	(void)state;
	put_shared(other, 2000);
	assert_int_equal(acquire(ours, SH), 0);
	assert_true(left_of(other) <= 2000);
}

/* A shorter ttl than that of a sharer must not forget the sharer. */
static void a_shared_lease_does_not_shorten_another(void **state)
{
	(void)state;
	put_shared(other, 900000);
	tell_ok(tell(redis.c, "PEXPIRE", "k", "900000", NULL));
	assert_int_equal(acquire(ours, SH), 0);
	assert_true(ttl_at(redis.c, "k") > 800000);
	assert_int_equal(renew(ours), 0);
	assert_true(ttl_at(redis.c, "k") > 800000);
}

static void an_expired_sharer_is_no_holder(void **state)
{
	(void)state;
	put_shared(other, -1);
	assert_int_equal(acquire(ours, EX), 0);
	assert_string_equal(value_at(redis.c, "k"), ours);
}

static void a_hash_of_another_program_is_odd(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "HSET", "k", other, "1", NULL));
	assert_int_equal(acquire(ours, SH), DLK_WRONG_TYPE);
	assert_string_equal(answer.holder, "hash");
	assert_int_equal(acquire_by_proof(ours, EX), DLK_WRONG_TYPE);
	assert_int_equal(release(ours), 0);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 1);
	assert_int_equal(ttl_at(redis.c, "k"), -1);
}

/* --- conversion ----------------------------------------------------------- */

static void shared_becomes_exclusive(void **state)
{
	(void)state;
	put_shared(other, 8000);
	assert_int_equal(convert(ours, EX, other), 0);
	assert_string_equal(value_at(redis.c, "k"), ours);
	assert_true(full(ttl_at(redis.c, "k")));
}

static void exclusive_becomes_shared(void **state)
{
	(void)state;
	put_exclusive(other);
	assert_int_equal(convert(ours, SH, other), 0);
	assert_true(full(left_of(ours)));
	assert_true(left_of(other) == -1);
}

/* It may be another thread's; who converts his own gives it up by himself. */
static void a_refused_conversion_leaves_the_old_lease(void **state)
{
	(void)state;
	put_shared(third, 8000);
	put_shared(other, 8000);
	assert_int_equal(convert(ours, EX, other), DLK_BUSY);
	assert_string_equal(answer.holder, third);
	assert_true(left_of(other) > 7000);
	assert_true(left_of(third) > 0);
}

/* All that is older of its host and file is dead, but not what it is to replace. */
static void a_refused_proof_leaves_the_old_lease(void **state)
{
	char old[DLK_TOKEN_MAX], dead[DLK_TOKEN_MAX];

	(void)state;
	put_shared(third, 8000);
	put_shared(token_of(old, 'e', HOST, FILE_, 1998), 8000);
	put_shared(token_of(dead, 'd', HOST, FILE_, 1999), 8000);
	assert_int_equal(ask(ours, EX, old, true), DLK_BUSY);
	assert_string_equal(answer.holder, third);
	assert_true(left_of(old) > 7000);
	assert_true(left_of(dead) == -1);
}

/* --- another's key in place of the queue ---------------------------------- */

static void put_foreign_queue(void)
{
	tell_ok(tell(redis.c, "SET", "{k}%q", "somebody's", NULL));
}

/* A refusal would leave a reader that nobody knows of. */
static void a_reader_is_granted_whatever_is_at_the_queue(void **state)
{
	(void)state;
	put_shared(third, 8000);
	put_foreign_queue();
	assert_int_equal(acquire(ours, SH), 0);
	assert_true(left_of(ours) > 0);
	assert_int_equal(release(ours), 0);
	assert_int_equal(left_of(ours), -1);
	assert_string_equal(value_at(redis.c, "{k}%q"), "somebody's");
}

static void what_no_reader_has_is_refused_for_it(void **state)
{
	(void)state;
	put_foreign_queue();
	assert_int_equal(acquire(ours, SH), -EREMOTEIO);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void a_conversion_that_it_refuses_leaves_the_old_lease(void **state)
{
	(void)state;
	put_shared(other, 8000);
	put_foreign_queue();
	assert_int_equal(convert(ours, EX, other), -EREMOTEIO);
	assert_non_null(strstr(c->error, "{k}%q"));
	assert_true(left_of(other) > 7000);
}

/* --- proof of death ------------------------------------------------------- */

static void an_exclusive_proof_removes_the_dead(void **state)
{
	char dead[DLK_TOKEN_MAX];

	(void)state;
	put_shared(token_of(dead, 'd', HOST, FILE_, 1999), 8000);
	assert_int_equal(acquire(ours, EX), DLK_BUSY);
	assert_int_equal(acquire_by_proof(ours, EX), 0);
	assert_true(answer.replaced);
	assert_string_equal(value_at(redis.c, "k"), ours);
}

static void an_exclusive_proof_leaves_the_living(void **state)
{
	char alive[DLK_TOKEN_MAX];

	(void)state;
	put_shared(token_of(alive, 'd', HOST, FILE_, 2001), 8000);
	assert_int_equal(acquire_by_proof(ours, EX), DLK_BUSY);
	assert_true(left_of(alive) > 0);
	release(alive);
	put_shared(other, 8000);
	assert_int_equal(acquire_by_proof(ours, EX), DLK_BUSY);
	assert_true(left_of(other) > 0);
}

/* Its owner may have downgraded, and be alive. */
static void a_shared_proof_demotes_an_exclusive(void **state)
{
	char old[DLK_TOKEN_MAX];

	(void)state;
	put_exclusive(token_of(old, 'd', HOST, FILE_, 1999));
	assert_int_equal(acquire(ours, SH), DLK_BUSY);
	assert_int_equal(acquire_by_proof(ours, SH), 0);
	assert_true(full(left_of(ours)));
	assert_true(left_of(old) > 4000 && left_of(old) <= 9000);
}

static void a_shared_proof_removes_no_sharer(void **state)
{
	char old[DLK_TOKEN_MAX];

	(void)state;
	put_shared(token_of(old, 'd', HOST, FILE_, 1999), 8000);
	assert_int_equal(acquire_by_proof(ours, SH), 0);
	assert_true(left_of(old) > 0);
}

/* --- release -------------------------------------------------------------- */

static void release_leaves_the_other_sharers(void **state)
{
	(void)state;
	put_shared(ours, 8000);
	put_shared(other, 8000);
	assert_int_equal(release(ours), 0);
	assert_true(left_of(ours) == -1);
	assert_true(left_of(other) > 0);
}

static void the_last_release_removes_the_key(void **state)
{
	(void)state;
	put_shared(ours, 8000);
	assert_int_equal(release(ours), 0);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
}

static void release_never_removes_the_mark(void **state)
{
	(void)state;
	put_shared(other, 8000);
	assert_int_equal(release("dlock"), 0);
	assert_string_equal(tell(redis.c, "HGET", "k", "dlock", NULL)->str,
			    "1");
}

/* --- renew ---------------------------------------------------------------- */

static void renew_carries_one_on(void **state)
{
	(void)state;
	put_shared(ours, 2000);
	put_shared(other, 2000);
	assert_int_equal(renew(ours), 0);
	assert_true(full(left_of(ours)));
	assert_true(left_of(other) <= 2000);
	assert_true(full(ttl_at(redis.c, "k")));
}

static void renew_never_joins(void **state)
{
	(void)state;
	put_shared(other, 8000);
	assert_int_equal(renew(ours), DLK_GONE);
	assert_true(left_of(ours) == -1);
}

static void renew_does_not_wake_the_expired(void **state)
{
	(void)state;
	put_shared(other, 8000);
	put_shared(ours, -1);
	assert_int_equal(renew(ours), DLK_GONE);
	assert_true(left_of(ours) == -1);
}

static void renew_against_an_exclusive_is_lost(void **state)
{
	(void)state;
	put_exclusive(other);
	assert_int_equal(renew(ours), DLK_LOST);
	assert_string_equal(value_at(redis.c, "k"), other);
}

/* Another reader of this file, older or newer, has replaced nobody. */
static void renew_takes_no_other_sharer_for_a_successor(void **state)
{
	char heir[DLK_TOKEN_MAX];

	(void)state;
	put_shared(token_of(heir, 'h', HOST, FILE_, 1999), 8000);
	assert_int_equal(renew(ours), DLK_GONE);
	put_shared(token_of(heir, 'h', HOST, FILE_, 2001), 8000);
	assert_int_equal(renew(ours), DLK_GONE);
}

/* --- reclaim -------------------------------------------------------------- */

static void a_young_server_takes_all_sharers_back(void **state)
{
	(void)state;
	assert_int_equal(reclaim(ours, SH), 0);
	assert_int_equal(reclaim(other, SH), 0);
	assert_true(full(left_of(ours)));
	assert_true(full(left_of(other)));
}

static void reclaim_mixes_no_modes(void **state)
{
	(void)state;
	put_shared(other, 8000);
	assert_int_equal(reclaim(ours, EX), DLK_LOST);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	put_exclusive(other);
	assert_int_equal(reclaim(ours, SH), DLK_LOST);
	assert_string_equal(value_at(redis.c, "k"), other);
}

static void reclaim_writes_to_no_foreign_hash(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "HSET", "k", "x", "1", NULL));
	assert_int_equal(reclaim(ours, SH), DLK_LOST);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 1);
}

/* --- weaken --------------------------------------------------------------- */

static void an_exclusive_lease_becomes_shared(void **state)
{
	(void)state;
	put_exclusive(ours);
	assert_int_equal(weaken(ours), 0);
	assert_true(full(left_of(ours)));
	assert_int_equal(renew(ours), 0);
	/* And once more, after another has come. */
	put_shared(other, 8000);
	assert_int_equal(weaken(ours), 0);
	assert_true(left_of(other) > 0);
	assert_true(left_of(ours) > 0);
}

/* The server's user lacks a word: somebody may mend it before the deadline. */
static void what_cannot_be_weakened_stays(void **state)
{
	(void)state;
	put_exclusive(ours);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "-hset", NULL));
	assert_int_equal(weakening(ours)->type, REDIS_REPLY_ERROR);
	tell_ok(tell(redis.c, "ACL", "SETUSER", "default", "+hset", NULL));
	assert_string_equal(value_at(redis.c, "k"), ours);
	assert_int_equal(weaken(ours), 0);
	assert_true(full(left_of(ours)));
}

static void weaken_creates_nothing(void **state)
{
	(void)state;
	assert_int_equal(weaken(ours), DLK_GONE);
	assert_int_equal(tell(redis.c, "EXISTS", "k", NULL)->integer, 0);
	put_exclusive(other);
	assert_int_equal(weaken(ours), DLK_GONE);
	assert_string_equal(value_at(redis.c, "k"), other);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	put_shared(other, 8000);
	assert_int_equal(weaken(ours), DLK_GONE);
	assert_int_equal(tell(redis.c, "HLEN", "k", NULL)->integer, 2);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	tell_ok(tell(redis.c, "RPUSH", "k", "x", NULL));
	assert_int_equal(weaken(ours), DLK_GONE);
}

#define shared_test(f)                                                         \
	cmocka_unit_test_setup_teardown(f, connect_at_once, disconnect)
#define young_test(f)                                                          \
	cmocka_unit_test_setup_teardown(f, connect_young, disconnect)

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(shared_leases_share),
		shared_test(a_shared_lease_keeps_an_exclusive_out),
		shared_test(an_exclusive_lease_keeps_a_shared_out),
		shared_test(a_shared_lease_is_held_again),
		shared_test(a_shared_lease_does_not_lengthen_another),
		shared_test(a_shared_lease_does_not_shorten_another),
		shared_test(an_expired_sharer_is_no_holder),
		shared_test(a_hash_of_another_program_is_odd),
		shared_test(shared_becomes_exclusive),
		shared_test(exclusive_becomes_shared),
		shared_test(a_refused_conversion_leaves_the_old_lease),
		shared_test(a_refused_proof_leaves_the_old_lease),
		shared_test(a_reader_is_granted_whatever_is_at_the_queue),
		shared_test(what_no_reader_has_is_refused_for_it),
		shared_test(a_conversion_that_it_refuses_leaves_the_old_lease),
		shared_test(an_exclusive_proof_removes_the_dead),
		shared_test(an_exclusive_proof_leaves_the_living),
		shared_test(a_shared_proof_demotes_an_exclusive),
		shared_test(a_shared_proof_removes_no_sharer),
		shared_test(release_leaves_the_other_sharers),
		shared_test(the_last_release_removes_the_key),
		shared_test(release_never_removes_the_mark),
		shared_test(renew_carries_one_on),
		shared_test(renew_never_joins),
		shared_test(renew_does_not_wake_the_expired),
		shared_test(renew_against_an_exclusive_is_lost),
		shared_test(renew_takes_no_other_sharer_for_a_successor),
		young_test(a_young_server_takes_all_sharers_back),
		young_test(reclaim_mixes_no_modes),
		shared_test(an_exclusive_lease_becomes_shared),
		shared_test(what_cannot_be_weakened_stays),
		shared_test(weaken_creates_nothing),
		young_test(reclaim_writes_to_no_foreign_hash),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
