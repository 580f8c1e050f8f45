/* SPDX-License-Identifier: MIT */
/* Text without stdio; see text.h. */
#include "model/text.h"

#include <stdarg.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void dlk_text_init(struct dlk_text *t, char *buf, size_t size)
{
	*t = dlk_text_in(buf, size);
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

void dlk_text_strs(struct dlk_text *t, ...)
{
	const char *str;
	va_list ap;

	va_start(ap, t);
	while ((str = va_arg(ap, const char *)))
		dlk_text_bytes(t, str, strlen(str));
	va_end(ap);
}

void dlk_text_u64(struct dlk_text *t, uint64_t n, unsigned width)
{
	char tmp[24];
	unsigned at = sizeof(tmp);

	do {
		tmp[--at] = digits[n % 10];
		n /= 10;
	} while (n);
	while (at > 0 && sizeof(tmp) - at < width)
		tmp[--at] = '0';
	dlk_text_bytes(t, tmp + at, sizeof(tmp) - at);
}

void dlk_text_i64(struct dlk_text *t, int64_t n)
{
	if (n < 0)
		dlk_text_bytes(t, "-", 1);
	dlk_text_u64(t, n < 0 ? -(uint64_t)n : (uint64_t)n, 0);
}

void dlk_text_hex(struct dlk_text *t, uint64_t n)
{
	char tmp[16];
	unsigned at = sizeof(tmp);

	do {
		tmp[--at] = digits[n & 15];
		n >>= 4;
	} while (n);
	dlk_text_bytes(t, tmp + at, sizeof(tmp) - at);
}

void dlk_text_hex_bytes(struct dlk_text *t, const void *bytes, size_t len)
{
	const unsigned char *b = bytes;
	size_t room = (t->size - 1 - t->len) / 2;

	t->cut |= len > room;
	for (size_t i = 0; i < len && i < room; i++) {
		t->buf[t->len++] = digits[b[i] >> 4];
		t->buf[t->len++] = digits[b[i] & 15];
	}
	t->buf[t->len] = '\0';
}

const char *dlk_numbered(char room[DLK_NUMBERED_MAX], const char *before,
			 int64_t n, const char *after)
{
	struct dlk_text t;

	dlk_text_init(&t, room, DLK_NUMBERED_MAX);
	dlk_text_str(&t, before);
	dlk_text_i64(&t, n);
	dlk_text_str(&t, after);
	return room;
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

size_t dlk_utf8(const char *bytes, size_t len, uint32_t *code)
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

bool dlk_text_printable(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	if (c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e))
		return false;
	return !(c >= 0x2066 && c <= 0x2069) && c != 0xfeff;
}

static void put_escaped(struct dlk_text *t, unsigned char c)
{
	char esc[4] = { '\\', 'x', digits[c >> 4], digits[c & 15] };

	dlk_text_bytes(t, esc, sizeof(esc));
}

void dlk_text_quoted(struct dlk_text *t, const char *bytes, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		uint32_t c;
		bool plain;

		n = dlk_utf8(bytes + i, len - i, &c);
		plain = n && dlk_text_printable(c) && c != '\\' && c != '"';
		n = n ?: 1;
		if (plain)
			dlk_text_bytes(t, bytes + i, n);
		for (size_t k = 0; !plain && k < n; k++)
			put_escaped(t, (unsigned char)bytes[i + k]);
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
