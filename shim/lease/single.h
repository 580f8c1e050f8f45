/* SPDX-License-Identifier: MIT */
/* The engine of mode = "single": one Redis server; see store.h. */
#ifndef DLK_SINGLE_H
#define DLK_SINGLE_H

#include "lease/store.h"

struct dlk_single {
	struct dlk_store store;
	const struct dlk_endpoint *ep;
};

/* `redis` is looked at for as long as the store is used. */
void dlk_single_init(struct dlk_single *single, const struct dlk_redis *redis);

#endif
