/* SPDX-License-Identifier: MIT */
/*
 * The ranges of an owner against a map with a place for each byte: four bytes are
 * a step, which locks, converts or gives back, or asks.
 */
#include <errno.h>

#include "model/range.h"
#include "tests/fuzz/fuzz.h"

enum { BYTES = 48, ROOM = 24 };

static unsigned char map[BYTES];
static struct dlk_range room[ROOM];
static struct dlk_ranges set;

/* In order, apart, none of two that touch of one type, as the map has them. */
static void same(void)
{
	unsigned char seen[BYTES] = { 0 };

	for (size_t i = 0; i < set.n; i++) {
		const struct dlk_range *r = &set.v[i];

		must(r->start <= r->end && r->end < BYTES);
		must(r->type == DLK_READ || r->type == DLK_WRITE);
		if (i) {
			must(r[-1].end < r->start);
			must(r[-1].end + 1 < r->start || r[-1].type != r->type);
		}
		memset(seen + r->start, (int)r->type, r->end - r->start + 1);
	}
	must(memcmp(seen, map, BYTES) == 0);
}

static void ask(const struct dlk_range *r)
{
	const struct dlk_range *hit = dlk_ranges_conflict(&set, r);
	struct dlk_range rest = *r, part;
	unsigned char lacks[BYTES] = { 0 };
	uint64_t first = BYTES;

	for (uint64_t i = r->end + 1; i-- > r->start;)
		if (map[i] == DLK_WRITE || (map[i] && r->type == DLK_WRITE))
			first = i;
	must(!hit == (first == BYTES || r->type == DLK_UNLOCKED));
	must(!hit || (hit->start <= first && hit->end >= first));
	while (r->type != DLK_UNLOCKED && dlk_ranges_lacks(&set, &rest, &part))
		memset(lacks + part.start, 1, part.end - part.start + 1);
	for (uint64_t i = r->start; i <= r->end && r->type; i++)
		must(lacks[i] == (map[i] < r->type));
	for (uint64_t at = r->start;; at = part.end + 1) {
		part = dlk_ranges_piece(&set, at, r->end);
		for (uint64_t i = at; i <= part.end; i++)
			must(map[i] == part.type);
		if (part.end == r->end)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	set = (struct dlk_ranges){ .v = room, .room = ROOM };
	memset(map, DLK_UNLOCKED, sizeof(map));
	for (; n >= 4; bytes += 4, n -= 4) {
		const uint64_t a = bytes[1] % BYTES, b = bytes[2] % BYTES;
		const struct dlk_range r = { a < b ? a : b, a < b ? b : a,
					     bytes[0] % 3 };

		if (bytes[3] & 1) {
			ask(&r);
		} else if (dlk_ranges_set(&set, r) == 0) {
			memset(map + r.start, (int)r.type, r.end - r.start + 1);
		}
		same();
	}
	return 0;
}
