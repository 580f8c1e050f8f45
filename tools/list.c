/* SPDX-License-Identifier: MIT */
/*
 * dlockctl list: a row for each lock that is in Redis, one for each owner of
 * a shared lock and for each range of one of record locks.
 *
 * A key that is no lock of ours is shown as well, for it stands in the way of
 * one: a foreign value is a holder, another type is a mistake, a key without
 * a ttl is held until somebody removes it.
 *
 * How long a lock has been held is known for holders on this host only: a
 * token carries CLOCK_BOOTTIME, which counts from the boot of its own kernel,
 * and nothing at Redis tells a moment by a clock that all hosts have.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/filter.h"
#include "tools/json.h"
#include "tools/scan.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ "PATH", 16, true }, { "MODE", 0, false },    { "HOST", 7, false },
	{ "PID", 0, false },  { "COMMAND", 7, false }, { "HELD", 0, false },
	{ "TTL", 0, false },  { "WAITERS", 0, false }, { "NOTE", 12, false },
	{ NULL, 0, false },
};

static bool is_lock(const struct scan_lock *lock)
{
	return lock->hashed || !strcmp(lock->type, "string");
}

static const char *mode(const struct scan_lock *lock)
{
	if (!is_lock(lock))
		return "?";
	if (lock->record && lock->unread)
		return "?";
	if (lock->record)
		return lock->range.type == DLK_WRITE ? "WRITE" : "READ";
	return lock->hashed ? "SH" : "EX";
}

static bool has_range(const struct scan_lock *lock)
{
	return lock->record && is_lock(lock) && !lock->unread;
}

/* "WRITE 0-99"; without an end it goes to that of the file. */
static void mode_cell(struct table *t, const struct scan_lock *lock)
{
	const struct dlk_range *r = &lock->range;
	char text[64];
	int n = snprintf(text, sizeof(text), "%s", mode(lock));

	if (has_range(lock))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      " %" PRIu64 "-", r->start);
	if (has_range(lock) && r->end != DLK_RANGE_MAX)
		snprintf(text + n, sizeof(text) - (size_t)n, "%" PRIu64,
			 r->end);
	table_text(t, text);
}

static bool is_foreign(const struct scan_lock *lock)
{
	return is_lock(lock) && !lock->ours && !lock->unread;
}

static const char *owner(const struct scan_lock *lock)
{
	if (lock->ours)
		return "dlock";
	return is_foreign(lock) ? "foreign" : "unknown";
}

/* The next of several things to say. */
__attribute__((format(printf, 3, 4))) static void say(char *out, size_t size,
						      const char *format, ...)
{
	size_t at = strlen(out);
	va_list args;

	if (at)
		at += (size_t)snprintf(out + at, size - at, "; ");
	va_start(args, format);
	vsnprintf(out + at, size - at, format, args);
	va_end(args);
}

/* What makes a lock odd; "" if nothing does. */
static void note(char *out, size_t size, const struct scan_lock *lock)
{
	char value[4 * SCAN_VALUE_MAX + 1];

	out[0] = '\0';
	if (!is_lock(lock)) {
		say(out, size, "not a lock (type %s)", lock->type);
		return;
	}
	tool_show(value, sizeof(value), lock->value, lock->value_len);
	if (is_foreign(lock))
		say(out, size, "foreign: \"%s\"", value);
	if (lock->ours && lock->token.since_ns == UINT64_MAX)
		say(out, size, "granted, not confirmed yet");
	if (lock->moved)
		say(out, size, "the locked file is no more under this name");
	if (lock->damage)
		say(out, size, "%s", lock->damage);
	if (lock->rest)
		say(out, size, "%zu more not shown", lock->rest);
	if (lock->rest_ranges)
		say(out, size, "%zu more ranges not shown", lock->rest_ranges);
	if (lock->unread && !*out)
		say(out, size, "no owner");
	if (lock->hashed && !lock->unread && lock->ttl_ms < 0)
		say(out, size, "its expiry is no number");
	if (lock->endless)
		say(out, size, "no ttl: this %s never expires",
		    lock->hashed ? "key" : "holder");
}

static void word_cell(struct table *t, const char *word)
{
	char bytes[DLK_WORD_MAX];
	size_t len = dlk_unword(word, bytes, sizeof(bytes));

	table_cell(t, bytes, len);
}

static void owner_cells(struct table *t, const struct scan_lock *lock)
{
	char pid[16];

	if (!lock->ours) {
		table_text(t, owner(lock));
		table_look(t, TABLE_OTHER);
		table_text(t, "-");
		table_text(t, "-");
		return;
	}
	snprintf(pid, sizeof(pid), "%u", lock->token.pid);
	word_cell(t, lock->token.hostname);
	table_text(t, pid);
	word_cell(t, lock->token.command);
}

static void time_cell(struct table *t, int64_t ms, const char *unknown)
{
	char text[32];

	if (ms < 0)
		snprintf(text, sizeof(text), "%s", unknown);
	else
		ctl_duration(text, sizeof(text), (uint64_t)ms);
	table_text(t, text);
}

static void print_row(struct table *t, const struct scan_lock *lock)
{
	char text[512];

	if (lock->path)
		table_cell(t, lock->path, lock->path_len);
	else
		table_cell(t, lock->key, lock->key_len);
	mode_cell(t, lock);
	owner_cells(t, lock);
	time_cell(t, lock->held_ms, "-");
	time_cell(t, lock->ttl_ms, "none");
	snprintf(text, sizeof(text), "%zu", lock->waiters);
	table_text(t, text);
	if (lock->waiters)
		table_look(t, TABLE_BUSY);
	note(text, sizeof(text), lock);
	table_shown(t, text);
	table_look(t, TABLE_BAD);
}

static void print_text(const struct rows *rows)
{
	struct table t;

	table_init(&t, columns);
	for (size_t i = 0; i < rows->n; i++)
		print_row(&t, rows->lock[i]);
	table_fit(&t, stdout);
	table_print(&t, stdout);
	table_free(&t);
}

static void json_word(struct json *j, const char *key, const char *word)
{
	char bytes[DLK_WORD_MAX];
	size_t len = dlk_unword(word, bytes, sizeof(bytes));

	json_str(j, key, bytes, len);
}

static void json_time(struct json *j, const char *key, int64_t ms)
{
	if (ms < 0)
		json_null(j, key);
	else
		json_int(j, key, ms);
}

static void json_owner(struct json *j, const struct scan_lock *lock)
{
	json_text(j, "owner", owner(lock));
	if (lock->ours) {
		json_word(j, "host", lock->token.hostname);
		json_int(j, "pid", lock->token.pid);
		json_word(j, "command", lock->token.command);
		return;
	}
	json_null(j, "host");
	json_null(j, "pid");
	json_null(j, "command");
	if (is_foreign(lock))
		json_str(j, "value", lock->value, lock->value_len);
}

/* To the end of the file: null. */
static void json_range(struct json *j, const struct dlk_range *range)
{
	json_int(j, "start", (int64_t)range->start);
	if (range->end == DLK_RANGE_MAX)
		json_null(j, "end");
	else
		json_int(j, "end", (int64_t)range->end);
}

static void json_lock(struct json *j, const struct scan_lock *lock)
{
	char text[512];

	json_open(j, NULL, '{');
	if (lock->path)
		json_str(j, "path", lock->path, lock->path_len);
	else
		json_null(j, "path");
	json_str(j, "key", lock->key, lock->key_len);
	json_text(j, "redis", lock->redis->name);
	json_text(j, "family", lock->record ? "record" : "flock");
	json_text(j, "mode", mode(lock));
	if (has_range(lock))
		json_range(j, &lock->range);
	json_owner(j, lock);
	json_time(j, "held_ms", lock->held_ms);
	json_time(j, "ttl_ms", lock->ttl_ms);
	json_int(j, "waiters", (int64_t)lock->waiters);
	if (lock->moved)
		json_bool(j, "moved", true);
	note(text, sizeof(text), lock);
	if (*text)
		json_text(j, "note", text);
	json_close(j, '}');
}

static void print_json(struct json *j, const struct rows *rows)
{
	json_open(j, "locks", '[');
	for (size_t i = 0; i < rows->n; i++)
		json_lock(j, rows->lock[i]);
	json_close(j, ']');
}

static void print(const struct ctl *ctl, const struct scan *scan,
		  const struct rows *rows)
{
	if (ctl->json)
		print_json(ctl->json, rows);
	else if (rows->n)
		print_text(rows);
	if (rows->n)
		return;
	if (scan->n)
		tool_say("none of the locks held is like that (there are %zu)",
			 scan->n);
	else
		tool_say("no locks held");
}

static void say_unknown(const struct rows *rows)
{
	if (rows->unknown)
		tool_say("how long a lock is held is known on its own host "
			 "only: %zu left out",
			 rows->unknown);
}

int verb_list(const struct ctl *ctl)
{
	static struct filter filter;
	struct scan scan;
	struct rows rows;
	int rc = filter_read(ctl, &filter);

	if (rc)
		return rc;
	rc = scan_all(ctl->config, &scan);
	ctl_mark_moved(ctl->config, &scan);
	filter_rows(&filter, &scan, &rows);
	if (scan.n || !rc)
		print(ctl, &scan, &rows);
	say_unknown(&rows);
	rows_free(&rows);
	scan_free(&scan);
	return rc;
}
