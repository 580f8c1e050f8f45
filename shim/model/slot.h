/* SPDX-License-Identifier: MIT */
/*
 * The hash slots of a Redis Cluster (redis.io, "Redis cluster specification",
 * "Key distribution model"): which of 16384 a key is in.
 *
 * Pure.
 */
#ifndef DLK_SLOT_H
#define DLK_SLOT_H

#include <stddef.h>
#include <stdint.h>

enum { DLK_SLOTS = 16384, DLK_TAG_LEN = 4, DLK_NO_SLOT = -1 };

/* CRC16 of the key, or of what stands in its first braces, if anything does. */
int dlk_slot_of(const char *key, size_t len);
/*
 * A hash tag of that slot, without its braces: DLK_TAG_LEN letters of '@' to
 * 'O', and a NUL; of one slot always the same.
 */
void dlk_slot_tag(int slot, char tag[DLK_TAG_LEN + 1]);

#endif
