/* SPDX-License-Identifier: MIT */
/* Byte ranges as text; see ranges.h. */
#include "lease/ranges.h"

#include <errno.h>
#include <string.h>

void dlk_range_put_bounds(struct dlk_text *t, const struct dlk_range *r)
{
	dlk_text_u64(t, r->start, DLK_OFFSET_LEN);
	dlk_text_u64(t, r->end, DLK_OFFSET_LEN);
}

void dlk_range_put(struct dlk_text *t, const struct dlk_range *r)
{
	dlk_text_str(t, r->type == DLK_WRITE ? "W" : "R");
	dlk_range_put_bounds(t, r);
}

bool dlk_digits(const char *text, size_t width, uint64_t *n)
{
	char digits[20 + 1];

	if (width >= sizeof(digits))
		return false;
	memcpy(digits, text, width);
	digits[width] = '\0';
	return dlk_number(digits, 10, n) == digits + width;
}

bool dlk_range_read(char type, const char *bounds, struct dlk_range *r)
{
	r->type = type == 'W' ? DLK_WRITE : DLK_READ;
	return (type == 'R' || type == 'W') &&
	       dlk_digits(bounds, DLK_OFFSET_LEN, &r->start) &&
	       dlk_digits(bounds + DLK_OFFSET_LEN, DLK_OFFSET_LEN, &r->end) &&
	       r->start <= r->end && r->end <= DLK_RANGE_MAX;
}

void dlk_records_what(char what[DLK_WHAT_LEN + 1],
		      const struct dlk_range *range, const char *owner,
		      bool holds)
{
	struct dlk_text t = dlk_text_in(what, DLK_WHAT_LEN + 1);

	dlk_range_put(&t, range);
	for (unsigned i = 0; i < DLK_RANDOM_LEN; i++)
		dlk_text_bytes(&t, owner[0] ? owner + i : "-", 1);
	dlk_text_str(&t, holds ? "+" : "-");
}

ssize_t dlk_records_ranges_key(const char *key, size_t len, char *buf,
			       size_t size)
{
	struct dlk_text t;

	if (size < len + sizeof("{}%r"))
		return -ENAMETOOLONG;
	dlk_text_init(&t, buf, size);
	dlk_text_str(&t, "{");
	dlk_text_bytes(&t, key, len);
	dlk_text_str(&t, "}%r");
	return (ssize_t)t.len;
}
