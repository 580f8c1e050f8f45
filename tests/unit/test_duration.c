/* SPDX-License-Identifier: MIT */
/* Durations: what is one, what is none, and what does not fit. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "config/config.h"

static void reads_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "0ms", 0 },       { "0s", 0 },
		{ "1500ms", 1500 }, { "2s", 2000 },
		{ "3m", 180000 },   { "24h", 86400000 },
		{ "007s", 7000 },   { "18446744073709551615ms", UINT64_MAX },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		uint64_t ms = 42;

		assert_int_equal(dlk_duration(good[i].text, &ms), 0);
		assert_true(ms == good[i].ms);
	}
}

static void refuses_what_is_no_duration(void **state)
{
	static const char *const bad[] = {
		"",
		"s",
		"ms",
		"3x",
		"3 s",
		" 3s",
		"3s ",
		"-3s",
		"+3s",
		"1.5s",
		"3S",
		"3H",
		"3d",
		"0",
		"5",
		"18446744073709551616",
		"0x10",
		"3sm",
		"3mss",
		"1e3",
		"99999999999999999999999999x",
	};
	uint64_t ms = 42;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(dlk_duration(bad[i], &ms), -EINVAL);
	assert_int_equal(ms, 42);
}

static void refuses_what_does_not_fit(void **state)
{
	static const char *const big[] = {
		"18446744073709551616ms",
		"18446744073709551615s",
		"5124095576031h",
		"307445734561826m",
		"99999999999999999999999999ms",
	};
	uint64_t ms = 42;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(big) / sizeof(*big); i++)
		assert_int_equal(dlk_duration(big[i], &ms), -ERANGE);
	assert_int_equal(ms, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_unit),
		cmocka_unit_test(refuses_what_is_no_duration),
		cmocka_unit_test(refuses_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
