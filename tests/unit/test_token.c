/* SPDX-License-Identifier: MIT */
/*
 * Tokens: what is written is read back, whatever the host and the command are
 * called; what another program put at the key is never taken for ours.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/token.h"
#include "tests/unit/lcg.h"

#define RANDOM "0123456789abcdef0123456789abcdef"
#define GOOD   "dlock1 " RANDOM " boot 8:1:- 00000000000000000042 7 host job"

static bool ours(const char *text)
{
	struct dlk_token t;

	return dlk_token_parse(text, strlen(text), &t);
}

static void assert_same(const struct dlk_token *a, const struct dlk_token *b)
{
	assert_string_equal(a->random, b->random);
	assert_string_equal(a->host, b->host);
	assert_string_equal(a->file, b->file);
	assert_true(a->since_ns == b->since_ns);
	assert_int_equal(a->pid, b->pid);
	assert_string_equal(a->hostname, b->hostname);
	assert_string_equal(a->command, b->command);
}

static void assert_round_trip(const struct dlk_token *t)
{
	struct dlk_token back;
	char text[2 * DLK_TOKEN_MAX];
	ssize_t len = dlk_token_format(t, text, sizeof(text));

	assert_true(len > 0);
	assert_int_equal(len, strlen(text));
	assert_true(dlk_token_parse(text, (size_t)len, &back));
	assert_same(t, &back);
}

static struct dlk_token sample(void)
{
	return (struct dlk_token){ .random = RANDOM,
				   .host = "boot",
				   .file = "8:1:-",
				   .since_ns = 42,
				   .pid = 7,
				   .hostname = "host",
				   .command = "job" };
}

static void is_written_as_documented(void **state)
{
	struct dlk_token t = sample();
	char text[DLK_TOKEN_MAX];

	(void)state;
	assert_int_equal(dlk_token_format(&t, text, sizeof(text)),
			 strlen(GOOD));
	assert_string_equal(text, GOOD);
}

static void is_read_as_documented(void **state)
{
	struct dlk_token t = sample(), back;

	(void)state;
	assert_true(dlk_token_parse(GOOD, strlen(GOOD), &back));
	assert_same(&t, &back);
}

static void numbers_keep_their_limits(void **state)
{
	struct dlk_token t = sample();

	(void)state;
	t.since_ns = 0;
	t.pid = 0;
	assert_round_trip(&t);
	t.since_ns = UINT64_MAX;
	t.pid = UINT32_MAX;
	assert_round_trip(&t);
}

static void fill(char *word, size_t len)
{
	memset(word, 'w', len);
	word[len] = '\0';
}

static void words_keep_their_limits(void **state)
{
	struct dlk_token t = sample();

	(void)state;
	fill(t.host, DLK_WORD_MAX - 1);
	fill(t.file, DLK_WORD_MAX - 1);
	fill(t.hostname, DLK_WORD_MAX - 1);
	fill(t.command, DLK_WORD_MAX - 1);
	assert_round_trip(&t);
}

static void a_word_too_long_is_not_ours(void **state)
{
	char text[DLK_TOKEN_MAX], word[DLK_WORD_MAX + 1];

	(void)state;
	fill(word, DLK_WORD_MAX);
	snprintf(text, sizeof(text), "%s%s", GOOD, word);
	assert_false(ours(text));
}

static void a_buffer_too_small_is_an_error(void **state)
{
	struct dlk_token t = sample();
	char text[DLK_TOKEN_MAX];

	(void)state;
	assert_int_equal(dlk_token_format(&t, text, strlen(GOOD)),
			 -ENAMETOOLONG);
	assert_int_equal(dlk_token_format(&t, text, strlen(GOOD) + 1),
			 strlen(GOOD));
}

static void random_is_all_128_bits_in_hex(void **state)
{
	static const uint8_t bytes[16] = { 0x00, 0x01, 0x7f, 0x80, 0xff, 0xa5,
					   0x5a, 0x10, 0x0f, 0xf0, 0x99, 0xaa,
					   0xbb, 0xcc, 0xdd, 0xee };
	struct dlk_token t;

	(void)state;
	dlk_token_random(&t, bytes);
	assert_string_equal(t.random, "00017f80ffa55a100ff099aabbccddee");
}

/* --- words ---------------------------------------------------------------- */

static void odd_bytes_are_escaped(void **state)
{
	char word[DLK_WORD_MAX];

	(void)state;
	dlk_word(word, sizeof(word), "a b%c\n\x7f\xff\0~", 10);
	assert_string_equal(word, "a%20b%25c%0A%7F%FF%00~");
}

static void an_empty_word_is_a_dash(void **state)
{
	char word[DLK_WORD_MAX], bytes[8] = "x";

	(void)state;
	dlk_word(word, sizeof(word), "", 0);
	assert_string_equal(word, "-");
	assert_int_equal(dlk_unword(word, bytes, sizeof(bytes)), 0);
	assert_string_equal(bytes, "");
}

static void a_dash_is_not_an_empty_word(void **state)
{
	char word[DLK_WORD_MAX], bytes[8];

	(void)state;
	dlk_word(word, sizeof(word), "-", 1);
	assert_int_equal(dlk_unword(word, bytes, sizeof(bytes)), 1);
	assert_string_equal(bytes, "-");
}

static void every_byte_survives_a_word(void **state)
{
	char bytes[256], back[257], word[3 * 256 + 1];

	(void)state;
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	dlk_word(word, sizeof(word), bytes, sizeof(bytes));
	assert_int_equal(strspn(word, "!\"#$%&'()*+,-./0123456789:;<=>?@"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
				      "abcdefghijklmnopqrstuvwxyz{|}~"),
			 strlen(word));
	assert_int_equal(dlk_unword(word, back, sizeof(back)), 256);
	assert_memory_equal(bytes, back, 256);
}

/* Of "a%20a%20...": cut at any size, what is left ends with a whole piece. */
static void a_cut_is_never_inside_an_escape(void **state)
{
	char word[64];

	(void)state;
	for (size_t size = 2; size < sizeof(word); size++) {
		size_t len;

		memset(word, 'x', sizeof(word));
		dlk_word(word, size, "a a a a a a a a a a a a a a a a ", 32);
		len = strlen(word);
		assert_true(len < size && len + 3 >= size);
		assert_true(len % 4 == 0 || len % 4 == 1);
	}
}

static void a_broken_escape_stands_for_itself(void **state)
{
	char bytes[16];

	(void)state;
	assert_int_equal(dlk_unword("%4", bytes, sizeof(bytes)), 2);
	assert_string_equal(bytes, "%4");
	assert_int_equal(dlk_unword("%zz%41", bytes, sizeof(bytes)), 4);
	assert_string_equal(bytes, "%zzA");
}

static void unescaping_stops_at_the_buffer(void **state)
{
	char bytes[4] = "xxx";

	(void)state;
	assert_int_equal(dlk_unword("abcdef", bytes, 3), 2);
	assert_string_equal(bytes, "ab");
	assert_int_equal(bytes[3], '\0');
}

/* --- what is not ours ----------------------------------------------------- */

static void values_of_other_libraries_are_not_ours(void **state)
{
	static const char *const foreign[] = {
		"",
		" ",
		"1",
		"5f0c8e6f4a1b4c5d9e8f7a6b5c4d3e2f",        /* redis-py */
		"b3VyIHZhbHVlIGlzIGJhc2U2NA==",            /* redsync */
		"c56a4180-65aa-42ec-a945-5fd21dec0538",    /* a uuid */
		"c56a4180-65aa-42ec-a945-5fd21dec0538:17", /* redisson */
		"host|4711",                               /* phpredis */
		"dlock1",
		"dlock1 ",
		/* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one */
		"dlock12 " RANDOM,
	};

	(void)state;
	assert_true(ours(GOOD));
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
		assert_false(ours(foreign[i]));
}

static void no_prefix_of_ours_is_ours(void **state)
{
	const size_t command = sizeof(GOOD) - sizeof("job");
	struct dlk_token t;

	(void)state;
	for (size_t len = 0; len <= command; len++)
		assert_false(dlk_token_parse(GOOD, len, &t));
}

static void another_word_count_is_not_ours(void **state)
{
	(void)state;
	assert_true(ours(GOOD " /a/path"));
	assert_false(ours(GOOD " /a/path more"));
	assert_false(ours(GOOD " /a/path "));
	assert_false(ours(GOOD " "));
	assert_false(ours(" " GOOD));
	assert_false(ours("dlock1  " RANDOM
			  " boot 8:1:- 00000000000000000042 7 host job"));
}

static void a_path_is_the_last_word(void **state)
{
	char text[DLK_TOKEN_MAX];
	struct dlk_token t;

	(void)state;
	assert_true(dlk_token_parse(GOOD, strlen(GOOD), &t));
	assert_string_equal(t.path, "");
	dlk_word_path(t.path, sizeof(t.path), "/a b/%", 6);
	assert_true(dlk_token_format(&t, text, sizeof(text)) > 0);
	assert_string_equal(text, GOOD " /a%20b/%25");
	assert_true(dlk_token_parse(text, strlen(text), &t));
	assert_string_equal(t.path, "/a%20b/%25");
}

static void a_path_without_room_is_left_out(void **state)
{
	char text[sizeof(GOOD) + 4];
	struct dlk_token t;

	(void)state;
	assert_true(dlk_token_parse(GOOD " /ab", strlen(GOOD) + 4, &t));
	assert_int_equal(dlk_token_format(&t, text, sizeof(text)),
			 strlen(GOOD) + 4);
	assert_int_equal(dlk_token_format(&t, text, sizeof(text) - 1),
			 strlen(GOOD));
	assert_string_equal(text, GOOD);
	assert_int_equal(dlk_token_format(&t, text, sizeof(GOOD)),
			 strlen(GOOD));
}

static void of_a_long_path_the_end_is_kept(void **state)
{
	char word[10];

	(void)state;
	dlk_word_path(word, sizeof(word), "/a/bcdefg", 9);
	assert_string_equal(word, "/a/bcdefg");
	dlk_word_path(word, sizeof(word), "/a/bcdefgh", 10);
	assert_string_equal(word, "...cdefgh");
	/* Never a part of a %XX. */
	dlk_word_path(word, sizeof(word), "/aaaaaa b c", 11);
	assert_string_equal(word, "...b%20c");
	dlk_word_path(word, sizeof(word), "       ", 7);
	assert_string_equal(word, "...%20%20");
}

static void other_white_space_is_not_ours(void **state)
{
	struct dlk_token t;

	(void)state;
	assert_false(ours(GOOD "\n"));
	assert_false(ours(GOOD "\t"));
	assert_false(dlk_token_parse(GOOD, sizeof(GOOD), &t));
}

static void bytes_outside_ascii_are_not_ours(void **state)
{
	(void)state;
	assert_false(ours(GOOD "\xc3\xbc"));
	assert_false(ours(GOOD "\x7f"));
}

static void random_of_another_length_is_not_ours(void **state)
{
	(void)state;
	assert_false(ours("dlock1 0123456789abcdef0123456789abcde boot f "
			  "00000000000000000042 7 host job"));
	assert_false(ours("dlock1 " RANDOM "0 boot f "
			  "00000000000000000042 7 host job"));
}

static void since_has_20_digits_that_fit(void **state)
{
	static const char *const bad[] = {
		"0000000000000000042",
		"000000000000000000042",
		"0000000000000000004x",
		"18446744073709551616",
		"-",
	};
	char text[DLK_TOKEN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "dlock1 %s b f %s 7 host job",
			 RANDOM, bad[i]);
		assert_false(ours(text));
	}
}

static void a_pid_fits_32_bits(void **state)
{
	static const char *const bad[] = { "4294967296", "99999999999999999999",
					   "-1", "7x", "0x7" };
	char text[DLK_TOKEN_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text),
			 "dlock1 %s b f 00000000000000000042 %s host job",
			 RANDOM, bad[i]);
		assert_false(ours(text));
	}
}

/* --- any token ------------------------------------------------------------ */

static void any_word(struct lcg *g, char *word)
{
	char bytes[DLK_WORD_MAX];
	size_t len = lcg_below(g, sizeof(bytes));

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)lcg_u32(g);
	dlk_word(word, DLK_WORD_MAX, bytes, len);
}

static void any_token_survives_the_trip(void **state)
{
	struct lcg g = { 20240601 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct dlk_token t = { 0 };
		uint8_t bytes[16];

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)lcg_u32(&g);
		dlk_token_random(&t, bytes);
		any_word(&g, t.host);
		any_word(&g, t.file);
		any_word(&g, t.hostname);
		any_word(&g, t.command);
		t.since_ns = lcg_u64(&g) >> lcg_below(&g, 64);
		t.pid = lcg_u32(&g) >> lcg_below(&g, 32);
		assert_round_trip(&t);
	}
}

static void any_bytes_survive_a_word(void **state)
{
	struct lcg g = { 7 };

	(void)state;
	for (int i = 0; i < 50000; i++) {
		char bytes[32], back[33], word[3 * 32 + 1];
		size_t len = lcg_below(&g, sizeof(bytes) + 1);

		for (size_t k = 0; k < len; k++)
			bytes[k] = (char)lcg_u32(&g);
		dlk_word(word, sizeof(word), bytes, len);
		assert_int_equal(dlk_unword(word, back, sizeof(back)), len);
		assert_memory_equal(bytes, back, len);
	}
}

/* 1 of the same host and file, and 2 if it is older; else 0. */
static int place_of(const char *theirs)
{
	bool older = false;

	if (!dlk_token_same_place(GOOD, strlen(GOOD), theirs, strlen(theirs),
				  &older))
		return 0;
	return older ? 2 : 1;
}

static void a_place_is_a_host_and_a_file(void **unused)
{
	(void)unused;
#define OTHER(host, file, since)                                               \
	"dlock1 " RANDOM " " host " " file " " since " 9 name command"
	assert_int_equal(place_of(GOOD), 1);
	assert_int_equal(
		place_of(OTHER("boot", "8:1:-", "00000000000000000043")), 1);
	assert_int_equal(
		place_of(OTHER("boot", "8:1:-", "00000000000000000041")), 2);
	assert_int_equal(
		place_of(OTHER("boot:x", "8:1:-", "00000000000000000041")), 0);
	assert_int_equal(
		place_of(OTHER("boot", "8:2:-", "00000000000000000041")), 0);
	/* A claim is of no lock of the kernel's. */
	assert_int_equal(place_of(OTHER("boot", "8:1:-", DLK_NEVER)), 0);
	assert_int_equal(place_of("somebody"), 0);
#undef OTHER
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_written_as_documented),
		cmocka_unit_test(is_read_as_documented),
		cmocka_unit_test(numbers_keep_their_limits),
		cmocka_unit_test(words_keep_their_limits),
		cmocka_unit_test(a_word_too_long_is_not_ours),
		cmocka_unit_test(a_buffer_too_small_is_an_error),
		cmocka_unit_test(random_is_all_128_bits_in_hex),
		cmocka_unit_test(odd_bytes_are_escaped),
		cmocka_unit_test(an_empty_word_is_a_dash),
		cmocka_unit_test(a_dash_is_not_an_empty_word),
		cmocka_unit_test(every_byte_survives_a_word),
		cmocka_unit_test(a_cut_is_never_inside_an_escape),
		cmocka_unit_test(a_broken_escape_stands_for_itself),
		cmocka_unit_test(unescaping_stops_at_the_buffer),
		cmocka_unit_test(values_of_other_libraries_are_not_ours),
		cmocka_unit_test(no_prefix_of_ours_is_ours),
		cmocka_unit_test(another_word_count_is_not_ours),
		cmocka_unit_test(a_path_is_the_last_word),
		cmocka_unit_test(a_path_without_room_is_left_out),
		cmocka_unit_test(of_a_long_path_the_end_is_kept),
		cmocka_unit_test(other_white_space_is_not_ours),
		cmocka_unit_test(bytes_outside_ascii_are_not_ours),
		cmocka_unit_test(random_of_another_length_is_not_ours),
		cmocka_unit_test(since_has_20_digits_that_fit),
		cmocka_unit_test(a_pid_fits_32_bits),
		cmocka_unit_test(a_place_is_a_host_and_a_file),
		cmocka_unit_test(any_token_survives_the_trip),
		cmocka_unit_test(any_bytes_survive_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
