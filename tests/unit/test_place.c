/* SPDX-License-Identifier: MIT */
/*
 * Where a path leads, with realpath(3) as the oracle; and what a rule covers
 * whose prefix leads elsewhere.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/unit/dir.h"
#include "tests/unit/lcg.h"

static const char *const top = dir;

static int enter_dir(void **state)
{
	return make_dir(state) || chdir(dir);
}

static struct dlk_search search;
static struct dlk_place *const place = &search.place;

/* With everything on the way allowed. */
static int find(const char *path)
{
	struct dlk_reach reach = { .all = true };

	return dlk_place_find(path, &reach, &search);
}

static const char *leads_to(const char *below)
{
	static char path[DLK_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", top, below);
	if (find(path))
		return "error";
	assert_int_equal(place->len, strlen(place->path));
	if (strncmp(place->path, top, strlen(top)) != 0)
		return place->path;
	return place->path + strlen(top);
}

static void links_are_followed(void **state)
{
	(void)state;
	assert_int_equal(mkdir("d", 0700), 0);
	assert_int_equal(symlink("d", "rel"), 0);
	assert_int_equal(symlink("../rel/./", "d/up"), 0);
	assert_int_equal(symlink("/usr/..", "abs"), 0);
	assert_string_equal(leads_to("d/x"), "/d/x");
	assert_string_equal(leads_to("rel/x/"), "/d/x/");
	assert_string_equal(leads_to("d/up/up/x"), "/d/x");
	assert_string_equal(leads_to("abs/none/x"), "/none/x");
	assert_string_equal(leads_to("abs/"), "/");
	assert_string_equal(leads_to("abs"), "/");
}

static void what_is_missing_stays_as_it_is_written(void **state)
{
	(void)state;
	assert_int_equal(symlink("later/on", "dangling"), 0);
	assert_string_equal(leads_to("none/rel/x"), "/none/rel/x");
	assert_string_equal(leads_to("dangling/x"), "/later/on/x");
	assert_string_equal(leads_to("dangling/../../rel/x"), "/d/x");
	assert_string_equal(leads_to("top/"), "/top/");
}

static void it_is_told_what_is_there(void **state)
{
	static const struct {
		const char *below;
		bool directory, impossible;
		unsigned lacks;
		int why;
	} want[] = {
		{ "rel/", true, false, 0, 0 },
		{ "f", false, false, 0, 0 },
		{ "f/x", false, false, 1, ENOTDIR },
		{ "rel/a/b", false, false, 2, ENOENT },
		{ "no/../rel", true, true, 0, ENOENT },
	};
	char path[128];

	(void)state;
	fclose(fopen("f", "w"));
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		snprintf(path, sizeof(path), "%s/%s", top, want[i].below);
		assert_int_equal(find(path), 0);
		assert_int_equal(place->directory, want[i].directory);
		assert_int_equal(place->impossible, want[i].impossible);
		assert_int_equal(place->lacks, want[i].lacks);
		assert_int_equal(place->why, want[i].why);
	}
}

static void loops_and_giants_are_errors(void **state)
{
	static char path[2 * DLK_PATH_MAX];
	size_t i;

	(void)state;
	assert_int_equal(symlink("loop/x", "loop"), 0);
	assert_string_equal(leads_to("loop"), "error");
	for (i = 0; i < DLK_PATH_MAX - 1; i++)
		path[i] = i % 2 ? 'a' : '/';
	assert_int_equal(find(path), 0);
	path[i++] = '/';
	assert_int_equal(find(path), -ENAMETOOLONG);
	/* A path that fits, and does not where its link leads. */
	assert_int_equal(symlink("ddddddddddddddddddddddddddddddddddddd", "l"),
			 0);
	for (i = 4000; i <= 4080; i += 80) {
		memset(path, 'x', i);
		memcpy(path, top, strlen(top));
		memcpy(path + strlen(top), "/l/", 3);
		path[i] = '\0';
		assert_int_equal(find(path), i == 4000 ? 0 : -ENAMETOOLONG);
	}
}

/* A random tree of directories and links, most of them good for something. */
static void make_tree(struct lcg *g)
{
	static const char *const targets[] = { "..", ".",     "a",  "b/c",
					       "c",  "../a/", "//", "a/../b" };
	static const char *const dirs[] = { "t", "t/a", "t/b", "t/a/b",
					    "t/b/c" };
	char name[64], target[160];

	assert_int_equal(system("rm -rf t"), 0);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		mkdir(dirs[i], 0700);
	for (int i = 0; i < 6; i++) {
		const char *to = targets[lcg_below(g, 8)];

		snprintf(name, sizeof(name), "%s/%c", dirs[lcg_below(g, 5)],
			 (char)('a' + lcg_below(g, 5)));
		snprintf(target, sizeof(target), "%s%s%s",
			 lcg_below(g, 4) ? "" : top,
			 lcg_below(g, 4) ? "" : "/t/", to);
		if (symlink(target, name) && errno != EEXIST)
			fail_msg("%s", strerror(errno));
	}
}

static void realpath_agrees(void **state)
{
	char path[128], oracle[PATH_MAX];
	struct lcg seed = { 11 }, *g = &seed;
	int existed = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		int n = snprintf(path, sizeof(path), "%s/t", top), err;

		if (i % 500 == 0)
			make_tree(g);
		for (size_t k = lcg_below(g, 5); k < 6; k++)
			n += snprintf(path + n, sizeof(path) - (size_t)n, "/%c",
				      (char)('a' + lcg_below(g, 5)));
		err = find(path);
		if (!realpath(path, oracle)) {
			assert_true(err || place->lacks || place->impossible);
			continue;
		}
		existed++;
		assert_int_equal(err, 0);
		assert_int_equal(place->lacks, 0);
		assert_string_equal(place->path, oracle);
	}
	assert_true(existed > 500);
}

/* --- rules ------------------------------------------------------------ */

static struct dlk_config *parse(const char *text, struct dlk_error *error)
{
	static char whole[2048];
	struct dlk_config *config = NULL;

	snprintf(whole, sizeof(whole), "redis m { url = 'redis://h' }\n%s",
		 text);
	dlk_config_parse("c", whole, strlen(whole), false, NULL, NULL, &config,
			 error);
	return config;
}

/* The key of a path below `top`, or "none". */
static const char *key_of(const struct dlk_config *config, const char *below)
{
	static char path[DLK_PATH_MAX], key[DLK_KEY_MAX];
	const struct dlk_rule *rule;
	size_t len;

	len = (size_t)snprintf(path, sizeof(path), "%s%s", top, below);
	rule = dlk_config_match(config, path, len);
	if (!rule)
		return "none";
	assert_true(dlk_key_expand(rule, path, len, NULL, key, sizeof(key)) >
		    0);
	return key;
}

static void both_spellings_give_one_key(void **state)
{
	char text[1024], want[256];
	struct dlk_error error;
	struct dlk_config *config;

	(void)state;
	snprintf(text, sizeof(text),
		 "path '%s/rel/' { exclude = { '*.tmp' } }\n"
		 "path '%s/d/long/' { key = 'long:%%r' }\n"
		 "path '%s/l' { key = '%%r:%%p' }",
		 top, top, top);
	config = parse(text, &error);
	assert_non_null(config);
	snprintf(want, sizeof(want), "dlock:%s/rel/a/b", top);
	assert_string_equal(key_of(config, "/d/a/b"), want);
	assert_string_equal(key_of(config, "/rel/a/b"), want);
	assert_string_equal(key_of(config, "/d/b.tmp"), "none");
	assert_string_equal(key_of(config, "/rel/c/b.tmp"), "none");
	assert_string_equal(key_of(config, "/d/long/b"), "long:b");
	snprintf(want, sizeof(want), "l:%s/l", top);
	assert_string_equal(key_of(config, "/l"), want);
	assert_string_equal(
		key_of(config, "/ddddddddddddddddddddddddddddddddddddd"), want);
	assert_string_equal(key_of(config, "/d"), "none");
	assert_string_equal(key_of(config, "/dd"), "none");
	dlk_config_free(config);
}

static void one_place_has_one_rule(void **state)
{
	char text[1024], want[512];
	struct dlk_error error;

	(void)state;
	snprintf(text, sizeof(text), "path '%s/d/x/' { }\npath '%s/rel/x/' { }",
		 top, top);
	assert_null(parse(text, &error));
	snprintf(want, sizeof(want),
		 "c:3: path \"%s/rel/x/\" leads to the same place as path "
		 "\"%s/d/x/\" in line 2, to \"%s/d/x/\"",
		 top, top, top);
	if (!strstr(error.text, want))
		fail_msg("%s", error.text);
}

static void the_way_back_gives_the_written_spelling(void **state)
{
	char text[256], path[DLK_PATH_MAX], want[128];
	struct dlk_error error;
	struct dlk_config *config;
	const char *key;

	(void)state;
	snprintf(text, sizeof(text), "path '%s/rel/' { }", top);
	config = parse(text, &error);
	assert_non_null(config);
	key = key_of(config, "/d/a%");
	assert_true(dlk_key_to_path(config->rules, key, strlen(key), path,
				    sizeof(path)) > 0);
	snprintf(want, sizeof(want), "%s/rel/a%%", top);
	assert_string_equal(path, want);
	dlk_config_free(config);
}

/* Its two names, below `top`; "none" of what the rule does not cover. */
static const char *names(const struct dlk_rule *rule, const char *below)
{
	static char text[2 * DLK_PATH_MAX];
	char spelled[DLK_PATH_MAX], led[DLK_PATH_MAX];
	size_t n = strlen(top);
	size_t len =
		(size_t)snprintf(spelled, sizeof(spelled), "%s%s", top, below);
	ssize_t whole = dlk_rule_lead(rule, spelled, len, led, sizeof(led));

	if (whole < 0)
		return whole == -EINVAL ? "none" : "error";
	assert_int_equal(whole, strlen(led));
	assert_int_equal(dlk_rule_lead(rule, spelled, len, led, (size_t)whole),
			 -ENAMETOOLONG);
	whole = dlk_rule_spell(rule, spelled, len, spelled, sizeof(spelled));
	assert_int_equal(whole, strlen(spelled));
	snprintf(text, sizeof(text), "%s %s", spelled + n, led + n);
	return text;
}

static void a_linked_prefix_gives_a_file_two_names(void **state)
{
	char text[256];
	struct dlk_error error;
	struct dlk_config *config;

	(void)state;
	assert_int_equal(symlink("d/target", "file"), 0);
	snprintf(text, sizeof(text), "path '%s/rel/' { } path '%s/file' { }",
		 top, top);
	config = parse(text, &error);
	assert_non_null(config);
	assert_string_equal(names(&config->rules[1], "/rel/a/b"),
			    "/rel/a/b /d/a/b");
	assert_string_equal(names(&config->rules[1], "/d/a/b"),
			    "/rel/a/b /d/a/b");
	assert_string_equal(names(&config->rules[1], "/dd"), "none");
	assert_string_equal(names(&config->rules[0], "/d/target"),
			    "/file /d/target");
	assert_string_equal(names(&config->rules[0], "/file"),
			    "/file /d/target");
	assert_string_equal(names(&config->rules[0], "/file/x"), "none");
	dlk_config_free(config);
}

/* The path as dlk_config_follow() leaves it, below `top`, or "none". */
static const char *followed(const struct dlk_config *config, const char *below)
{
	static char path[DLK_PATH_MAX];
	const struct dlk_rule *rule;
	size_t len = (size_t)snprintf(path, sizeof(path), "%s%s", top, below);

	rule = dlk_config_match(config, path, len);
	if (dlk_config_may_follow(config, rule))
		assert_int_equal(dlk_config_follow(config, 0, path,
						   sizeof(path), &search,
						   &rule),
				 0);
	return rule ? path + strlen(top) : "none";
}

static void a_rule_covers_where_its_prefix_leads_now(void **state)
{
	char text[1024];
	struct dlk_error error;
	struct dlk_config *config;

	(void)state;
	assert_int_equal(mkdir("n1", 0700) | mkdir("n2", 0700), 0);
	assert_int_equal(symlink("n1", "now"), 0);
	snprintf(text, sizeof(text),
		 "path '%s/now/' { exclude = { '*.tmp' } }\n"
		 "path '%s/n2/in/' { }\n"
		 "path '%s/one' { }\n",
		 top, top, top);
	config = parse(text, &error);
	assert_non_null(config);
	assert_int_equal(config->n_movable, 3);
	assert_string_equal(followed(config, "/n2/f"), "none");
	assert_string_equal(followed(config, "/n1/f"), "/n1/f");
	unlink("now");
	assert_int_equal(symlink("n2", "now"), 0);
	assert_int_equal(symlink("n2/target", "one"), 0);
	assert_string_equal(followed(config, "/n2/f"), "/now/f");
	assert_string_equal(followed(config, "/n2"), "none");
	assert_string_equal(followed(config, "/n2/a.tmp"), "none");
	/* The longest wins, by whichever way it covers the path. */
	assert_string_equal(followed(config, "/n2/in/f"), "/n2/in/f");
	assert_string_equal(followed(config, "/n2/target"), "/one");
	assert_string_equal(followed(config, "/n2/target2"), "/now/target2");
	/* What it led to at the start stays. */
	assert_string_equal(followed(config, "/n1/f"), "/n1/f");
	dlk_config_free(config);
}

static void what_cannot_move_is_not_followed_again(void **state)
{
	char text[256];
	struct dlk_error error;
	struct dlk_config *config;

	(void)state;
	assert_int_equal(mkdir("fixed", 0700), 0);
	snprintf(text, sizeof(text), "path '%s/fixed/' { }", top);
	config = parse(text, &error);
	assert_non_null(config);
	assert_false(dlk_config_may_follow(config, NULL));
	dlk_config_free(config);
	snprintf(text, sizeof(text), "path '%s/now/' { }", top);
	config = parse(text, &error);
	assert_non_null(config);
	assert_true(dlk_config_may_follow(config, NULL));
	assert_false(dlk_config_may_follow(config, config->rules));
	dlk_config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_followed),
		cmocka_unit_test(what_is_missing_stays_as_it_is_written),
		cmocka_unit_test(it_is_told_what_is_there),
		cmocka_unit_test(loops_and_giants_are_errors),
		cmocka_unit_test(realpath_agrees),
		cmocka_unit_test(both_spellings_give_one_key),
		cmocka_unit_test(one_place_has_one_rule),
		cmocka_unit_test(the_way_back_gives_the_written_spelling),
		cmocka_unit_test(a_linked_prefix_gives_a_file_two_names),
		cmocka_unit_test(a_rule_covers_where_its_prefix_leads_now),
		cmocka_unit_test(what_cannot_move_is_not_followed_again),
	};

	return cmocka_run_group_tests(tests, enter_dir, remove_dir);
}
