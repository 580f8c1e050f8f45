/* SPDX-License-Identifier: MIT */
/*
 * A master of three whose answers come late: they are read by who has its
 * connection next, as many as are owed and no more, or its connection is closed.
 * So it votes again as soon as it answers, which shows when another one stands.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <poll.h>
#include <sched.h>
#include <cmocka.h>

#include "lease/store.h"
#include "scripts.h"
#include "redis/pool.h"
#include "tests/unit/fake.h"

enum { TTL = 30000, MANY = 20 };

static struct own_redis masters[3];
static struct dlk_endpoint eps[3];
static struct dlk_redis section;
static struct dlk_store *s;
static struct dlk_lease leases[MANY];
static struct dlk_renewal r[MANY];
static char token[DLK_TOKEN_MAX], keys[MANY][8];

/* --- the last one is heard through this --------------------------------------- */

static struct fake relay;
static const char *_Atomic held_at; /* from these words on, nothing is heard */
static atomic_bool holds;
static atomic_uint heard;

static bool pass(int from, int to, const char *words)
{
	char buf[65536];
	const ssize_t n = recv(from, buf, sizeof(buf), 0);

	if (n > 0 && words && memmem(buf, (size_t)n, words, strlen(words)))
		atomic_store(&holds, true);
	return n > 0 && say(to, buf, (size_t)n);
}

static void serve(int fd, void *arg)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int up = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool open = up >= 0;

	memcpy(un.sun_path, arg, sizeof(un.sun_path));
	open = open && connect(up, (struct sockaddr *)&un, sizeof(un)) == 0;
	while (open) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = up, .events = POLLIN } };

		poll(p, atomic_load(&holds) ? 1 : 2, 1);
		if (p[0].revents)
			open = pass(fd, up, atomic_load(&held_at));
		if (!open || atomic_load(&holds) || !p[1].revents)
			continue;
		open = pass(up, fd, NULL);
		atomic_fetch_add(&heard, 1);
	}
	close(up);
}

/* --- the stage ------------------------------------------------------------ */

static void restarted(const struct dlk_store *store)
{
	(void)store;
}

static int start(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		own_redis_start(&masters[i]);
		eps[i] = masters[i].ep;
	}
	fake_start(&relay, serve, masters[2].ep.path);
	eps[2] = relay.ep;
	section = (struct dlk_redis){ .name = "test",
				      .mode = DLK_QUORUM,
				      .endpoints = eps,
				      .n_endpoints = 3 };
	if (dlk_stores_begin(&section, 1, restarted))
		return -1;
	s = dlk_store_of(&section);
	token_of(token, 'a', "here", "fd00:1f:1.00", 1000);
	for (int i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		leases[i] = (struct dlk_lease){ .key = keys[i],
						.key_len = strlen(keys[i]),
						.token = token,
						.token_len = strlen(token),
						.ttl_ms = TTL };
	}
	return 0;
}

static int stop(void **state)
{
	(void)state;
	dlk_stores_forget();
	fake_stop(&relay);
	for (int i = 0; i < 3; i++)
		own_redis_stop(&masters[i]);
	return 0;
}

/* All have all leases, and know how to renew them. */
static int stage(void **state)
{
	(void)state;
	atomic_store(&held_at, NULL);
	atomic_store(&holds, false);
	for (int i = 0; i < 3; i++) {
		tell(masters[i].c, "EVAL", DLK_LUA_renew, "1", "x", "y", "9",
		     NULL);
		for (int k = 0; k < MANY; k++)
			tell_ok(tell(masters[i].c, "SET", keys[k], token,
				     NULL));
	}
	return 0;
}

static int renew(unsigned n, unsigned timeout_ms)
{
	struct dlk_attempt at = { .timeout_ns = timeout_ms * DLK_MS };
	int err = 0;

	for (unsigned i = 0; i < n; i++)
		r[i] = (struct dlk_renewal){ .lease = &leases[i],
					     .deadline_ns = in_ms(TTL) };
	s->ops->renew(s, &at, r, n);
	for (unsigned i = 0; i < n; i++)
		err = err ?: r[i].result;
	return err;
}

static int renew_without_the_second(void)
{
	int err;

	kill(masters[1].pid, SIGSTOP);
	err = renew(1, 5000);
	kill(masters[1].pid, SIGCONT);
	return err;
}

/* --- tests ---------------------------------------------------------------- */

static void it_votes_again_after_many_renewals(void **state)
{
	(void)state;
	assert_int_equal(renew(MANY, 5000), 0);
	atomic_store(&holds, true);
	assert_int_equal(renew(MANY, 5000), 0);
	atomic_store(&holds, false);
	assert_int_equal(renew_without_the_second(), 0);
}

/* Who is heard in time tells that it lacks one, and that is put back alone. */
static void it_votes_again_after_one_was_put_back(void **state)
{
	unsigned before;

	(void)state;
	tell_ok(tell(masters[2].c, "DEL", keys[1], NULL));
	atomic_store(&held_at, "[RECLAIM]");
	while (!atomic_load(&holds))
		assert_int_equal(renew(3, 2000), 0);
	before = atomic_load(&heard);
	atomic_store(&holds, false);
	while (atomic_load(&heard) == before)
		sched_yield();
	assert_int_equal(renew_without_the_second(), 0);
}

/* The majority has it again, though it had lapsed (on_lost = "pause"). */
static void it_is_put_back_however_late(void **state)
{
	struct dlk_attempt at = { .timeout_ns = 5000 * DLK_MS };

	(void)state;
	tell_ok(tell(masters[1].c, "DEL", keys[0], NULL));
	r[0] = (struct dlk_renewal){ .lease = &leases[0],
				     .deadline_ns = dlk_now_ns() - 1 };
	s->ops->renew(s, &at, r, 1);
	assert_int_equal(r[0].result, 0);
	assert_true(r[0].reclaimed);
	assert_int_equal(tell(masters[1].c, "EXISTS", keys[0], NULL)->integer,
			 1);
}

static int ask(const struct dlk_lease *lease)
{
	struct dlk_attempt at = { .timeout_ns = 5000 * DLK_MS };
	const struct dlk_ask plain = { .proof = false };
	static struct dlk_answer answer;

	return s->ops->acquire(s, &at, lease, &plain, &answer);
}

/*
 * The second one takes its time over a question, and is told by the same connection
 * that the lease is given back, though another one is there.
 */
static void a_release_goes_behind_its_question(void **state)
{
	const struct dlk_sending how = { .timeout_ns = 5000 * DLK_MS };
	char other[DLK_TOKEN_MAX];
	struct dlk_lease refused = leases[0], granted = leases[0];
	struct dlk_conn *beside;

	(void)state;
	refused.token = granted.token =
		token_of(other, 'b', "there", "fd00:1f:1.00", 1000);
	refused.token_len = granted.token_len = strlen(other);
	granted.key = "free";
	granted.key_len = 4;
	tell_ok(tell(masters[1].c, "DEL", keys[0], NULL));
	beside = dlk_pool_get(&eps[1], DLK_ANY);
	assert_int_equal(dlk_conn_open(beside, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_drain(beside, in_ms(5000)), 0);
	assert_int_equal(ask(&granted), 0);
	kill(masters[1].pid, SIGSTOP);
	assert_int_equal(ask(&refused), DLK_BUSY);
	dlk_pool_put(beside);
	assert_int_equal(s->ops->send_release(s, &how, &refused), 0);
	assert_int_equal(beside->deferred_n, 0);
	kill(masters[1].pid, SIGCONT);
	while (s->ops->drain(s, in_ms(5000), NULL))
		;
	assert_int_equal(tell(masters[1].c, "EXISTS", keys[0], NULL)->integer,
			 0);
}

#define quorum_test(f) cmocka_unit_test_setup(f, stage)

int main(void)
{
	const struct CMUnitTest tests[] = {
		quorum_test(it_votes_again_after_many_renewals),
		quorum_test(it_votes_again_after_one_was_put_back),
		quorum_test(it_is_put_back_however_late),
		quorum_test(a_release_goes_behind_its_question),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
