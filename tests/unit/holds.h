/* SPDX-License-Identifier: MIT */
/* A hold for a test; after <cmocka.h>. */
#ifndef DLK_TEST_HOLDS_H
#define DLK_TEST_HOLDS_H

#include <string.h>

#include "hold/hold.h"

/* Nobody is stopped for it. */
static const struct dlk_rule holds_rule = { .on_lost = DLK_LOST_REPORT };

/* Free yet, and in no table; the mutex is not held.  Places: of records. */
static inline struct dlk_hold *free_hold(const char *token, const char *places,
					 uint32_t ttl_ms)
{
	const struct dlk_lease lease = {
		.key = "k",
		.key_len = 1,
		.token = token,
		.token_len = strlen(token),
		.ranges_key = places,
		.ranges_key_len = places ? strlen(places) : 0,
		.ttl_ms = ttl_ms,
	};
	struct dlk_hold *h = dlk_hold_new(&lease);

	assert_non_null(h);
	h->rule = &holds_rule;
	return h;
}

#endif
