/* SPDX-License-Identifier: MIT */
/* Byte ranges as text; see ranges.h. */
#include "lease/ranges.h"

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
