/* SPDX-License-Identifier: MIT */
/*
 * Stores of leases (lease/store.h): one and the same list of cases, of a single
 * Redis server and of the one in memory.  What lock/ and hold/ count on, and
 * nothing of how it is done.
 */
// link: tests/unit/store_memory.c
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/stores.h"

/* --- of a whole file -------------------------------------------------------- */

static void who_is_refused_learns_by_whom(void **state)
{
	const uint64_t before = dlk_now_ns();

	(void)state;
	assert_int_equal(try(0), 0);
	assert_false(answer.replaced);
	assert_in_range(answer.asked_ns, before, dlk_now_ns());
	assert_int_equal(try(2), DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
	assert_int_equal(answer.holder_len, strlen(party[0].token));
	assert_in_range(answer.left_ms, TTL - 5000, TTL);
	assert_int_equal(s->ops->find_holder(s, &at, &party[2].lease, &answer),
			 DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
	assert_false(at.unsure);
}

static void nobody_holds_what_nobody_holds(void **state)
{
	(void)state;
	assert_int_equal(s->ops->find_holder(s, &at, &party[2].lease, &answer),
			 DLK_BUSY);
	assert_string_equal(answer.holder, "");
}

static void the_same_token_is_granted_again(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(try(0), 0);
	release(0);
	assert_int_equal(try(2), 0);
}

static void what_is_released_is_free(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	release(0);
	assert_int_equal(try(2), 0);
	release(0); /* is none's any more, and takes nothing away */
	assert_int_equal(try(0), DLK_BUSY);
	assert_int_equal(n_done, 2);
}

static void what_was_sent_is_answered_once(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(s->ops->send_release(s, &sending, &party[0].lease), 0);
	assert_int_equal(s->ops->ping(s, &at), 0);
	assert_int_equal(n_done, 1);
	assert_int_equal(last_err, 0);
	assert_false(s->ops->drain(s, in_ms(SOON_MS), NULL));
}

static void a_drop_frees_and_serves_nobody(void **state)
{
	struct dlk_sending drop = sending;

	(void)state;
	drop.drop = true;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(s->ops->send_release(s, &drop, &party[0].lease), 0);
	settle_all(1);
	assert_true(is_silent(2));
	assert_int_equal(heartbeat(2), 0);
}

static void proof_frees_what_is_older_and_of_this_place(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(try(1), DLK_BUSY);
	assert_int_equal(ask_with(2, true, NULL, false), DLK_BUSY);
	assert_int_equal(ask_with(1, true, NULL, false), 0);
	assert_true(answer.replaced);
	assert_int_equal(ask_with(0, true, NULL, false), DLK_BUSY);
	assert_string_equal(answer.holder, party[1].token);
	assert_int_equal(renew(0), DLK_REPLACED);
}

static void readers_share_and_a_writer_does_not(void **state)
{
	(void)state;
	party[0].lease.shared = party[2].lease.shared = true;
	assert_int_equal(try(0), 0);
	assert_int_equal(try(2), 0);
	assert_int_equal(try(3), DLK_BUSY);
	release(0);
	assert_int_equal(try(3), DLK_BUSY);
	assert_string_equal(answer.holder, party[2].token);
	release(2);
	assert_int_equal(try(3), 0);
}

static void a_conversion_gives_the_old_one_up(void **state)
{
	struct dlk_lease old;

	(void)state;
	party[0].lease.shared = true;
	assert_int_equal(try(0), 0);
	old = party[0].lease;
	assert_int_equal(ask_with(1, false, &old, false), 0);
	assert_int_equal(renew(1), 0);
	assert_int_equal(try(2), DLK_BUSY);
	assert_string_equal(answer.holder, party[1].token);
}

static void what_is_weaker_is_shared(void **state)
{
	(void)state;
	party[2].lease.shared = true;
	assert_int_equal(try(0), 0);
	assert_int_equal(try(2), DLK_BUSY);
	party[0].lease.shared = true;
	assert_int_equal(s->ops->send_downgrade(s, &sending, &party[0].lease),
			 0);
	assert_int_equal(s->ops->send_downgrade(s, &sending, &party[0].lease),
			 0);
	assert_int_equal(try(2), 0);
	assert_int_equal(s->ops->send_downgrade(s, &sending, &party[3].lease),
			 0);
	settle_all(3);
	assert_int_equal(last_err, 0);
	assert_int_equal(renew(0), 0);
}

static void a_lease_ends_with_its_ttl(void **state)
{
	const uint64_t until = in_ms(SOON_MS);

	(void)state;
	party[0].lease.ttl_ms = SHORT;
	assert_int_equal(try(0), 0);
	while (try(2) == DLK_BUSY)
		assert_true(dlk_now_ns() < until);
	assert_int_equal(renew(0), DLK_LOST);
	release(2);
	assert_int_equal(renew(0), DLK_GONE);
}

/* Whoever waits is served; what is another's, or nobody's, counts as done. */
static void a_batch_is_released_at_once(void **state)
{
	struct dlk_renewal r[2] = { { .lease = &party[0].lease },
				    { .lease = &party[3].lease } };

	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	s->ops->release(s, &at, r, 2);
	assert_int_equal(r[0].result, 0);
	assert_int_equal(r[1].result, 0);
	assert_int_equal(hear(2), 'g');
	assert_int_equal(try(3), DLK_BUSY);
	assert_int_equal(n_done, 0);
}

static void a_batch_is_renewed_one_by_one(void **state)
{
	struct dlk_renewal r[3];
	const uint64_t before = dlk_now_ns();

	(void)state;
	party[2].lease.key = "l";
	assert_int_equal(try(0), 0);
	assert_int_equal(try(2), 0);
	for (int i = 0; i < 3; i++)
		r[i] = (struct dlk_renewal){ .lease = &party[i].lease,
					     .deadline_ns = in_ms(TTL) };
	party[1].lease.key = "m";
	s->ops->renew(s, &at, r, 3);
	assert_int_equal(r[0].result, 0);
	assert_int_equal(r[1].result, DLK_GONE);
	assert_int_equal(r[2].result, 0);
	assert_in_range(r[0].asked_ns, before, dlk_now_ns());
}

/* --- the queue ---------------------------------------------------------------- */

static void who_waits_is_told_and_has_it(void **state)
{
	uint64_t asked_ns;

	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_true(party[2].w.queued);
	assert_int_equal(party[2].w.ahead, 0);
	assert_true(is_silent(2));
	release(0);
	assert_int_equal(hear(2), 'g');
	assert_int_equal(try(3), DLK_BUSY);
	assert_string_equal(answer.holder, party[2].claim);
	assert_in_range(answer.left_ms, 0, LIFE);
	assert_int_equal(s->ops->confirm(s, &at, &party[2].lease, &asked_ns),
			 0);
	assert_int_equal(try(3), DLK_BUSY);
	assert_string_equal(answer.holder, party[2].token);
	assert_in_range(answer.left_ms, LIFE, TTL);
	assert_true(is_silent(2));
}

static void it_is_served_in_order(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	for (int i = 1; i < N; i++) {
		assert_int_equal(ask_and_wait(i), DLK_BUSY);
		assert_int_equal(party[i].w.ahead, i - 1);
	}
	for (int i = 1; i < N; i++) {
		release(i - 1);
		assert_int_equal(hear(i), 'g');
		if (i + 1 < N)
			assert_true(is_silent(i + 1));
	}
}

/* What was said before the last request is of a claim that may have ended. */
static void a_word_of_an_older_request_is_none(void **state)
{
	const uint64_t before = party[2].w.request;

	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(heartbeat(2), DLK_BUSY);
	assert_true(party[2].w.request >= before + 2);
	release(0);
	party[2].w.request++;
	assert_true(is_silent(2));
	assert_int_equal(heartbeat(2), 0);
	assert_false(party[2].w.queued);
}

static void who_leaves_is_not_served(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(ask_and_wait(3), DLK_BUSY);
	assert_int_equal(s->ops->send_cancel(s, &sending, &party[2].lease,
					     &party[2].w),
			 0);
	assert_false(party[2].w.queued);
	settle_all(1);
	release(0);
	assert_int_equal(hear(3), 'g');
	assert_true(is_silent(2));
}

static void nor_who_rests_until_it_stays(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(ask_and_wait(3), DLK_BUSY);
	assert_int_equal(s->ops->suspend(s, &at, &party[2].lease, &party[2].w),
			 0);
	release(0);
	assert_int_equal(hear(3), 'g');
	assert_int_equal(heartbeat(2), DLK_BUSY);
	assert_int_equal(party[2].w.ahead, 0);
	release(3);
	assert_int_equal(hear(2), 'g');
}

static void who_passes_is_behind_nobody_but_the_next(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(ask_and_wait(3), DLK_BUSY);
	release(0);
	assert_int_equal(hear(2), 'g');
	assert_int_equal(s->ops->yield(s, &at, &party[2].lease, &party[2].w,
				       &answer),
			 DLK_BUSY);
	assert_int_equal(hear(3), 'g');
	assert_int_equal(ask_and_wait(1), DLK_BUSY);
	assert_int_equal(heartbeat(2), DLK_BUSY);
	release(3);
	assert_int_equal(hear(2), 'g');
	assert_true(is_silent(1));
}

static void who_gives_its_claim_back_serves_the_next(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(ask_and_wait(2), DLK_BUSY);
	assert_int_equal(ask_and_wait(3), DLK_BUSY);
	release(0);
	assert_int_equal(hear(2), 'g');
	assert_int_equal(s->ops->send_cancel(s, &sending, &party[2].lease,
					     &party[2].w),
			 0);
	assert_int_equal(hear(3), 'g');
}

static void a_subscription_is_used_again(void **state)
{
	struct dlk_subscription *again;
	char channel[DLK_CHANNEL_LEN + 1];

	(void)state;
	assert_null(s->ops->subscribed(s, &party[2].lease));
	listen_to(2);
	strcpy(channel, party[2].w.channel);
	assert_null(s->ops->subscribed(s, &party[2].lease));
	s->ops->unsubscribe(party[2].sub, false);
	party[2].sub = NULL;
	again = s->ops->subscribed(s, &party[2].lease);
	assert_non_null(again);
	assert_string_equal(s->ops->channel(again), channel);
	s->ops->unsubscribe(again, true);
	assert_null(s->ops->subscribed(s, &party[2].lease));
}

/* --- what only a server can do ---------------------------------------------------- */

/* The connection was there, and breaks: asked again, on a new one. */
static void who_was_cut_off_asks_again(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	assert_int_equal(tell(redis.c, "CLIENT", "KILL", "TYPE", "normal",
			      "SKIPME", "yes", NULL)
				 ->type,
			 REDIS_REPLY_INTEGER);
	assert_int_equal(try(0), 0);
	assert_false(at.unsure);
	assert_int_equal(tell(redis.c, "CLIENT", "KILL", "TYPE", "normal",
			      "SKIPME", "yes", NULL)
				 ->type,
			 REDIS_REPLY_INTEGER);
	/* The first copy may be late. */
	assert_int_equal(try(2), DLK_BUSY);
	assert_true(at.unsure);
}

static void who_gets_no_answer_does_not_know(void **state)
{
	int status;

	(void)state;
	assert_int_equal(try(0), 0);
	at.timeout_ns = 50 * DLK_MS;
	assert_int_equal(kill(redis.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(redis.pid, &status, WUNTRACED), redis.pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(try(2), -ETIMEDOUT);
	assert_int_equal(kill(redis.pid, SIGCONT), 0);
	assert_true(at.unsure);
	assert_string_not_equal(at.why, "");
	at.timeout_ns = SOON_MS * DLK_MS;
	assert_int_equal(s->ops->ping(s, &at), 0);
}

/* Of a ttl there is time for one more attempt, or two. */
static void who_was_silent_is_waited_for_longer_at_once(void **state)
{
	const uint32_t usual_ms = dlk_store_patience_ms(s);
	const uint64_t slow_ns = (usual_ms + 1) * DLK_MS;

	(void)state;
	assert_true(usual_ms > 0);
	dlk_store_renewed(s, 0, dlk_now_ns() - slow_ns);
	assert_int_equal(dlk_store_patience_ms(s), usual_ms);
	dlk_store_renewed(s, -ETIMEDOUT, dlk_now_ns());
	assert_int_equal(dlk_store_patience_ms(s), 4 * usual_ms);
	dlk_store_renewed(s, -ETIMEDOUT, dlk_now_ns());
	dlk_store_renewed(s, 0, dlk_now_ns() - slow_ns);
	assert_int_equal(dlk_store_patience_ms(s), 4 * usual_ms);
	dlk_store_renewed(s, 0, dlk_now_ns());
	assert_int_equal(dlk_store_patience_ms(s), usual_ms);
}

static void what_cannot_be_sent_is_not(void **state)
{
	struct dlk_sending only = sending;

	(void)state;
	dlk_stores_forget();
	only.connects = false;
	assert_int_equal(s->ops->send_release(s, &only, &party[0].lease),
			 -ENOTCONN);
	assert_int_equal(n_done, 0);
}

/* The connection fails before the answer: that is said, once. */
static void what_was_sent_in_vain_is_told_too(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	tell_ok(tell(redis.c, "CLIENT", "PAUSE", "3000", "ALL", NULL));
	assert_int_equal(s->ops->send_release(s, &sending, &party[0].lease), 0);
	assert_true(s->ops->drain(s, in_ms(30), NULL));
	assert_int_equal(n_done, 1);
	assert_int_equal(last_err, -EPIPE);
}

/* More than one connection has room for. */
static void many_are_sent_and_each_is_answered(void **state)
{
	(void)state;
	assert_int_equal(try(0), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(
			s->ops->send_release(s, &sending, &party[0].lease), 0);
	settle_all(100);
	assert_int_equal(last_err, 0);
}

static bool at_once(void *arg)
{
	(void)arg;
	return true;
}

static void who_is_interrupted_says_so(void **state)
{
	(void)state;
	assert_int_equal(s->ops->ping(s, &at), 0);
	at.interrupt = at_once;
	tell_ok(tell(redis.c, "CLIENT", "PAUSE", "200", "ALL", NULL));
	assert_int_equal(s->ops->ping(s, &at), -EINTR);
	at.interrupt = NULL;
	assert_int_equal(s->ops->ping(s, &at), 0);
}

/* The first sign of a restart is a connection that nobody uses. */
static void a_connection_that_was_closed_is_seen(void **state)
{
	(void)state;
	assert_int_equal(s->ops->ping(s, &at), 0);
	dlk_stores_look();
	assert_int_equal(n_restarted, 0);
	assert_int_equal(tell(redis.c, "CLIENT", "KILL", "TYPE", "normal",
			      "SKIPME", "yes", NULL)
				 ->type,
			 REDIS_REPLY_INTEGER);
	dlk_stores_look();
	assert_int_equal(n_restarted, 1);
}

static void a_server_that_forgot_its_scripts_serves_nobody(void **state)
{
	struct dlk_sending drop = sending;

	(void)state;
	assert_int_equal(try(0), 0);
	tell_ok(tell(redis.c, "SCRIPT", "FLUSH", NULL));
	assert_int_equal(s->ops->send_release(s, &sending, &party[0].lease), 0);
	settle_all(1);
	assert_int_equal(last_err, -ENOENT);
	drop.drop = true;
	assert_int_equal(s->ops->send_release(s, &drop, &party[0].lease), 0);
	settle_all(2);
	assert_int_equal(last_err, 0);
	assert_int_equal(try(2), 0);
}

static void a_key_that_is_no_lease_is_odd(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "LPUSH", "k", "x", NULL));
	assert_int_equal(try(0), DLK_WRONG_TYPE);
	assert_string_equal(answer.holder, "list");
}

/* --- what only the one in memory can do --------------------------------------------- */

static void it_fails_as_it_is_told(void **state)
{
	(void)state;
	memory.fault.err = -ETIMEDOUT;
	assert_int_equal(try(0), -ETIMEDOUT);
	assert_false(at.unsure);
	assert_int_equal(try(2), 0);
	release(2);
	memory.fault.err = -ETIMEDOUT;
	memory.fault.unsure = true;
	assert_int_equal(try(0), -ETIMEDOUT);
	assert_true(at.unsure);
	assert_int_equal(try(2), DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
}

static void a_young_one_grants_nothing_and_takes_back(void **state)
{
	struct dlk_renewal r = { .lease = &party[0].lease };

	(void)state;
	assert_int_equal(try(0), 0);
	store_memory_restart(&memory, 500);
	assert_int_equal(try(2), DLK_GRACE);
	assert_int_equal(answer.left_ms, 500);
	s->ops->renew(s, &at, &r, 1);
	assert_int_equal(r.result, 0);
	assert_true(r.reclaimed);
	memory.young_ms = 0;
	assert_int_equal(try(2), DLK_BUSY);
	memory.skew_ns = (TTL + 1) * DLK_MS;
	assert_int_equal(try(2), 0);
}

/* -------------------------------------------------------------------------- */

int main(void)
{
	const struct CMUnitTest tests[] = {
		of_both(who_is_refused_learns_by_whom),
		of_both(nobody_holds_what_nobody_holds),
		of_both(the_same_token_is_granted_again),
		of_both(what_is_released_is_free),
		of_both(what_was_sent_is_answered_once),
		of_both(a_drop_frees_and_serves_nobody),
		of_both(proof_frees_what_is_older_and_of_this_place),
		of_both(readers_share_and_a_writer_does_not),
		of_both(a_conversion_gives_the_old_one_up),
		of_both(what_is_weaker_is_shared),
		of_both(a_lease_ends_with_its_ttl),
		of_both(a_batch_is_renewed_one_by_one),
		of_both(a_batch_is_released_at_once),
		of_both(who_waits_is_told_and_has_it),
		of_both(it_is_served_in_order),
		of_both(a_word_of_an_older_request_is_none),
		of_both(who_leaves_is_not_served),
		of_both(nor_who_rests_until_it_stays),
		of_both(who_passes_is_behind_nobody_but_the_next),
		of_both(who_gives_its_claim_back_serves_the_next),
		of_both(a_subscription_is_used_again),
		of_single(who_was_cut_off_asks_again),
		of_single(who_gets_no_answer_does_not_know),
		of_single(who_was_silent_is_waited_for_longer_at_once),
		of_single(what_cannot_be_sent_is_not),
		of_single(what_was_sent_in_vain_is_told_too),
		of_both(many_are_sent_and_each_is_answered),
		of_single(who_is_interrupted_says_so),
		of_single(a_connection_that_was_closed_is_seen),
		of_single(a_server_that_forgot_its_scripts_serves_nobody),
		of_single(a_key_that_is_no_lease_is_odd),
		of_memory(it_fails_as_it_is_told),
		of_memory(a_young_one_grants_nothing_and_takes_back),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
