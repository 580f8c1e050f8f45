/* SPDX-License-Identifier: MIT */
/*
 * Record locks at Redis against the sets of model/range.h: four owners lock,
 * unlock, convert, look, renew, die and expire at random; requests are lost,
 * late or sent twice; the server restarts, its memory with a claim perhaps.  After each step the server has of
 * each living owner what the sets say, and nothing else is in the way.  The same
 * of leases that linger: then an expired owner has all until somebody else is
 * granted any of it.
 *
 * DLK_RECORDS_STEPS=100000 for more of it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/lcg.h"
#include "tests/unit/records.h"

enum { OWNERS = 4, LATE = 8 };

/* Two are of one host and file, and so may prove each other dead. */
static struct owner {
	struct holder h; /* by its own account: what it was granted, less what
			    it has given back */
	struct dlk_ranges there; /* at the server */
	struct dlk_range room[64];
	struct dlk_ranges lingers; /* there, of one that has expired */
	struct dlk_range lingering[64];
	uint64_t seen;                     /* the server's sequence number */
	struct dlk_records_ask sent[LATE]; /* a ring */
	unsigned nsent;
	bool expired;
} owners[OWNERS];

static struct lcg g = { 42 };
static uint64_t moment;
static unsigned tokens;
static struct dlk_conn *young;
static bool litter; /* of the expired something may still lie about */

/* How often each came about: what never does is not tested. */
enum happened {
	GRANTED,
	REFUSED,
	WEAKENED,
	STALE,
	GONE,
	CUT,
	RESTORED,
	STRING,
	FREE,
	IN_THE_WAY,
	RESUMED,
	CLAIMED,
	HAPPENED
};
static unsigned long count[HAPPENED];
static const char *const names[] = {
	"granted", "refused",    "weakened",  "stale",
	"gone",    "cut",        "reclaimed", "strings",
	"free",    "in the way", "resumed",   "claims put over",
};

static void begin(struct owner *o)
{
	const size_t i = (size_t)(o - owners);
	char id[DLK_RANDOM_LEN + 1];

	reset(&o->h, 'x', i < 2 ? HOST : i == 2 ? "two" : "three", ++moment);
	snprintf(id, sizeof(id), "%032x", ++tokens);
	memcpy(o->h.token + 7, id, DLK_RANDOM_LEN);
	o->there = (struct dlk_ranges){ .v = o->room, .room = 64 };
	o->lingers = (struct dlk_ranges){ .v = o->lingering, .room = 64 };
	o->seen = 0;
	o->nsent = 0;
	o->expired = false;
}

static void set(struct dlk_ranges *s, struct dlk_range r)
{
	assert_int_equal(dlk_ranges_set(s, r), 0);
}

/* *s has no more than `most` has, in the range. */
static void weaken(struct dlk_ranges *s, const struct dlk_ranges *most,
		   struct dlk_range in)
{
	struct dlk_range room[64], p, q;
	struct dlk_ranges was = { .v = room, .room = 64, .n = s->n };

	memcpy(room, s->v, s->n * sizeof(*room));
	for (uint64_t at = in.start; at <= in.end; at = q.end + 1) {
		p = dlk_ranges_piece(&was, at, in.end);
		q = dlk_ranges_piece(most, at, p.end);
		if (q.type > p.type)
			q.type = p.type;
		set(s, q);
	}
}

static struct dlk_range draw(bool locks)
{
	static const uint64_t near[] = { 0, (1ull << 53) - 8, 9999999990,
					 MAX - 30 };
	struct dlk_range r;

	r.start = near[lcg_below(&g, 4)] + lcg_below(&g, 24);
	r.end = r.start + lcg_below(&g, 9);
	if (r.end > MAX || lcg_below(&g, 30) == 0)
		r.end = MAX;
	if (lcg_below(&g, 30) == 0)
		r.start = 0;
	r.type = locks ? R + lcg_below(&g, 2) : (unsigned)lcg_below(&g, 2);
	return r;
}

/* --- what is expected ----------------------------------------------------- */

static bool in_the_way(const struct owner *by, const struct owner *rival,
		       const struct dlk_range *r)
{
	return rival != by && dlk_ranges_conflict(&rival->there, r);
}

static bool would_refuse(const struct owner *by, const struct dlk_range *r,
			 bool (*but)(const struct owner *,
				     const struct owner *))
{
	for (size_t i = 0; i < OWNERS; i++)
		if (in_the_way(by, &owners[i], r) &&
		    !(but && but(by, &owners[i])))
			return true;
	return false;
}

/* The holder that was named has that very range, and it is in the way. */
static void assert_named(const struct owner *by, const struct dlk_range *r)
{
	for (size_t i = 0; i < OWNERS; i++) {
		const struct owner *o = &owners[i];
		struct dlk_range there;

		if (o == by || strcmp(o->h.token, got.holder) != 0)
			continue;
		there = dlk_ranges_piece(&o->there, got.range.start, MAX);
		assert_true(there.start == got.range.start);
		assert_true(there.end == got.range.end);
		assert_int_equal(there.type, got.range.type);
		assert_true(dlk_range_conflicts(&there, r));
		return;
	}
	fail();
}

static bool is_string(struct owner **holder)
{
	const char *value = value_at(redis.c, "k");

	for (size_t i = 0; i < OWNERS; i++)
		if (strcmp(value, owners[i].h.token) == 0) {
			*holder = &owners[i];
			return true;
		}
	return false;
}

static void assert_server(void)
{
	static const char whole[] = "W0-9223372036854775807";
	struct dlk_range room[64];
	struct dlk_ranges there = { .v = room, .room = 64 };
	char has[4096], want[4096];
	struct owner *holder = NULL;

	if (strcmp(tell(redis.c, "TYPE", "k", NULL)->str, "string") == 0) {
		assert_true(is_string(&holder));
		count[STRING]++;
	}
	for (size_t i = 0; i < OWNERS; i++) {
		struct owner *o = &owners[i];

		if (o->expired && !o->lingers.n)
			continue;
		read_ranges(&o->h, &there);
		text_of(&there, has, sizeof(has));
		text_of(o->expired ? &o->lingers : &o->there, want,
			sizeof(want));
		assert_string_equal(holder == o ? whole
				    : holder    ? ""
						: has,
				    want);
	}
}

/* Each range is there three times, and every owner has some. */
static void assert_index(void)
{
	const redisReply *r = tell(
		redis.c, "EVAL",
		"local n, owners = 0, {} "
		"for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
		" if string.sub(m, 1, 1) == 'O' then n = n + 1 "
		"  local o, s = string.sub(m, 2, 33), string.sub(m, 34, 52) "
		"  local e, k = string.sub(m, 53, 71), string.sub(m, 72) "
		"  owners[o] = true "
		"  if not redis.call('ZSCORE', KEYS[1], 'S'..k..s..e..o) or "
		"   not redis.call('ZSCORE', KEYS[1], 'E'..k..e..s..o) then "
		"   return -1 end end end "
		"if redis.call('ZCARD', KEYS[1]) ~= 3 * n then return -2 end "
		"if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return n end "
		"local all = 1 "
		"for o in pairs(owners) do all = all + 1 "
		" if redis.call('HEXISTS', KEYS[2], o) == 0 then return -3 end "
		"end "
		"if redis.call('HLEN', KEYS[2]) ~= all then return -4 end "
		"local till = redis.call('PEXPIRETIME', KEYS[1]) "
		"if till < 1 or till ~= redis.call('PEXPIRETIME', KEYS[2]) "
		"then return -5 end return n",
		"2", PLACES, "k", NULL);

	assert_int_equal(r->type, REDIS_REPLY_INTEGER);
	if (r->integer < 0)
		fail_msg("index: %lld", r->integer);
}

/* --- steps ---------------------------------------------------------------- */

static struct dlk_records_ask question(struct owner *o, struct dlk_range r)
{
	struct dlk_records_ask q = { .range = r,
				     .seq = ++o->h.seq,
				     .since_ns = ++moment,
				     .known = o->h.held.n > 0 };

	if (q.seq == 1)
		q.since_ns = o->h.since;
	o->h.since = q.since_ns;
	o->sent[o->nsent++ % LATE] = q;
	return q;
}

/* It lingered, and is renewed, or asks for more. */
static void resume(struct owner *o)
{
	if (!o->lingers.n)
		return;
	memcpy(o->room, o->lingering, sizeof(o->room));
	o->there.n = o->lingers.n;
	o->lingers.n = 0;
	o->expired = false;
	count[RESUMED]++;
}

static void granted(struct owner *o, const struct dlk_records_ask *q)
{
	for (size_t i = 0; i < OWNERS; i++)
		if (&owners[i] != o &&
		    dlk_ranges_conflict(&owners[i].lingers, &q->range))
			owners[i].lingers.n = 0;
	set(&o->there, q->range);
	set(&o->h.held, q->range);
	o->seen = q->seq;
	count[GRANTED]++;
}

static void send_ask(struct owner *o, const struct dlk_records_ask *q)
{
	bool refused = would_refuse(o, &q->range, NULL);

	resume(o);
	if (o->expired && q->known) {
		assert_int_equal(ask(&o->h, q), DLK_GONE);
		count[GONE]++;
		begin(o);
		return;
	}
	assert_int_equal(ask(&o->h, q), refused ? DLK_BUSY : 0);
	o->expired &= refused;
	if (!refused) {
		granted(o, q);
		return;
	}
	assert_named(o, &q->range);
	if (o->there.n)
		o->seen = q->seq;
	count[REFUSED]++;
}

static void lock(struct owner *o, struct dlk_range r)
{
	struct dlk_records_ask q;

	if (!o->there.n && !o->h.held.n)
		begin(o);
	q = question(o, r);
	send_ask(o, &q);
}

/* The same once more: the answer was lost. */
static void lock_again(struct owner *o)
{
	const struct dlk_records_ask *q = &o->sent[(o->nsent - 1) % LATE];

	if (o->nsent && q->seq == o->seen && o->there.n)
		send_ask(o, q);
}

/* One of long ago arrives. */
static void lock_late(struct owner *o)
{
	const struct dlk_records_ask *q = &o->sent[lcg_below(&g, LATE)];

	if (o->nsent < LATE || !o->there.n || q->seq >= o->seen)
		return;
	assert_int_equal(ask(&o->h, q), DLK_OLD_SEQ);
	assert_true(got.seq == o->seen);
	count[STALE]++;
}

static void unlock(struct owner *o, struct dlk_range r, bool lost)
{
	const struct dlk_range all = { 0, MAX, U };
	struct dlk_range less[1] = { r };
	struct dlk_ranges most = { .v = less, .room = 1, .n = r.type != U };

	weaken(&o->h.held, &most, r);
	o->h.seq++;
	if (lost)
		return;
	if (lcg_below(&g, 8) == 0)
		r = all;
	assert_int_equal(say_window(&o->h, o->h.seq, r.start, r.end), 0);
	if (o->there.n || o->lingers.n)
		o->seen = o->h.seq;
	weaken(&o->there, &o->h.held, r);
	weaken(&o->lingers, &o->h.held, r);
	count[WEAKENED]++;
}

/* A set of long ago, of nothing at all. */
static void unlock_late(struct owner *o)
{
	struct dlk_ranges held = o->h.held;

	if (o->seen < 2 || !o->there.n)
		return;
	o->h.held.n = 0;
	assert_int_equal(say_window(&o->h, 1 + lcg_below(&g, o->seen - 1), 0,
				    MAX),
			 DLK_OLD_SEQ);
	assert_true(got.seq == o->seen);
	o->h.held = held;
	count[STALE]++;
}

static void get(struct owner *o)
{
	struct dlk_range r = draw(true);
	bool busy = would_refuse(o, &r, NULL);

	assert_int_equal(look(&o->h, r.type, r.start, r.end),
			 busy ? DLK_BUSY : 0);
	if (busy)
		assert_named(o, &r);
	count[busy ? IN_THE_WAY : FREE]++;
}

static void carry_on(struct owner *o)
{
	int said = renew(&o->h);

	resume(o);
	if (said == DLK_LOST || said == DLK_REPLACED)
		assert_false(o->there.n);
	else
		assert_int_equal(said, o->there.n ? 0 : DLK_GONE);
	if (said)
		begin(o);
}

static void run_out(struct owner *o)
{
	struct owner *holder;

	if (!o->there.n)
		return;
	if (is_string(&holder))
		tell_ok(tell(redis.c, "DEL", "k", NULL));
	else
		expire(&o->h);
	litter = true;
	if (pause_ms && o->h.held.n) {
		memcpy(o->lingering, o->room, sizeof(o->room));
		o->lingers.n = o->there.n;
	}
	o->there.n = 0;
	o->expired = true;
}

static bool provable(const struct owner *by, const struct owner *rival)
{
	return by < &owners[2] && rival < &owners[2];
}

/* The other one of this host has died; its kernel locks went with it. */
static void lock_of_the_dead(struct owner *o, struct owner *dead)
{
	struct dlk_range r = draw(true), less = r;
	struct dlk_ranges most = { .v = &less, .room = 1 };
	struct dlk_records_ask q;

	if (!provable(o, dead) || o == dead || !in_the_way(o, dead, &r) ||
	    would_refuse(o, &r, provable) || (o->expired && o->h.held.n))
		return;
	if (!o->there.n && !o->h.held.n)
		begin(o);
	q = question(o, r);
	q.proof = true;
	assert_int_equal(ask(&o->h, &q), 0);
	assert_true(got.replaced);
	most.n = r.type == R;
	weaken(&dead->there, &most, r);
	weaken(&dead->h.held, &dead->there, (struct dlk_range){ 0, MAX, U });
	o->expired = false;
	granted(o, &q);
	if (!dead->there.n)
		begin(dead);
	count[CUT]++;
}

/*
 * Of a memory of before: what somebody of the host of the first two was granted,
 * and has not confirmed.  (In the way of the others it is waited out.)
 */
static bool is_claimed(struct holder *claim)
{
	const struct dlk_range r = draw(true);

	for (size_t i = 2; i < OWNERS; i++)
		if (dlk_ranges_conflict(&owners[i].h.held, &r))
			return false;
	put_claim(claim, 'c', HOST, r);
	for (size_t i = 0; i < 2; i++)
		if (!owners[i].expired && owners[i].there.n &&
		    dlk_ranges_conflict(&owners[i].h.held, &r))
			count[CLAIMED]++;
	return true;
}

/* Nobody confirms it: what is left of it expires. */
static void end_claim(const struct holder *claim)
{
	char id[DLK_RANDOM_LEN + 1];

	id_of(claim, id);
	if (tell(redis.c, "HEXISTS", "k", id, NULL)->integer)
		expire(claim);
	litter = true;
}

static void restart(void)
{
	struct dlk_conn *old = c;
	struct holder claim;
	bool claimed;

	tell_ok(tell(redis.c, "FLUSHALL", NULL));
	claimed = is_claimed(&claim);
	c = young;
	for (size_t i = 0; i < OWNERS; i++) {
		struct owner *o = &owners[i];

		if (o->expired || !o->h.held.n || !o->there.n) {
			begin(o);
			continue;
		}
		assert_int_equal(reclaim(&o->h), 0);
		o->there.n = 0;
		for (size_t n = 0; n < o->h.held.n; n++)
			set(&o->there, o->h.held.v[n]);
		o->seen = o->h.seq;
		count[RESTORED]++;
	}
	c = old;
	if (claimed)
		end_claim(&claim);
	/* (What has a delay lingers by another name than what has none.) */
	for (size_t i = 0; i < OWNERS; i++)
		if (owners[i].there.n)
			assert_int_equal(renew(&owners[i].h), 0);
}

/* All go; then one has the whole file, and begins to give of it. */
static void calm(struct owner *next)
{
	for (size_t i = 0; i < OWNERS; i++) {
		unlock(&owners[i], (struct dlk_range){ 0, MAX, U }, false);
		assert_int_equal(owners[i].there.n, 0);
		begin(&owners[i]);
	}
	if (litter)
		tell_ok(tell(redis.c, "FLUSHALL", NULL));
	litter = false;
	assert_int_equal(keys_left(redis.c), 0);
	lock(next, (struct dlk_range){ 0, MAX, W });
}

static void step(void)
{
	struct owner *o = &owners[lcg_below(&g, OWNERS)];
	size_t what = lcg_below(&g, 200);

	if (what < 80)
		lock(o, draw(true));
	else if (what < 115)
		unlock(o, draw(false), false);
	else if (what < 125)
		unlock(o, draw(false), true);
	else if (what < 140)
		get(o);
	else if (what < 150)
		lock_again(o);
	else if (what < 160)
		lock_late(o);
	else if (what < 166)
		unlock_late(o);
	else if (what < 174)
		carry_on(o);
	else if (what < 178)
		run_out(o);
	else if (what < 198)
		lock_of_the_dead(o, &owners[lcg_below(&g, 2)]);
	else if (what == 198)
		calm(o);
	else if (lcg_below(&g, 2) == 0)
		restart();
}

static void any_order_of_things_ends_well(void **state)
{
	const char *n = getenv("DLK_RECORDS_STEPS");
	unsigned long steps = n ? strtoul(n, NULL, 10) : 6000;

	(void)state;
	for (size_t i = 0; i < OWNERS; i++)
		begin(&owners[i]);
	for (unsigned long i = 0; i < steps; i++) {
		step();
		assert_server();
		if (i % 16 == 0)
			assert_index();
	}
	print_message("# %lu steps\n", steps);
	for (int i = 0; i < HAPPENED; i++) {
		print_message("# %6lu %s\n", count[i], names[i]);
		assert_true(count[i] > 0 || i == (pause_ms ? STRING : RESUMED));
		count[i] = 0;
	}
}

static void so_it_does_where_leases_linger(void **state)
{
	pause_ms = HOUR_MS;
	any_order_of_things_ends_well(state);
	pause_ms = 0;
}

static int with_a_young_one(void **state)
{
	int err = connect_young(state);

	young = c;
	return err || connect_at_once(state);
}

static int without(void **state)
{
	dlk_conn_delete(young);
	return disconnect(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_order_of_things_ends_well,
						with_a_young_one, without),
		cmocka_unit_test_setup_teardown(so_it_does_where_leases_linger,
						with_a_young_one, without),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
