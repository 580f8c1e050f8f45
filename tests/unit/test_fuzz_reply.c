/* SPDX-License-Identifier: MIT */
/*
 * Mutated replies of a server, some of which never end: each is taken or refused,
 * what was sent is told of once, and none keeps a call beyond its deadline (L8).
 * (tests/fuzz/reply.c: within its bounds, whatever is asked.)  The generator is
 * seeded: every run is alike.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "lease/lease.h"
#include "lease/upkeep.h"
#include "model/text.h"
#include "tests/unit/fake.h"
#include "tests/unit/lcg.h"
#include "tests/unit/redis.h"

enum { TALKS = 1200, SILENT = 60, TEXT_MAX = 4096 };

#define TOKEN                                                                  \
	"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "          \
	"00000000000000000042 4711 host job"

struct mutant {
	struct lcg g;
	size_t len;
	char text[TEXT_MAX];
};

static void put_in(struct mutant *m, size_t at, size_t cut, const char *bytes,
		   size_t n)
{
	if (cut > m->len - at)
		cut = m->len - at;
	if (m->len - cut + n > sizeof(m->text))
		return;
	memmove(m->text + at + n, m->text + at + cut, m->len - at - cut);
	memmove(m->text + at, bytes, n);
	m->len += n - cut;
}

/* One change: a bit, a byte, a piece cut, doubled, or a word that matters. */
static void mutate(struct mutant *m, const char *const *words, size_t n_words)
{
	size_t at = lcg_below(&m->g, m->len + 1), cut = lcg_below(&m->g, 12);
	const char *word = words[lcg_below(&m->g, n_words)];
	char byte = (char)lcg_u32(&m->g), piece[64];

	switch (lcg_below(&m->g, 6)) {
	case 0:
		if (at < m->len)
			m->text[at] ^= (char)(1 << lcg_below(&m->g, 8));
		break;
	case 1:
		put_in(m, at, lcg_below(&m->g, 2), &byte, 1);
		break;
	case 2:
		put_in(m, at, cut, "", 0);
		break;
	case 3:
		if (cut > m->len - at)
			cut = m->len - at;
		memcpy(piece, m->text + at, cut);
		put_in(m, at, 0, piece, cut);
		break;
	case 4:
		put_in(m, at, cut, word, strlen(word));
		break;
	default:
		m->len = lcg_below(&m->g, 8) ? m->len : at;
	}
}

/* One of the samples with up to four changes. */
static void make(struct mutant *m, const char *const *samples, size_t n,
		 const char *const *words, size_t n_words)
{
	const char *sample = samples[lcg_below(&m->g, n)];

	m->len = strlen(sample);
	memcpy(m->text, sample, m->len);
	for (size_t i = lcg_below(&m->g, 5); i > 0; i--)
		mutate(m, words, n_words);
}

#define MAKE(m, samples, words)                                                \
	make(m, samples, sizeof(samples) / sizeof(*(samples)), words,          \
	     sizeof(words) / sizeof(*(words)))

/* --- replies -------------------------------------------------------------- */

static const char *const reply_words[] = {
	"\r\n",
	"\r",
	"\n",
	"*",
	"$",
	":",
	"+",
	"-",
	"*-1\r\n",
	"$-1\r\n",
	"*0\r\n",
	"$0\r\n\r\n",
	"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
	"*2147483647\r\n",
	"$2147483647\r\n",
	"*4294967297\r\n",
	"$9223372036854775807\r\n",
	"$18446744073709551615\r\n",
	"*1152921504606846976\r\n",
	":9223372036854775808\r\n",
	"$-2\r\n",
	"-NOSCRIPT No\r\n",
	"-LOADING x\r\n",
	"-\r\n",
	"%1\r\n",
	"_\r\n",
	/* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one word */
	TOKEN,
};

/* Answer each request with the text of the moment; sometimes never again. */
static void serve_mutant(int fd, void *arg)
{
	struct mutant m;

	hear(fd);
	/* The test makes the next one as soon as its call has ended. */
	memcpy(&m, arg, sizeof(m));
	say(fd, m.text, m.len);
	if ((m.g.seed >> 33) % SILENT == 0)
		hear_out(fd);
	else
		shutdown(fd, SHUT_WR);
}

struct talk {
	struct fake fake;
	struct mutant m;
	struct dlk_conn *c;
	unsigned late;
	uint64_t waited; /* before the call, for a core */
};

static int start_talk(void **state)
{
	static struct talk t;

	t = (struct talk){ .m.g = { 105 } };
	fake_start(&t.fake, serve_mutant, &t.m);
	t.fake.ep.restart_delay_ms = 1000;
	t.c = dlk_conn_new(&t.fake.ep);
	*state = &t;
	return t.c ? 0 : -1;
}

static int end_talk(void **state)
{
	struct talk *t = *state;

	dlk_conn_delete(t->c);
	fake_stop(&t->fake);
	return 0;
}

/* How long this thread was ready to run and had no core, in ns. */
static uint64_t waited_for_a_core(void)
{
	char text[128] = "", *second;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");

	if (!f)
		return 0;
	(void)!fgets(text, sizeof(text), f);
	fclose(f);
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) : 0;
}

/* A new connection for each: what is left of the last one is not read. */
static uint64_t next_talk(struct talk *t, const char *const *samples, size_t n)
{
	dlk_conn_close(t->c);
	make(&t->m, samples, n, reply_words,
	     sizeof(reply_words) / sizeof(*reply_words));
	/* The server thread may be slow to take the connection. */
	assert_int_equal(dlk_conn_open(t->c, in_ms(5000)), 0);
	t->waited = waited_for_a_core();
	return in_ms(25);
}

/* A machine may be slow now and then; a call that does not end is always. */
static void end_of_call(struct talk *t, uint64_t until)
{
	uint64_t now = dlk_now_ns();

	t->late += now > until + 40 * DLK_MS + waited_for_a_core() - t->waited;
	assert_true(now < until + 10000 * DLK_MS);
}

static const struct dlk_lease lease = {
	.key = "k",
	.key_len = 1,
	.token = TOKEN,
	.token_len = sizeof(TOKEN) - 1,
	.ttl_ms = 30000,
};

static void an_answer_to_acquire_is_taken_or_refused(void **state)
{
	static const char *const samples[] = {
		"+OK\r\n+OK\r\n*5\r\n:1\r\n:0\r\n$0\r\n\r\n:0\r\n:0\r\n",
		"+OK\r\n+OK\r\n*5\r\n:0\r\n:9000\r\n$3\r\nabc\r\n:7\r\n:2\r\n",
		"+OK\r\n+OK\r\n*5\r\n:2\r\n:0\r\n$4\r\nlist\r\n:0\r\n:0\r\n",
		"+OK\r\n+OK\r\n-NOSCRIPT "
		"x\r\n$25\r\n\r\nuptime_in_seconds:1234\r\n\r\n"
		"+OK\r\n",
	};
	struct talk *t = *state;
	unsigned granted = 0, failed = 0;

	for (int i = 0; i < TALKS; i++) {
		struct dlk_answer answer = { 0 };
		uint64_t until = next_talk(t, samples, 4);
		int err = dlk_lease_acquire(t->c, until, &lease, false, NULL,
					    NULL, &answer);

		end_of_call(t, until);
		assert_true(err <= 0 || err == DLK_BUSY ||
			    err == DLK_WRONG_TYPE || err == DLK_GRACE);
		assert_true(answer.holder_len < sizeof(answer.holder));
		if (err == 0)
			assert_true(memmem(t->m.text, t->m.len, ":1\r\n", 4));
		granted += err == 0;
		failed += err < 0;
	}
	assert_true(granted > 0 && failed > 0);
	assert_true(t->late < TALKS / 20);
}

static void an_answer_to_renew_is_taken_or_refused(void **state)
{
	static const char *const samples[] = {
		"+OK\r\n+OK\r\n*2\r\n:1\r\n$0\r\n\r\n*2\r\n:0\r\n$3\r\nabc\r\n",
		"+OK\r\n+OK\r\n*2\r\n:1\r\n$0\r\n\r\n*2\r\n:-1\r\n$0\r\n\r\n",
		"+OK\r\n+OK\r\n*2\r\n:1\r\n$0\r\n\r\n-NOSCRIPT x\r\n",
	};
	struct talk *t = *state;
	unsigned renewed = 0, failed = 0;

	for (int i = 0; i < TALKS; i++) {
		struct dlk_renewal r[2] = { { .lease = &lease },
					    { .lease = &lease } };
		uint64_t until = next_talk(t, samples, 3);

		dlk_renew_batch(t->c, until, r, 2);
		end_of_call(t, until);
		for (int k = 0; k < 2; k++) {
			assert_true(r[k].result <= 0 ||
				    r[k].result == DLK_LOST ||
				    r[k].result == DLK_GONE ||
				    r[k].result == DLK_REPLACED);
			renewed += r[k].result == 0;
			failed += r[k].result < 0;
		}
	}
	assert_true(renewed > 0 && failed > 0);
	assert_true(t->late < TALKS / 20);
}

static int judge(const redisReply *reply, uint64_t *number)
{
	(void)number;
	return dlk_lease_released(reply, &(uint64_t){ 0 });
}

static void count_told(void *arg, int err, uint64_t number)
{
	(void)err;
	(void)number;
	++*(unsigned *)arg;
}

static void an_answer_to_release_is_told_once(void **state)
{
	static const char *const samples[] = {
		"+OK\r\n$19\r\n\r\nredis_version:6.2\r\n:1\r\n:0\r\n"
	};
	struct talk *t = *state;

	for (int i = 0; i < TALKS; i++) {
		uint64_t until = next_talk(t, samples, 1);
		unsigned told = 0;

		for (int k = 0; k < 2; k++) {
			assert_int_equal(dlk_lease_release(t->c, &lease, false),
					 0);
			assert_int_equal(dlk_conn_defer(t->c, judge, count_told,
							&told),
					 0);
		}
		if (dlk_conn_flush(t->c, until) == 0)
			dlk_conn_drain(t->c, until);
		end_of_call(t, until);
		dlk_conn_close(t->c);
		assert_int_equal(told, 2);
	}
	assert_true(t->late < TALKS / 20);
}

#define talk_test(f) cmocka_unit_test_setup_teardown(f, start_talk, end_talk)

int main(void)
{
	const struct CMUnitTest tests[] = {
		talk_test(an_answer_to_acquire_is_taken_or_refused),
		talk_test(an_answer_to_renew_is_taken_or_refused),
		talk_test(an_answer_to_release_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
