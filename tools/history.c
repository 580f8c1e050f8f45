/* SPDX-License-Identifier: MIT */
/*
 * dlockctl history PATH: what befell the leases of a file, the last first, as far
 * as it is recorded (chronicle.h).
 */
#include <stdio.h>
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

struct view {
	struct subject subject;
	struct table table;
	struct json *json;
	const char *family;
	size_t n;
};

static void put_time(char *out, size_t size, int64_t at_ms)
{
	time_t at = (time_t)(at_ms / 1000);
	struct tm tm;

	if (!localtime_r(&at, &tm) ||
	    !strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(out, size, "-");
}

static void row(struct view *v, int64_t at_ms,
		const struct dlk_chronicle_entry *e)
{
	char text[48];

	put_time(text, sizeof(text), at_ms);
	table_text(&v->table, text);
	table_text(&v->table, e->what);
	row_word(&v->table, e->host);
	snprintf(text, sizeof(text), "%u", e->pid);
	table_text(&v->table, text);
	row_word(&v->table, e->who);
	row_time(&v->table, (int64_t)e->lasted_ms, "-");
	table_text(&v->table, v->family);
	table_text(&v->table, e->token);
}

static void object(struct view *v, int64_t at_ms,
		   const struct dlk_chronicle_entry *e)
{
	json_open(v->json, NULL, '{');
	json_int(v->json, "at_ms", at_ms);
	json_text(v->json, "what", e->what);
	json_text(v->json, "family", v->family);
	row_json_word(v->json, "host", e->host);
	json_int(v->json, "pid", e->pid);
	row_json_word(v->json, "who", e->who);
	json_int(v->json, "lasted_ms", (int64_t)e->lasted_ms);
	json_text(v->json, "token", e->token);
	json_close(v->json, '}');
}

/* A word longer than any of a token's is nobody's of ours. */
static void take(void *arg, int64_t at_ms, const struct dlk_chronicle_entry *e)
{
	struct view *v = arg;

	if (strlen(e->host) >= DLK_WORD_MAX || strlen(e->who) >= DLK_WORD_MAX)
		return;
	v->n++;
	if (v->json)
		object(v, at_ms, e);
	else
		row(v, at_ms, e);
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

/* Of the masters of a quorum one of the first has it; of a cluster those that
 * have the keys are two, and either may have what the other has not. */
static int ask_servers(struct view *v)
{
	const struct dlk_redis *redis = v->subject.rule->redis;
	int rc = 0, one;

	for (unsigned i = 0; i < tool_servers(redis); i++) {
		one = scan_at(redis, i, read_all, v);
		if (!one && redis->mode != DLK_CLUSTER)
			return 0;
		rc = one ? one : rc;
	}
	return rc;
}

static void show(struct view *v, int rc)
{
	if (v->json) {
		json_close(v->json, ']');
	} else {
		if (v->n)
			table_end(&v->table);
		else
			table_free(&v->table);
	}
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
	rc = ask_servers(&v);
	show(&v, rc);
	return rc;
}
