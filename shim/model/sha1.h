/* SPDX-License-Identifier: MIT */
/*
 * SHA-1 (RFC 3174), for the names that EVALSHA calls scripts by; it protects
 * nothing.  Pure.
 *
 *	dlk_sha1_init() or dlk_sha1_resume(), dlk_sha1_add()*, dlk_sha1_hex()
 */
#ifndef DLK_SHA1_H
#define DLK_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { DLK_SHA1_BLOCK = 64, DLK_SHA1_LEN = 40 };

struct dlk_sha1 {
	uint32_t h[5];
	uint64_t len; /* of all that was added */
	unsigned char block[DLK_SHA1_BLOCK];
};

void dlk_sha1_init(struct dlk_sha1 *s);
/* As after `len` bytes, a multiple of DLK_SHA1_BLOCK, that left h so. */
void dlk_sha1_resume(struct dlk_sha1 *s, const uint32_t h[5], uint64_t len);
void dlk_sha1_add(struct dlk_sha1 *s, const void *data, size_t len);
/* In small letters, and a NUL; nothing can be added after that. */
void dlk_sha1_hex(struct dlk_sha1 *s, char hex[DLK_SHA1_LEN + 1]);

#endif
