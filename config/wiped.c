/* SPDX-License-Identifier: MIT */
/*
 * libconfuse's memory.
 *
 * It holds the file's texts several times over (its scanner's buffers, each
 * value) and frees them as they are, so that a password of the file would stay
 * in the program's heap for as long as that lives.  The Makefile gives its
 * archive these names for libc's:
 *
 *  1. What is freed is wiped.
 *  2. A block that grows is wiped where it was; it grows by half at least,
 *     for the scanner asks for 32 bytes more at a time.
 *  3. A text in memory is read without a buffer of libc's in between.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/internal.h"

/* Before each block. */
struct room {
	_Alignas(max_align_t) size_t size;
};

void *dlk_wiped_malloc(size_t size)
{
	struct room *r;

	if (size > SIZE_MAX / 4)
		return NULL;
	r = malloc(sizeof(*r) + size);
	if (!r)
		return NULL;
	r->size = size;
	return r + 1;
}

void *dlk_wiped_calloc(size_t n, size_t size)
{
	size_t all;
	void *p;

	if (__builtin_mul_overflow(n, size, &all))
		return NULL;
	p = dlk_wiped_malloc(all);
	return p ? memset(p, 0, all) : NULL;
}

void dlk_wiped_free(void *old)
{
	struct room *r = old;

	if (!r)
		return;
	r--;
	explicit_bzero(r + 1, r->size);
	free(r);
}

void *dlk_wiped_realloc(void *old, size_t size)
{
	size_t has = old ? ((struct room *)old - 1)->size : 0;
	void *p;

	if (old && size <= has)
		return old;
	p = dlk_wiped_malloc(has && size < has + has / 2 ? has + has / 2
							 : size);
	if (!p || !old)
		return p;
	memcpy(p, old, has);
	dlk_wiped_free(old);
	return p;
}

void *dlk_wiped_reallocarray(void *old, size_t n, size_t size)
{
	size_t all;

	return __builtin_mul_overflow(n, size, &all)
		       ? NULL
		       : dlk_wiped_realloc(old, all);
}

char *dlk_wiped_strndup(const char *s, size_t max)
{
	size_t len = strnlen(s, max);
	char *p = dlk_wiped_calloc(1, len + 1);

	return p ? memcpy(p, s, len) : NULL;
}

char *dlk_wiped_strdup(const char *s)
{
	return dlk_wiped_strndup(s, SIZE_MAX / 4);
}

FILE *dlk_wiped_fmemopen(void *text, size_t size, const char *mode)
{
	FILE *f = fmemopen(text, size, mode);

	if (f)
		setvbuf(f, NULL, _IONBF, 0);
	return f;
}
