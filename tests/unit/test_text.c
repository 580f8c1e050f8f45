/* SPDX-License-Identifier: MIT */
/*
 * Text without stdio: it says what printf would say, never writes past its
 * buffer, and remembers that something did not fit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text.h"
#include "tests/unit/lcg.h"

static void starts_empty(void **state)
{
	char buf[4] = "xyz";
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	assert_string_equal(buf, "");
	assert_int_equal(t.len, 0);
	assert_false(t.cut);
}

static void an_exact_fit_is_not_cut(void **state)
{
	char buf[6];
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_str(&t, "ab");
	dlk_text_str(&t, "cde");
	assert_string_equal(buf, "abcde");
	assert_false(t.cut);
}

static void one_byte_more_is_cut(void **state)
{
	char buf[8] = "xxxxxxx";
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, 6);
	dlk_text_str(&t, "abcdef");
	assert_string_equal(buf, "abcde");
	assert_int_equal(t.len, 5);
	assert_true(t.cut);
	assert_int_equal(buf[6], 'x');
}

static void a_cut_stays_remembered(void **state)
{
	char buf[4];
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_str(&t, "abcdef");
	dlk_text_str(&t, "");
	assert_true(t.cut);
	assert_string_equal(buf, "abc");
}

static void a_buffer_of_one_byte_holds_nothing(void **state)
{
	char buf[2] = "xy";
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, 1);
	dlk_text_u64(&t, 7, 0);
	assert_int_equal(buf[0], '\0');
	assert_int_equal(buf[1], 'y');
	assert_true(t.cut);
}

static void bytes_may_be_nul(void **state)
{
	char buf[8];
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_bytes(&t, "a\0b", 3);
	assert_int_equal(t.len, 3);
	assert_memory_equal(buf, "a\0b", 4);
}

/* What the three number formats make of n, against printf(3). */
static void check_number(uint64_t n)
{
	char buf[128], want[128];
	struct dlk_text t;

	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_u64(&t, n, 0);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, n, 20);
	dlk_text_str(&t, " ");
	dlk_text_i64(&t, (int64_t)n);
	dlk_text_str(&t, " ");
	dlk_text_hex(&t, n);
	snprintf(want, sizeof(want),
		 "%" PRIu64 " %020" PRIu64 " %" PRId64 " %" PRIx64, n, n,
		 (int64_t)n, n);
	assert_string_equal(buf, want);
}

static void numbers_print_as_printf_does(void **state)
{
	static const uint64_t edges[] = {
		0,          1,         9,
		10,         15,        16,
		UINT32_MAX, INT64_MAX, (uint64_t)INT64_MIN,
		UINT64_MAX,
	};
	struct lcg g = { 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++)
		check_number(edges[i]);
	for (int i = 0; i < 20000; i++)
		check_number(lcg_u64(&g) >> lcg_below(&g, 64));
}

static void control_bytes_and_quotes_are_escaped(void **state)
{
	char buf[64];
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_quoted(&t, "a\n\x1b\"\\\x7f\0z", 8);
	assert_string_equal(buf, "a\\x0a\\x1b\\x22\\x5c\\x7f\\x00z");
}

static void utf8_passes_a_quotation(void **state)
{
	static const char word[] = "gr\xc3\xbc\xc3\x9f 1";
	char buf[64];
	struct dlk_text t;

	(void)state;
	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_quoted(&t, word, strlen(word));
	assert_string_equal(buf, word);
}

static const char *quoted(const char *bytes)
{
	static char buf[64];
	struct dlk_text t;

	dlk_text_init(&t, buf, sizeof(buf));
	dlk_text_quoted(&t, bytes, strlen(bytes));
	return buf;
}

/* 0x9b is CSI to a terminal of eight bits, U+009B to one of UTF-8. */
static void c1_controls_are_escaped(void **state)
{
	(void)state;
	assert_string_equal(quoted("\x9b;1m"), "\\x9b;1m");
	assert_string_equal(quoted("a\x80\x9f"), "a\\x80\\x9f");
	assert_string_equal(quoted("\xc2\x9b\xc2\xa0"), "\\xc2\\x9b\xc2\xa0");
	/* The same bytes in a character (U+5B5B). */
	assert_string_equal(quoted("\xe5\xad\x9b/f"), "\xe5\xad\x9b/f");
}

static void what_is_no_utf8_is_escaped(void **state)
{
	(void)state;
	assert_string_equal(quoted("caf\xe9"), "caf\\xe9");
	assert_string_equal(quoted("\xc3"), "\\xc3");
	assert_string_equal(quoted("\xc0\xaf"), "\\xc0\\xaf");
	assert_string_equal(quoted("\xed\xa0\x80"), "\\xed\\xa0\\x80");
	assert_string_equal(quoted("a\xe2\x80\xae"), "a\\xe2\\x80\\xae");
}

static void a_number_ends_where_its_digits_end(void **state)
{
	static const char text[] = "0120 x";
	uint64_t n = 0;

	(void)state;
	assert_ptr_equal(dlk_number(text, 10, &n), text + 4);
	assert_int_equal(n, 120);
}

static void hex_digits_are_lower_case(void **state)
{
	static const char text[] = "beefF";
	uint64_t n = 0;

	(void)state;
	assert_ptr_equal(dlk_number(text, 16, &n), text + 4);
	assert_int_equal(n, 0xbeef);
}

static void no_digits_are_no_number(void **state)
{
	static const char *const none[] = { "", " 1", "-1", "+1", "x", "a" };
	uint64_t n = 42;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_null(dlk_number(none[i], 10, &n));
	assert_int_equal(n, 42);
}

static void the_largest_number_is_one(void **state)
{
	uint64_t n = 0;

	(void)state;
	assert_non_null(dlk_number("18446744073709551615", 10, &n));
	assert_true(n == UINT64_MAX);
	assert_non_null(dlk_number("ffffffffffffffff", 16, &n));
	assert_true(n == UINT64_MAX);
}

static void a_number_too_large_is_none(void **state)
{
	uint64_t n = 42;

	(void)state;
	assert_null(dlk_number("18446744073709551616", 10, &n));
	assert_null(dlk_number("99999999999999999999", 10, &n));
	assert_null(dlk_number("10000000000000000", 16, &n));
	assert_int_equal(n, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(an_exact_fit_is_not_cut),
		cmocka_unit_test(one_byte_more_is_cut),
		cmocka_unit_test(a_cut_stays_remembered),
		cmocka_unit_test(a_buffer_of_one_byte_holds_nothing),
		cmocka_unit_test(bytes_may_be_nul),
		cmocka_unit_test(numbers_print_as_printf_does),
		cmocka_unit_test(control_bytes_and_quotes_are_escaped),
		cmocka_unit_test(utf8_passes_a_quotation),
		cmocka_unit_test(c1_controls_are_escaped),
		cmocka_unit_test(what_is_no_utf8_is_escaped),
		cmocka_unit_test(a_number_ends_where_its_digits_end),
		cmocka_unit_test(hex_digits_are_lower_case),
		cmocka_unit_test(no_digits_are_no_number),
		cmocka_unit_test(the_largest_number_is_one),
		cmocka_unit_test(a_number_too_large_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
