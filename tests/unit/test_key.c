/* SPDX-License-Identifier: MIT */
/* Keys: from a path to its key, back again, and no two paths alike. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static struct dlk_rule rule_of(const char *prefix, const char *key)
{
	struct dlk_rule rule = { .prefix = prefix, .key = key };

	rule.prefix_len = strlen(prefix);
	return rule;
}

static const char *expand(const char *prefix, const char *key, const char *path)
{
	static char out[DLK_KEY_MAX];
	struct dlk_rule rule = rule_of(prefix, key);
	ssize_t n = dlk_key_expand(&rule, path, strlen(path), NULL, out,
				   sizeof(out));

	assert_true(n >= 0);
	assert_int_equal(n, strlen(out));
	return out;
}

static void replaces_placeholders(void **state)
{
	(void)state;
	assert_string_equal(expand("/d/", "dlock:%p", "/d/a/b"),
			    "dlock:/d/a/b");
	assert_string_equal(expand("/d/", "x:%r:y", "/d/a/b"), "x:a/b:y");
	assert_string_equal(expand("/d/", "%%%r%%", "/d/a"), "%a%");
	assert_string_equal(expand("/d/", "%r|%p", "/d/a"), "a|/d/a");
	assert_string_equal(expand("/d/", "one", "/d/a"), "one");
}

static void rest_of_a_single_file_is_its_name(void **state)
{
	(void)state;
	assert_string_equal(expand("/d/a.lock", "k:%r", "/d/a.lock"),
			    "k:a.lock");
}

static void escapes_special_bytes_of_paths_only(void **state)
{
	(void)state;
	assert_string_equal(expand("/d/", "k:%p", "/d/{a}%\n\x7f\xc3\xa9 "),
			    "k:/d/%7Ba%7D%25%0A%7F\xc3\xa9 ");
	assert_string_equal(expand("/d/", "%%:%r", "/d/\x01"), "%:%01");
}

static void refuses_a_key_that_does_not_fit(void **state)
{
	struct dlk_rule rule = rule_of("/d/", "k:%r");
	char key[6];

	(void)state;
	assert_int_equal(dlk_key_expand(&rule, "/d/abc", 6, NULL, key, 6), 5);
	assert_string_equal(key, "k:abc");
	assert_int_equal(dlk_key_expand(&rule, "/d/abcd", 7, NULL, key, 6),
			 -ENAMETOOLONG);
	assert_int_equal(dlk_key_expand(&rule, "/d/%a", 5, NULL, key, 6),
			 -ENAMETOOLONG);
}

static void refuses_a_path_of_another_rule(void **state)
{
	struct dlk_rule rule = rule_of("/d/", "k:%r");
	char key[64];

	(void)state;
	assert_int_equal(dlk_key_expand(&rule, "/e/a", 4, NULL, key, 64),
			 -EINVAL);
	assert_int_equal(dlk_key_expand(&rule, "/d", 2, NULL, key, 64),
			 -EINVAL);
}

static void an_inode_stands_for_any_name(void **state)
{
	struct dlk_rule rule = rule_of("/d/", "k:%i:%%");
	char key[64], glob[64], path[64];

	(void)state;
	assert_int_equal(dlk_key_expand(&rule, "/d/a", 4, "17.ab", key, 64), 9);
	assert_string_equal(key, "k:17.ab:%");
	assert_int_equal(dlk_key_expand(&rule, "/d/a", 4, NULL, key, 64),
			 -EINVAL);
	assert_int_equal(dlk_key_expand(&rule, "/e/a", 4, "17", key, 64),
			 -EINVAL);
	/* There is no way back. */
	assert_int_equal(dlk_key_to_path(&rule, "k:17:%", 6, path, 64),
			 -EINVAL);
	assert_true(dlk_key_glob(&rule, glob, 64) > 0);
	assert_string_equal(glob, "k:*:%");
	assert_true(dlk_key_by_inode(rule.key));
	assert_false(dlk_key_tells_path(rule.key));
	assert_false(dlk_key_by_inode("k:%%i"));
}

static void accepts_only_keys_of_its_template(void **state)
{
	static const struct {
		const char *prefix, *key, *text;
	} bad[] = {
		{ "/d/", "k:%p", "" },           { "/d/", "k:%p", "k:" },
		{ "/d/", "k:%p", "j:/d/a" },     { "/d/", "k:%p", "k:/e/a" },
		{ "/d/", "k:%p", "k:/d/a%rec" }, { "/d/", "k:%p", "k:/d/%0a" },
		{ "/d/", "k:%p", "k:/d/%41" },   { "/d/", "k:%p", "k:/d/%00" },
		{ "/d/", "k:%p", "k:/d/%2" },    { "/d/", "k:%p", "k:/d/{a}" },
		{ "/d/", "k:%p", "{k:/d/a}%q" }, { "/d/", "%r:%r", "a:b" },
		{ "/d/", "%r:%r", "aa:a" },      { "/d/", "%r:%p", "a:/d/b" },
		{ "/d/", "one", "one" },         { "/d/f", "one", "two" },
	};
	char path[DLK_PATH_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct dlk_rule rule = rule_of(bad[i].prefix, bad[i].key);

		if (dlk_key_to_path(&rule, bad[i].text, strlen(bad[i].text),
				    path, sizeof(path)) != -EINVAL)
			fail_msg("%s accepts %s", bad[i].key, bad[i].text);
	}
}

static void a_file_rule_needs_no_placeholder(void **state)
{
	struct dlk_rule rule = rule_of("/d/f", "nightly");
	char path[64];

	(void)state;
	assert_int_equal(dlk_key_to_path(&rule, "nightly", 7, path, 64), 4);
	assert_string_equal(path, "/d/f");
}

/* A fixed generator: a failure is the same on every machine. */
static uint32_t random_bits(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

/* Few letters, so that collisions and near misses come up. */
static size_t random_path(uint64_t *seed, const char *prefix, char *path)
{
	static const char odd[] = "%%{}%0A%25\n\x01\x7f/ab7F";
	size_t len = strlen(prefix), n = 1 + random_bits(seed) % 12;

	memcpy(path, prefix, len);
	while (n--) {
		uint32_t r = random_bits(seed);

		path[len++] = r & 1 ? odd[(r >> 1) % (sizeof(odd) - 1)]
				    : (char)(1 + (r >> 1) % 255U);
	}
	path[len] = '\0';
	return len;
}

static const char *const templates[] = { "dlock:%p", "%r",   "a%%%rb%%",
					 "%p:%p",    "%r%p", "%p%r",
					 "%r:%r:%p" };
static const char *const prefixes[] = { "/d/", "/", "/%{x}\n/" };

static void the_way_back_gives_the_path(void **state)
{
	static char key[DLK_KEY_MAX], path[64], back[64];
	uint64_t seed = 1;
	int i;

	(void)state;
	for (i = 0; i < 50000; i++) {
		struct dlk_rule rule =
			rule_of(prefixes[random_bits(&seed) % 3],
				templates[random_bits(&seed) % 7]);
		size_t len = random_path(&seed, rule.prefix, path);
		ssize_t n = dlk_key_expand(&rule, path, len, NULL, key,
					   sizeof(key));

		assert_true(n > 0);
		n = dlk_key_to_path(&rule, key, (size_t)n, back, sizeof(back));
		assert_int_equal(n, len);
		assert_memory_equal(back, path, len + 1);
	}
}

/* Keys that are compared are those of neighbours: one byte is changed. */
static void no_two_paths_share_a_key(void **state)
{
	static char one[DLK_KEY_MAX], two[DLK_KEY_MAX], a[64], b[64];
	uint64_t seed = 2;
	int i;

	(void)state;
	for (i = 0; i < 50000; i++) {
		struct dlk_rule rule =
			rule_of(prefixes[random_bits(&seed) % 3],
				templates[random_bits(&seed) % 7]);
		size_t len = random_path(&seed, rule.prefix, a), len_b;

		if (i % 2) {
			len_b = random_path(&seed, rule.prefix, b);
		} else {
			len_b = len;
			memcpy(b, a, len + 1);
			b[len - 1] ^= 1;
			if (!b[len - 1])
				b[len - 1] = 'x';
		}
		assert_true(dlk_key_expand(&rule, a, len, NULL, one,
					   sizeof(one)) > 0);
		assert_true(dlk_key_expand(&rule, b, len_b, NULL, two,
					   sizeof(two)) > 0);
		assert_int_equal(!strcmp(a, b), !strcmp(one, two));
	}
}

/* Whatever the way back accepts is exactly what the way there gives. */
static void random_keys_are_refused_or_exact(void **state)
{
	static char key[64], path[128], again[DLK_KEY_MAX];
	uint64_t seed = 3;
	int i, accepted = 0;

	(void)state;
	for (i = 0; i < 100000; i++) {
		struct dlk_rule rule =
			rule_of("/d/", templates[random_bits(&seed) % 7]);
		size_t len = random_path(&seed, i % 2 ? "dlock:/d/" : "", key);
		ssize_t n =
			dlk_key_to_path(&rule, key, len, path, sizeof(path));

		if (n < 0)
			continue;
		accepted++;
		n = dlk_key_expand(&rule, path, (size_t)n, NULL, again,
				   sizeof(again));
		assert_int_equal(n, len);
		assert_memory_equal(again, key, len);
	}
	assert_true(accepted > 100);
}

static void the_glob_escapes_the_fixed_part(void **state)
{
	struct dlk_rule rule = rule_of("/d/", "a*b?[c]\\:%p%%%r");
	char glob[64], small[4];

	(void)state;
	assert_int_equal(dlk_key_glob(&rule, glob, sizeof(glob)), 17);
	assert_string_equal(glob, "a\\*b\\?\\[c\\]\\\\:*%*");
	assert_int_equal(dlk_key_glob(&rule, small, 4), -ENAMETOOLONG);
}

static void the_glob_finds_every_key(void **state)
{
	static char glob[256], key[DLK_KEY_MAX], path[64];
	uint64_t seed = 4;
	int i;

	(void)state;
	for (i = 0; i < 20000; i++) {
		struct dlk_rule rule =
			rule_of("/d/", templates[random_bits(&seed) % 7]);
		size_t len = random_path(&seed, "/d/", path);

		assert_true(dlk_key_glob(&rule, glob, sizeof(glob)) > 0);
		assert_true(dlk_key_expand(&rule, path, len, NULL, key,
					   sizeof(key)) > 0);
		assert_int_equal(fnmatch(glob, key, 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaces_placeholders),
		cmocka_unit_test(rest_of_a_single_file_is_its_name),
		cmocka_unit_test(escapes_special_bytes_of_paths_only),
		cmocka_unit_test(refuses_a_key_that_does_not_fit),
		cmocka_unit_test(refuses_a_path_of_another_rule),
		cmocka_unit_test(an_inode_stands_for_any_name),
		cmocka_unit_test(accepts_only_keys_of_its_template),
		cmocka_unit_test(a_file_rule_needs_no_placeholder),
		cmocka_unit_test(the_way_back_gives_the_path),
		cmocka_unit_test(no_two_paths_share_a_key),
		cmocka_unit_test(random_keys_are_refused_or_exact),
		cmocka_unit_test(the_glob_escapes_the_fixed_part),
		cmocka_unit_test(the_glob_finds_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
