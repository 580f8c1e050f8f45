/* SPDX-License-Identifier: MIT */
/*
 * Text without stdio: what is built on a lock path must be safe in a signal
 * handler, and snprintf(3) is not (signal-safety(7)).
 *
 * A struct dlk_text never overflows; what does not fit is cut and remembered
 * in `cut`.  Pure.
 */
#ifndef DLK_TEXT_H
#define DLK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlk_text {
	char *buf; /* always NUL-terminated */
	size_t size, len;
	bool cut;
};

/* An empty one, which is written to `buf`. */
static inline struct dlk_text dlk_text_in(char *buf, size_t size)
{
	buf[0] = '\0';
	return (struct dlk_text){ .buf = buf, .size = size };
}
/* The same, of one that is there already. */
void dlk_text_init(struct dlk_text *t, char *buf, size_t size);
void dlk_text_bytes(struct dlk_text *t, const char *bytes, size_t len);
void dlk_text_str(struct dlk_text *t, const char *str);
/* Several, ended by NULL. */
void dlk_text_strs(struct dlk_text *t, ...) __attribute__((sentinel));
void dlk_text_u64(struct dlk_text *t, uint64_t n, unsigned width);
void dlk_text_i64(struct dlk_text *t, int64_t n);
void dlk_text_hex(struct dlk_text *t, uint64_t n);
/* Two digits a byte. */
void dlk_text_hex_bytes(struct dlk_text *t, const void *bytes, size_t len);

/* BEFORE, a number, AFTER, in `room`: such as "/proc/", 17, "/comm". */
enum { DLK_NUMBERED_MAX = 64 };
const char *dlk_numbered(char room[DLK_NUMBERED_MAX], const char *before,
			 int64_t n, const char *after);

/*
 * For people: printable UTF-8 as it is; what ends a quotation, '\' and every
 * other byte as \xNN.
 */
void dlk_text_quoted(struct dlk_text *t, const char *bytes, size_t len);

/*
 * The length of the UTF-8 character that `bytes` begins with (RFC 3629), its
 * code point in *code; 0 if there is none.
 */
size_t dlk_utf8(const char *bytes, size_t len, uint32_t *code);

/*
 * A character that has no effect on a terminal but to be seen: neither a
 * control (C0, C1, DEL) nor a mark that changes how its neighbours are shown.
 */
bool dlk_text_printable(uint32_t code);

/* Decimal or hex digits to a number; the end of the digits, NULL for none. */
const char *dlk_number(const char *text, unsigned base, uint64_t *n);

#endif
