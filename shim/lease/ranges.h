/* SPDX-License-Identifier: MIT */
/*
 * Byte ranges as the scripts have them (scripts/records.inc): the type, R or
 * W, and start and end of a fixed width, for Lua's numbers are exact to 2^53
 * only, and offsets that are text must be in order as text.
 *
 * What is read may be anybody's bytes: false for what is no range.  Pure.
 */
#ifndef DLK_LEASE_RANGES_H
#define DLK_LEASE_RANGES_H

#include <sys/types.h>

#include "model/range.h"
#include "model/text.h"
#include "model/token.h"

enum {
	DLK_OFFSET_LEN = 19, /* 2^63 - 1 */
	DLK_BOUNDS_LEN = 2 * DLK_OFFSET_LEN,
	DLK_RANGE_LEN = 1 + DLK_BOUNDS_LEN,
	DLK_WHAT_LEN = DLK_RANGE_LEN + DLK_RANDOM_LEN + 1,
};

void dlk_range_put(struct dlk_text *t, const struct dlk_range *r);
void dlk_range_put_bounds(struct dlk_text *t, const struct dlk_range *r);

/* Type and bounds of it, which need not stand together. */
bool dlk_range_read(char type, const char *bounds, struct dlk_range *r);

/* Exactly `width` digits, at most 20. */
bool dlk_digits(const char *text, size_t width, uint64_t *n);

/*
 * What a waiter waits for, and a NUL: a range, and the 32 digits of its owner's
 * token, whose own ranges are in nobody's way, "" if it has none; and whether
 * its process holds some lock.
 */
void dlk_records_what(char what[DLK_WHAT_LEN + 1],
		      const struct dlk_range *range, const char *owner,
		      bool holds);

/* "{KEY%rec}%r" and a NUL: its length, or -ENAMETOOLONG. */
ssize_t dlk_records_ranges_key(const char *key, size_t len, char *buf,
			       size_t size);

#endif
