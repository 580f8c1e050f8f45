/* SPDX-License-Identifier: MIT */
/*
 * The store that is a Redis Cluster (lease/cluster.h), of one node that is none:
 * what comes of answers that a whole cluster gives at odd moments only.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/cluster.h"
#include "lease/lease.h"
#include "redis/node.h"
#include "tests/unit/fake.h"

// wrap: dlk_node_is_away
// wrap: dlk_single_upkeep

static char ours[DLK_TOKEN_MAX], other[DLK_TOKEN_MAX];

static void restarted(const struct dlk_store *store)
{
	(void)store;
}

static bool say_text(int fd, const char *text)
{
	return say(fd, text, strlen(text));
}

/*
 * It has another's lease, and breaks before it says how old its memory is.  (One
 * connection at a time is served: that for the map is closed.)
 */
static void serve(int fd, void *unused)
{
	char buf[65536], lost[DLK_TOKEN_MAX + 32];
	bool open = true;
	ssize_t n;

	(void)unused;
	snprintf(lost, sizeof(lost), "*2\r\n:0\r\n$%zu\r\n%s\r\n",
		 strlen(other), other);
	while (open && (n = recv(fd, buf, sizeof(buf) - 1, 0)) > 0) {
		buf[n] = '\0';
		open = false;
		if (strstr(buf, "SETNAME"))
			open = say_text(fd, "+OK\r\n$11\r\nrole:master\r\n");
		if (strstr(buf, "SLOTS"))
			say_text(fd, "*1\r\n*3\r\n:0\r\n:16383\r\n"
				     "*2\r\n$4\r\nnode\r\n:1\r\n");
		for (char *at = buf; (at = strstr(at, "EVALSHA")); at++)
			open = say_text(fd, lost);
	}
}

/*
 * A node that was promoted has what its master had a while ago: what it is not
 * known to be old enough for is no loss yet, of one lease and of several.
 */
static void what_is_anothers_is_lost_by_who_says_how_old_it_is(void **state)
{
	const struct dlk_lease lease = { .key = "k",
					 .key_len = 1,
					 .token = ours,
					 .token_len = strlen(ours),
					 .ttl_ms = 30000 };
	struct dlk_attempt at = { .timeout_ns = 5000 * DLK_MS };
	struct dlk_redis section = { .name = "test", .mode = DLK_CLUSTER };
	struct fake fake = { 0 };
	struct dlk_store *s;

	(void)state;
	fake_start(&fake, serve, NULL);
	fake.ep.restart_delay_ms = 60000;
	section.endpoints = &fake.ep;
	section.n_endpoints = 1;
	assert_int_equal(dlk_stores_begin(&section, 1, restarted), 0);
	s = dlk_store_of(&section);
	for (unsigned n = 1; n <= 2; n++) {
		struct dlk_renewal r[2] = {
			{ .lease = &lease, .deadline_ns = in_ms(9000) },
			{ .lease = &lease, .deadline_ns = in_ms(9000) },
		};

		s->ops->renew(s, &at, r, n);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(r[i].result, -ECONNRESET);
	}
	dlk_stores_forget();
	fake_stop(&fake);
}

/* --- a slot moves ----------------------------------------------------------- */

/* It has moved between two looks at the map, by what another thread was told. */
static struct moving {
	struct dlk_cluster cluster;
	struct dlk_redis section;
	struct dlk_endpoint ep;
	struct dlk_lease lease[2];
	unsigned port, asked;
} * moving;

static void move(struct moving *m)
{
	char error[64];

	m->port = 3 - m->port;
	for (int i = 0; i < 2; i++) {
		snprintf(error, sizeof(error), "MOVED %d 127.0.0.1:%u",
			 dlk_slot_of(m->lease[i].key, m->lease[i].key_len),
			 m->port);
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): set */
		m->cluster.single.router->elsewhere(&m->cluster.single.store,
						    &m->ep, error);
	}
}

bool __real_dlk_node_is_away(const struct dlk_endpoint *ep, uint64_t now_ns);
bool __wrap_dlk_node_is_away(const struct dlk_endpoint *ep, uint64_t now_ns);
bool __wrap_dlk_node_is_away(const struct dlk_endpoint *ep, uint64_t now_ns)
{
	if (moving)
		move(moving);
	return __real_dlk_node_is_away(ep, now_ns);
}

void __real_dlk_single_upkeep(struct dlk_store *s, struct dlk_attempt *at,
			      const struct dlk_endpoint *ep, bool releases,
			      struct dlk_renewal *r, unsigned n);
void __wrap_dlk_single_upkeep(struct dlk_store *s, struct dlk_attempt *at,
			      const struct dlk_endpoint *ep, bool releases,
			      struct dlk_renewal *r, unsigned n);
void __wrap_dlk_single_upkeep(struct dlk_store *s, struct dlk_attempt *at,
			      const struct dlk_endpoint *ep, bool releases,
			      struct dlk_renewal *r, unsigned n)
{
	if (!moving) {
		__real_dlk_single_upkeep(s, at, ep, releases, r, n);
		return;
	}
	assert_true(n > 0);
	for (unsigned i = 0; i < n; i++)
		r[i].result = 0;
	moving->asked += n;
}

static void what_moves_meanwhile_is_asked_for(void **state)
{
	static struct moving m = {
		.section = { .name = "moving", .mode = DLK_CLUSTER },
		.ep = { .scheme = DLK_TCP, .host = "127.0.0.1" },
		.lease = { { .key = "a", .key_len = 1 },
			   { .key = "b", .key_len = 1 } },
		.port = 1,
	};
	struct dlk_renewal r[2] = { { .lease = &m.lease[0] },
				    { .lease = &m.lease[1] } };
	struct dlk_attempt at = { .timeout_ns = 5000 * DLK_MS };
	struct dlk_store *s = &m.cluster.single.store;

	(void)state;
	m.section.endpoints = &m.ep;
	m.section.n_endpoints = 1;
	dlk_cluster_init(&m.cluster, &m.section);
	assert_non_null(m.cluster.single.router);
	move(&m);
	moving = &m;
	s->ops->renew(s, &at, r, 2);
	assert_int_equal(m.asked, 2);
	s->ops->release(s, &at, r, 2);
	assert_int_equal(m.asked, 4);
	moving = NULL;
	for (int i = 0; i < 2; i++)
		assert_int_equal(r[i].result, 0);
}

/* Its node says once, of all that is asked of it, that the slot is another's. */
static void serve_moved(int fd, void *arg)
{
	unsigned *asked = arg;
	char buf[65536];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf) - 1, 0)) > 0) {
		buf[n] = '\0';
		if (strstr(buf, "SETNAME"))
			say_text(fd, "+OK\r\n$11\r\nrole:master\r\n");
		if (strstr(buf, "SLOTS")) {
			/* (As above: its own connection is the last one; and what the
			 * map knows of another node is of a server that is gone.) */
			say_text(fd, "*1\r\n*3\r\n:0\r\n:16383\r\n"
				     "*2\r\n$5\r\nmoved\r\n:1\r\n");
			return;
		}
		if (strstr(buf, "XADD"))
			say_text(fd, (*asked)++ ? "$3\r\n1-0\r\n:1\r\n"
						: "-MOVED 7629 moved:1\r\n"
						  "-MOVED 7629 moved:1\r\n");
	}
}

/* As anything else that is asked of it, a loss goes where the slot is by now. */
static void a_loss_is_written_where_its_slot_is(void **state)
{
	const struct dlk_lease lease = { .key = "k",
					 .key_len = 1,
					 .token = ours,
					 .token_len = strlen(ours),
					 .ttl_ms = 30000 };
	struct dlk_attempt at = { .timeout_ns = 5000 * DLK_MS };
	struct dlk_redis section = { .name = "moved", .mode = DLK_CLUSTER };
	struct fake fake = { 0 };
	struct dlk_store *s;
	unsigned asked = 0;

	(void)state;
	fake_start(&fake, serve_moved, &asked);
	section.endpoints = &fake.ep;
	section.n_endpoints = 1;
	assert_int_equal(dlk_stores_begin(&section, 1, restarted), 0);
	s = dlk_store_of(&section);
	assert_int_equal(s->ops->record_loss(s, &at, &lease, 900), 0);
	assert_int_equal(asked, 2);
	dlk_stores_forget();
	fake_stop(&fake);
}

/* --- sent on ---------------------------------------------------------------- */

static struct ways {
	struct dlk_cluster cluster;
	struct dlk_redis section;
	struct dlk_endpoint ep;
	struct dlk_lease lease;
	struct dlk_attempt at;
	struct dlk_way way;
	struct dlk_conn *c;
} ways;

static void begin_ways(int slot)
{
	ways = (struct ways){
		.section = { .name = "ways", .mode = DLK_CLUSTER },
		.ep = { .scheme = DLK_TCP, .host = "127.0.0.1", .port = 9 },
		.lease = { .key = "a", .key_len = 1 },
		.at = { .timeout_ns = 60000 * DLK_MS },
	};
	ways.section.endpoints = &ways.ep;
	ways.section.n_endpoints = 1;
	dlk_cluster_init(&ways.cluster, &ways.section);
	ways.way = (struct dlk_way){ .slot = slot, .ep = &ways.ep };
	ways.c = dlk_conn_new(&ways.ep);
	assert_non_null(ways.c);
}

static bool goes_on(int err, const char *error)
{
	dlk_conn_set_error(ways.c, error);
	return ways.cluster.single.router->next(
		&ways.cluster.single.store, &ways.at, &ways.way, ways.c, err);
}

/* While its slot moves it is asked where it was, and in the end where it is. */
static void what_is_put_off_is_no_further_on_its_way(void **state)
{
	(void)state;
	begin_ways(dlk_slot_of("a", 1));
	for (int i = 0; i < 10; i++)
		assert_true(goes_on(-EREMOTE, "TRYAGAIN Multiple keys"));
	assert_ptr_equal(ways.way.ep, &ways.ep);
	assert_true(goes_on(-EREMOTE, "MOVED 15495 127.0.0.1:2"));
	assert_int_equal(ways.way.ep->port, 2);
	dlk_conn_delete(ways.c);
}

/* The next question begins there. */
static void who_has_a_slot_is_learnt_from_the_last_one_asked(void **state)
{
	char error[64];
	unsigned port = 0;

	(void)state;
	begin_ways(dlk_slot_of("a", 1));
	do
		snprintf(error, sizeof(error), "MOVED %d 127.0.0.1:%u",
			 ways.way.slot, ++port);
	while (goes_on(-EREMOTE, error) && port < 100);
	assert_in_range(port, 2, 99);
	assert_int_equal(
		dlk_cluster_node(&ways.cluster.single.store, &ways.lease)->port,
		port);
	dlk_conn_delete(ways.c);
}

/* What is of several slots, of a node that has failed, is no one other node's. */
static void a_batch_is_not_sent_on(void **state)
{
	struct dlk_store *s = &ways.cluster.single.store;
	const struct dlk_router *router;

	(void)state;
	begin_ways(DLK_NO_SLOT);
	router = ways.cluster.single.router;
	if (!router) {
		fail();
		return;
	}
	router->elsewhere(s, &ways.ep, "MOVED 0 127.0.0.1:1");
	assert_false(goes_on(-ECONNRESET, "the server closed the connection"));
	assert_ptr_equal(ways.way.ep, &ways.ep);
	dlk_conn_delete(ways.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_is_anothers_is_lost_by_who_says_how_old_it_is),
		cmocka_unit_test(what_moves_meanwhile_is_asked_for),
		cmocka_unit_test(a_loss_is_written_where_its_slot_is),
		cmocka_unit_test(what_is_put_off_is_no_further_on_its_way),
		cmocka_unit_test(
			who_has_a_slot_is_learnt_from_the_last_one_asked),
		cmocka_unit_test(a_batch_is_not_sent_on),
	};

	token_of(ours, 'a', "here", "fd00:1f:1.00", 2000);
	token_of(other, 'b', "elsewhere", "fd00:1f:1.00", 1000);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
