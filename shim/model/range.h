/* SPDX-License-Identifier: MIT */
/*
 * Byte ranges: what one owner of record locks holds of one file.
 *
 * The rules are the kernel's (fcntl(2), "Advisory record locking";
 * posix_lock_inode() in Linux' fs/locks.c):
 *
 *  1. An owner never conflicts with itself: what it asks for replaces what it
 *     has there, up or down.
 *  2. A byte has one state; neighbours in the same state are one range.
 *  3. Ranges of two owners conflict where they meet and one of them is WRITE.
 *
 * A set is an array, sorted, of ranges that do not overlap; those that touch
 * differ in type.  Finding is O(log n), a change moves what stands behind it.
 * The memory is the caller's (4).  Pure.
 *
 *	struct dlk_range room[64];
 *	struct dlk_ranges set = { .v = room, .room = 64 };
 *
 *	dlk_ranges_set(&set, (struct dlk_range){ 0, 99, DLK_WRITE });
 *	dlk_ranges_set(&set, (struct dlk_range){ 10, 19, DLK_UNLOCKED });
 *	-> WRITE 0-9, WRITE 20-99
 *
 *  4. grow(set, n) makes room for n ranges at least, keeping those that are
 *     there, or returns -errno; without one the room is all there is.  A
 *     change takes up to two ranges more; refused, it has changed nothing.
 */
#ifndef DLK_RANGE_H
#define DLK_RANGE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_RANGE_MAX ((uint64_t)INT64_MAX) /* the last byte: "to the end" */

/* In order of strength. */
enum dlk_range_type { DLK_UNLOCKED, DLK_READ, DLK_WRITE };

/* start <= end <= DLK_RANGE_MAX, both inclusive. */
struct dlk_range {
	uint64_t start, end;
	enum dlk_range_type type;
};

struct dlk_ranges {
	struct dlk_range *v;
	size_t n, room;
	int (*grow)(struct dlk_ranges *set, size_t n); /* or NULL */
};

/*
 * What a lock call means, with the descriptor's offset and the file's size
 * (for SEEK_CUR and SEEK_END).  0, -EINVAL or -EOVERFLOW as the kernel answers.
 */
int dlk_range_of(const struct flock64 *call, int64_t offset, int64_t size,
		 struct dlk_range *range);

/* The way back: l_type, SEEK_SET, l_start, l_len (0: to the end). */
void dlk_range_to(const struct dlk_range *range, struct flock64 *call);

bool dlk_range_conflicts(const struct dlk_range *a, const struct dlk_range *b);

/*
 * Lock, convert or (DLK_UNLOCKED) unlock a range: 0, -ENOLCK without room, or
 * what grow() said.
 */
int dlk_ranges_set(struct dlk_ranges *set, struct dlk_range range);

/* Room for one change, whichever: then it cannot fail.  0, or as it would. */
int dlk_ranges_reserve(struct dlk_ranges *set);

/* The first range of this owner that another's `range` conflicts with. */
const struct dlk_range *dlk_ranges_conflict(const struct dlk_ranges *set,
					    const struct dlk_range *range);

/*
 * Piece by piece: the piece of one state (DLK_UNLOCKED is one) that begins at
 * `from`; it ends at `to` at the latest.  To walk a window:
 *
 *	for (at = start;; at = piece.end + 1) {
 *		piece = dlk_ranges_piece(set, at, end);
 *		...
 *		if (piece.end == end)
 *			break;
 *	}
 */
struct dlk_range dlk_ranges_piece(const struct dlk_ranges *set, uint64_t from,
				  uint64_t to);

/*
 * What the set lacks of a wanted range, at its strength: each call takes the
 * next part out of *rest into *part; false when there is none left.
 */
bool dlk_ranges_lacks(const struct dlk_ranges *set, struct dlk_range *rest,
		      struct dlk_range *part);

/* The first range that ends at `at` or behind: its index; n for none. */
size_t dlk_ranges_find(const struct dlk_ranges *set, uint64_t at);

#endif
