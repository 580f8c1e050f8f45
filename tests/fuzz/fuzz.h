/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share.  A target is a function that is given bytes by
 * libFuzzer, which looks for new ways through what it calls; the sanitizers, and
 * must(), say what is wrong.
 */
#ifndef DLK_FUZZ_H
#define DLK_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define must(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__,       \
				__LINE__, #condition);                         \
			abort();                                               \
		}                                                              \
	} while (0)

/* In a block of its own size, with a NUL: reading beyond it is seen. */
static inline char *boxed(const uint8_t *bytes, size_t n)
{
	char *box = malloc(n + 1);

	must(box);
	if (n)
		memcpy(box, bytes, n);
	box[n] = '\0';
	return box;
}

#endif
