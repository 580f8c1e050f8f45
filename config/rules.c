/* SPDX-License-Identifier: MIT */
/*
 * path sections.
 *
 *  1. A prefix is absolute and literal: no ".", "..", control byte.  Slashes
 *     in a row are one, so that one place cannot have two rules.
 *  2. A prefix that ends in '/' is a directory and all below it; one that
 *     does not is that one file.
 *  3. A prefix that leads elsewhere, by symbolic links, covers that place
 *     too (place.c).  Two that lead to one place are an error, for it would
 *     have two rules.
 *  4. A ttl that its Redis' connect_timeout could eat up is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"

enum { TIMEOUT_MS = 5 * 1000, PAUSE_MS = 3600 * 1000 };

static int bad_prefix(struct dlk_build *b, cfg_t *sec, const char *why)
{
	return dlk_fail(b, sec->line, "path \"%.300s\" %s", cfg_title(sec),
			why);
}

/* A component "." or ".." never stands in a kernel's path. */
bool dlk_path_has_dots(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/.")); p++) {
		size_t dots = strspn(p + 1, ".");

		if (dots <= 2 && (p[1 + dots] == '/' || !p[1 + dots]))
			return true;
	}
	return false;
}

static size_t squeeze_slashes(char *path)
{
	char *to = path;
	const char *from;

	for (from = path; *from; from++) {
		if (*from != '/' || to == path || to[-1] != '/')
			*to++ = *from;
	}
	*to = '\0';
	return (size_t)(to - path);
}

static int read_prefix(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	const char *title = cfg_title(sec);
	char *prefix;

	if (*title != '/')
		return bad_prefix(b, sec,
				  "is not absolute (a prefix begins with '/')");
	if (dlk_has_control(title))
		return bad_prefix(b, sec, "holds a control byte");
	if (dlk_path_has_dots(title))
		return bad_prefix(b, sec,
				  "has a component \".\" or \"..\" (write the "
				  "path that it leads to)");
	if (strlen(title) >= DLK_PATH_MAX)
		return bad_prefix(b, sec, "is longer than 4095 bytes");
	prefix = dlk_own_text(b, title);
	if (!prefix)
		return -ENOMEM;
	rule->prefix_len = squeeze_slashes(prefix);
	rule->prefix = prefix;
	rule->line = sec->line;
	return 0;
}

/* It is there, and can be what the rule takes it for; or it is said. */
static bool covers_something(struct dlk_build *b, const struct dlk_rule *rule,
			     const struct dlk_place *place)
{
	bool wanted = dlk_rule_is_directory(rule);

	if (place->unasked)
		return true;
	/* One file may be made later, in a directory that is there. */
	if (place->lacks)
		return place->lacks == 1 && !wanted;
	if (wanted == place->directory)
		return true;
	dlk_warn(b, rule->line,
		 wanted ? "path \"%.300s\" manages nothing: it is no directory "
			  "(without the slash at its end it names the file)"
			: "path \"%.300s\" is a directory, of which this "
			  "manages nothing but locks of the directory itself "
			  "(with a slash at its end it names what is in it)",
		 rule->prefix);
	return false;
}

/* A prefix that cannot be followed is taken as it is written. */
static int read_place(struct dlk_build *b, struct dlk_rule *rule)
{
	struct dlk_reach *reach = &b->own->pub.reach;
	const struct dlk_place *place = &b->search->place;

	rule->place = rule->prefix;
	rule->place_len = rule->prefix_len;
	rule->movable = true;
	if (!dlk_place_find(rule->prefix, reach, b->search)) {
		rule->there = covers_something(b, rule, place);
		rule->place = dlk_own_text(b, place->path);
		rule->place_len = place->len;
		rule->movable = place->linked || place->lacks || place->unasked;
	}
	b->own->pub.n_there += rule->there;
	b->own->pub.n_movable += rule->movable;
	return rule->place ? 0 : -ENOMEM;
}

static int check_unique(struct dlk_build *b, cfg_t *sec, unsigned n)
{
	const struct dlk_rule *new = &b->rules[n];

	for (unsigned i = 0; i < n; i++) {
		const struct dlk_rule *old = &b->rules[i];

		if (!strcmp(old->prefix, new->prefix))
			return dlk_fail(b, sec->line,
					"path \"%.300s\" has a section "
					"already, in line %d",
					new->prefix, old->line);
		if (!strcmp(old->place, new->place))
			return dlk_fail(
				b, sec->line,
				"path \"%.300s\" leads to the same place as "
				"path \"%.300s\" in line %d, to \"%.300s\" "
				"(one of the two has to go)",
				new->prefix, old->prefix, old->line,
				new->place);
	}
	return 0;
}

static const struct dlk_redis *find_redis(const struct dlk_build *b,
					  const char *name)
{
	for (unsigned i = 0; i < b->own->pub.n_redis; i++) {
		if (!strcmp(b->redis[i].name, name))
			return &b->redis[i];
	}
	return NULL;
}

static int read_redis(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	const char *name = dlk_opt_text(sec, "redis");

	if (!name && b->own->pub.n_redis == 1) {
		rule->redis = b->redis;
		return 0;
	}
	if (!name)
		return dlk_fail(b, sec->line,
				"path \"%.300s\" does not say which redis "
				"(option 'redis' may be left out where there "
				"is exactly one redis section; here are %u)",
				rule->prefix, b->own->pub.n_redis);
	rule->redis = find_redis(b, name);
	if (!rule->redis)
		return dlk_opt_fail(
			b, sec, "redis",
			"\"%.200s\" is not the name of a redis section", name);
	return 0;
}

static int read_key(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	const char *key = dlk_opt_text(sec, "key"), *wrong;

	if (!key)
		key = "dlock:%p";
	wrong = dlk_key_check(key);
	if (wrong)
		return dlk_opt_fail(b, sec, "key", "\"%.200s\" %s", key, wrong);
	rule->by_inode = dlk_key_by_inode(key);
	rule->tells_path = dlk_key_tells_path(key);
	if (!rule->by_inode && !rule->tells_path && dlk_rule_is_directory(rule))
		dlk_opt_warn(b, sec, "key",
			     "\"%.200s\" has neither %%p nor %%r nor %%i: all "
			     "files below the prefix share one lock",
			     key);
	rule->key = dlk_own_text(b, key);
	return rule->key ? 0 : -ENOMEM;
}

static int read_exclude(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	unsigned n = cfg_size(sec, "exclude"), i;
	const char **patterns = dlk_own(b, n, sizeof(*patterns));

	if (!patterns)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		const char *text = cfg_getnstr(sec, "exclude", i);
		const char *wrong = dlk_glob_check(text);

		if (wrong)
			return dlk_opt_fail(b, sec, "exclude", "\"%.200s\" %s",
					    text, wrong);
		patterns[i] = dlk_own_text(b, text);
		if (!patterns[i])
			return -ENOMEM;
	}
	rule->exclude = patterns;
	rule->n_exclude = n;
	return 0;
}

/*
 * A lease is renewed when a third of its ttl has passed.  If that renewal
 * meets a dead connection, it costs one command's timeout, then a connect,
 * then a command again, and all of it must be over while the lease can still
 * be proved (DESIGN L5, L6): three timeouts in the ttl's second half.  A
 * timeout that is not written is 0 here, for it follows the ttl (servers.c).
 */
static int check_ttl(struct dlk_build *b, cfg_t *sec,
		     const struct dlk_rule *rule)
{
	uint64_t connect = rule->redis->endpoints[0].connect_timeout_ms;
	uint64_t least = connect * DLK_TTL_PER_TIMEOUT;

	if (rule->ttl_ms >= least)
		return 0;
	return dlk_opt_fail(
		b, sec, "ttl",
		"\"%s\" is too short: redis \"%.100s\" has a connect_timeout "
		"of %s, and %d times that, %s, is the least (a renewal, sent "
		"after a third of the ttl, a command that times out and a "
		"reconnect must fit before the deadline)",
		dlk_span(rule->ttl_ms).text, rule->redis->name,
		dlk_span(connect).text, DLK_TTL_PER_TIMEOUT,
		dlk_span(least).text);
}

static int read_times(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	rule->ttl_ms = DLK_TTL_DEFAULT_MS;
	rule->timeout_ms = TIMEOUT_MS;
	return dlk_opt_duration(b, sec, "ttl", DLK_TTL_MIN_MS, DLK_TTL_MAX_MS,
				&rule->ttl_ms)
		?: dlk_opt_duration(b, sec, "timeout", 0, DLK_TTL_MAX_MS,
				       &rule->timeout_ms)
		?: dlk_opt_duration(b, sec, "hold_at_least", 0,
				       DLK_TTL_MAX_MS, &rule->hold_at_least_ms)
		?: check_ttl(b, sec, rule);
}

/* The words stand in the order of their enums; the first is the default. */
static int read_choices(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	static const char *const lost[] = { "kill", "hold", "pause", "report",
					    NULL };
	static const char *const unreachable[] = { "fail", "local", NULL };
	static const char *const local[] = { "file", "shadow", NULL };
	static const char *const coherence[] = { "auto", "on", "off", NULL };

	return dlk_opt_choice(b, sec, "on_lost", lost, &rule->on_lost)
		?: dlk_opt_choice(b, sec, "unreachable", unreachable,
				     &rule->unreachable)
		?: dlk_opt_choice(b, sec, "local", local, &rule->local)
		?: dlk_opt_choice(b, sec, "coherence", coherence,
				     &rule->coherence);
}

/* There is no order of those who wait where there is no queue. */
static int check_fair(struct dlk_build *b, cfg_t *sec,
		      const struct dlk_rule *rule)
{
	if (!rule->fair || rule->redis->mode != DLK_QUORUM)
		return 0;
	return dlk_opt_fail(b, sec, "fair",
			    "a quorum has no queue (redis \"%.200s\", mode = "
			    "\"quorum\")",
			    rule->redis->name);
}

/*
 * A program that knows nothing of us leaves no trace of what it was granted
 * meanwhile; and so its holder would go on.
 */
static int read_pause(struct dlk_build *b, cfg_t *sec, struct dlk_rule *rule)
{
	uint32_t most = PAUSE_MS;
	int ret = dlk_opt_duration(b, sec, "pause_at_most", 1000,
				   DLK_TTL_MAX_MS, &most);

	if (ret || rule->on_lost != DLK_LOST_PAUSE)
		return ret;
	rule->pause_ms = most;
	if (!rule->interop)
		return 0;
	return dlk_opt_fail(b, sec, "on_lost",
			    "\"pause\" is not for locks that are shared with "
			    "programs without dlock (interop = true): nobody "
			    "could tell whether one of them had it meanwhile");
}

static int build_one(struct dlk_build *b, cfg_t *sec, unsigned n)
{
	struct dlk_rule *rule = &b->rules[n];

	return read_prefix(b, sec, rule)
		?: read_place(b, rule)
		?: check_unique(b, sec, n)
		?: read_redis(b, sec, rule)
		?: read_key(b, sec, rule)
		?: read_exclude(b, sec, rule)
		?: read_times(b, sec, rule)
		?: read_choices(b, sec, rule)
		?: dlk_opt_bool(b, sec, "fair", &rule->fair)
		?: check_fair(b, sec, rule)
		?: dlk_opt_bool(b, sec, "interop", &rule->interop)
		?: read_pause(b, sec, rule);
}

/* Longest first; equal lengths by name, so that every run is alike. */
static int by_prefix(const void *a, const void *b)
{
	const struct dlk_rule *x = a, *y = b;

	if (x->prefix_len != y->prefix_len)
		return x->prefix_len < y->prefix_len ? 1 : -1;
	return strcmp(x->prefix, y->prefix);
}

int dlk_rules_build(struct dlk_build *b, cfg_t *cfg)
{
	unsigned n = cfg_size(cfg, "path"), i;
	int ret = 0;

	b->rules = dlk_own(b, n, sizeof(*b->rules));
	b->search = dlk_own(b, 1, sizeof(*b->search));
	if (!b->rules || !b->search)
		return -ENOMEM;
	b->own->pub.reach.learn = true;
	for (i = 0; !ret && i < n; i++)
		ret = build_one(b, cfg_getnsec(cfg, "path", i), i);
	if (ret)
		return ret;
	if (n)
		qsort(b->rules, n, sizeof(*b->rules), by_prefix);
	b->own->pub.rules = b->rules;
	b->own->pub.n_rules = n;
	return 0;
}
