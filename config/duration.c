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

#include "config/internal.h"

/* From the longest; the last one has no name. */
static const struct unit {
	const char *name;
	uint64_t ms;
} units[] = { { "h", 3600000 },
	      { "m", 60000 },
	      { "s", 1000 },
	      { "ms", 1 },
	      { NULL, 0 } };

int dlk_duration(const char *text, uint64_t *ms)
{
	const struct unit *unit = units;
	uint64_t n = 0;
	const char *p = text;
	bool fits = true;

	for (; *p >= '0' && *p <= '9'; p++) {
		fits = fits && !__builtin_mul_overflow(n, 10, &n) &&
		       !__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
	}
	/* "3x" is no duration however long its number: the unit goes first. */
	while (unit->name && strcmp(p, unit->name) != 0)
		unit++;
	if (p == text || !unit->name)
		return -EINVAL;
	if (!fits || __builtin_mul_overflow(n, unit->ms, &n))
		return -ERANGE;
	*ms = n;
	return 0;
}

/* By the longest unit that it is a whole number of; 0 is "0s". */
struct dlk_span dlk_span(uint64_t ms)
{
	const struct unit *unit = units;
	struct dlk_span s;

	while (ms % unit->ms || (!ms && unit->ms > 1000))
		unit++;
	snprintf(s.text, sizeof(s.text), "%llu%s",
		 (unsigned long long)(ms / unit->ms), unit->name);
	return s;
}
