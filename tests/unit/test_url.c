/* SPDX-License-Identifier: MIT */
/* URLs of a Redis: read whole or refused, and no password is ever shown. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"

struct good {
	const char *url;
	int scheme, db;
	unsigned port;
	const char *host, *path, *user, *password, *name;
};

static void check_good(const struct good *g)
{
	struct dlk_endpoint ep;
	struct dlk_error err = { "" };

	if (dlk_url_parse(g->url, &ep, &err))
		fail_msg("%s: %s", g->url, err.text);
	assert_int_equal(ep.scheme, g->scheme);
	assert_int_equal(ep.db, g->db);
	assert_int_equal(ep.port, g->port);
	assert_string_equal(ep.host, g->host);
	assert_string_equal(ep.path, g->path);
	assert_string_equal(ep.username, g->user);
	assert_string_equal(ep.password, g->password);
	assert_string_equal(ep.name, g->name);
}

static void reads_tcp(void **state)
{
	static const struct good good[] = {
		{ "redis://localhost", DLK_TCP, 0, 6379, "localhost", "", "",
		  "", "localhost:6379/0" },
		{ "redis://127.0.0.1:7000/3", DLK_TCP, 3, 7000, "127.0.0.1", "",
		  "", "", "127.0.0.1:7000/3" },
		{ "redis://h/", DLK_TCP, 0, 6379, "h", "", "", "", "h:6379/0" },
		{ "redis://h?db=65535", DLK_TCP, 65535, 6379, "h", "", "", "",
		  "h:6379/65535" },
		{ "redis://h/2?db=2", DLK_TCP, 2, 6379, "h", "", "", "",
		  "h:6379/2" },
		{ "rediss://h:1/1", DLK_TLS, 1, 1, "h", "", "", "", "h:1/1" },
		{ "rediss://h", DLK_TLS, 0, 6379, "h", "", "", "", "h:6379/0" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		check_good(&good[i]);
}

static void reads_ipv6_in_brackets(void **state)
{
	static const struct good good[] = {
		{ "redis://[::1]/5", DLK_TCP, 5, 6379, "::1", "", "", "",
		  "[::1]:6379/5" },
		{ "redis://[2001:db8::1]:6380", DLK_TCP, 0, 6380, "2001:db8::1",
		  "", "", "", "[2001:db8::1]:6380/0" },
		{ "redis://u:p@[fe80::1%eth0]:1", DLK_TCP, 0, 1, "fe80::1%eth0",
		  "", "u", "p", "[fe80::1%eth0]:1/0" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		check_good(&good[i]);
}

static void reads_unix(void **state)
{
	static const struct good good[] = {
		{ "unix:///run/redis.sock", DLK_UNIX, 0, 0, "",
		  "/run/redis.sock", "", "", "unix:/run/redis.sock?db=0" },
		{ "unix:///run/a%20b?db=7", DLK_UNIX, 7, 0, "", "/run/a b", "",
		  "", "unix:/run/a b?db=7" },
		{ "unix://u:p@/s", DLK_UNIX, 0, 0, "", "/s", "u", "p",
		  "unix:/s?db=0" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		check_good(&good[i]);
}

static void decodes_user_and_password(void **state)
{
	static const struct good good[] = {
		{ "redis://:secret@h", DLK_TCP, 0, 6379, "h", "", "", "secret",
		  "h:6379/0" },
		{ "redis://u%40x:p%3A%2f%25@h", DLK_TCP, 0, 6379, "h", "",
		  "u@x", "p:/%", "h:6379/0" },
		{ "redis://u:a:b@h", DLK_TCP, 0, 6379, "h", "", "u", "a:b",
		  "h:6379/0" },
		{ "redis://u@h", DLK_TCP, 0, 6379, "h", "", "u", "",
		  "h:6379/0" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(*good); i++)
		check_good(&good[i]);
}

static void refuses_what_is_no_url(void **state)
{
	static const char *const bad[] = {
		"",
		"h",
		"redis:",
		"redis:/h",
		"redis://",
		"redis:///0",
		"http://h",
		"REDIS://h",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:99999999999",
		"redis://h:1x",
		"redis://h:-1",
		"redis://h/x",
		"redis://h/-1",
		"redis://h/1/2",
		"redis://h/65536",
		"redis://h/1?db=2",
		"redis://h?db=",
		"redis://h?db=1&db=2",
		"redis://h?timeout=3",
		"redis://h?",
		"redis://h?db=1&",
		"redis://h#x",
		"redis://h h",
		"redis://h\n",
		"redis://::1",
		"redis://::1:6379",
		"redis://[::1",
		"redis://[]",
		"redis://[::g]",
		"redis://[::1]x",
		"redis://[::1%]",
		"redis://[127.0.0.1]",
		"redis://h\"",
		"redis://:@h",
		"redis://u:p%zz@h",
		"redis://u:p%0",
		"redis://u:p%4@h",
		"redis://u:%00@h",
		"unix://",
		"unix:///",
		"unix://run/s",
		"unix:///s?db=x",
		"unix:///s%00",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct dlk_endpoint ep;
		struct dlk_error err = { "" };

		if (dlk_url_parse(bad[i], &ep, &err) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
		assert_true(err.text[0]);
	}
}

static int parse_filled(const char *head, size_t n, const char *tail)
{
	struct dlk_endpoint ep;
	struct dlk_error err = { "" };
	char url[2048], fill[1024];

	memset(fill, 'a', n);
	snprintf(url, sizeof(url), "%s%.*s%s", head, (int)n, fill, tail);
	return dlk_url_parse(url, &ep, &err);
}

static void bounds_every_field(void **state)
{
	(void)state;
	assert_int_equal(parse_filled("redis://", 255, "/0"), 0);
	assert_int_equal(parse_filled("redis://", 256, "/0"), -EINVAL);
	assert_int_equal(parse_filled("redis://:", 511, "@h"), 0);
	assert_int_equal(parse_filled("redis://:", 512, "@h"), -EINVAL);
	assert_int_equal(parse_filled("redis://", 127, ":p@h"), 0);
	assert_int_equal(parse_filled("redis://", 128, ":p@h"), -EINVAL);
	assert_int_equal(parse_filled("unix:///", 106, ""), 0);
	assert_int_equal(parse_filled("unix:///", 107, ""), -EINVAL);
}

static void shows_no_password(void **state)
{
	static const char *const urls[] = {
		"redis://u:SECRET@h:0",        "redis://u:SECRET%zz@h",
		"redis://u:SECRET/x@h",        "redis://u:SECRET?x@h",
		"redis://u:SECRET#x@h",        "redis://u:SECRET@h/x",
		"redis://u:SECRET@h?x=SECRET", "redis://u:SECRET x@h",
		"unix://u:SECRET@run",         "redis://u:SECRET@h:1/2",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		struct dlk_endpoint ep;
		struct dlk_error err = { "" };

		dlk_url_parse(urls[i], &ep, &err);
		assert_null(strstr(err.text, "SECRET"));
		assert_null(strstr(ep.name, "SECRET"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_tcp),
		cmocka_unit_test(reads_ipv6_in_brackets),
		cmocka_unit_test(reads_unix),
		cmocka_unit_test(decodes_user_and_password),
		cmocka_unit_test(refuses_what_is_no_url),
		cmocka_unit_test(bounds_every_field),
		cmocka_unit_test(shows_no_password),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
