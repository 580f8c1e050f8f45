/* SPDX-License-Identifier: MIT */
/*
 * Writing JSON (RFC 8259), a value at a time, in order.
 *
 *	json_open(j, NULL, '[');
 *		json_open(j, NULL, '{');
 *			json_str(j, "path", path, len);
 *		json_close(j, '}');
 *	json_close(j, ']');
 *
 * The output is always valid: strings are escaped, commas are put where they
 * belong.  A byte that is not part of UTF-8 becomes \u00XX, so a name of such
 * bytes can be told, but not from the one that has U+00XX there.
 *
 * `key` is NULL for the top and inside an array.
 */
#ifndef DLK_TOOLS_JSON_H
#define DLK_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *f;
	unsigned depth;
	bool more; /* a value stands before, in this object or array */
};

void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
/* Of a text that is NULL it is null. */
void json_str(struct json *j, const char *key, const char *bytes, size_t len);
void json_text(struct json *j, const char *key, const char *text);
void json_int(struct json *j, const char *key, int64_t n);
void json_bool(struct json *j, const char *key, bool b);
void json_null(struct json *j, const char *key);

#endif
