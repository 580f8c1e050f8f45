/* SPDX-License-Identifier: MIT */
/* SHA-1; see sha1.h.  The names are those of RFC 3174, section 6.1. */
#include "model/sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void read_words(const unsigned char *block, uint32_t w[80])
{
	for (int t = 0; t < 16; t++)
		w[t] = (uint32_t)block[4 * t] << 24 |
		       (uint32_t)block[4 * t + 1] << 16 |
		       (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
	for (int t = 16; t < 80; t++)
		w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
}

/* The function and the constant of a round of twenty. */
static uint32_t mix(int t, uint32_t b, uint32_t c, uint32_t d)
{
	switch (t / 20) {
	case 0:
		return ((b & c) | (~b & d)) + 0x5a827999;
	case 1:
		return (b ^ c ^ d) + 0x6ed9eba1;
	case 2:
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	default:
		return (b ^ c ^ d) + 0xca62c1d6;
	}
}

static void add_block(struct dlk_sha1 *s)
{
	uint32_t v[5], w[80];

	memcpy(v, s->h, sizeof(v));
	read_words(s->block, w);
	for (int t = 0; t < 80; t++) {
		uint32_t temp = rotate(v[0], 5) + mix(t, v[1], v[2], v[3]) +
				v[4] + w[t];

		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = temp;
	}
	for (int i = 0; i < 5; i++)
		s->h[i] += v[i];
}

void dlk_sha1_resume(struct dlk_sha1 *s, const uint32_t h[5], uint64_t len)
{
	memcpy(s->h, h, sizeof(s->h));
	s->len = len;
}

void dlk_sha1_init(struct dlk_sha1 *s)
{
	static const uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe,
				       0x10325476, 0xc3d2e1f0 };

	dlk_sha1_resume(s, h, 0);
}

void dlk_sha1_add(struct dlk_sha1 *s, const void *data, size_t len)
{
	const unsigned char *from = data;

	while (len) {
		size_t at = s->len % DLK_SHA1_BLOCK;
		size_t n = DLK_SHA1_BLOCK - at;

		n = n < len ? n : len;
		memcpy(s->block + at, from, n);
		s->len += n;
		from += n;
		len -= n;
		if (s->len % DLK_SHA1_BLOCK == 0)
			add_block(s);
	}
}

void dlk_sha1_hex(struct dlk_sha1 *s, char hex[DLK_SHA1_LEN + 1])
{
	static const unsigned char first = 0x80, zero;
	const uint64_t bits = s->len * 8;
	unsigned char end[8];

	for (int i = 0; i < 8; i++)
		end[i] = (unsigned char)(bits >> (56 - 8 * i));
	dlk_sha1_add(s, &first, 1);
	while (s->len % DLK_SHA1_BLOCK != DLK_SHA1_BLOCK - sizeof(end))
		dlk_sha1_add(s, &zero, 1);
	dlk_sha1_add(s, end, sizeof(end));
	for (int i = 0; i < DLK_SHA1_LEN; i++)
		hex[i] = "0123456789abcdef"[s->h[i / 8] >> (28 - i % 8 * 4) &
					    15];
	hex[DLK_SHA1_LEN] = '\0';
}
