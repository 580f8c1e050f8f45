/* SPDX-License-Identifier: MIT */
/* Rules that lost; see why.h. */
#include "tools/why.h"

#include <stdio.h>
#include <string.h>

/*
 * The pattern that excludes the path.  One rule with one pattern at a time is
 * put to dlk_config_match(), so the answer is that of the shim.
 */
static const char *excluding(const struct dlk_rule *rule, const char *path)
{
	for (unsigned i = 0; i < rule->n_exclude; i++) {
		struct dlk_rule one = *rule;
		struct dlk_config config = { .rules = &one, .n_rules = 1 };

		one.exclude = rule->exclude + i;
		one.n_exclude = 1;
		if (!dlk_config_match(&config, path, strlen(path)))
			return rule->exclude[i];
	}
	return NULL;
}

/* Is the path the prefix without its slash, in one of the two spellings? */
static bool is_itself(const char *prefix, size_t n, const char *path,
		      size_t len)
{
	return len + 1 == n && !strncmp(path, prefix, len);
}

static bool is_below(const char *prefix, size_t n, const char *path, size_t len)
{
	return len > n && !strncmp(path, prefix, n) && path[n] == '/';
}

/* The directory of a rule itself, or what is below the file of one. */
static const char *beside(const struct dlk_rule *r, const char *path)
{
	size_t len = strlen(path);

	if (dlk_rule_is_directory(r))
		return is_itself(r->prefix, r->prefix_len, path, len) ||
				       is_itself(r->place, r->place_len, path,
						 len)
			       ? "it manages what is in the directory, not the "
				 "directory itself"
			       : NULL;
	return is_below(r->prefix, r->prefix_len, path, len) ||
			       is_below(r->place, r->place_len, path, len)
		       ? "it names one file; for all below a directory it must "
			 "end in '/'"
		       : NULL;
}

bool why_not(const struct dlk_config *config, unsigned i, const char *path,
	     const char *given, const struct dlk_rule *won, struct why *why)
{
	const struct dlk_rule *rule = &config->rules[i];
	const char *pattern, *reason = beside(rule, path);

	why->rule = rule;
	if (rule == won)
		return false;
	if (!dlk_rule_covers(rule, path) && dlk_rule_covers(rule, given))
		reason = "it fits the path as given, but that leads elsewhere";
	if (dlk_rule_covers(rule, path))
		reason = won ? "a longer prefix wins"
			     : "a longer prefix wins, and excludes it";
	if (dlk_rule_covers(rule, path) && !won) {
		pattern = excluding(rule, path);
		if (pattern) {
			snprintf(why->reason, sizeof(why->reason),
				 "excluded by \"%s\"", pattern);
			return true;
		}
	}
	if (reason)
		snprintf(why->reason, sizeof(why->reason), "%s", reason);
	return reason;
}
