/* SPDX-License-Identifier: MIT */
/*
 * dlockctl explain PATH: which rule holds for a path and what follows from
 * it.  It asks no server about locks: the answer is that of the configuration;
 * but Sentinels are asked, each, which one is the master, and a node of a cluster
 * who has the slots of the keys.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "model/slot.h"
#include "model/timeline.h"
#include "redis/sentinel.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/json.h"
#include "tools/options.h"
#include "tools/screen.h"
#include "tools/subject.h"
#include "tools/why.h"

enum { LABEL = 16 }; /* columns of a label */

/* Of a rule that says so (on_lost). */
static uint64_t stop_ns(uint64_t asked_ns, uint32_t ttl_ms)
{
	return dlk_stop_ns(dlk_deadline_ns(asked_ns, ttl_ms), ttl_ms);
}

/* The timeline of a lease (model/timeline.h), ms after it was asked for. */
static const struct moment {
	const char *name;
	uint64_t (*at)(uint64_t asked_ns, uint32_t ttl_ms);
} moments[] = {
	{ "renew", dlk_renew_ns },       { "retry", dlk_retry_ns },
	{ "warn", dlk_warn_ns },         { "stop", stop_ns },
	{ "deadline", dlk_deadline_ns },
};

enum { N_MOMENTS = sizeof(moments) / sizeof(*moments) };

static uint64_t moment_ms(unsigned i, const struct dlk_rule *rule)
{
	return moments[i].at(0, rule->ttl_ms) / DLK_MS;
}

/* A line of text: label, value, and a note in parentheses. */
__attribute__((format(printf, 3, 4))) static void line(const char *label,
						       const char *note,
						       const char *format, ...)
{
	static char raw[2 * DLK_KEY_MAX], shown[8 * DLK_KEY_MAX];
	va_list args;
	size_t at;

	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	at = tool_show(shown, sizeof(shown), raw, strlen(raw));
	if (note) {
		at += (size_t)snprintf(shown + at, sizeof(shown) - at, "  (");
		at += tool_show(shown + at, sizeof(shown) - at - 1, note,
				strlen(note));
		strcpy(shown + at, ")");
	}
	printf("%-*s", LABEL, label);
	screen_wrap(stdout, shown, LABEL, LABEL, screen_columns(stdout), "");
}

/* Where the prefix of a rule leads; what it is not, is told by a note. */
static void text_place(const struct dlk_rule *rule)
{
	bool elsewhere = strcmp(rule->place, rule->prefix) != 0;

	if (elsewhere || !rule->there)
		line("leads to", rule->there ? NULL : "does not exist", "%s",
		     rule->place);
}

static void text_others(const struct subject *s)
{
	const struct dlk_config *c = s->config;
	struct why why;

	for (unsigned i = 0; i < c->n_rules; i++)
		if (why_not(c, i, s->path, s->given, s->rule, &why))
			line("not by", why.reason, "%s:%d: path \"%s\"",
			     c->file, why.rule->line, why.rule->prefix);
}

static void text_key(const struct subject *s, const char *label,
		     const char *suffix)
{
	char key[SUBJECT_KEY_MAX];

	if (subject_key(s, suffix, key))
		line(label, NULL, "%s", key);
	else if (s->no_inode[0])
		line(label, s->no_inode, "none");
	else
		line(label, "locking fails with ENOLCK", "too long");
}

/*
 * Of a cluster: the key's slot, and which node has that now; NULL: it is not
 * known, and why.  False: there is no key, or no cluster.
 */
static bool find_node(const struct subject *s, const char *suffix, int *slot,
		      const struct dlk_endpoint **node, const char **why)
{
	const struct dlk_redis *redis = s->rule->redis;
	char key[SUBJECT_KEY_MAX];

	if (redis->mode != DLK_CLUSTER || !subject_key(s, suffix, key))
		return false;
	*slot = dlk_slot_of(key, strlen(key));
	*node = tool_node_of(redis, key, strlen(key));
	if (!*node && !tool_servers_known(redis, why))
		*why = "no node has that slot";
	return true;
}

static void text_node(const struct subject *s, const char *label,
		      const char *suffix)
{
	const struct dlk_endpoint *node;
	const char *why = NULL;
	int slot;

	if (find_node(s, suffix, &slot, &node, &why))
		line(label, why, "slot %d, at %s", slot,
		     node ? node->name : "a node that is not known");
}

static void text_ttl(const struct dlk_rule *rule)
{
	const bool stops = dlk_lost_stops(rule->on_lost);
	struct tool_span at[N_MOMENTS];

	for (unsigned i = 0; i < N_MOMENTS; i++)
		at[i] = option_duration(moment_ms(i, rule));
	line("ttl", NULL,
	     "%s: renewed after %s, again every %s; warned of after %s%s%s; "
	     "held until %s after the last renewal was sent",
	     option_duration(rule->ttl_ms).text, at[0].text, at[1].text,
	     at[2].text,
	     !stops                           ? ""
	     : rule->on_lost == DLK_LOST_KILL ? ", its holder killed after "
					      : ", its holder stopped after ",
	     stops ? at[3].text : "", at[4].text);
}

/* Which one it says is the master; or what is the matter. */
static bool named_by(const struct dlk_endpoint *ep, unsigned i, char *words,
		     size_t size)
{
	struct dlk_endpoint found;
	char why[256];
	const int err = dlk_sentinel_ask(ep, i, tool_deadline(&ep[1 + i]),
					 &found, why, sizeof(why));

	snprintf(words, size, "%s", err ? why : found.name);
	explicit_bzero(&found, sizeof(found));
	return !err;
}

static void text_sentinel(const struct dlk_endpoint *ep, unsigned i)
{
	char words[256], note[300];
	const bool known = named_by(ep, i, words, sizeof(words));

	snprintf(note, sizeof(note), "%s%s",
		 known ? "the master is " : "names none: ", words);
	line("sentinel", note, "%s", ep[1 + i].name);
}

static void text_rule(const struct subject *s)
{
	const struct dlk_rule *rule = s->rule;
	struct option_row rows[OPTIONS_MAX];
	unsigned n = options_of(rule, rows);

	line("rule", NULL, "%s:%d: path \"%s\"", s->config->file, rule->line,
	     rule->prefix);
	text_place(rule);
	text_others(s);
	text_key(s, "flock key", "");
	text_key(s, "record key", RECORD_SUFFIX);
	text_node(s, "flock node", "");
	text_node(s, "record node", RECORD_SUFFIX);
	line("redis", NULL, "\"%s\", %s:%d", rule->redis->name, s->config->file,
	     rule->redis->line);
	if (rule->redis->fault)
		line("fault", "locking fails with ENOLCK", "%s",
		     rule->redis->fault);
	for (unsigned i = 0; i < rule->redis->n_endpoints; i++)
		line("server", NULL, "%s", rule->redis->endpoints[i].name);
	for (unsigned i = 0; i < rule->redis->endpoints->n_sentinels; i++)
		text_sentinel(rule->redis->endpoints, i);
	text_ttl(rule);
	line("state_dir", NULL, "%s", s->config->state_dir);
	for (unsigned i = 0; i < n; i++)
		line(rows[i].name, rows[i].note, "%s", rows[i].value);
}

static void text(const struct subject *s)
{
	line("path", NULL, "%s", s->path);
	if (s->rule) {
		text_rule(s);
		return;
	}
	puts("not managed: locks on it stay local");
	text_others(s);
}

static void json_place(struct json *j, const struct subject *s,
		       const struct dlk_rule *rule)
{
	json_text(j, "file", s->config->file);
	json_int(j, "line", rule->line);
	json_text(j, "prefix", rule->prefix);
	json_text(j, "place", rule->place);
	json_bool(j, "there", rule->there);
}

static void json_others(struct json *j, const struct subject *s)
{
	struct why why;

	json_open(j, "others", '[');
	for (unsigned i = 0; i < s->config->n_rules; i++) {
		if (!why_not(s->config, i, s->path, s->given, s->rule, &why))
			continue;
		json_open(j, NULL, '{');
		json_place(j, s, why.rule);
		json_text(j, "reason", why.reason);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_key(struct json *j, const struct subject *s, const char *name,
		     const char *suffix)
{
	char key[SUBJECT_KEY_MAX];

	json_text(j, name, subject_key(s, suffix, key) ? key : NULL);
}

static void json_sentinels(struct json *j, const struct dlk_endpoint *ep)
{
	char words[256];

	if (!ep->n_sentinels)
		return;
	json_open(j, "sentinels", '[');
	for (unsigned i = 0; i < ep->n_sentinels; i++) {
		const bool known = named_by(ep, i, words, sizeof(words));

		json_open(j, NULL, '{');
		json_text(j, "name", ep[1 + i].name);
		json_text(j, known ? "master" : "fault", words);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_node(struct json *j, const struct subject *s, const char *name,
		      const char *suffix)
{
	const struct dlk_endpoint *node;
	const char *why = NULL;
	int slot;

	if (!find_node(s, suffix, &slot, &node, &why))
		return;
	json_open(j, name, '{');
	json_int(j, "slot", slot);
	json_text(j, "server", node ? node->name : NULL);
	if (why)
		json_text(j, "why", why);
	json_close(j, '}');
}

static void json_redis(struct json *j, const struct dlk_redis *redis)
{
	json_open(j, "redis", '{');
	json_text(j, "name", redis->name);
	json_int(j, "line", redis->line);
	if (redis->fault)
		json_text(j, "fault", redis->fault);
	json_open(j, "servers", '[');
	for (unsigned i = 0; i < redis->n_endpoints; i++)
		json_text(j, NULL, redis->endpoints[i].name);
	json_close(j, ']');
	json_sentinels(j, redis->endpoints);
	json_close(j, '}');
}

static void json_timeline(struct json *j, const struct dlk_rule *rule)
{
	char name[32];

	json_int(j, "ttl_ms", rule->ttl_ms);
	json_open(j, "timeline", '{');
	for (unsigned i = 0; i < N_MOMENTS; i++) {
		snprintf(name, sizeof(name), "%s_ms", moments[i].name);
		json_int(j, name, (int64_t)moment_ms(i, rule));
	}
	json_close(j, '}');
}

static void json_options(struct json *j, const struct dlk_rule *rule)
{
	struct option_row rows[OPTIONS_MAX];
	unsigned n = options_of(rule, rows);

	json_open(j, "options", '[');
	for (unsigned i = 0; i < n; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", rows[i].name);
		json_text(j, "value", rows[i].value);
		if (rows[i].note)
			json_text(j, "note", rows[i].note);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json(struct json *j, const struct subject *s)
{
	json_text(j, "given", s->given);
	json_text(j, "path", s->path);
	json_bool(j, "managed", s->rule);
	if (s->rule) {
		json_open(j, "rule", '{');
		json_place(j, s, s->rule);
		json_close(j, '}');
		json_key(j, s, "flock_key", "");
		json_key(j, s, "record_key", RECORD_SUFFIX);
		json_node(j, s, "flock_node", "");
		json_node(j, s, "record_node", RECORD_SUFFIX);
		if (s->no_inode[0])
			json_text(j, "no_key", s->no_inode);
		json_redis(j, s->rule->redis);
		json_timeline(j, s->rule);
		json_text(j, "state_dir", s->config->state_dir);
		json_options(j, s->rule);
	}
	json_others(j, s);
}

int verb_explain(const struct ctl *ctl)
{
	static struct subject s;
	int rc;

	tool_config_idle(ctl->config);
	rc = subject_find(ctl->config, ctl->argv[0], &s);
	if (rc)
		return rc;
	if (ctl->json)
		json(ctl->json, &s);
	else
		text(&s);
	return s.rule ? DLK_EXIT_OK : DLK_EXIT_NOTHING;
}
