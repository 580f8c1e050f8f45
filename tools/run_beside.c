/* SPDX-License-Identifier: MIT */
/*
 * What dlock run manages by its options, beside the configuration of the host.
 *
 *  1. Other programs lock by that one, here and on other hosts.  A file that both
 *     manage at one server MUST have one key, or they do not exclude each other.
 *  2. What else the host's configuration says of such a file does not count for
 *     the command; that is said.
 */
#include "tools/run.h"

#include <stdio.h>
#include <string.h>

#include "tools/common.h"

/* A file that both have a rule for, and its keys. */
struct meeting {
	const struct dlk_rule *host, *own;
	char file[DLK_PATH_MAX];
	char host_key[DLK_KEY_MAX + 1], own_key[DLK_KEY_MAX + 1];
};

/* (Of several servers --path takes none along; --redis names another one.) */
static bool is_one_server(const struct dlk_redis *a, const struct dlk_redis *b)
{
	return a->mode == DLK_SINGLE && b->mode == DLK_SINGLE &&
	       tool_same_server(a->endpoints, b->endpoints);
}

static bool make_key(const struct dlk_config *config,
		     const struct dlk_rule *rule, const char *file,
		     char key[DLK_KEY_MAX + 1])
{
	size_t len = strlen(file);

	return dlk_config_match(config, file, len) == rule &&
	       dlk_key_expand(rule, file, len, "INODE", key, DLK_KEY_MAX + 1) >=
		       0;
}

/* Do the two meet?  If so, in the place of the one that lies deeper. */
static bool find_file(const struct dlk_config *host,
		      const struct dlk_config *own, struct meeting *m)
{
	const struct dlk_rule *in =
		m->host->place_len > m->own->place_len ? m->host : m->own;
	int n = snprintf(m->file, sizeof(m->file), "%s%s", in->place,
			 dlk_rule_is_directory(in) ? "file" : "");

	return n < (int)sizeof(m->file) &&
	       is_one_server(m->host->redis, m->own->redis) &&
	       make_key(host, m->host, m->file, m->host_key) &&
	       make_key(own, m->own, m->file, m->own_key);
}

static bool same_exclusions(const struct dlk_rule *a, const struct dlk_rule *b)
{
	if (a->n_exclude != b->n_exclude)
		return false;
	for (unsigned i = 0; i < a->n_exclude; i++)
		if (strcmp(a->exclude[i], b->exclude[i]) != 0)
			return false;
	return true;
}

/* The options that they differ in: "ttl, fair"; "" if in none. */
static void find_differences(const struct dlk_rule *a, const struct dlk_rule *b,
			     char *out, size_t size)
{
	const struct {
		const char *name;
		bool differ;
	} options[] = {
		{ "ttl", a->ttl_ms != b->ttl_ms },
		{ "timeout", a->timeout_ms != b->timeout_ms },
		{ "hold_at_least", a->hold_at_least_ms != b->hold_at_least_ms },
		{ "on_lost", a->on_lost != b->on_lost },
		{ "unreachable", a->unreachable != b->unreachable },
		{ "local", a->local != b->local },
		{ "coherence", a->coherence != b->coherence },
		{ "fair", a->fair != b->fair },
		{ "interop", a->interop != b->interop },
		{ "exclude", !same_exclusions(a, b) },
	};
	size_t n = 0;

	*out = '\0';
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].differ && n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%s",
					      n ? ", " : "", options[i].name);
}

static int judge(const struct dlk_config *host, const struct meeting *m)
{
	char options[128];

	if (strcmp(m->host_key, m->own_key) != 0)
		return tool_fail(
			DLK_EXIT_USAGE,
			"%s:%d: path \"%s\" locks %s by key \"%s\", and the "
			"options of dlock run (path \"%s\") by \"%s\" at the "
			"same Redis, %s: programs of the one would not exclude "
			"those of the other: leave out --path and --redis, or "
			"name files that are not managed there",
			host->file, m->host->line, m->host->prefix, m->file,
			m->host_key, m->own->prefix, m->own_key,
			m->own->redis->endpoints->name);
	find_differences(m->host, m->own, options, sizeof(options));
	if (*options)
		tool_say("warning: %s:%d: path \"%s\" has options that do not "
			 "count here, where dlock run's are for path \"%s\" "
			 "(%s): to have them, leave out --path and --redis",
			 host->file, m->host->line, m->host->prefix,
			 m->own->prefix, options);
	return 0;
}

int run_beside(const struct dlk_config *host, const struct dlk_config *own)
{
	static struct meeting m;
	int rc = 0;

	for (unsigned i = 0; i < host->n_rules; i++)
		for (unsigned k = 0; k < own->n_rules && !rc; k++) {
			m.host = &host->rules[i];
			m.own = &own->rules[k];
			if (find_file(host, own, &m))
				rc = judge(host, &m);
		}
	return rc;
}
