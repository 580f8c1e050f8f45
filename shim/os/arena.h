/* SPDX-License-Identifier: MIT */
/*
 * Where hiredis and libconfuse take their memory from.
 *
 * A lock call may come from a signal handler that interrupted malloc
 * (DESIGN L7), and passwords of the configuration are not to stay in a
 * program's heap.  So both are linked with their allocator's names replaced by
 * these (see the Makefile, objcopy --redefine-sym).  Memory comes from mmap(2),
 * is in no core dump, given out upwards and returned all at once.  A loaded
 * configuration lives in one as well.
 *
 *  1. An arena MUST be current (dlk_arena_use) in the calling thread while
 *     one of them runs; without one every allocation fails, which they report
 *     as out of memory.
 *  2. free() gives back the block that was given out last, and no other one;
 *     dlk_arena_reset() frees everything, and of what was mapped nothing stays
 *     in this process.
 *  3. An arena belongs to one thread at a time.
 *  4. A block that grows has room for half as much again, for libconfuse asks
 *     for 32 bytes more at a time.
 */
#ifndef DLK_ARENA_H
#define DLK_ARENA_H

#include <stddef.h>

struct dlk_arena {
	char *base, *top, *end;  /* the chunk in use */
	char *first, *first_end; /* given by the owner, never unmapped */
	size_t total, limit;     /* bytes mapped beyond the first chunk */
};

void dlk_arena_init(struct dlk_arena *a, void *mem, size_t size, size_t limit);
void dlk_arena_reset(struct dlk_arena *a);

/* Make `a` (or NULL) current; the one that was. */
struct dlk_arena *dlk_arena_use(struct dlk_arena *a);

/* The names that they call. */
void *dlk_arena_malloc(size_t size);
void *dlk_arena_calloc(size_t n, size_t size);
void *dlk_arena_realloc(void *old, size_t size);
void *dlk_arena_reallocarray(void *old, size_t n, size_t size);
void dlk_arena_free(void *old);
char *dlk_arena_strdup(const char *s);
char *dlk_arena_strndup(const char *s, size_t max);

#endif
