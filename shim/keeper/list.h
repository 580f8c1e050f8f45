/* SPDX-License-Identifier: MIT */
/* The kernel's list of locks, /proc/locks: the flock locks in it. */
#ifndef DLK_LIST_H
#define DLK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlk_listed {
	uint64_t file; /* dlk_list_file() of its line */
	uint64_t pid;
	int mode;
	bool blocks_us; /* a wait of this process hangs on it */
};

/*
 * Room for element n, of `size`, of an array; `array` is where its pointer is,
 * and *room so many it has.  False: no memory; it is as it was.
 */
bool dlk_grow(void *array, size_t *room, size_t n, size_t size);

/* A number for its file. */
struct dlk_lock_line;
uint64_t dlk_list_file(const struct dlk_lock_line *l);

/*
 * Read it anew; false if it cannot be had, or changes too fast.  No lock is
 * missed, but one may be in it twice: when others are added meanwhile, a piece
 * begins with what stood at the end of the last one.
 */
bool dlk_list_read(void);

/* The locks of a file, in a row at *first; their number. */
size_t dlk_list_of(uint64_t file, const struct dlk_listed **first);

#endif
