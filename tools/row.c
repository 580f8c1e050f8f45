/* SPDX-License-Identifier: MIT */
/* One lock in cells, and in JSON; see row.h. */
#include "tools/row.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/common.h"
#include "tools/holder.h"

/*
 * Cut to their least they fit 80 columns, with a mode of two letters and a pid
 * of seven digits.  (Of a range the beginning is left: it is whole in dlockctl
 * show.)
 */
const struct table_column row_columns[] = {
	{ .heading = "PATH", .least = 20, .keep_end = true },
	{ .heading = "MODE", .least = 13 },
	{ .heading = "HOST", .least = 7 },
	{ .heading = "PID" },
	{ .heading = "COMMAND", .least = 7 },
	{ .heading = "HELD" },
	{ .heading = "TTL" },
	{ .heading = "WAITERS" },
	{ .heading = "NOTE", .least = 12, .beneath = true },
	{ 0 },
};

static bool is_lock(const struct scan_lock *lock)
{
	return lock->hashed || !strcmp(lock->type, "string");
}

const char *row_mode_name(const struct scan_lock *lock)
{
	if (!is_lock(lock))
		return "?";
	if (lock->record && lock->unread)
		return "?";
	if (lock->record)
		return lock->range.type == DLK_WRITE ? "WRITE" : "READ";
	return lock->hashed && !lock->exclusive ? "SH" : "EX";
}

static bool has_range(const struct scan_lock *lock)
{
	return lock->record && is_lock(lock) && !lock->unread;
}

void row_range(struct table *t, const char *mode, const struct dlk_range *r)
{
	char text[64], end[24] = "";

	if (r && r->end != DLK_RANGE_MAX)
		snprintf(end, sizeof(end), "%" PRIu64, r->end);
	if (r)
		snprintf(text, sizeof(text), "%s %" PRIu64 "-%s", mode,
			 r->start, end);
	table_text(t, r ? text : mode);
}

void row_mode(struct table *t, const struct scan_lock *lock)
{
	row_range(t, row_mode_name(lock),
		  has_range(lock) ? &lock->range : NULL);
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
	va_list args;

	va_start(args, format);
	tool_append(out, size, format, args);
	va_end(args);
}

/* What makes a lock odd; "" if nothing does. */
void row_note(char *out, size_t size, const struct scan_lock *lock)
{
	char value[4 * SCAN_VALUE_MAX + 1];

	out[0] = '\0';
	if (!is_lock(lock)) {
		tool_show(value, sizeof(value), lock->type, strlen(lock->type));
		say(out, size, "not a lock (type %s)", value);
		return;
	}
	tool_show(value, sizeof(value), lock->value, lock->value_len);
	if (is_foreign(lock))
		say(out, size, "foreign: \"%s\"", value);
	if (lock->ours && lock->token.since_ns == DLK_NO_LOCK_NS)
		say(out, size, "released, kept for hold_at_least");
	if (lock->ours && lock->token.since_ns > DLK_NO_LOCK_NS)
		say(out, size, "granted, not confirmed yet");
	if (lock->moved)
		say(out, size, "the locked file is no more under this name");
	if (lock->damage)
		say(out, size, "%s", lock->damage);
	if (lock->rest)
		say(out, size, "%zu more not shown", lock->rest);
	if (lock->rest_ranges)
		say(out, size, "%zu more ranges not shown", lock->rest_ranges);
	if (lock->masters && lock->masters < lock->redis->n_endpoints)
		say(out, size, "at %u of %u masters%s", lock->masters,
		    lock->redis->n_endpoints,
		    lock->masters <= lock->redis->n_endpoints / 2
			    ? ", no majority"
			    : "");
	if (lock->unread && !*out)
		say(out, size, "no owner");
	if (lock->hashed && !lock->unread && lock->ttl_ms < 0)
		say(out, size, "its expiry is no number");
	if (lock->endless)
		say(out, size, "no ttl: this %s never expires",
		    lock->hashed ? "key" : "holder");
}

void row_word(struct table *t, const char *word)
{
	char bytes[DLK_WORD_MAX];
	size_t len = dlk_unword(word, bytes, sizeof(bytes));

	table_cell(t, bytes, len);
}

/* Where the program lies tells least, and takes the most room. */
static const char *without_directory(const char *line)
{
	const char *end = line + strcspn(line, " "), *slash;

	slash = memrchr(line, '/', (size_t)(end - line));
	return slash && slash + 1 < end ? slash + 1 : line;
}

/* "flock -n f ./job [root, cron.service]" */
static void command(struct table *t, const struct scan_lock *lock)
{
	const struct scan_holder *h = lock->holder;
	char text[HOLDER_LINE_MAX + sizeof(h->user) + sizeof(h->unit) + 8];

	if (!h || !*h->line) {
		row_word(t, lock->token.command);
		return;
	}
	snprintf(text, sizeof(text), "%s [%s%s%s]", without_directory(h->line),
		 h->user, *h->unit ? ", " : "", h->unit);
	table_text(t, text);
}

void row_owner(struct table *t, const struct scan_lock *lock)
{
	char pid[48];

	if (!lock->ours) {
		table_text(t, owner(lock));
		table_look(t, TABLE_OTHER);
		table_text(t, "-");
		table_text(t, "-");
		return;
	}
	snprintf(pid, sizeof(pid), "%u", lock->token.pid);
	if (lock->holder && lock->holder->elsewhere)
		snprintf(pid, sizeof(pid), "%u (%u here)", lock->token.pid,
			 lock->holder->pid);
	row_word(t, lock->token.hostname);
	table_text(t, pid);
	command(t, lock);
}

void row_time(struct table *t, int64_t ms, const char *unknown)
{
	table_text(t, ms < 0 ? unknown : ctl_duration((uint64_t)ms).text);
}

void row_json_word(struct json *j, const char *key, const char *word)
{
	char bytes[DLK_WORD_MAX];
	size_t len = dlk_unword(word, bytes, sizeof(bytes));

	json_str(j, key, bytes, len);
}

void row_json_time(struct json *j, const char *key, int64_t ms)
{
	if (ms < 0)
		json_null(j, key);
	else
		json_int(j, key, ms);
}

void row_cells(struct table *t, const struct scan_lock *lock)
{
	char text[ROW_NOTE_MAX];

	if (lock->path)
		table_cell(t, lock->path, lock->path_len);
	else
		table_cell(t, lock->key, lock->key_len);
	row_mode(t, lock);
	row_owner(t, lock);
	row_time(t, lock->held_ms, "-");
	row_time(t, lock->ttl_ms, "none");
	snprintf(text, sizeof(text), "%zu", lock->waiters);
	table_text(t, text);
	if (lock->waiters)
		table_look(t, TABLE_BUSY);
	row_note(text, sizeof(text), lock);
	table_shown(t, text);
	table_look(t, TABLE_BAD);
}

static void json_holder(struct json *j, const struct scan_holder *h)
{
	if (!h)
		return;
	json_text(j, "command_line", h->line);
	json_text(j, "user", h->user);
	if (*h->unit)
		json_text(j, "unit", h->unit);
	if (h->elsewhere)
		json_int(j, "pid_here", h->pid);
}

static void json_owner(struct json *j, const struct scan_lock *lock)
{
	json_text(j, "owner", owner(lock));
	if (lock->ours) {
		row_json_word(j, "host", lock->token.hostname);
		json_int(j, "pid", lock->token.pid);
		row_json_word(j, "command", lock->token.command);
		json_text(j, "token", lock->token.random);
		json_holder(j, lock->holder);
		return;
	}
	json_null(j, "host");
	json_null(j, "pid");
	json_null(j, "command");
	if (is_foreign(lock))
		json_str(j, "value", lock->value, lock->value_len);
}

/* To the end of the file: null. */
void row_json_range(struct json *j, const struct dlk_range *range)
{
	json_int(j, "start", (int64_t)range->start);
	row_json_time(j, "end",
		      range->end == DLK_RANGE_MAX ? -1 : (int64_t)range->end);
}

void row_json_members(struct json *j, const struct scan_lock *lock)
{
	char text[ROW_NOTE_MAX];

	json_str(j, "path", lock->path, lock->path_len);
	json_str(j, "key", lock->key, lock->key_len);
	json_text(j, "redis", lock->redis->name);
	json_text(j, "server", lock->redis->endpoints->name);
	json_text(j, "family", lock->record ? "record" : "flock");
	json_text(j, "mode", row_mode_name(lock));
	if (has_range(lock))
		row_json_range(j, &lock->range);
	json_owner(j, lock);
	row_json_time(j, "held_ms", lock->held_ms);
	row_json_time(j, "ttl_ms", lock->ttl_ms);
	json_int(j, "waiters", (int64_t)lock->waiters);
	if (lock->moved)
		json_bool(j, "moved", true);
	row_note(text, sizeof(text), lock);
	if (*text)
		json_text(j, "note", text);
}

void row_json(struct json *j, const struct scan_lock *lock)
{
	json_open(j, NULL, '{');
	row_json_members(j, lock);
	json_close(j, '}');
}
