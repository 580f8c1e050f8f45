/* SPDX-License-Identifier: MIT */
/*
 * dlockctl show PATH: everything about the locks of one file: who holds them at
 * Redis, who waits there and in which order, and who has them in the kernel of
 * this host, where programs that dlock is not loaded into are seen as well.
 *
 * It names its keys, so no SCAN is needed; the three are no snapshot.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/holder.h"
#include "tools/locals.h"
#include "tools/row.h"
#include "tools/scan_queue.h"
#include "tools/subject.h"

struct view {
	struct subject subject;
	bool asked; /* the server has said all that it was asked */
	struct scan scan;
	struct scan_queue flock, records;
	struct locals locals;
};

/* The token is whole: break asks for it. */
static const struct table_column held_columns[] = {
	{ .heading = "MODE", .least = 13 },
	{ .heading = "HOST", .least = 7 },
	{ .heading = "PID" },
	{ .heading = "COMMAND", .least = 7 },
	{ .heading = "HELD" },
	{ .heading = "TTL" },
	{ .heading = "TOKEN", .beneath = true },
	{ .heading = "NOTE", .least = 12, .beneath = true },
	{ 0 },
};

static const struct table_column queue_columns[] = {
	{ .heading = "PLACE" },
	{ .heading = "MODE", .least = 13 },
	{ .heading = "HOST", .least = 7 },
	{ .heading = "PID" },
	{ .heading = "COMMAND", .least = 7 },
	{ .heading = "SINCE" },
	{ .heading = "HEARD" },
	{ .heading = "NOTE", .least = 12, .beneath = true },
	{ 0 },
};

static const struct table_column local_columns[] = {
	{ .heading = "KIND" },
	{ .heading = "MODE", .least = 13 },
	{ .heading = "PID" },
	{ .heading = "COMMAND", .least = 7 },
	{ .heading = "LIBRARY" },
	{ .heading = "NOTE", .least = 12, .beneath = true },
	{ 0 },
};

/* --- at Redis ------------------------------------------------------------- */

static void held_row(struct table *t, const struct scan_lock *lock)
{
	char text[ROW_NOTE_MAX];

	row_mode(t, lock);
	row_owner(t, lock);
	row_time(t, lock->held_ms, "-");
	row_time(t, lock->ttl_ms, "none");
	table_text(t, lock->ours ? lock->token.random : "-");
	row_note(text, sizeof(text), lock);
	table_shown(t, text);
	table_look(t, TABLE_BAD);
}

/* What is not known is not said to be free. */
static void text_held(const struct view *v)
{
	const struct scan *scan = &v->scan;
	struct table t;

	if (!v->asked || !scan->n) {
		puts(v->asked ? "\nheld at Redis by nobody"
			      : "\nheld at Redis: not known");
		return;
	}
	puts("\nheld at Redis");
	table_init(&t, held_columns);
	for (size_t i = 0; i < scan->n; i++)
		if (!scan->locks[i].copy)
			held_row(&t, &scan->locks[i]);
	table_end(&t);
}

/* --- who waits ------------------------------------------------------------ */

static const char *waiter_mode(const struct scan_waiter *w, bool record)
{
	if (w->away)
		return "?";
	if (record)
		return w->range.type == DLK_WRITE ? "WRITE" : "READ";
	return w->shared ? "SH" : "EX";
}

static const char *waiter_note(const struct scan_waiter *w)
{
	if (w->away)
		return "away for a moment: has its place, is not served";
	return w->polls ? "hears nothing, and looks by itself" : "";
}

static void waiter_row(struct table *t, const struct scan_waiter *w,
		       size_t place, bool record)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", place);
	table_text(t, text);
	row_range(t, waiter_mode(w, record),
		  record && !w->away ? &w->range : NULL);
	row_word(t, w->token.hostname);
	snprintf(text, sizeof(text), "%" PRIu32, w->token.pid);
	table_text(t, text);
	row_word(t, w->token.command);
	row_time(t, w->since_ms, "-");
	row_time(t, w->heard_ms < 0 ? 0 : w->heard_ms, "-");
	table_text(t, waiter_note(w));
}

static void text_queue(const struct scan_queue *q, const char *what)
{
	struct table t;

	if (q->n || q->cut)
		printf("\nwaiting for %s, in this order%s\n", what,
		       q->cut ? " (and others, whose entries cannot be read)"
			      : "");
	if (!q->n)
		return;
	table_init(&t, queue_columns);
	for (size_t i = 0; i < q->n; i++)
		waiter_row(&t, &q->waiters[i], i + 1, q->record);
	table_end(&t);
}

/* --- in the kernel -------------------------------------------------------- */

static const char *kind(const struct local *l)
{
	static const char *const kinds[] = { "flock", "posix", "ofd" };

	return kinds[l->line.kind];
}

static const char *library(const struct local *l)
{
	static const char *const words[] = { "?", "no", "yes", "keeper" };

	return words[l->library];
}

static struct dlk_range local_range(const struct local *l)
{
	return (struct dlk_range){ l->line.start, l->line.end,
				   l->line.write ? DLK_WRITE : DLK_READ };
}

static const char *local_mode(const struct local *l)
{
	if (l->line.kind == DLK_LINE_FLOCK)
		return l->line.write ? "EX" : "SH";
	return l->line.write ? "WRITE" : "READ";
}

/* A lock of a program without the library holds on this host only. */
static const char *local_note(const struct local *l)
{
	if (l->line.waits)
		return l->library == LIBRARY_KEEPER
			       ? "waits for the end of the lock above"
			       : "waits";
	if (l->library == LIBRARY_NONE)
		return "local only: dlock is not loaded there";
	if (l->ended)
		return "who took it has ended, this one has it";
	return l->shadow ? "on the file that stands for it" : "";
}

static void local_row(struct table *t, const struct local *l)
{
	struct dlk_range range = local_range(l);
	char pid[16] = "-";

	table_text(t, kind(l));
	row_range(t, local_mode(l),
		  l->line.kind == DLK_LINE_FLOCK ? NULL : &range);
	if (l->pid)
		snprintf(pid, sizeof(pid), "%u", l->pid);
	table_text(t, pid);
	table_text(t, l->command[0] ? l->command : "-");
	table_text(t, library(l));
	table_text(t, local_note(l));
	if (l->library == LIBRARY_NONE && !l->line.waits)
		table_look(t, TABLE_BAD);
}

static void text_locals(const struct locals *locals)
{
	struct table t;

	if (locals->unseen)
		puts("\nin this host's kernel: the file cannot be looked at");
	else if (!locals->n)
		puts("\nin this host's kernel by nobody that is seen from "
		     "here");
	else
		puts("\nin this host's kernel");
	if (!locals->n)
		return;
	table_init(&t, local_columns);
	for (size_t i = 0; i < locals->n; i++)
		local_row(&t, &locals->locks[i]);
	table_end(&t);
}

static void line(const char *label, const char *text)
{
	static char shown[4 * DLK_KEY_MAX + 1];

	tool_show(shown, sizeof(shown), text, strlen(text));
	printf("%-8s%s\n", label, shown);
}

/* Of a cluster only those that have its keys. */
static void text_servers(const struct subject *s)
{
	const struct dlk_redis *redis = s->rule->redis;
	char key[SUBJECT_KEY_MAX];
	bool first = true;

	for (unsigned i = 0; i < tool_servers(redis); i++) {
		const struct dlk_endpoint *ep = tool_server(redis, i);

		if (!subject_key_at(s, "", ep, key) &&
		    !subject_key_at(s, RECORD_SUFFIX, ep, key))
			continue;
		line(first ? "redis" : "", ep->name);
		first = false;
	}
}

static void text(const struct view *v)
{
	line("path", v->subject.path);
	line("key", v->subject.key);
	text_servers(&v->subject);
	text_held(v);
	text_queue(&v->flock, "flock");
	text_queue(&v->records, "record locks");
	text_locals(&v->locals);
}

/* --- for machines --------------------------------------------------------- */

static void json_waiter(struct json *j, const struct scan_waiter *w,
			bool record)
{
	json_open(j, NULL, '{');
	json_text(j, "family", record ? "record" : "flock");
	json_text(j, "mode", waiter_mode(w, record));
	if (record && !w->away)
		row_json_range(j, &w->range);
	row_json_word(j, "host", w->token.hostname);
	json_int(j, "pid", w->token.pid);
	row_json_word(j, "command", w->token.command);
	json_text(j, "token", w->token.random);
	row_json_time(j, "since_ms", w->since_ms);
	row_json_time(j, "heard_ms", w->heard_ms < 0 ? 0 : w->heard_ms);
	json_bool(j, "away", w->away);
	json_bool(j, "polls", w->polls);
	json_close(j, '}');
}

static void json_queue(struct json *j, const struct scan_queue *q)
{
	for (size_t i = 0; i < q->n; i++)
		json_waiter(j, &q->waiters[i], q->record);
}

static void json_local(struct json *j, const struct local *l)
{
	struct dlk_range range = local_range(l);

	json_open(j, NULL, '{');
	json_text(j, "kind", kind(l));
	json_text(j, "mode", local_mode(l));
	if (l->line.kind != DLK_LINE_FLOCK)
		row_json_range(j, &range);
	json_bool(j, "waits", l->line.waits);
	row_json_time(j, "pid", l->pid ? (int64_t)l->pid : -1);
	json_text(j, "command", l->command);
	json_text(j, "library", library(l));
	json_bool(j, "shadow", l->shadow);
	json_close(j, '}');
}

static void json_at_redis(struct json *j, const struct view *v)
{
	json_open(j, "locks", '[');
	for (size_t i = 0; i < v->scan.n; i++)
		if (!v->scan.locks[i].copy)
			row_json(j, &v->scan.locks[i]);
	json_close(j, ']');
	json_open(j, "waiters", '[');
	json_queue(j, &v->flock);
	json_queue(j, &v->records);
	json_close(j, ']');
	json_bool(j, "waiters_cut", v->flock.cut || v->records.cut);
}

static void json(struct json *j, const struct view *v)
{
	json_text(j, "path", v->subject.path);
	json_text(j, "key", v->subject.key);
	json_text(j, "redis", v->subject.rule->redis->name);
	if (v->asked)
		json_at_redis(j, v);
	json_open(j, "kernel", '[');
	for (size_t i = 0; i < v->locals.n; i++)
		json_local(j, &v->locals.locks[i]);
	json_close(j, ']');
	json_bool(j, "kernel_seen", !v->locals.unseen);
}

/* --- the verb ------------------------------------------------------------- */

static int look_at_queues(struct dlk_conn *c, void *arg)
{
	struct view *v = arg;
	const struct subject *s = &v->subject;
	char key[SUBJECT_KEY_MAX];
	int err = 0;

	if (subject_key_at(s, "", c->ep, key))
		err = scan_queue(c, key, strlen(key), &v->flock);
	if (!err && subject_key_at(s, RECORD_SUFFIX, c->ep, key)) {
		err = scan_queue(c, key, strlen(key), &v->records);
		scan_queue_since(c, key, &v->records);
	}
	return err;
}

/* Who waits was counted, and was read a moment later: what is shown is one of the
 * two, the names. */
static void count_the_shown(struct view *v)
{
	for (size_t i = 0; i < v->scan.n; i++) {
		struct scan_lock *lock = &v->scan.locks[i];
		const struct scan_queue *q =
			lock->record ? &v->records : &v->flock;

		if (!q->cut)
			lock->waiters = q->n;
	}
}

/* (A quorum has no queue.) */
static int look(struct view *v)
{
	const struct subject *s = &v->subject;
	const bool queues = s->rule->redis->mode != DLK_QUORUM;
	int rc = scan_subject(s, &v->scan, queues ? look_at_queues : NULL, v);

	if (!rc && queues)
		count_the_shown(v);
	holders_find(&v->scan);
	ctl_mark_moved(s->config, &v->scan);
	return rc;
}

int verb_show(const struct ctl *ctl)
{
	static struct view v = { .records = { .record = true } };
	int rc = subject_find_managed(ctl->config, ctl->argv[0], &v.subject);

	if (rc)
		return rc;
	rc = look(&v);
	v.asked = !rc;
	locals_find(&v.subject, &v.locals);
	if (ctl->json)
		json(ctl->json, &v);
	else
		text(&v);
	scan_queue_free(&v.flock);
	scan_queue_free(&v.records);
	locals_free(&v.locals);
	scan_free(&v.scan);
	return rc;
}
