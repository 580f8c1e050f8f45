/* SPDX-License-Identifier: MIT */
/* Messages, and names made safe for a terminal; see common.h. */
#include "tools/common.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/text.h"

const char *tool_name = "dlock";
void (*tool_listener)(const char *text);
int tool_unable = DLK_EXIT_UNAVAILABLE;

static void say(const char *format, va_list args)
{
	char raw[2 * DLK_PATH_MAX], text[4 * sizeof(raw)];
	int len = vsnprintf(raw, sizeof(raw), format, args);

	if (len < 0)
		return;
	if (tool_listener)
		tool_listener(raw);
	tool_show(text, sizeof(text), raw, strlen(raw));
	fprintf(stderr, "%s: %s\n", tool_name, text);
}

void tool_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

bool tool_is_read(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

int tool_fail(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return code;
}

/* --- memory --------------------------------------------------------------- */

void tool_no_memory(void)
{
	/* Who hears of it needs some. */
	tool_listener = NULL;
	exit(tool_fail(tool_unable, "out of memory"));
}

void *tool_room(size_t n, size_t each)
{
	void *room = calloc(n, each);

	if (!room)
		tool_no_memory();
	return room;
}

char *tool_copy(const void *bytes, size_t len)
{
	return memcpy(tool_room(len + 1, 1), bytes, len);
}

void *tool_grow(void *array, size_t n, size_t *room, size_t each)
{
	if (n < *room)
		return array;
	*room = *room ? *room * 2 : 64;
	array = reallocarray(array, *room, each);
	if (!array)
		tool_no_memory();
	return array;
}

bool tool_ends(const char *bytes, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !memcmp(bytes + len - n, end, n);
}

/* --- for a terminal ------------------------------------------------------- */

/* What stands for the first character of `bytes`; *used of them. */
static size_t show_one(char out[20], const char *bytes, size_t len,
		       size_t *used)
{
	uint32_t code;
	size_t n = dlk_utf8(bytes, len, &code), at = 0;

	*used = n ? n : 1;
	if (n && dlk_text_printable(code)) {
		memcpy(out, bytes, n);
		out[n] = bytes[0]; /* '\': doubled */
		return n + (bytes[0] == '\\');
	}
	for (size_t i = 0; i < *used; i++)
		at += (size_t)snprintf(out + at, 20 - at, "\\x%02x",
				       (unsigned char)bytes[i]);
	return at;
}

/* Most are: they stand as they are. */
static bool is_plain(char c)
{
	return c >= 0x20 && c < 0x7f && c != '\\';
}

size_t tool_show(char *out, size_t size, const char *bytes, size_t len)
{
	size_t at = 0, used;
	char one[20];

	for (size_t i = 0; i < len; i += used) {
		size_t n;

		used = 1;
		if (is_plain(bytes[i])) {
			if (at + 1 >= size)
				break;
			out[at++] = bytes[i];
			continue;
		}
		n = show_one(one, bytes + i, len - i, &used);

		if (at + n >= size)
			break;
		memcpy(out + at, one, n);
		at += n;
	}
	out[at] = '\0';
	return at;
}

void tool_append(char *out, size_t size, const char *format, va_list args)
{
	size_t at = strlen(out);

	if (at && at + 2 < size)
		at += (size_t)snprintf(out + at, size - at, "; ");
	vsnprintf(out + at, size - at, format, args);
}

char *tool_shown(const char *text)
{
	size_t len = strlen(text), size = 4 * len + 1;
	char *shown = tool_room(size, 1);

	tool_show(shown, size, text, len);
	return shown;
}
