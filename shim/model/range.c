/* SPDX-License-Identifier: MIT */
/* Byte ranges of one owner; see range.h. */
#include "model/range.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- from a call and back ------------------------------------------------- */

static int type_of(short l_type, enum dlk_range_type *type)
{
	switch (l_type) {
	case F_RDLCK:
		*type = DLK_READ;
		return 0;
	case F_WRLCK:
		*type = DLK_WRITE;
		return 0;
	case F_UNLCK:
		*type = DLK_UNLOCKED;
		return 0;
	default:
		return -EINVAL;
	}
}

/* flock64_to_posix_lock() in fs/locks.c, in its order. */
int dlk_range_of(const struct flock64 *call, int64_t offset, int64_t size,
		 struct dlk_range *range)
{
	int64_t start, end = INT64_MAX;

	switch (call->l_whence) {
	case SEEK_SET:
		start = 0;
		break;
	case SEEK_CUR:
		start = offset;
		break;
	case SEEK_END:
		start = size;
		break;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(start, call->l_start, &start))
		return -EOVERFLOW;
	if (start < 0)
		return -EINVAL;
	if (call->l_len > 0) {
		if (__builtin_add_overflow(start, call->l_len - 1, &end))
			return -EOVERFLOW;
	} else if (call->l_len < 0) {
		if (start + call->l_len < 0)
			return -EINVAL;
		end = start - 1;
		start += call->l_len;
	}
	range->start = (uint64_t)start;
	range->end = (uint64_t)end;
	return type_of(call->l_type, &range->type);
}

void dlk_range_to(const struct dlk_range *range, struct flock64 *call)
{
	static const short types[] = { F_UNLCK, F_RDLCK, F_WRLCK };

	call->l_type = types[range->type];
	call->l_whence = SEEK_SET;
	call->l_start = (off64_t)range->start;
	call->l_len = range->end == DLK_RANGE_MAX
			      ? 0
			      : (off64_t)(range->end - range->start + 1);
}

/* --- looking -------------------------------------------------------------- */

bool dlk_range_conflicts(const struct dlk_range *a, const struct dlk_range *b)
{
	return a->start <= b->end && b->start <= a->end && a->type && b->type &&
	       (a->type == DLK_WRITE || b->type == DLK_WRITE);
}

size_t dlk_ranges_find(const struct dlk_ranges *set, uint64_t at)
{
	size_t low = 0, high = set->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (set->v[mid].end < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct dlk_range *dlk_ranges_conflict(const struct dlk_ranges *set,
					    const struct dlk_range *range)
{
	for (size_t i = dlk_ranges_find(set, range->start);
	     i < set->n && set->v[i].start <= range->end; i++)
		if (dlk_range_conflicts(&set->v[i], range))
			return &set->v[i];
	return NULL;
}

struct dlk_range dlk_ranges_piece(const struct dlk_ranges *set, uint64_t from,
				  uint64_t to)
{
	struct dlk_range piece = { from, to, DLK_UNLOCKED };
	size_t i = dlk_ranges_find(set, from);

	if (i == set->n || set->v[i].start > to)
		return piece;
	if (set->v[i].start > from) {
		piece.end = set->v[i].start - 1;
		return piece;
	}
	piece.type = set->v[i].type;
	if (set->v[i].end < to)
		piece.end = set->v[i].end;
	return piece;
}

bool dlk_ranges_lacks(const struct dlk_ranges *set, struct dlk_range *rest,
		      struct dlk_range *part)
{
	bool found = false;

	while (rest->start <= rest->end) {
		struct dlk_range p =
			dlk_ranges_piece(set, rest->start, rest->end);

		if (p.type < rest->type) {
			part->start = found ? part->start : p.start;
			part->end = p.end;
			part->type = rest->type;
		} else if (found) {
			break;
		}
		found |= p.type < rest->type;
		rest->start = p.end + 1;
	}
	return found;
}

/* --- changing ------------------------------------------------------------- */

static int make_room(struct dlk_ranges *set, size_t n)
{
	if (n <= set->room)
		return 0;
	return set->grow ? set->grow(set, n) : -ENOLCK;
}

int dlk_ranges_reserve(struct dlk_ranges *set)
{
	return make_room(set, set->n + 2);
}

/* v[at .. at + old) becomes the `n` of `by`. */
static int replace(struct dlk_ranges *set, size_t at, size_t old,
		   const struct dlk_range *by, size_t n)
{
	size_t need = set->n - old + n;
	int err;

	if (need == 0 && old == 0)
		return 0; /* nor is there memory, perhaps */
	err = make_room(set, need);
	if (err)
		return err;
	memmove(set->v + at + n, set->v + at + old,
		(set->n - at - old) * sizeof(*set->v));
	if (n)
		memcpy(set->v + at, by, n * sizeof(*by));
	set->n = need;
	return 0;
}

/* What is left of a range in front of `end`. */
static struct dlk_range cut(struct dlk_range range, uint64_t end)
{
	if (range.end >= end)
		range.end = end - 1;
	return range;
}

/*
 * All that the new range overlaps or touches, v[at .. at + old), gives way to
 * what is left of it before, the new range, and what is left of it behind:
 *
 *	old	   WWWWWW RR WW
 *	new		RRRR
 *	then	   WWWWWRRRR WW		(the R's are one)
 */
int dlk_ranges_set(struct dlk_ranges *set, struct dlk_range range)
{
	size_t at = dlk_ranges_find(set, range.start ? range.start - 1 : 0);
	size_t behind = at, n = 0;
	struct dlk_range by[3], before = range, after = range;

	while (behind < set->n && set->v[behind].start <= range.end + 1)
		behind++;
	if (behind > at) {
		before = set->v[at];
		after = set->v[behind - 1];
	}
	if (before.start < range.start) {
		if (before.type == range.type)
			range.start = before.start;
		else
			by[n++] = cut(before, range.start);
	}
	if (after.end > range.end) {
		if (after.type == range.type)
			range.end = after.end;
		else if (after.start <= range.end)
			after.start = range.end + 1;
	}
	if (range.type != DLK_UNLOCKED)
		by[n++] = range;
	if (after.end > range.end)
		by[n++] = after;
	return replace(set, at, behind - at, by, n);
}
