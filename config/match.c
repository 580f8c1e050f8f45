/* SPDX-License-Identifier: MIT */
/*
 * Which rule a path falls under.
 *
 *  1. The longest prefix wins, whatever the order in the file, by the spelling
 *     that covers the path: as it is written, or the place that it leads to.
 *  2. A path that its rule excludes is managed by no rule at all.
 *  3. Nothing is allocated, and no pattern takes more than pattern times
 *     text steps: this runs at every lock of the program (fnmatch(3) may
 *     allocate, and recurses at each '*').
 *
 * Pure, but for dlk_config_follow(); no locale: bytes, not characters.
 */
#include <errno.h>
#include <string.h>

#include "config/internal.h"

/* The byte after the set's '[' and '!'; the set ends at the next ']'. */
struct set {
	const char *end; /* its ']', or NULL: no set */
	bool found;
};

static unsigned char literal(const char **p)
{
	if (**p == '\\' && (*p)[1])
		(*p)++;
	return (unsigned char)*(*p)++;
}

/* A ']' right after the '[' stands for itself, as in fnmatch(3). */
static struct set read_set(const char *p, unsigned char c)
{
	struct set set = { NULL, false };
	bool negated = *p == '!' || *p == '^';
	bool first = true;

	for (p += negated; *p && (first || *p != ']'); first = false) {
		unsigned char low = literal(&p), high = low;

		if (p[0] == '-' && p[1] && p[1] != ']') {
			p++;
			high = literal(&p);
		}
		set.found |= low <= c && c <= high;
	}
	set.found ^= negated;
	set.end = *p ? p : NULL;
	return set;
}

/* One pattern element that is not '*' against one byte; where it ends. */
static const char *match_one(const char *p, unsigned char c)
{
	if (*p == '?')
		return p + 1;
	if (*p == '[') {
		struct set set = read_set(p + 1, c);

		if (set.end)
			return set.found ? set.end + 1 : NULL;
		return c == '[' ? p + 1 : NULL;
	}
	if (!*p)
		return NULL;
	return literal(&p) == c ? p : NULL;
}

/*
 * Only the last '*' is ever reconsidered: what an earlier one could take, it
 * can take as well.
 */
bool dlk_glob(const char *pattern, const char *text, size_t len)
{
	const char *p = pattern, *star = NULL, *next;
	size_t i = 0, star_i = 0;

	while (i < len) {
		if (*p == '*') {
			star = ++p;
			star_i = i;
			continue;
		}
		next = match_one(p, (unsigned char)text[i]);
		if (next) {
			p = next;
			i++;
		} else if (star) {
			p = star;
			i = ++star_i;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return !*p;
}

/* At the byte after a '['. */
static const char *check_set(const char *p, const char **end)
{
	struct set set = read_set(p, 0);

	if (!set.end)
		return "holds a '[' without its ']'";
	for (; p < set.end; p++) {
		if (*p == '[' && strchr(":=.", p[1]))
			return "holds a character class (write a range, such "
			       "as [0-9])";
	}
	*end = set.end;
	return NULL;
}

const char *dlk_glob_check(const char *pattern)
{
	const char *p, *wrong = NULL;

	if (!*pattern)
		return "is empty";
	if (*pattern == '/')
		return "begins with '/' (patterns are matched below the "
		       "prefix)";
	if (strlen(pattern) > DLK_PATTERN_MAX)
		return "is longer than 1024 bytes";
	for (p = pattern; *p && !wrong; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return "holds a control byte";
		if (*p == '[')
			wrong = check_set(p + 1, &p);
		else if (*p == '\\' && !*++p)
			return "ends in a backslash";
	}
	return wrong;
}

static bool spells(const char *prefix, size_t n, const char *path, size_t len)
{
	return n && (prefix[n - 1] == '/' ? len >= n : len == n) &&
	       !memcmp(path, prefix, n);
}

/* How many bytes of the path are the prefix, by the longer spelling; or 0. */
static size_t covered(const struct dlk_rule *rule, const char *path, size_t len)
{
	size_t n = 0;

	if (spells(rule->prefix, rule->prefix_len, path, len))
		n = rule->prefix_len;
	if (rule->place_len > n &&
	    spells(rule->place, rule->place_len, path, len))
		n = rule->place_len;
	return n;
}

bool dlk_rule_covers(const struct dlk_rule *rule, const char *path)
{
	return covered(rule, path, strlen(path)) > 0;
}

/* The path with another beginning in the place of its n first bytes. */
static ssize_t respell(const char *path, size_t len, size_t n,
		       const char *begin, size_t begin_len, char *out,
		       size_t size)
{
	size_t whole = begin_len + len - n;

	if (whole >= size)
		return -ENAMETOOLONG;
	memmove(out + begin_len, path + n, len - n);
	memcpy(out, begin, begin_len);
	out[whole] = '\0';
	return (ssize_t)whole;
}

ssize_t dlk_rule_spell(const struct dlk_rule *rule, const char *path,
		       size_t len, char *out, size_t size)
{
	size_t n = covered(rule, path, len);

	return n ? respell(path, len, n, rule->prefix, rule->prefix_len, out,
			   size)
		 : -EINVAL;
}

ssize_t dlk_rule_lead(const struct dlk_rule *rule, const char *path, size_t len,
		      char *out, size_t size)
{
	size_t n = covered(rule, path, len);

	return n ? respell(path, len, n, rule->place, rule->place_len, out,
			   size)
		 : -EINVAL;
}

size_t dlk_rule_base(const struct dlk_rule *rule)
{
	size_t n = rule->prefix_len;

	while (rule->prefix[n - 1] != '/')
		n--;
	return n;
}

bool dlk_rule_below(const struct dlk_rule *rule, const char *path, size_t len,
		    struct dlk_below *below)
{
	size_t n = covered(rule, path, len), base = dlk_rule_base(rule);

	*below = (struct dlk_below){ path + n, len - n };
	if (base < rule->prefix_len)
		*below = (struct dlk_below){ rule->prefix + base,
					     rule->prefix_len - base };
	return n > 0;
}

/* Against the path below the prefix, and against the name alone. */
static bool excluded(const struct dlk_rule *rule, const char *path, size_t len)
{
	struct dlk_below below;
	const char *slash, *name;

	dlk_rule_below(rule, path, len, &below);
	slash = memrchr(below.text, '/', below.len);
	name = slash ? slash + 1 : below.text;
	for (unsigned i = 0; i < rule->n_exclude; i++) {
		if (dlk_glob(rule->exclude[i], below.text, below.len) ||
		    dlk_glob(rule->exclude[i], name,
			     below.len - (size_t)(name - below.text)))
			return true;
	}
	return false;
}

/* The rule that covers the path by the longest spelling, and how long that is.
 */
static const struct dlk_rule *covering(const struct dlk_config *config,
				       const char *path, size_t len,
				       size_t *longest)
{
	const struct dlk_rule *best = NULL;

	*longest = 0;
	for (unsigned i = 0; i < config->n_rules; i++) {
		size_t n = covered(&config->rules[i], path, len);

		if (n > *longest) {
			best = &config->rules[i];
			*longest = n;
		}
	}
	return best;
}

const struct dlk_rule *dlk_config_match(const struct dlk_config *config,
					const char *path, size_t len)
{
	size_t n;
	const struct dlk_rule *best = covering(config, path, len, &n);

	return best && best->n_exclude && excluded(best, path, len) ? NULL
								    : best;
}

/* --- by where the prefixes lead now --------------------------------------- */

bool dlk_config_may_follow(const struct dlk_config *config,
			   const struct dlk_rule *rule)
{
	return config->n_movable > (rule && rule->movable);
}

/* A rule that leads to the path by more than n bytes by now. */
static const struct dlk_rule *leading_to(const struct dlk_config *config,
					 dev_t device, const char *path,
					 size_t len, struct dlk_search *s,
					 size_t *n)
{
	struct dlk_reach reach = config->reach;
	const struct dlk_place *place = &s->place;
	const struct dlk_rule *best = NULL;

	reach.also = device;
	reach.learn = false;
	for (unsigned i = 0; i < config->n_rules; i++) {
		const struct dlk_rule *rule = &config->rules[i];

		if (rule->movable && !dlk_place_find(rule->prefix, &reach, s) &&
		    place->len > *n &&
		    spells(place->path, place->len, path, len)) {
			best = rule;
			*n = place->len;
		}
	}
	return best;
}

int dlk_config_follow(const struct dlk_config *config, dev_t device, char *path,
		      size_t size, struct dlk_search *s,
		      const struct dlk_rule **rule)
{
	size_t len = strlen(path), n;
	const struct dlk_rule *best = covering(config, path, len, &n), *now;

	now = leading_to(config, device, path, len, s, &n);
	if (now) {
		ssize_t whole = respell(path, len, n, now->prefix,
					now->prefix_len, path, size);

		if (whole < 0)
			return (int)whole;
		best = now;
		len = (size_t)whole;
	}
	*rule = best && !excluded(best, path, len) ? best : NULL;
	return 0;
}
