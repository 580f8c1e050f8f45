/* SPDX-License-Identifier: MIT */
/*
 * SHA-1: what RFC 3174 and FIPS 180 say of known texts, whatever the pieces
 * they come in, and from wherever it is resumed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "model/sha1.h"

static const struct {
	const char *text;
	unsigned times;
	const char *hex;
} known[] = {
	{ "", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
	{ "abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	  "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
	{ "a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f" },
	{ "01234567012345670123456701234567", 20,
	  "dea356a2cddd90c7a7ecedc5ebb563934f460452" },
};

static void known_texts(void **state)
{
	char hex[DLK_SHA1_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct dlk_sha1 s;

		dlk_sha1_init(&s);
		for (unsigned n = 0; n < known[i].times; n++)
			dlk_sha1_add(&s, known[i].text, strlen(known[i].text));
		dlk_sha1_hex(&s, hex);
		assert_string_equal(hex, known[i].hex);
	}
}

/* Every length about the edges of two blocks, cut at every whole block. */
static void resumed_it_is_the_same(void **state)
{
	char text[3 * DLK_SHA1_BLOCK], whole[DLK_SHA1_LEN + 1];
	char resumed[DLK_SHA1_LEN + 1];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t len = 0; len <= sizeof(text); len++) {
		size_t at = len / DLK_SHA1_BLOCK * DLK_SHA1_BLOCK;
		struct dlk_sha1 s, t;

		dlk_sha1_init(&s);
		dlk_sha1_add(&s, text, at);
		dlk_sha1_resume(&t, s.h, at);
		dlk_sha1_add(&t, text + at, len - at);
		dlk_sha1_add(&s, text + at, len - at);
		dlk_sha1_hex(&s, whole);
		dlk_sha1_hex(&t, resumed);
		assert_string_equal(whole, resumed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_texts),
		cmocka_unit_test(resumed_it_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
