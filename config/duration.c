/* SPDX-License-Identifier: MIT */
/*
 * Durations: a whole number, then ms, s, m or h.
 *
 *  1. Nothing else is a duration: no sign, no space, no fraction; and no
 *     number alone, for "5" would be five of what the reader is used to.
 *  2. A result that does not fit is -ERANGE, never a wrapped number.
 *
 * Pure: no I/O, no allocation, no locale.
 */
#include <errno.h>
#include <string.h>

#include "config/config.h"

static int unit_ms(const char *unit, uint64_t *factor)
{
	if (!strcmp(unit, "ms"))
		*factor = 1;
	else if (!strcmp(unit, "s"))
		*factor = 1000;
	else if (!strcmp(unit, "m"))
		*factor = 60000;
	else if (!strcmp(unit, "h"))
		*factor = 3600000;
	else
		return -EINVAL;
	return 0;
}

int dlk_duration(const char *text, uint64_t *ms)
{
	uint64_t n = 0, factor;
	const char *p = text;
	bool fits = true;

	for (; *p >= '0' && *p <= '9'; p++) {
		fits = fits && !__builtin_mul_overflow(n, 10, &n) &&
		       !__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
	}
	/* "3x" is no duration however long its number: the unit goes first. */
	if (p == text || unit_ms(p, &factor))
		return -EINVAL;
	if (!fits || __builtin_mul_overflow(n, factor, &n))
		return -ERANGE;
	*ms = n;
	return 0;
}
