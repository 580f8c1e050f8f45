/* SPDX-License-Identifier: MIT */
/*
 * dlockctl history PATH: what befell the leases of a file, the last first, as far
 * as it is recorded (chronicle.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/chronicle.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/row.h"
#include "tools/scan.h"
#include "tools/subject.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ .heading = "WHEN" },
	{ .heading = "WHAT" },
	{ .heading = "HOST", .least = 7 },
	{ .heading = "PID" },
	{ .heading = "WHO", .least = 7 },
	{ .heading = "LASTED" },
	{ .heading = "FAMILY" },
	{ .heading = "TOKEN", .least = 8 },
	{ 0 },
};

/* The texts are owned. */
struct entry {
	int64_t at_ms;
	size_t order; /* of those of one moment */
	const char *family;
	struct dlk_chronicle_entry e;
};

struct view {
	struct subject subject;
	struct table table;
	struct json *json;
	const char *family; /* of what is read now */
	struct entry *entries;
	size_t n, room;
};

/* --- showing -------------------------------------------------------------- */

static void put_time(char *out, size_t size, int64_t at_ms)
{
	time_t at = (time_t)(at_ms / 1000);
	struct tm tm;

	if (!localtime_r(&at, &tm) ||
	    !strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(out, size, "-");
}

static void row(struct view *v, const struct entry *entry)
{
	const struct dlk_chronicle_entry *e = &entry->e;
	char text[48];

	put_time(text, sizeof(text), entry->at_ms);
	table_text(&v->table, text);
	table_text(&v->table, e->what);
	row_word(&v->table, e->host);
	snprintf(text, sizeof(text), "%u", e->pid);
	table_text(&v->table, text);
	row_word(&v->table, e->who);
	row_time(&v->table, (int64_t)e->lasted_ms, "-");
	table_text(&v->table, entry->family);
	table_text(&v->table, e->token);
}

static void object(struct view *v, const struct entry *entry)
{
	const struct dlk_chronicle_entry *e = &entry->e;

	json_open(v->json, NULL, '{');
	json_int(v->json, "at_ms", entry->at_ms);
	json_text(v->json, "what", e->what);
	json_text(v->json, "family", entry->family);
	row_json_word(v->json, "host", e->host);
	json_int(v->json, "pid", e->pid);
	row_json_word(v->json, "who", e->who);
	row_json_time(v->json, "lasted_ms", (int64_t)e->lasted_ms);
	json_text(v->json, "token", e->token);
	json_close(v->json, '}');
}

/* --- reading -------------------------------------------------------------- */

static void own(const char **text)
{
	*text = tool_copy(*text, strlen(*text));
}

static void drop(const char *text)
{
	free((void *)(uintptr_t)text);
}

/*
 * A writer that heard no answer asked the next master (chronicle.h), and the
 * first may have it all the same.
 */
static bool is_same(const struct entry *a, const char *family,
		    const struct dlk_chronicle_entry *e)
{
	return a->family == family && a->e.pid == e->pid &&
	       a->e.lasted_ms == e->lasted_ms && !strcmp(a->e.what, e->what) &&
	       !strcmp(a->e.host, e->host) && !strcmp(a->e.who, e->who) &&
	       !strcmp(a->e.token, e->token);
}

static bool is_there(const struct view *v, const struct dlk_chronicle_entry *e)
{
	if (v->subject.rule->redis->mode != DLK_QUORUM)
		return false;
	for (size_t i = 0; i < v->n; i++)
		if (is_same(&v->entries[i], v->family, e))
			return true;
	return false;
}

/* A word longer than any of a token's is nobody's of ours. */
static void take(void *arg, int64_t at_ms, const struct dlk_chronicle_entry *e)
{
	struct view *v = arg;
	struct entry *entry;

	if (strlen(e->host) >= DLK_WORD_MAX || strlen(e->who) >= DLK_WORD_MAX ||
	    is_there(v, e))
		return;
	v->entries = tool_grow(v->entries, v->n, &v->room, sizeof(*entry));
	entry = &v->entries[v->n];
	*entry = (struct entry){ at_ms, v->n++, v->family, *e };
	own(&entry->e.what);
	own(&entry->e.host);
	own(&entry->e.who);
	own(&entry->e.token);
}

static int read_all(struct dlk_conn *c, void *view)
{
	struct view *v = view;
	char key[SUBJECT_KEY_MAX];
	int err = 0;

	v->family = "flock";
	if (subject_key_at(&v->subject, "", c->ep, key))
		err = chronicle_read(c, key, take, v);
	v->family = "record";
	if (!err && subject_key_at(&v->subject, RECORD_SUFFIX, c->ep, key))
		err = chronicle_read(c, key, take, v);
	return err;
}

/* The last first. */
static int by_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? 1 : -1;
	return (x->order > y->order) - (x->order < y->order);
}

/*
 * Flock and record locks have a key each, which are two nodes' of a cluster
 * perhaps; of a quorum each entry is at the first master that took it.  So who
 * is away may have what nobody else has; what is found is shown all the same.
 */
static int look(struct view *v)
{
	const struct dlk_redis *redis = v->subject.rule->redis;
	int rc = scan_each(redis, read_all, v);

	if (v->n)
		qsort(v->entries, v->n, sizeof(*v->entries), by_time);
	return redis->mode == DLK_QUORUM && v->n ? 0 : rc;
}

static void forget(struct view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct dlk_chronicle_entry *e = &v->entries[i].e;

		drop(e->what);
		drop(e->host);
		drop(e->who);
		drop(e->token);
	}
	free(v->entries);
}

static void show(struct view *v, int rc)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->json)
			object(v, &v->entries[i]);
		else
			row(v, &v->entries[i]);
	if (v->json)
		json_close(v->json, ']');
	else if (v->n)
		table_end(&v->table);
	else
		table_free(&v->table);
	if (!v->n && !rc)
		tool_say("nothing is recorded; what preloaded programs wait "
			 "for is in their logs only");
}

int verb_history(const struct ctl *ctl)
{
	static struct view v;
	int rc = subject_find_managed(ctl->config, ctl->argv[0], &v.subject);

	if (rc)
		return rc;
	v.json = ctl->json;
	if (v.json)
		json_open(v.json, "entries", '[');
	else
		table_init(&v.table, columns);
	rc = look(&v);
	show(&v, rc);
	forget(&v);
	return rc;
}
