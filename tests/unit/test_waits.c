/* SPDX-License-Identifier: MIT */
/*
 * Who waits for what, at Redis: a wait is told of until it ends or is not
 * refreshed; what is no wait of ours, or too large, is none and hides none;
 * and those in the way of a wait are the owners of what is granted at that
 * moment, and nobody else (a false EDEADLK is a defect).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lease/waits.h"
#include "scripts.h"
#include "tests/unit/fake.h"
#include "tests/unit/records.h"

#define P    "00112233445566ff"
#define P2   "00112233445566fe"
#define NAME "dlock%wait:{w}" P
#define OWN  "00112233445566ff8899aabbccddeeff"

/* "STAMP OWNER RANGE KEY", as it should be. */
#define RANGE "W00000000000000000000000000000000000009"
#define STAMP "00000000000000000001 "
#define GOOD  STAMP "- " RANGE " k"
#define ALL   "00000000000000000009223372036854775807"

static struct dlk_wait told, seen;
static dlk_process found[DLK_BLOCKERS_MAX];
static struct holder a, b, d;

static int stage(void **state)
{
	reset(&a, 'a', HOST, 2000);
	reset(&b, 'b', HOST, 3000);
	reset(&d, 'd', "elsewhere", 1000);
	memset(&told, 0, sizeof(told));
	memset(&seen, 0x55, sizeof(seen));
	return connect_at_once(state);
}

static void want(const char *key, enum dlk_range_type type, uint64_t start,
		 uint64_t end)
{
	strcpy(told.process, P);
	strcpy(told.owner, "-");
	told.range = (struct dlk_range){ start, end, type };
	told.key_len = strlen(key);
	strcpy(told.key, key);
}

static uint64_t begin_for_now(void)
{
	dlk_conn_reset(c);
	told.id = 0;
	assert_int_equal(dlk_wait_tell(c, in_ms(5000), &told), 0);
	return told.id;
}

/* It is not to expire before it is looked at, on a busy machine. */
static uint64_t begin(void)
{
	char name[sizeof(NAME)];
	const uint64_t id = begin_for_now();

	snprintf(name, sizeof(name), "dlock%%wait:{w}%s", told.process);
	tell_ok(tell(redis.c, "PEXPIRE", name, "60000", NULL));
	return id;
}

static void end(uint64_t id)
{
	const redisReply *r;

	dlk_conn_reset(c);
	assert_int_equal(dlk_wait_end(c, P, id), 0);
	assert_int_equal(dlk_conn_flush(c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(c, in_ms(5000), &r), 0);
	assert_int_equal(r->type, REDIS_REPLY_INTEGER);
}

/* By another thread, that has looked since *clock. */
static int confirm(uint64_t id, uint64_t *clock)
{
	dlk_conn_reset(c);
	return dlk_wait_confirm(c, in_ms(5000), P, id, NULL, clock);
}

static int nth(unsigned n)
{
	dlk_conn_reset(c);
	return dlk_wait_read(c, in_ms(5000), P, n, &seen);
}

static int lasts(uint64_t id)
{
	for (unsigned n = 0; n < DLK_WAITS_MAX; n++) {
		int there = nth(n);

		if (there != 1 || seen.id == id)
			return there;
	}
	return 0;
}

static long long exists(const char *key)
{
	return tell(redis.c, "EXISTS", key, NULL)->integer;
}

static void plant(const char *field, const char *value)
{
	tell_ok(tell(redis.c, "HSET", NAME, field, value, NULL));
}

/* --- telling -------------------------------------------------------------- */

static void a_wait_reads_as_it_was_told(void **state)
{
	uint64_t id;

	(void)state;
	want("a key\nof {odd} bytes%25%rec", DLK_READ, 7, MAX);
	strcpy(told.owner, OWN);
	id = begin();
	assert_int_equal(nth(0), 1);
	assert_true(seen.id == id);
	assert_string_equal(seen.process, P);
	assert_string_equal(seen.owner, OWN);
	assert_int_equal(seen.range.type, DLK_READ);
	assert_true(seen.range.start == 7 && seen.range.end == MAX);
	assert_int_equal(seen.key_len, told.key_len);
	assert_string_equal(seen.key, told.key);
	assert_int_equal(nth(1), 0);
}

static void who_holds_nothing_there_is_told_so(void **state)
{
	(void)state;
	want("k%rec", DLK_WRITE, MAX, MAX);
	begin();
	assert_int_equal(nth(0), 1);
	assert_string_equal(seen.owner, "-");
	assert_int_equal(seen.range.type, DLK_WRITE);
	assert_true(seen.range.start == MAX && seen.range.end == MAX);
}

static void the_longest_key_fits(void **state)
{
	(void)state;
	want("", DLK_WRITE, 0, MAX);
	strcpy(told.owner, OWN);
	memset(told.key, 'x', DLK_KEY_MAX);
	told.key_len = DLK_KEY_MAX;
	begin();
	assert_int_equal(nth(0), 1);
	assert_int_equal(seen.key_len, DLK_KEY_MAX);
	assert_string_equal(seen.key, told.key);
}

static void a_key_with_a_nul_stays_whole(void **state)
{
	(void)state;
	want("a.b", DLK_WRITE, 0, 0);
	told.key[1] = '\0';
	begin();
	assert_int_equal(nth(0), 1);
	assert_int_equal(seen.key_len, 3);
	assert_memory_equal(seen.key, "a\0b", 4);
}

static void later_waits_have_greater_numbers(void **state)
{
	uint64_t last = 0;

	(void)state;
	want("k%rec", DLK_WRITE, 0, 9);
	for (int i = 0; i < 100; i++) {
		uint64_t id = begin();

		assert_true(id > last);
		last = id;
		strcpy(told.process, i % 2 ? P : P2);
	}
}

/* wait.lua with the clock standing still: a number is given once. */
static void a_number_that_is_taken_is_not_given_again(void **state)
{
	static const char still[] =
		"local real = redis\n"
		"local redis = { call = function(what, ...)\n"
		"	return what == 'TIME' and { '1700000000', '999999' }\n"
		"	       or real.call(what, ...)\n"
		"end }\n";
	static const char *const ids[] = { "00001700000000999999",
					   "00001700000001000000",
					   "00001700000001000001" };
	const char *body = strchr(DLK_LUA_wait, '\n') + 1;
	char script[sizeof(still) + sizeof(DLK_LUA_wait)];

	(void)state;
	snprintf(script, sizeof(script), "#!lua flags=allow-oom\n%s%s", still,
		 strchr(body, '\n') + 1);
	for (int i = 0; i < 3; i++)
		assert_string_equal(tell(redis.c, "EVAL", script, "1", NAME,
					 "1500", "", GOOD, NULL)
					    ->element[0]
					    ->str,
				    ids[i]);
	assert_int_equal(tell(redis.c, "HLEN", NAME, NULL)->integer, 3);
}

static void many_waits_of_a_process_are_told_apart(void **state)
{
	uint64_t ids[DLK_WAITS_MAX];
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < DLK_WAITS_MAX + 4; i++) {
		want("k%rec", DLK_WRITE, i, i);
		begin();
	}
	for (; nth(n) == 1; n++) {
		ids[n] = seen.id;
		for (unsigned i = 0; i < n; i++)
			assert_true(ids[i] != seen.id);
	}
	assert_int_equal(n, DLK_WAITS_MAX);
}

static void an_end_ends_one_wait(void **state)
{
	uint64_t first, second;

	(void)state;
	want("k%rec", DLK_WRITE, 0, 0);
	first = begin();
	want("other%rec", DLK_READ, 1, 1);
	second = begin();
	assert_int_equal(lasts(first), 1);
	end(first);
	assert_int_equal(lasts(first), 0);
	assert_int_equal(lasts(second), 1);
	assert_int_equal(nth(0), 1);
	assert_string_equal(seen.key, "other%rec");
	end(first); /* once more is no harm */
	end(second);
	assert_int_equal(nth(0), 0);
	assert_int_equal(exists(NAME), 0);
}

static void a_wait_expires_unless_it_is_told_again(void **state)
{
	uint64_t id;

	(void)state;
	want("k%rec", DLK_WRITE, 0, 0);
	id = begin_for_now();
	assert_in_range(ttl_at(redis.c, NAME), 1, DLK_WAIT_MS);
	tell_ok(tell(redis.c, "PEXPIRE", NAME, "60000", NULL));
	dlk_conn_reset(c);
	assert_int_equal(dlk_wait_tell(c, in_ms(5000), &told), 0);
	assert_true(told.id == id && told.told > id);
	assert_in_range(ttl_at(redis.c, NAME), 1, DLK_WAIT_MS);
	assert_int_equal(nth(0), 1);
	assert_true(seen.id == id && seen.told == told.told);
	assert_int_equal(nth(1), 0);
	tell_ok(tell(redis.c, "PEXPIREAT", NAME, "1", NULL));
	assert_int_equal(lasts(id), 0);
	/* Told of again, it is behind those that began meanwhile. */
	dlk_conn_reset(c);
	assert_int_equal(dlk_wait_tell(c, in_ms(5000), &told), 0);
	assert_true(told.id > id);
	assert_int_equal(lasts(told.id), 1);
	assert_int_equal(lasts(id), 0);
	assert_true(begin() > id);
	assert_int_equal(lasts(id), 0);
}

/* What is confirmed is the moment before the look, and no wait comes of it. */
static void another_thread_confirms_what_it_saw(void **state)
{
	uint64_t id, clock = 0, before;

	(void)state;
	want("k%rec", DLK_WRITE, 0, 0);
	id = begin();
	assert_int_equal(confirm(id, &clock), 1);
	assert_int_equal(nth(0), 1);
	assert_true(seen.told == id && clock > id);
	before = clock;
	assert_int_equal(confirm(id, &clock), 1);
	assert_int_equal(nth(0), 1);
	assert_true(seen.told == before && clock > before);
	before = 1; /* late: the wait was told of since */
	assert_int_equal(confirm(id, &before), 1);
	assert_int_equal(nth(0), 1);
	assert_true(seen.told > id);
	end(id);
	assert_int_equal(confirm(id, &clock), 0);
	assert_int_equal(exists(NAME), 0);
}

/* The process waits on, and so its hash stays. */
static void a_wait_that_was_left_goes_with_the_next(void **state)
{
	uint64_t id;

	(void)state;
	plant("00000000000000000007", GOOD);
	want("k%rec", DLK_WRITE, 0, 0);
	id = begin();
	assert_int_equal(nth(0), 1);
	assert_true(seen.id == id);
	assert_int_equal(nth(1), 0);
}

static void the_server_itself_forgets_it(void **state)
{
	const uint64_t until = in_ms(DLK_WAIT_MS + 10000);
	uint64_t id;

	(void)state;
	want("k%rec", DLK_WRITE, 0, 0);
	id = begin_for_now();
	while (exists(NAME)) {
		assert_true(dlk_now_ns() < until);
		dlk_pause_ns(20 * DLK_MS);
	}
	assert_int_equal(lasts(id), 0);
}

/* --- hostile content ------------------------------------------------------ */

static const struct {
	const char *field, *value;
} broken[] = {
	{ "", GOOD },
	{ "1", GOOD },
	{ "soon", GOOD },
	{ "0000000000000000000x", GOOD },
	{ "99999999999999999999", GOOD }, /* more than 64 bits */
	{ "000000000000000000012", GOOD },
	{ "00000000000000000001", STAMP },
	{ "00000000000000000002", STAMP "-" },
	{ "00000000000000000003", STAMP "- " },
	{ "00000000000000000004", STAMP "- " RANGE },
	{ "00000000000000000005", STAMP "- " RANGE " " },
	{ "00000000000000000006", STAMP "- " RANGE "-k" },
	{ "00000000000000000007", OWN "0 " RANGE " k" },
	{ "00000000000000000008",
	  STAMP "- X00000000000000000000000000000000000009 k" },
	{ "00000000000000000009",
	  STAMP "- W00000000000000000090000000000000000008 k" },
	{ "00000000000000000010",
	  STAMP "- W00000000000000000009999999999999999999 k" },
	{ "00000000000000000011",
	  STAMP "- W0000000000000000000 000000000000000009 k" },
	{ "00000000000000000012",
	  STAMP "- W-000000000000000000-000000000000000009 k" },
	{ "00000000000000000013", STAMP "no blanks anywhere? there are" },
	{ "00000000000000000014", STAMP "-" RANGE "k" },
};

enum { N_BROKEN = sizeof(broken) / sizeof(*broken) };

static void what_is_no_wait_is_none(void **state)
{
	(void)state;
	for (int i = 0; i < N_BROKEN; i++) {
		tell_ok(tell(redis.c, "DEL", NAME, NULL));
		plant(broken[i].field, broken[i].value);
		assert_int_equal(nth(0), 0);
	}
}

static void what_is_no_wait_hides_none(void **state)
{
	uint64_t id;

	(void)state;
	for (int i = 0; i < N_BROKEN; i++)
		plant(broken[i].field, broken[i].value);
	want("k%rec", DLK_READ, 3, 4);
	id = begin();
	assert_int_equal(nth(0), 1);
	assert_true(seen.id == id);
	assert_int_equal(nth(1), 0);
}

/* A text that ends early, and one with a NUL where a digit should be. */
static void nothing_is_read_behind_the_end(void **state)
{
	static char good[] = STAMP OWN " " RANGE " k";
	char value[sizeof(good)];

	(void)state;
	for (size_t n = 0; n < sizeof(good) - 1; n++) {
		memcpy(value, good, n);
		value[n] = '\0';
		plant("00000000000000000001", value);
		assert_int_equal(nth(0), 0);
	}
	plant("00000000000000000001", good);
	assert_int_equal(nth(0), 1);
	for (size_t n = 0; n < sizeof(good) - 2; n++) {
		if (n == sizeof(STAMP) - 1)
			n += DLK_RANDOM_LEN; /* of any bytes */
		const struct dlk_arg args[] = {
			{ DLK_LITERAL("HSET") },
			{ DLK_LITERAL(NAME) },
			{ DLK_LITERAL("00000000000000000001") },
			{ value, sizeof(good) - 1 },
		};
		const redisReply *r;

		memcpy(value, good, sizeof(good));
		value[n] = '\0';
		dlk_conn_reset(redis.c);
		assert_int_equal(
			dlk_conn_call(redis.c, in_ms(5000), 4, args, &r), 0);
		assert_int_equal(nth(0), 0);
	}
}

static void fill(const char *key, size_t size)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", size - 1);
	tell_ok(tell(redis.c, "SETRANGE", key, number, "x", NULL));
}

/* HSET of as many bytes as a string has. */
static void plant_huge(size_t size)
{
	fill("bytes", size);
	tell_ok(tell(redis.c, "EVAL",
		     "return redis.call('HSET', KEYS[2], "
		     "'00000000000000000001', redis.call('GET', KEYS[1]))",
		     "2", "bytes", NAME, NULL));
}

static void a_value_too_long_for_a_key_is_none(void **state)
{
	uint64_t id;

	(void)state;
	plant_huge(DLK_REPLY_MAX / 2);
	assert_int_equal(nth(0), 0);
	want("k%rec", DLK_WRITE, 0, 0);
	id = begin();
	assert_int_equal(nth(0), 1);
	assert_true(seen.id == id);
}

/* No answer is better than one without a bound; the next call goes on. */
static void a_huge_value_is_no_answer(void **state)
{
	uint64_t clock = 0;

	(void)state;
	plant_huge(2 * DLK_REPLY_MAX);
	assert_int_equal(nth(0), -EPROTO);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
	assert_int_equal(confirm(1, &clock), 1);
	want("k%rec", DLK_WRITE, 0, 0);
	clock = 0;
	assert_int_equal(confirm(begin(), &clock), 1);
}

static void another_type_is_refused(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "RPUSH", NAME, "x", NULL));
	want("k%rec", DLK_WRITE, 0, 0);
	dlk_conn_reset(c);
	assert_int_equal(dlk_wait_tell(c, in_ms(5000), &told), -EREMOTEIO);
	assert_non_null(strstr(c->error, "WRONGTYPE"));
	assert_int_equal(nth(0), -EREMOTEIO);
	assert_int_equal(lasts(1), -EREMOTEIO);
	assert_true(dlk_conn_is_open(c));
}

/* Answers that no Redis gives; the first ones are of its set-up. */
static void serve_text(int fd, void *arg)
{
	bool goes_on = hear(fd) && say(fd, "+OK\r\n+OK\r\n", 10);

	while (goes_on)
		goes_on = say(fd, arg, strlen(arg)) && hear(fd);
}

static void meet(struct fake *fake, char *answer_text)
{
	dlk_conn_delete(c);
	fake_start(fake, serve_text, answer_text);
	c = dlk_conn_new(&fake->ep);
	assert_non_null(c);
	assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
}

static void part(struct fake *fake)
{
	dlk_conn_delete(c);
	c = NULL;
	fake_stop(fake);
}

static void an_answer_of_another_kind_is_refused(void **state)
{
	static char kinds[][64] = {
		"+OK\r\n", "$-1\r\n", "$3\r\nabc\r\n", "*-1\r\n", "-ERR no\r\n",
	};
	struct fake fake = { .running = false };
	uint64_t clock = 1;

	(void)state;
	for (int i = 0; i < 5; i++) {
		meet(&fake, kinds[i]);
		want("k", DLK_WRITE, 0, 0);
		assert_int_equal(dlk_wait_tell(c, in_ms(5000), &told),
				 -EREMOTEIO);
		assert_int_equal(confirm(1, &clock), -EREMOTEIO);
		assert_int_equal(nth(0), -EREMOTEIO);
		assert_int_equal(dlk_wait_blockers(c, in_ms(5000), &told,
						   found),
				 -EREMOTEIO);
		part(&fake);
	}
}

static void an_array_of_anything_is_no_wait(void **state)
{
	static char kinds[][64] = {
		"*0\r\n",
		"*1\r\n:1\r\n",
		"*2\r\n:1\r\n:2\r\n",
		"*3\r\n$1\r\nx\r\n*0\r\n$-1\r\n",
		"*2\r\n$20\r\n00000000000000000001\r\n*0\r\n",
	};
	struct fake fake = { .running = false };

	(void)state;
	for (int i = 0; i < 5; i++) {
		meet(&fake, kinds[i]);
		assert_int_equal(nth(0), 0);
		want("k", DLK_WRITE, 0, 0);
		assert_int_equal(
			dlk_wait_blockers(c, in_ms(5000), &told, found), 0);
		part(&fake);
	}
}

/* --- who is in the way ---------------------------------------------------- */

static void grant(struct holder *h, enum dlk_range_type type, uint64_t start,
		  uint64_t finish)
{
	struct dlk_records_ask q = { .range = { start, finish, type },
				     .seq = ++h->seq,
				     .since_ns = h->since,
				     .known = h->held.n > 0 };

	assert_int_equal(ask(h, &q), 0);
	assert_int_equal(dlk_ranges_set(&h->held, q.range), 0);
}

static int blockers(enum dlk_range_type type, uint64_t start, uint64_t finish)
{
	want("k", type, start, finish);
	dlk_conn_reset(c);
	return dlk_wait_blockers(c, in_ms(5000), &told, found);
}

/* The same, by an owner that has something there. */
static int blockers_of(const struct holder *h, enum dlk_range_type type,
		       uint64_t start, uint64_t finish)
{
	want("k", type, start, finish);
	id_of(h, told.owner);
	dlk_conn_reset(c);
	return dlk_wait_blockers(c, in_ms(5000), &told, found);
}

static bool is_found(const struct holder *h, int n)
{
	for (int i = 0; i < n; i++)
		if (strlen(found[i]) == DLK_PROCESS_LEN &&
		    !memcmp(found[i], h->token + 7, DLK_PROCESS_LEN))
			return true;
	return false;
}

static void nobody_is_in_the_way_where_nothing_is(void **state)
{
	(void)state;
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
}

static void the_owner_of_a_string_is(void **state)
{
	(void)state;
	grant(&b, DLK_WRITE, 0, MAX);
	assert_string_equal(tell(redis.c, "TYPE", "k", NULL)->str, "string");
	assert_int_equal(blockers(DLK_READ, 5, 5), 1);
	assert_true(is_found(&b, 1));
	assert_int_equal(blockers_of(&a, DLK_WRITE, 0, MAX), 1);
	assert_int_equal(blockers_of(&b, DLK_WRITE, 0, MAX), 0);
	tell_ok(tell(redis.c, "PEXPIREAT", "k", "1", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
}

static void owners_in_a_hash_are_where_they_conflict(void **state)
{
	int n;

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	grant(&b, DLK_READ, 5, 14);
	grant(&d, DLK_WRITE, 20, 29);
	assert_int_equal(blockers(DLK_READ, 0, 19), 0);
	assert_int_equal(blockers(DLK_WRITE, 15, 19), 0);
	n = blockers(DLK_WRITE, 9, 19);
	assert_int_equal(n, 2);
	assert_true(is_found(&a, n) && is_found(&b, n));
	n = blockers(DLK_WRITE, 10, 10);
	assert_int_equal(n, 1);
	assert_true(is_found(&b, n));
	n = blockers(DLK_READ, 0, MAX);
	assert_int_equal(n, 1);
	assert_true(is_found(&d, n));
	n = blockers(DLK_WRITE, 0, MAX);
	assert_int_equal(n, 3);
	assert_int_equal(blockers(DLK_WRITE, 30, MAX), 0);
}

static void an_owner_is_not_in_its_own_way(void **state)
{
	int n;

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	grant(&a, DLK_WRITE, 20, 29);
	assert_int_equal(blockers_of(&a, DLK_WRITE, 0, MAX), 0);
	grant(&b, DLK_READ, 5, 5);
	n = blockers_of(&a, DLK_WRITE, 0, MAX);
	assert_int_equal(n, 1);
	assert_true(is_found(&b, n));
}

/* Owners are told as processes: of two owners in one, one is told. */
static void a_process_is_told_once(void **state)
{
	(void)state;
	memset(b.token + 7, 'a', DLK_PROCESS_LEN);
	grant(&a, DLK_READ, 0, 9);
	grant(&b, DLK_READ, 0, 9);
	assert_int_equal(blockers(DLK_WRITE, 0, 0), 1);
	assert_true(is_found(&a, 1));
}

static void who_has_expired_is_not(void **state)
{
	int n;

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	grant(&b, DLK_READ, 0, 9);
	expire(&a);
	n = blockers(DLK_WRITE, 0, 0);
	assert_int_equal(n, 1);
	assert_true(is_found(&b, n));
	expire(&b);
	assert_int_equal(blockers(DLK_WRITE, 0, 0), 0);
}

static void a_range_without_an_owner_is_nobodys(void **state)
{
	char id[DLK_RANDOM_LEN + 1];

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	grant(&b, DLK_READ, 0, 9);
	id_of(&a, id);
	tell_ok(tell(redis.c, "HDEL", "k", id, NULL));
	id_of(&b, id);
	tell_ok(tell(redis.c, "HSET", "k", id, "broken", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, 0), 0);
}

static void many_are_told_in_part(void **state)
{
	struct holder many[DLK_BLOCKERS_MAX + 8];
	int known = 0, n;

	(void)state;
	for (int i = 0; i < DLK_BLOCKERS_MAX + 8; i++) {
		reset(&many[i], (char)('A' + i), HOST, 1000);
		grant(&many[i], DLK_READ, (uint64_t)i, 100);
	}
	n = blockers(DLK_WRITE, 50, 50);
	assert_int_equal(n, DLK_BLOCKERS_MAX);
	for (int i = 0; i < DLK_BLOCKERS_MAX + 8; i++)
		known += is_found(&many[i], n);
	assert_int_equal(known, DLK_BLOCKERS_MAX);
	assert_int_equal(tell(redis.c, "EVAL", DLK_LUA_records_blockers, "2",
			      "k", PLACES, "-", "W" ALL, NULL)
				 ->elements,
			 DLK_BLOCKERS_MAX);
}

/* Ranges as the scripts would have written them. */
static void plant_ranges(const char *id, const char *type, const char *n)
{
	tell_ok(tell(redis.c, "EVAL",
		     "for i = 1, ARGV[2] do\n"
		     "	local s = string.format('%019d', 10 * i)\n"
		     "	local e = string.format('%019d', 10 * i + 4)\n"
		     "	redis.call('ZADD', KEYS[1], 0,\n"
		     "		'O' .. ARGV[1] .. s .. e .. ARGV[3],\n"
		     "		0, 'S' .. ARGV[3] .. s .. e .. ARGV[1],\n"
		     "		0, 'E' .. ARGV[3] .. e .. s .. ARGV[1])\n"
		     "end return 1",
		     "1", PLACES, id, n, type, NULL));
}

static void one_among_many_ranges_is_found(void **state)
{
	char id[DLK_RANDOM_LEN + 1];

	(void)state;
	grant(&a, DLK_WRITE, 10, 14);
	grant(&b, DLK_READ, 0, 0);
	grant(&d, DLK_WRITE, 5, 5);
	id_of(&a, id);
	plant_ranges(id, "W", "2500");
	assert_int_equal(blockers_of(&a, DLK_WRITE, 0, MAX), 2);
	assert_true(is_found(&b, 2) && is_found(&d, 2));
	assert_int_equal(blockers_of(&a, DLK_WRITE, 1, MAX), 1);
	assert_true(is_found(&d, 1));
	assert_int_equal(blockers_of(&a, DLK_READ, 0, MAX), 1);
	assert_true(is_found(&d, 1));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 3);
}

/* How often the server was asked for some ranges. */
static long pages_read(void)
{
	const char *at =
		strstr(tell(redis.c, "INFO", "commandstats", NULL)->str,
		       "cmdstat_zrevrangebylex:calls=");

	return at ? strtol(strchr(at, '=') + 1, NULL, 10) : 0;
}

static void a_search_is_bounded(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "EVAL",
		     "redis.call('HSET', KEYS[1], 'dlock', '1')\n"
		     "for i = 1, 3000 do\n"
		     "	redis.call('HSET', KEYS[1], i, '')\n"
		     "end return 1",
		     "1", "k", NULL));
	plant_ranges("00112233445566778899aabbccddeeff", "R", "20000");
	tell_ok(tell(redis.c, "CONFIG", "RESETSTAT", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
	assert_in_range(pages_read(), 10, 1020);
}

static void a_foreign_key_tells_of_nobody(void **state)
{
	(void)state;
	tell_ok(tell(redis.c, "SET", "k", "somebody else's", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
	tell_ok(tell(redis.c, "SET", "k", "dlock1 short", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
	fill("k", 2 * DLK_REPLY_MAX);
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	tell_ok(tell(redis.c, "RPUSH", "k", "x", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
	tell_ok(tell(redis.c, "DEL", "k", NULL));
	tell_ok(tell(redis.c, "HSET", "k", "dlock", "2", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 0);
}

static void ranges_of_another_type_are_refused(void **state)
{
	(void)state;
	grant(&a, DLK_READ, 0, 9);
	tell_ok(tell(redis.c, "SET", PLACES, "x", NULL));
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), -EREMOTEIO);
	assert_true(dlk_conn_is_open(c));
}

static void odd_members_are_nobody(void **state)
{
	int n;

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	tell_ok(tell(redis.c, "ZADD", PLACES, "0", "SR", "0", "SRx", "0", "SW",
		     "0", "SW99999999999999999999999999", "0", "O", NULL));
	n = blockers(DLK_WRITE, 0, MAX);
	assert_int_equal(n, 1);
	assert_true(is_found(&a, n));
}

/* Both keys, as the server would move them to another. */
static void digest(char text[64])
{
	const redisReply *r =
		tell(redis.c, "EVAL",
		     "return redis.sha1hex(redis.call('DUMP', KEYS[1]) "
		     ".. redis.call('DUMP', KEYS[2]))",
		     "2", "k", PLACES, NULL);

	assert_int_equal(r->type, REDIS_REPLY_STRING);
	snprintf(text, 64, "%s", r->str);
}

static void reading_changes_nothing(void **state)
{
	char before[64], after[64];

	(void)state;
	grant(&a, DLK_READ, 0, 9);
	grant(&b, DLK_WRITE, 20, 29);
	expire(&a);
	digest(before);
	assert_int_equal(blockers(DLK_WRITE, 0, MAX), 1);
	digest(after);
	assert_string_equal(before, after);
}

#define staged(f) cmocka_unit_test_setup_teardown(f, stage, disconnect)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		staged(a_wait_reads_as_it_was_told),
		staged(who_holds_nothing_there_is_told_so),
		staged(the_longest_key_fits),
		staged(a_key_with_a_nul_stays_whole),
		staged(later_waits_have_greater_numbers),
		staged(a_number_that_is_taken_is_not_given_again),
		staged(many_waits_of_a_process_are_told_apart),
		staged(an_end_ends_one_wait),
		staged(a_wait_expires_unless_it_is_told_again),
		staged(another_thread_confirms_what_it_saw),
		staged(a_wait_that_was_left_goes_with_the_next),
		staged(the_server_itself_forgets_it),
		staged(what_is_no_wait_is_none),
		staged(what_is_no_wait_hides_none),
		staged(nothing_is_read_behind_the_end),
		staged(a_value_too_long_for_a_key_is_none),
		staged(a_huge_value_is_no_answer),
		staged(another_type_is_refused),
		staged(an_answer_of_another_kind_is_refused),
		staged(an_array_of_anything_is_no_wait),
		staged(nobody_is_in_the_way_where_nothing_is),
		staged(the_owner_of_a_string_is),
		staged(owners_in_a_hash_are_where_they_conflict),
		staged(an_owner_is_not_in_its_own_way),
		staged(a_process_is_told_once),
		staged(who_has_expired_is_not),
		staged(a_range_without_an_owner_is_nobodys),
		staged(many_are_told_in_part),
		staged(one_among_many_ranges_is_found),
		staged(a_search_is_bounded),
		staged(a_foreign_key_tells_of_nobody),
		staged(ranges_of_another_type_are_refused),
		staged(odd_members_are_nobody),
		staged(reading_changes_nothing),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
