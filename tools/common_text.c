/* SPDX-License-Identifier: MIT */
/* Messages, and names made safe for a terminal; see common.h. */
#include "tools/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tool_name = "dlock";

static void say(const char *format, va_list args)
{
	char raw[2 * DLK_PATH_MAX], text[4 * sizeof(raw)];
	int len = vsnprintf(raw, sizeof(raw), format, args);

	if (len < 0)
		return;
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

int tool_fail(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return code;
}

/* Length by the first byte; 0 for one that begins no character. */
static size_t utf8_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

size_t tool_utf8(const char *bytes, size_t len, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *b = (const unsigned char *)bytes;
	size_t n = len ? utf8_length(b[0]) : 0;
	uint32_t c;

	if (!n || n > len)
		return 0;
	c = n == 1 ? b[0] : b[0] & (0x7f >> n);
	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (b[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return n;
}

/* Neither a control nor a mark that changes how its neighbours are shown. */
static bool printable(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	if (c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e))
		return false;
	return !(c >= 0x2066 && c <= 0x2069) && c != 0xfeff;
}

/* What stands for the first character of `bytes`; *used of them. */
static size_t show_one(char out[20], const char *bytes, size_t len,
		       size_t *used)
{
	uint32_t code;
	size_t n = tool_utf8(bytes, len, &code), at = 0;

	*used = n ? n : 1;
	if (n && printable(code)) {
		memcpy(out, bytes, n);
		out[n] = bytes[0]; /* '\': doubled */
		return n + (bytes[0] == '\\');
	}
	for (size_t i = 0; i < *used; i++)
		at += (size_t)snprintf(out + at, 20 - at, "\\x%02x",
				       (unsigned char)bytes[i]);
	return at;
}

size_t tool_show(char *out, size_t size, const char *bytes, size_t len)
{
	size_t at = 0, used;
	char one[20];

	for (size_t i = 0; i < len; i += used) {
		size_t n = show_one(one, bytes + i, len - i, &used);

		if (at + n >= size)
			break;
		memcpy(out + at, one, n);
		at += n;
	}
	out[at] = '\0';
	return at;
}
