/* SPDX-License-Identifier: MIT */
/*
 * One row of a scan, as the verbs show it: in cells, and as an object.
 */
#ifndef DLK_TOOLS_ROW_H
#define DLK_TOOLS_ROW_H

#include "tools/json.h"
#include "tools/scan.h"
#include "tools/table.h"

enum { ROW_NOTE_MAX = 512 };

/* The columns of dlockctl list, and their cells. */
enum { ROW_OWNER_CELLS = 5 }; /* the first ones, that say which lock it is */
extern const struct table_column row_columns[];
void row_cells(struct table *t, const struct scan_lock *lock);

/*
 * "WRITE 0-99"; without an end it goes to that of the file.  NULL: of no range,
 * the mode alone.
 */
void row_range(struct table *t, const char *mode, const struct dlk_range *r);
/* The same, or "EX": of one lock. */
void row_mode(struct table *t, const struct scan_lock *lock);
/* "EX", "SH", "WRITE", "READ", or "?" for what is no single lock. */
const char *row_mode_name(const struct scan_lock *lock);
/* HOST, PID and COMMAND. */
void row_owner(struct table *t, const struct scan_lock *lock);
/* -1 is not known, or none. */
void row_time(struct table *t, int64_t ms, const char *unknown);
/* A word of a token. */
void row_word(struct table *t, const char *word);
/* What makes a lock odd, shown already; "" if nothing does. */
void row_note(char *out, size_t size, const struct scan_lock *lock);

/* An object of an array; or its members alone. */
void row_json(struct json *j, const struct scan_lock *lock);
void row_json_members(struct json *j, const struct scan_lock *lock);
void row_json_word(struct json *j, const char *key, const char *word);
void row_json_time(struct json *j, const char *key, int64_t ms);
/* To the end of the file: null. */
void row_json_range(struct json *j, const struct dlk_range *range);

#endif
