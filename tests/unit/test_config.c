/* SPDX-License-Identifier: MIT */
/*
 * The configuration: what each option becomes, what is refused and how it is
 * said, which rule a path falls under.
 */
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
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/internal.h"
#include "tests/unit/dir.h"

#define R        "redis \"main\" { url = \"redis://h\" }\n"
#define P(body)  R "path \"/x/\" {\n" body "\n}\n"
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static struct dlk_error error;
static char warnings[4096];

static void note(void *arg, const char *text)
{
	(void)arg;
	snprintf(warnings + strlen(warnings),
		 sizeof(warnings) - strlen(warnings), "%s\n", text);
}

static int parse_len(const char *text, size_t len, bool secure,
		     struct dlk_config **out)
{
	warnings[0] = '\0';
	return dlk_config_parse("c", text, len, secure, note, NULL, out,
				&error);
}

static struct dlk_config *good(const char *text)
{
	struct dlk_config *config = NULL;

	if (parse_len(text, strlen(text), false, &config))
		fail_msg("%s\n%s", text, error.text);
	return config;
}

static void bad(const char *text, const char *why)
{
	struct dlk_config *config = NULL;

	if (parse_len(text, strlen(text), false, &config) != -EINVAL)
		fail_msg("accepted: %s", text);
	assert_null(config);
	if (!strstr(error.text, why))
		fail_msg("%s\nsays: %s\nnot: %s", text, error.text, why);
}

static void warns(const char *text, const char *what)
{
	dlk_config_free(good(text));
	if (!strstr(warnings, what))
		fail_msg("%s\nwarns: %s\nnot: %s", text, warnings, what);
}

/* --- values ---------------------------------------------------------- */

static void the_sample_parses_as_it_is(void **state)
{
	struct dlk_config *config = NULL;
	const struct dlk_rule *rule;

	(void)state;
	warnings[0] = '\0';
	if (dlk_config_load("config/dlock.conf", true, note, NULL, &config,
			    &error))
		fail_msg("%s", error.text);
	assert_string_equal(warnings, "");
	rule = dlk_config_match(config, "/var/lock/jobs/a", 16);
	assert_non_null(rule);
	assert_string_equal(rule->redis->name, "main");
	assert_string_equal(rule->redis->endpoints->name, "127.0.0.1:6379/0");
	dlk_config_free(config);
}

/* A line "# NAME = VALUE" of the sample states a default. */
static void the_sample_shows_the_defaults(void **state)
{
	static const char *const lines[] = {
		"# mode = \"single\"",
		"# connect_timeout = \"2s\"",
		"# restart_delay = \"30s\"",
		"# replicas = 0",
		"# key = \"dlock:%p\"",
		"# ttl = \"30s\"",
		"# timeout = \"5s\"",
		"# on_lost = \"kill\"",
		"# unreachable = \"fail\"",
		"# local = \"file\"",
		"# coherence = \"auto\"",
		"# fair = false",
		"# interop = false",
		"# exclude = ",
		"# urls = ",
		"# username = ",
		"# password_file = ",
		"# host_id = ",
		"# state_dir = \"/run/dlock\"",
	};
	char text[8192];
	FILE *f = fopen("config/dlock.conf", "r");
	size_t i;

	(void)state;
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	for (i = 0; i < COUNT(lines); i++)
		assert_non_null(strstr(text, lines[i]));
}

static void defaults_of_a_path(void **state)
{
	struct dlk_config *config = good(P(""));
	const struct dlk_rule *rule = config->rules;

	(void)state;
	assert_string_equal(config->file, "c");
	assert_string_equal(config->host_id, "");
	assert_string_equal(config->state_dir, "/run/dlock");
	assert_int_equal(config->n_rules, 1);
	assert_string_equal(rule->prefix, "/x/");
	assert_int_equal(rule->prefix_len, 3);
	assert_ptr_equal(rule->redis, config->redis);
	assert_string_equal(rule->key, "dlock:%p");
	assert_int_equal(rule->ttl_ms, 30000);
	assert_int_equal(rule->timeout_ms, 5000);
	assert_int_equal(rule->on_lost, DLK_LOST_KILL);
	assert_int_equal(rule->unreachable, DLK_UNREACHABLE_FAIL);
	assert_int_equal(rule->local, DLK_LOCAL_FILE);
	assert_int_equal(rule->coherence, DLK_COHERENCE_AUTO);
	assert_false(rule->fair);
	assert_false(rule->interop);
	assert_int_equal(rule->n_exclude, 0);
	assert_int_equal(rule->line, 2);
	dlk_config_free(config);
}

static void defaults_of_a_redis(void **state)
{
	struct dlk_config *config = good(R);
	const struct dlk_redis *redis = config->redis;

	(void)state;
	assert_int_equal(config->n_redis, 1);
	assert_string_equal(redis->name, "main");
	assert_int_equal(redis->mode, DLK_SINGLE);
	assert_int_equal(redis->n_endpoints, 1);
	assert_int_equal(redis->replicas, 0);
	assert_int_equal(redis->line, 1);
	assert_int_equal(redis->endpoints->connect_timeout_ms, 2000);
	assert_int_equal(redis->endpoints->restart_delay_ms, 30000);
	assert_string_equal(redis->endpoints->password, "");
	dlk_config_free(config);
}

static void every_option_of_a_path(void **state)
{
	struct dlk_config *config = good(
		R "path '/y' { redis = main key = 'k:%r' ttl = 1m\n"
		  "timeout = 0s on_lost = hold unreachable = local\n"
		  "local = shadow coherence = off fair = true interop = on\n"
		  "exclude = { '*.tmp', # a comment in a list\n 'c/*' } }");
	const struct dlk_rule *rule = config->rules;

	(void)state;
	assert_string_equal(rule->prefix, "/y");
	assert_string_equal(rule->key, "k:%r");
	assert_int_equal(rule->ttl_ms, 60000);
	assert_int_equal(rule->timeout_ms, 0);
	assert_int_equal(rule->on_lost, DLK_LOST_HOLD);
	assert_int_equal(rule->unreachable, DLK_UNREACHABLE_LOCAL);
	assert_int_equal(rule->local, DLK_LOCAL_SHADOW);
	assert_int_equal(rule->coherence, DLK_COHERENCE_OFF);
	assert_true(rule->fair);
	assert_true(rule->interop);
	assert_int_equal(rule->n_exclude, 2);
	assert_string_equal(rule->exclude[1], "c/*");
	dlk_config_free(config);
}

static void every_option_of_a_redis(void **state)
{
	struct dlk_config *config =
		good("host_id = 'web-1'\n"
		     "redis q { mode = quorum connect_timeout = 500ms\n"
		     "restart_delay = 40s replicas = 0\n"
		     "urls = { 'redis://:p@a', 'redis://u:p@b:1/2',"
		     " 'unix:///s' } }");
	const struct dlk_redis *redis = config->redis;

	(void)state;
	assert_string_equal(config->host_id, "web-1");
	assert_int_equal(redis->mode, DLK_QUORUM);
	assert_int_equal(redis->replicas, 0);
	assert_int_equal(redis->n_endpoints, 3);
	assert_int_equal(redis->endpoints[2].connect_timeout_ms, 500);
	assert_int_equal(redis->endpoints[2].restart_delay_ms, 40000);
	assert_string_equal(redis->endpoints[1].username, "u");
	assert_string_equal(redis->endpoints[1].name, "b:1/2");
	dlk_config_free(config);
}

static void the_longest_ttl_is_the_restart_delay(void **state)
{
	struct dlk_config *config = good(
		"redis a { url = 'redis://h' } redis b { url = 'redis://i' }\n"
		"path /x/ { redis = a ttl = 20s }\n"
		"path /y/ { redis = b ttl = 90s }");

	(void)state;
	assert_int_equal(config->redis[0].endpoints->restart_delay_ms, 90000);
	assert_int_equal(config->redis[1].endpoints->restart_delay_ms, 90000);
	dlk_config_free(config);
}

static void a_path_names_one_of_several_redis(void **state)
{
	struct dlk_config *config = good(
		"redis a { url = 'redis://h' } redis b { url = 'redis://i' }\n"
		"path /x/ { redis = b }");

	(void)state;
	assert_string_equal(config->rules->redis->name, "b");
	dlk_config_free(config);
}

static void variables_expand(void **state)
{
	struct dlk_config *config;

	(void)state;
	setenv("DLK_TEST", "somewhere", 1);
	unsetenv("DLK_UNSET");
	config = good("redis m { url = \"redis://${DLK_TEST}:"
		      "${DLK_UNSET:-77}\" }\nhost_id = '${DLK_TEST}'");
	assert_string_equal(config->redis->endpoints->name, "somewhere:77/0");
	assert_string_equal(config->host_id, "${DLK_TEST}");
	dlk_config_free(config);
	bad("redis m {\nurl = \"redis://${DLK_UNSET}\" }",
	    "c:2: ${DLK_UNSET} is not set");
	bad("host_id = \"${DLK\n}\"", "c:1: \"${\" is not closed");
	bad("host_id = \"${}\"", "is not a variable");
	bad("host_id = \"${DLK_TEST-x}\"", "is not a variable");
}

static void secure_mode_refuses_variables(void **state)
{
	static const char text[] = R "host_id = \"${HOME}\"";
	static const char comment[] = R "# ${HOME} // ${HOME}\n";
	struct dlk_config *config;

	(void)state;
	assert_int_equal(parse_len(text, strlen(text), true, &config), -EINVAL);
	assert_non_null(strstr(error.text, "c:2: \"${\" is not allowed"));
	assert_int_equal(parse_len(comment, strlen(comment), true, &config), 0);
	dlk_config_free(config);
}

/* --- errors ---------------------------------------------------------- */

static void an_error_names_file_line_option_text_and_what_is_allowed(
	void **state)
{
	(void)state;
	bad("# one\n\n/* two\n three */ " R "path \"/x/\" { # four\n"
	    "\tttl = \"3x\"\n}",
	    "c:6: option 'ttl' of path \"/x/\": \"3x\" is not a duration (a "
	    "whole number with ms, s, m or h, such as \"30s\")");
	bad(P("on_lost = never"), "c:3: option 'on_lost' of path \"/x/\": "
				  "\"never\" is not one of \"kill\", \"hold\", "
				  "\"pause\", \"report\"");
	bad(P("on_lost = pause interop = true"),
	    "c:3: option 'on_lost' of path \"/x/\": \"pause\" is not for");
	bad(P("on_lost = pause pause_at_most = 10ms"), "'pause_at_most'");
	bad(P("fair = maybe"), "\"maybe\" is neither true nor false");
	bad("redis m { url = 'redis://h' replicas = -1 }",
	    "\"-1\" is not a number from 0 to 1000");
}

static void syntax_errors_have_their_line(void **state)
{
	(void)state;
	bad("\n\nredis m {\nurl = \"redis://h\n\n", "c:4: the string that");
	bad("\n/* x\n\n", "c:2: this comment is not closed");
	bad("\n\nredis m {\n\n", "c:3: the section that begins here");
	bad("\n}\n", "c:2: unexpected closing brace");
	bad("redis {\n}", "c:1: missing title");
	bad("redis m {\nurl 'x' }", "c:2: missing equal sign");
	bad(P("exclude = { *.tmp }"), "c:3: '*' outside quotes");
	bad("\nhost_id = \"a\\0b\"", "c:2: a string cannot hold a NUL");
	bad("\nhost_id = \"\\x00\"", "c:2: a string cannot hold a NUL");
	bad("\nhost_id = \"\\777\"", "c:2: invalid octal");
	bad(R "\"\" = 1", "this is no option and no section");
	bad("host_id = \"x\\", "not closed");
	bad("host_id = 'x\\", "not closed");
}

static void unknown_names_are_refused_with_the_known_ones(void **state)
{
	(void)state;
	bad("rediss m { }", "c:1: no such option 'rediss' (known here: "
			    "host_id, state_dir, redis, path)");
	bad(P("tll = 3s"), "c:3: no such option 'tll' (known here: redis, "
			   "key, ttl,");
	bad("include('/etc/passwd')", "no such option 'include'");
	bad("host_id = x\nredis m { path '/x' { } }", "no such option 'path'");
}

static void an_option_given_twice_is_refused(void **state)
{
	(void)state;
	bad(P("ttl = 30s\nttl = 40s"),
	    "c:4: option 'ttl' is given twice (line 3 has it already)");
	bad(P("exclude = {'a','b'}\nexclude = {'c','d'}"), "given twice");
	bad("host_id = a host_id = b", "given twice");
	bad(P("ttl = 30s\n\"ttl\" = 40s"), "c:4: option 'ttl' is given twice");
	bad("host_id = b\n" P("") "host_id = c", "c:6: option 'host_id'");
	dlk_config_free(good(P("exclude = {'a'}\nexclude += {'b', 'c'}")));
	dlk_config_free(good(P("ttl = 30s") "path /y/ { ttl = 30s }"));
	dlk_config_free(good(P("key = 'a=%r' exclude = {'c=','='} # ttl = 1s\n"
			       "/* ttl = 1s */ ttl = 30s")));
}

/* libconfuse calls nobody for it: the other one would win without a word. */
static void an_empty_list_is_given_as_any(void **state)
{
	struct dlk_config *config;

	(void)state;
	bad(P("exclude = {'a'}\nexclude = { }"),
	    "c:4: option 'exclude' is given twice (line 3 has it already)");
	bad(P("exclude = { }\nexclude = {'a'}"),
	    "c:4: option 'exclude' is given twice (line 3 has it already)");
	bad(P("exclude = { # none\n}\nexclude /* nor */ = {}"),
	    "c:5: option 'exclude' is given twice (line 3 has it already)");
	bad(P("exclude += {'a'} exclude = {}"), "given twice");
	bad(P("exclude += {} exclude = {}"), "given twice");
	bad(P("\"exclude\" = {'a'} 'exclude' = {}"), "given twice");
	bad(P("exclude = {'a'} \"e\\x78clude\" = {}"),
	    "c:3: an option's name holds");
	setenv("DLK_TEST", "exclude", 1);
	bad(P("exclude = {'a'} ${DLK_TEST} = {}"), "an option's name holds");
	bad("redis m { url = 'redis://h' urls = {}\nurls = {} }",
	    "c:2: option 'urls' is given twice (line 1 has it already)");
	config = good(P("exclude = {}\nexclude += {'b'}") "path /y/ {"
							  "exclude = {} }");
	assert_int_equal(
		config->rules[0].n_exclude + config->rules[1].n_exclude, 1);
	dlk_config_free(config);
}

static void a_redis_has_one_url_or_urls(void **state)
{
	(void)state;
	bad("\nredis m { }", "c:2: redis \"m\" has no url");
	bad("redis m { urls = {} }", "has no url");
	bad("redis m { url = 'redis://a' urls = { 'redis://b' } }",
	    "url is given as well");
	bad("redis m { urls = { 'redis://a', 'redis://b' } }",
	    "mode is \"single\"");
	bad("redis m { url = 'http://a' }",
	    "option 'url' of redis \"m\": \"http://a\": this is no URL");
	bad("redis m { mode = cluster urls = { 'unix:///a' } }",
	    "reached by redis:// or rediss://");
	bad("redis m { mode = cluster urls = { 'redis://u:p@a', 'redis://b' } "
	    "}",
	    "one user and password");
	bad("redis m { mode = cluster urls = { 'redis://a/1' } }",
	    "database 0 only");
	bad("redis '' { url = 'redis://a' }", "not a name");
	bad(R "redis main { url = 'redis://a' }", "duplicate");
}

#define QUORUM(more)                                                           \
	"redis m { mode = quorum urls = { 'redis://a', 'redis://b',"           \
	" 'redis://c' } " more " }\n"

static void a_quorum_counts_each_server_once(void **state)
{
	(void)state;
	bad("redis m { mode = quorum urls = { 'redis://a', 'redis://b' } }",
	    "needs 3 to 15 servers, urls names 2");
	bad("redis m { mode = quorum url = 'redis://a' }",
	    "needs 3 to 15 servers, urls names 1");
	bad("redis m { mode = quorum\nurls = { 'redis://a', 'redis://b',"
	    " 'redis://A:6379/1' } }",
	    "is one server with a:6379/0");
	bad("redis m { mode = quorum urls = { 'redis://a', 'redis://b',"
	    " 'redis://c', 'redis://d' } }",
	    "needs an odd number of servers: 4 bear no more failures than 3");
	bad(QUORUM("replicas = 1"), "option 'replicas' of redis \"m\": the "
				    "masters of a quorum are independent");
	bad(QUORUM("") "path /x/ { fair = true }",
	    "option 'fair' of path \"/x/\": a quorum has no queue");
	dlk_config_free(good(QUORUM("") "path /x/ { interop = true }"));
}

static void a_path_needs_a_redis_that_exists(void **state)
{
	(void)state;
	bad("path /x/ { }", "does not say which redis");
	bad(R "redis b { url = 'redis://h' }\npath /x/ { }",
	    "c:3: path \"/x/\" does not say which redis");
	bad(P("redis = mian"), "\"mian\" is not the name of a redis section");
}

static void a_prefix_is_absolute_and_literal(void **state)
{
	(void)state;
	bad(R "path 'x/' { }", "c:2: path \"x/\" is not absolute");
	bad(R "path '' { }", "is not absolute");
	bad(R "path '/a/./b' { }", "component");
	bad(R "path '/a/..' { }", "component");
	bad(R "path '/../a/' { }", "component");
	bad(R "path \"/a\\n\" { }", "control byte");
	dlk_config_free(good(R "path '/a/..b/.c/...' { }"));
}

static void slashes_in_a_row_are_one(void **state)
{
	struct dlk_config *config = good(R "path '//a///b//' { }");

	(void)state;
	assert_string_equal(config->rules->prefix, "/a/b/");
	assert_int_equal(config->rules->prefix_len, 5);
	dlk_config_free(config);
}

static void one_prefix_has_one_section(void **state)
{
	(void)state;
	bad(R "path '/a/' { }\npath '//a//' { }",
	    "c:3: path \"/a/\" has a section already, in line 2");
	bad(R "path '/a/' { }\npath '/a/' { }", "duplicate");
	dlk_config_free(good(R "path '/a/' { }\npath '/a' { }"));
}

#define TWO "redis \"main\" { url = \"redis://h\" connect_timeout = 2s }\n"

static void a_ttl_has_room_for_a_failed_renewal(void **state)
{
	(void)state;
	bad(TWO "path /x/ { ttl = 11999ms }",
	    "\"11999ms\" is too short: redis \"main\" has a connect_timeout of "
	    "2s, and 6 times that, 12s");
	dlk_config_free(good(TWO "path /x/ { ttl = 12s }"));
	bad("redis m { url = 'redis://h' connect_timeout = 6s }\npath /x/ { }",
	    "c:2: option 'ttl' of path \"/x/\": \"30s\" is too short");
}

static void the_default_connect_timeout_follows_the_ttls(void **state)
{
	struct dlk_config *config = good(
		"redis a { url = 'redis://h' } redis b { url = 'redis://i' }\n"
		"redis c { url = 'redis://j' connect_timeout = 1s }\n"
		"path /x/ { redis = a ttl = 5s }\n"
		"path /y/ { redis = a ttl = 200ms }\n"
		"path /z/ { redis = b ttl = 5s }\n"
		"path /c/ { redis = c ttl = 6s }\n");

	(void)state;
	assert_int_equal(config->redis[0].endpoints->connect_timeout_ms, 33);
	assert_int_equal(config->redis[1].endpoints->connect_timeout_ms, 833);
	assert_int_equal(config->redis[2].endpoints->connect_timeout_ms, 1000);
	dlk_config_free(config);
	config = good(P("ttl = 12s"));
	assert_int_equal(config->redis->endpoints->connect_timeout_ms, 2000);
	dlk_config_free(config);
}

static void a_duration_has_a_unit(void **state)
{
	(void)state;
	bad(P("timeout = \"5\""),
	    "c:3: option 'timeout' of path \"/x/\": \"5\" "
	    "has no unit (write \"5s\" for seconds; ms, "
	    "m and h are the others)");
	bad(P("ttl = 30"), "has no unit");
	bad("redis m { url = 'redis://h' restart_delay = 0 }", "has no unit");
	dlk_config_free(good(P("ttl = 1h")));
}

static void durations_have_bounds(void **state)
{
	(void)state;
	bad(P("ttl = 199ms"), "out of range (200ms to 24h)");
	bad(P("ttl = 1441m"), "out of range");
	bad(P("ttl = 99999999999999999999s"), "out of range");
	bad(P("timeout = 1441m"), "out of range");
	bad("redis m { url = 'redis://h' connect_timeout = 0s }",
	    "\"0s\" is out of range (1ms to 1m)");
	dlk_config_free(good("redis m { url = 'redis://h' connect_timeout ="
			     " 20ms } path /x/ { ttl = 200ms }"));
}

static void key_templates_are_checked(void **state)
{
	static const char *const wrong[] = { "",     "k:%x",  "k%",   "{%p}",
					     "a}%p", "\\n%p", "%i%p", "%r:%i" };
	char text[256];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(wrong); i++) {
		snprintf(text, sizeof(text), P("key = \"%s\""), wrong[i]);
		bad(text, "option 'key' of path");
	}
	warns(P("key = nightly"), "c:3: option 'key' of path \"/x/\": "
				  "\"nightly\" has neither %p nor %r");
	dlk_config_free(good(R "path /x { key = nightly }"));
	assert_string_equal(warnings, "");
	dlk_config_free(good(P("key = 'home:%i'")));
	assert_string_equal(warnings, "");
}

/* Whatever a path may be: "%r" is "rec", "ec", "c", "dlock" ... */
static void no_template_makes_a_key_of_another_kind(void **state)
{
	static const char *const rec[] = { "k%%rec",   "%%rec", "%r%%rec",
					   "k%%%r",    "%%r%r", "k%%re%r",
					   "%p%%%r%r", "%%%rc", "%%r%rc",
					   "%%%%%%rec" };
	static const char *const own[] = { "dlock%%wait:%r", "dlock%%wake:x",
					   "dlock%%run:%r",  "%r%%wait:x",
					   "dl%r%%wa%r",     "dlock%%%r",
					   "%rk%%%r%p",      "dlock%%fleet",
					   "dlock%%%rleet" };
	static const char *const good_ones[] = {
		"k%%re",          "%%rec%p",        "k%%%p",
		"%%rec.",         "dlock%%%p",      "dlock%%wai",
		"Dlock%%wait:%p", "%p%%wait:x",     "dlock%%w:%p",
		"dlock%%wait",    "x*%%wait:%p",    "dlock:%%:%p",
		"%%%p%%",         "dlock%%fleet%p",
	};
	char text[256];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(rec); i++) {
		snprintf(text, sizeof(text), P("key = \"%s\""), rec[i]);
		bad(text, "can make a key that ends in \"%rec\"");
	}
	for (i = 0; i < COUNT(own); i++) {
		snprintf(text, sizeof(text), P("key = \"%s\""), own[i]);
		bad(text, "can make a key ");
	}
	for (i = 0; i < COUNT(good_ones); i++) {
		snprintf(text, sizeof(text), P("key = \"%s\""), good_ones[i]);
		dlk_config_free(good(text));
	}
}

#define SENTINELS(more)                                                        \
	"redis m { mode = sentinel urls = { 'redis://u:p@a:26379/3', "         \
	"'redis://b:26380/3' } " more " } "

static void a_master_is_named_by_its_sentinels(void **state)
{
	const struct dlk_config *c;
	const struct dlk_endpoint *ep;

	(void)state;
	c = good(SENTINELS("master = queue replicas = 2"));
	assert_string_equal(warnings, "");
	ep = c->redis->endpoints;
	assert_int_equal(c->redis->n_endpoints, 1);
	assert_int_equal(ep->n_sentinels, 2);
	assert_string_equal(ep->host, "queue");
	assert_string_equal(ep->name, "queue/3 (by Sentinel a:26379)");
	assert_int_equal(ep->db, 3);
	assert_int_equal(ep->replicas, 2);
	assert_string_equal(ep->password, "");
	assert_string_equal(ep[1].name, "a:26379");
	assert_string_equal(ep[1].password, "p");
	assert_int_equal(ep[1].db, 0);
	assert_int_equal(ep[1].n_sentinels, 0);
	assert_int_equal(ep[2].port, 26380);
	assert_int_equal(ep[2].connect_timeout_ms, ep->connect_timeout_ms);
	dlk_config_free((struct dlk_config *)(uintptr_t)c);
	c = good(SENTINELS(""));
	assert_string_equal(c->redis->endpoints->host, "m");
	dlk_config_free((struct dlk_config *)(uintptr_t)c);
	c = good("redis m { mode = sentinel urls = { 'unix:///run/s?db=3', "
		 "'unix:///run/t?db=3' } }");
	ep = c->redis->endpoints;
	assert_string_equal(ep->name, "m/3 (by Sentinel unix:/run/s)");
	assert_string_equal(ep[2].name, "unix:/run/t");
	dlk_config_free((struct dlk_config *)(uintptr_t)c);
	bad("redis m { url = 'redis://a' master = queue }",
	    "option 'master' of redis \"m\": mode is not \"sentinel\"");
	bad("redis m { url = 'redis://a' sentinel_username = x }",
	    "option 'sentinel_username' of redis \"m\": mode is not");
	bad(SENTINELS("master = ''"), "is not the name of a master");
	bad("redis m { mode = sentinel urls = { 'redis://a/1', 'redis://b/2' } "
	    "}",
	    "a:6379/1 and b:6379/2 differ in what is the master's");
	bad("redis m { mode = sentinel urls = { 'redis://a', 'rediss://b' } }",
	    "differ in what is the master's");
	bad(SENTINELS("sentinel_username = x"),
	    "the URL of a:26379 has a user name as well");
	bad(SENTINELS("username = x"),
	    "has a user name for m/3 (by Sentinel a:26379) and no password "
	    "(password_file)");
	bad("redis m { mode = sentinel\nurls = { 'redis://a' }\n"
	    "sentinel_username = x }",
	    ":3: redis \"m\" has a user name for a:6379 and no password "
	    "(sentinel_password_file)");
}

static void what_tls_needs_is_checked(void **state)
{
	const struct dlk_config *c;

	(void)state;
	c = good("redis m { url = 'rediss://h' ca_file = /ca cert_file = /c "
		 "key_file = /k server_name = redis.example }");
	assert_string_equal(warnings, "");
	assert_int_equal(c->redis->endpoints->scheme, DLK_TLS);
	assert_string_equal(c->redis->endpoints->tls.ca_file, "/ca");
	assert_string_equal(c->redis->endpoints->tls.cert_file, "/c");
	assert_string_equal(c->redis->endpoints->tls.key_file, "/k");
	assert_string_equal(c->redis->endpoints->tls.server_name,
			    "redis.example");
	dlk_config_free((struct dlk_config *)(uintptr_t)c);
	bad("redis m { url = 'redis://h' ca_file = /ca }",
	    "option 'ca_file' of redis \"m\": no URL of this section is "
	    "rediss://");
	bad("redis m { url = 'rediss://h' ca_file = ca.pem }",
	    "\"ca.pem\" is not an absolute path");
	bad("redis m { url = 'rediss://h' server_name = '' }",
	    "\"\" is not the name of a server");
	bad("redis m { url = 'rediss://h' cert_file = /c }",
	    "option 'cert_file' of redis \"m\": key_file is missing");
	bad("redis m { url = 'rediss://h' key_file = /k }",
	    "option 'key_file' of redis \"m\": cert_file is missing");
}

static void exclude_patterns_are_checked(void **state)
{
	(void)state;
	bad(P("exclude = { '' }"), "is empty");
	bad(P("exclude = { '/a' }"), "begins with '/'");
	bad(P("exclude = { 'a\\\\' }"), "ends in a backslash");
	bad(P("exclude = { 'a[b' }"), "'[' without its ']'");
	bad(P("exclude = { '[[:alpha:]]' }"), "character class");
}

static void a_host_id_is_one_word(void **state)
{
	char text[256] = "host_id = ";

	(void)state;
	bad("host_id = 'a b'", "option 'host_id': \"a b\" holds a space");
	bad("host_id = \"a\\tb\"", "\"a?b\" holds a space or a control byte");
	memset(text + 10, 'a', 151);
	bad(text, "is too long");
}

static void a_state_dir_is_an_absolute_path(void **state)
{
	struct dlk_config *config =
		good("state_dir = '/var/lib/dlock'\n" P(""));
	char text[256] = "state_dir = /";

	(void)state;
	assert_string_equal(config->state_dir, "/var/lib/dlock");
	dlk_config_free(config);
	bad("state_dir = run", "option 'state_dir': \"run\" is not absolute");
	bad("state_dir = \"/a\\tb\"", "\"/a?b\" holds a control byte");
	memset(text + 13, 'a', 200);
	bad(text, "is longer than 200 bytes");
}

static void a_short_restart_delay_is_a_warning(void **state)
{
	(void)state;
	warns("redis m { url = 'redis://h' restart_delay = 10s }\n"
	      "path /x/ { }",
	      "c:1: option 'restart_delay' of redis \"m\": 10s is less than "
	      "the longest ttl or hold_at_least of its paths, 30s");
	dlk_config_free(good("redis m { url = 'redis://h' restart_delay = 0s }"
			     "path /x/ { }"));
	assert_string_equal(warnings, "");
}

static void what_is_no_text_is_refused(void **state)
{
	static char big[(1 << 20) + 1];
	struct dlk_config *config;

	(void)state;
	assert_int_equal(parse_len("a\0b", 3, false, &config), -EINVAL);
	assert_non_null(strstr(error.text, "NUL"));
	memset(big, '\n', sizeof(big));
	assert_int_equal(parse_len(big, sizeof(big), false, &config), -EINVAL);
	assert_non_null(strstr(error.text, "1 MiB"));
	assert_int_equal(parse_len(big, sizeof(big) - 1, false, &config), 0);
	dlk_config_free(config);
}

static void sections_have_a_bound(void **state)
{
	static char text[40000];
	size_t len = 0;
	int i;

	(void)state;
	len += (size_t)sprintf(text, R);
	for (i = 0; i < 1024; i++)
		len += (size_t)sprintf(text + len, "path /%d { }\n", i);
	bad(text, "c:1025: more than 1024 sections");
}

static void control_bytes_do_not_reach_the_message(void **state)
{
	(void)state;
	bad(P("ttl = \"\\e[31m\""), "\"?[31m\" is not a duration");
	bad(P("ttl = \"\\x9b;1m\""), "\"?;1m\" is not a duration");
	bad(P("ttl = \"\xc3\x9b\""), "\"\xc3\x9b\" is not a duration");
}

/* --- files ----------------------------------------------------------- */

static const char *path_of(const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static void write_file(const char *name, mode_t mode, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path_of(name), mode), 0);
}

static int load(const char *path, struct dlk_config **config)
{
	warnings[0] = '\0';
	return dlk_config_load(path, false, note, NULL, config, &error);
}

static const char *with_pass(const char *rest)
{
	static char text[512];

	snprintf(text, sizeof(text),
		 "redis m { url = 'redis://%s'\n"
		 "password_file = '%s' }",
		 rest, path_of("pass"));
	return text;
}

static void a_password_is_the_files_one_line(void **state)
{
	static const char *const texts[] = { "s e#c", "s e#c\n", "s e#c\r\n" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(texts); i++) {
		struct dlk_config *config;

		write_file("pass", 0600, texts[i]);
		config = good(with_pass("u@h"));
		assert_string_equal(warnings, "");
		assert_string_equal(config->redis->endpoints->password,
				    "s e#c");
		assert_string_equal(config->redis->endpoints->username, "u");
		dlk_config_free(config);
	}
}

/* What is wrong with its password file takes that Redis only. */
static void faulty(const char *why)
{
	char text[1024];
	struct dlk_config *config;

	snprintf(text, sizeof(text),
		 "%s redis other { url = 'redis://h' }\n"
		 "path /x/ { redis = m } path /y/ { redis = other }",
		 with_pass("u@h"));
	config = good(text);
	assert_int_equal(config->n_rules, 2);
	assert_null(config->redis[1].fault);
	if (!config->redis[0].fault || !strstr(config->redis[0].fault, why))
		fail_msg("%s, not %s", config->redis[0].fault, why);
	assert_string_equal(config->redis[0].endpoints->password, "");
	dlk_config_free(config);
}

static void a_bad_password_file_takes_its_redis_only(void **state)
{
	char longest[600];

	(void)state;
	write_file("pass", 0600, "\n");
	faulty("c:2: option 'password_file' of redis \"m\": ");
	faulty("is empty");
	write_file("pass", 0600, "a\nb\n");
	faulty("second line");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[599] = '\0';
	write_file("pass", 0600, longest);
	faulty("more than 511 bytes");
	longest[511] = '\n';
	longest[512] = '\0';
	write_file("pass", 0600, longest);
	dlk_config_free(good(with_pass("h")));
	bad(with_pass(":p@h"), "has a password as well");
	unlink(path_of("pass"));
	faulty("cannot be read: No such file");
	assert_int_equal(mkdir(path_of("pass"), 0700), 0);
	faulty("not a regular file");
	rmdir(path_of("pass"));
	bad("redis m { url = 'redis://h' password_file = 'pass' }",
	    "not an absolute path");
}

static void a_password_file_is_for_its_owner_and_a_group(void **state)
{
	static const struct {
		mode_t mode;
		const char *warning;
	} want[] = {
		{ 0600, NULL },
		{ 0640, NULL },
		{ 0440, NULL },
		{ 0604, "may be read by everybody (mode 604)" },
		{ 0660, "may be written by others than its owner (mode 660)" },
		{ 0602, "may be written by others than its owner (mode 602)" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(want); i++) {
		write_file("pass", want[i].mode, "p");
		warns(with_pass("h"), want[i].warning ? want[i].warning : "");
		assert_int_equal(!want[i].warning, !*warnings);
	}
}

static void a_user_name_needs_a_password(void **state)
{
	(void)state;
	bad("redis m { url = 'redis://u@h' }", "no password");
	bad("redis m { url = 'redis://h' username = u }", "no password");
	bad("redis m { url = 'redis://u:p@h' username = v }",
	    "has a user name as well");
	bad("redis m { url = 'redis://:p@h' username = '' }",
	    "not a user name");
}

static void a_helper_has_the_password_alone(void **state)
{
	struct dlk_config *config;
	char text[600];

	(void)state;
	write_file("pass", 0604, "secret");
	snprintf(text, sizeof(text),
		 "redis m { url = 'redis://u@h' password_file = '%s'\n"
		 "credentials = helper }",
		 path_of("pass"));
	warns(text, "may be read by everybody (mode 604)");
	unlink(path_of("pass"));
	config = good(text);
	assert_null(config->redis->fault);
	assert_string_equal(config->redis->endpoints->password, "");
	assert_string_equal(config->redis->endpoints->password_file,
			    path_of("pass"));
	assert_string_equal(config->redis->endpoints->username, "u");
	dlk_config_free(config);
	bad("redis m { url = 'redis://h' credentials = helper }",
	    "'credentials' of redis \"m\": there is no password_file");
	bad("redis m { url = 'redis://:p@h' password_file = '/p'\n"
	    "credentials = helper }",
	    "which every program reads");
	bad("redis m { url = 'redis://h' credentials = me }",
	    "option 'credentials'");
}

static void a_password_in_a_public_file_is_a_warning(void **state)
{
	struct dlk_config *config;

	(void)state;
	write_file("conf", 0644, "redis m { url = 'redis://:p@h' }");
	assert_int_equal(load(path_of("conf"), &config), 0);
	assert_non_null(strstr(warnings, "everybody may read this file"));
	dlk_config_free(config);
	write_file("conf", 0600, "redis m { url = 'redis://:p@h' }");
	assert_int_equal(load(path_of("conf"), &config), 0);
	assert_string_equal(warnings, "");
	dlk_config_free(config);
}

/* As whoever runs the tests: root is refused what another is warned of. */
static void a_file_that_others_may_write_is_not_for_root(void **state)
{
	static const struct {
		mode_t mode;
		const char *why;
	} want[] = {
		{ 0644, NULL },
		{ 0664, NULL }, /* our own group, or root's */
		{ 0646, "conf: may be written by everybody (user " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(want); i++) {
		struct dlk_config *config;
		int ret;

		write_file("conf", want[i].mode, R);
		ret = load(path_of("conf"), &config);
		if (!want[i].why) {
			assert_int_equal(ret, 0);
			assert_string_equal(warnings, "");
		} else if (geteuid() == 0) {
			assert_int_equal(ret, -EPERM);
			assert_non_null(strstr(error.text, want[i].why));
			assert_non_null(strstr(error.text, "mode 646"));
		} else {
			assert_int_equal(ret, 0);
			assert_non_null(strstr(warnings, want[i].why));
		}
		dlk_config_free(config);
	}
}

static void no_message_shows_a_password(void **state)
{
	(void)state;
	bad("redis m { url = 'redis://u:SECRET@h:0' }", "port");
	assert_null(strstr(error.text, "SECRET"));
	bad("redis m { url = 'redis://u:SEC/RET@h' }", "%2F");
	assert_null(strstr(error.text, "SEC/"));
	bad("redis m { mode = cluster url = 'redis://u:SECRET@h/1' }", "h:");
	assert_null(strstr(error.text, "SECRET"));
}

static void only_a_regular_file_is_read(void **state)
{
	struct dlk_config *config;

	(void)state;
	assert_int_equal(load(path_of("none"), &config), -ENOENT);
	assert_non_null(strstr(error.text, "none: No such file"));
	assert_int_equal(load(dir, &config), -EINVAL);
	assert_non_null(strstr(error.text, "not a regular file"));
	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	assert_int_equal(load(path_of("fifo"), &config), -EINVAL);
	assert_null(config);
}

static void a_file_has_a_bound(void **state)
{
	struct dlk_config *config;

	(void)state;
	write_file("conf", 0600, "");
	assert_int_equal(load(path_of("conf"), &config), 0);
	dlk_config_free(config);
	assert_int_equal(truncate(path_of("conf"), (1 << 20) + 1), 0);
	assert_int_equal(load(path_of("conf"), &config), -EINVAL);
	assert_non_null(strstr(error.text, "larger than 1 MiB"));
}

/* --- matching -------------------------------------------------------- */

static const char *prefix_of(const struct dlk_config *config, const char *path)
{
	const struct dlk_rule *rule =
		dlk_config_match(config, path, strlen(path));

	return rule ? rule->prefix : "";
}

static void the_longest_prefix_wins(void **state)
{
	static const char *const want[][2] = {
		{ "/a/x", "/a/" },       { "/a/b/x", "/a/b/" },
		{ "/a/b/f", "/a/b/f" },  { "/a/b/ff", "/a/b/" },
		{ "/a/bx", "/a/" },      { "/a", "" },
		{ "/ax", "" },           { "/b/f", "" },
		{ "a/x", "" },           { "", "" },
		{ "/a/b/f/g", "/a/b/" },
	};
	struct dlk_config *config =
		good(R "path /a/ { } path /a/b/f { } path /a/b/ { }");
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(want); i++)
		assert_string_equal(prefix_of(config, want[i][0]), want[i][1]);
	dlk_config_free(config);
}

static void the_root_covers_everything(void **state)
{
	struct dlk_config *config = good(R "path / { exclude = {'tmp/*'} }");

	(void)state;
	assert_string_equal(prefix_of(config, "/etc/x"), "/");
	assert_string_equal(prefix_of(config, "/tmp/x"), "");
	dlk_config_free(config);
}

static void what_is_excluded_has_no_rule_at_all(void **state)
{
	struct dlk_config *config =
		good(R "path /a/ { } path /a/b/ { exclude = {'*.tmp', 'c/*',"
		       " 'd'} }");

	(void)state;
	assert_string_equal(prefix_of(config, "/a/b/x.tmp"), "");
	assert_string_equal(prefix_of(config, "/a/b/y/z/x.tmp"), "");
	assert_string_equal(prefix_of(config, "/a/b/c/d/e"), "");
	assert_string_equal(prefix_of(config, "/a/b/y/d"), "");
	assert_string_equal(prefix_of(config, "/a/b/y/c/e"), "/a/b/");
	assert_string_equal(prefix_of(config, "/a/x.tmp"), "/a/");
	dlk_config_free(config);
}

/* fnmatch(3) is the oracle; a pattern that is refused is not compared. */
static void globs_agree_with_fnmatch(void **state)
{
	static const char letters[] = "ab-/*?[]!\\.*";
	char pattern[9], text[9];
	uint64_t seed = 5;
	int i, k, compared = 0, matched = 0;

	(void)state;
	for (i = 0; i < 400000; i++) {
		for (k = 0; k < 8; k++) {
			seed = seed * 6364136223846793005u + 1;
			pattern[k] = letters[(seed >> 33) % 12];
			text[k] = letters[(seed >> 43) % 5];
		}
		pattern[(seed >> 50) % 8] = '\0';
		pattern[8] = text[(seed >> 54) % 8] = text[8] = '\0';
		if (dlk_glob_check(pattern))
			continue;
		compared++;
		matched += !fnmatch(pattern, text, 0);
		if (dlk_glob(pattern, text, strlen(text)) !=
		    !fnmatch(pattern, text, 0))
			fail_msg("'%s' on '%s'", pattern, text);
	}
	assert_true(compared > 100000 && matched > 1000);
}

static void a_glob_takes_bounded_time(void **state)
{
	char pattern[DLK_PATTERN_MAX + 1], text[DLK_PATH_MAX];
	int i;

	(void)state;
	for (i = 0; i < DLK_PATTERN_MAX; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[DLK_PATTERN_MAX - 1] = 'b';
	pattern[DLK_PATTERN_MAX] = '\0';
	memset(text, 'a', sizeof(text));
	for (i = 0; i < 100; i++)
		assert_false(dlk_glob(pattern, text, sizeof(text)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sample_parses_as_it_is),
		cmocka_unit_test(the_sample_shows_the_defaults),
		cmocka_unit_test(defaults_of_a_path),
		cmocka_unit_test(defaults_of_a_redis),
		cmocka_unit_test(every_option_of_a_path),
		cmocka_unit_test(every_option_of_a_redis),
		cmocka_unit_test(the_longest_ttl_is_the_restart_delay),
		cmocka_unit_test(a_path_names_one_of_several_redis),
		cmocka_unit_test(variables_expand),
		cmocka_unit_test(secure_mode_refuses_variables),
		cmocka_unit_test(
			an_error_names_file_line_option_text_and_what_is_allowed),
		cmocka_unit_test(syntax_errors_have_their_line),
		cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
		cmocka_unit_test(an_option_given_twice_is_refused),
		cmocka_unit_test(an_empty_list_is_given_as_any),
		cmocka_unit_test(a_redis_has_one_url_or_urls),
		cmocka_unit_test(a_quorum_counts_each_server_once),
		cmocka_unit_test(a_path_needs_a_redis_that_exists),
		cmocka_unit_test(a_prefix_is_absolute_and_literal),
		cmocka_unit_test(slashes_in_a_row_are_one),
		cmocka_unit_test(one_prefix_has_one_section),
		cmocka_unit_test(a_ttl_has_room_for_a_failed_renewal),
		cmocka_unit_test(the_default_connect_timeout_follows_the_ttls),
		cmocka_unit_test(a_duration_has_a_unit),
		cmocka_unit_test(durations_have_bounds),
		cmocka_unit_test(key_templates_are_checked),
		cmocka_unit_test(no_template_makes_a_key_of_another_kind),
		cmocka_unit_test(a_master_is_named_by_its_sentinels),
		cmocka_unit_test(what_tls_needs_is_checked),
		cmocka_unit_test(exclude_patterns_are_checked),
		cmocka_unit_test(a_host_id_is_one_word),
		cmocka_unit_test(a_state_dir_is_an_absolute_path),
		cmocka_unit_test(a_short_restart_delay_is_a_warning),
		cmocka_unit_test(what_is_no_text_is_refused),
		cmocka_unit_test(sections_have_a_bound),
		cmocka_unit_test(control_bytes_do_not_reach_the_message),
		cmocka_unit_test(a_password_is_the_files_one_line),
		cmocka_unit_test(a_bad_password_file_takes_its_redis_only),
		cmocka_unit_test(a_password_file_is_for_its_owner_and_a_group),
		cmocka_unit_test(a_user_name_needs_a_password),
		cmocka_unit_test(a_helper_has_the_password_alone),
		cmocka_unit_test(a_password_in_a_public_file_is_a_warning),
		cmocka_unit_test(a_file_that_others_may_write_is_not_for_root),
		cmocka_unit_test(no_message_shows_a_password),
		cmocka_unit_test(only_a_regular_file_is_read),
		cmocka_unit_test(a_file_has_a_bound),
		cmocka_unit_test(the_longest_prefix_wins),
		cmocka_unit_test(the_root_covers_everything),
		cmocka_unit_test(what_is_excluded_has_no_rule_at_all),
		cmocka_unit_test(globs_agree_with_fnmatch),
		cmocka_unit_test(a_glob_takes_bounded_time),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
