/* SPDX-License-Identifier: MIT */
/* The hash slots of a Redis Cluster; see slot.h. */
#include "model/slot.h"

#include <string.h>

enum { BITS = 16, POLYNOMIAL = 0x1021, OF_SLOT = DLK_SLOTS - 1 };

/* CRC-16/XMODEM, a bit at a time: keys are short, and few are asked for. */
static uint16_t crc16(const char *text, size_t len)
{
	unsigned crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned)(uint8_t)text[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ (crc & 0x8000 ? POLYNOMIAL : 0);
	}
	return (uint16_t)crc;
}

int dlk_slot_of(const char *key, size_t len)
{
	const char *open = memchr(key, '{', len), *close;

	if (open) {
		close = memchr(open, '}', len - (size_t)(open - key));
		if (close && close > open + 1) {
			key = open + 1;
			len = (size_t)(close - key);
		}
	}
	return crc16(key, len) % DLK_SLOTS;
}

static void spell(unsigned n, char tag[DLK_TAG_LEN + 1])
{
	for (int i = 0; i < DLK_TAG_LEN; i++)
		tag[i] = (char)('@' | (n >> (4 * i) & 15));
	tag[DLK_TAG_LEN] = '\0';
}

/*
 * A CRC is linear: that of a text is the sum (exclusive or) of what each of its
 * bits adds.  So the bits that are to be set are found as in any system of
 * linear equations; the letters are such that their four lower bits are free.
 */
void dlk_slot_tag(int slot, char tag[DLK_TAG_LEN + 1])
{
	/* By the highest bit of the sum: that, and the bits that make it. */
	uint16_t sums[BITS] = { 0 }, makers[BITS] = { 0 };
	unsigned left, made = 0;

	spell(0, tag);
	left = crc16(tag, DLK_TAG_LEN);
	for (int bit = 0; bit < BITS; bit++) {
		unsigned sum, maker = 1U << bit;

		spell(maker, tag);
		sum = (crc16(tag, DLK_TAG_LEN) ^ left) & OF_SLOT;
		for (int high = BITS - 1; high >= 0 && sum; high--) {
			if (!(sum >> high & 1))
				continue;
			if (!sums[high]) {
				sums[high] = (uint16_t)sum;
				makers[high] = (uint16_t)maker;
				break;
			}
			sum ^= sums[high];
			maker ^= makers[high];
		}
	}
	left = (left ^ (unsigned)slot) & OF_SLOT;
	for (int high = BITS - 1; high >= 0; high--) {
		if (!(left >> high & 1))
			continue;
		left ^= sums[high];
		made ^= makers[high];
	}
	spell(made, tag);
}
