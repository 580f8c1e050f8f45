/* SPDX-License-Identifier: MIT */
/*
 * Numbers that look random and are the same in every run (the multiplier and
 * increment are Knuth's, MMIX): a property test that fails can be run again.
 */
#ifndef TESTS_UNIT_LCG_H
#define TESTS_UNIT_LCG_H

#include <stddef.h>
#include <stdint.h>

struct lcg {
	uint64_t seed;
};

static inline uint32_t lcg_u32(struct lcg *g)
{
	g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(g->seed >> 32);
}

static inline uint64_t lcg_u64(struct lcg *g)
{
	uint64_t high = lcg_u32(g);

	return high << 32 | lcg_u32(g);
}

static inline size_t lcg_below(struct lcg *g, size_t n)
{
	return lcg_u32(g) % n;
}

#endif
