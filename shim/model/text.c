/* SPDX-License-Identifier: MIT */
/* Text without stdio; see text.h. */
#include "model/text.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

void dlk_text_init(struct dlk_text *t, char *buf, size_t size)
{
	*t = (struct dlk_text){ .buf = buf, .size = size };
	buf[0] = '\0';
}

void dlk_text_bytes(struct dlk_text *t, const char *bytes, size_t len)
{
	size_t room = t->size - 1 - t->len;

	if (len > room) {
		len = room;
		t->cut = true;
	}
	memcpy(t->buf + t->len, bytes, len);
	t->len += len;
	t->buf[t->len] = '\0';
}

void dlk_text_str(struct dlk_text *t, const char *str)
{
	dlk_text_bytes(t, str, strlen(str));
}

static void put_number(struct dlk_text *t, uint64_t n, unsigned base,
		       unsigned width)
{
	char tmp[24];
	unsigned at = sizeof(tmp);

	do {
		tmp[--at] = digits[n % base];
		n /= base;
	} while (n);
	for (; width && at > sizeof(tmp) - width && at > 0;)
		tmp[--at] = '0';
	dlk_text_bytes(t, tmp + at, sizeof(tmp) - at);
}

void dlk_text_u64(struct dlk_text *t, uint64_t n, unsigned width)
{
	put_number(t, n, 10, width);
}

void dlk_text_i64(struct dlk_text *t, int64_t n)
{
	if (n < 0)
		dlk_text_bytes(t, "-", 1);
	put_number(t, n < 0 ? -(uint64_t)n : (uint64_t)n, 10, 0);
}

void dlk_text_hex(struct dlk_text *t, uint64_t n)
{
	put_number(t, n, 16, 0);
}

void dlk_text_quoted(struct dlk_text *t, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];
		char esc[4] = { '\\', 'x', digits[c >> 4], digits[c & 15] };

		if (c < 0x20 || c == 0x7f || c == '\\' || c == '"')
			dlk_text_bytes(t, esc, 4);
		else
			dlk_text_bytes(t, bytes + i, 1);
	}
}

static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	return 99;
}

const char *dlk_number(const char *text, unsigned base, uint64_t *n)
{
	const char *p = text;
	uint64_t value = 0;

	for (unsigned d; (d = digit(*p)) < base; p++) {
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, d, &value))
			return NULL;
	}
	if (p == text)
		return NULL;
	*n = value;
	return p;
}
