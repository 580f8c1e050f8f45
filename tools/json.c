/* SPDX-License-Identifier: MIT */
/* Writing JSON; see json.h. */
#include "tools/json.h"

#include <inttypes.h>
#include <string.h>

#include "model/text.h"

static void string(FILE *f, const char *bytes, size_t len)
{
	uint32_t code;

	fputc('"', f);
	for (size_t i = 0; i < len;) {
		size_t n = dlk_utf8(bytes + i, len - i, &code);
		unsigned char c = (unsigned char)bytes[i];

		if (n && c >= 0x20 && c != 0x7f && c != '"' && c != '\\')
			fwrite(bytes + i, 1, n, f);
		else if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else
			fprintf(f, "\\u%04x", c);
		i += n ? n : 1;
	}
	fputc('"', f);
}

/* What goes before a value: a comma, a line and its indent, the key. */
static void before(struct json *j, const char *key)
{
	if (j->more)
		fputc(',', j->f);
	if (j->depth)
		fprintf(j->f, "\n%*s", (int)j->depth * 2, "");
	if (key) {
		string(j->f, key, strlen(key));
		fputs(": ", j->f);
	}
	j->more = true;
}

void json_open(struct json *j, const char *key, char bracket)
{
	before(j, key);
	fputc(bracket, j->f);
	j->depth++;
	j->more = false;
}

void json_close(struct json *j, char bracket)
{
	j->depth--;
	if (j->more)
		fprintf(j->f, "\n%*s", (int)j->depth * 2, "");
	fputc(bracket, j->f);
	if (!j->depth)
		fputc('\n', j->f);
	j->more = true;
}

void json_str(struct json *j, const char *key, const char *bytes, size_t len)
{
	before(j, key);
	if (bytes)
		string(j->f, bytes, len);
	else
		fputs("null", j->f);
}

void json_text(struct json *j, const char *key, const char *text)
{
	json_str(j, key, text, text ? strlen(text) : 0);
}

void json_int(struct json *j, const char *key, int64_t n)
{
	before(j, key);
	fprintf(j->f, "%" PRId64, n);
}

void json_bool(struct json *j, const char *key, bool b)
{
	before(j, key);
	fputs(b ? "true" : "false", j->f);
}

void json_null(struct json *j, const char *key)
{
	json_text(j, key, NULL);
}
