/* SPDX-License-Identifier: MIT */
/* What a test of the keeper's messages has it carry is dropped again. */
#ifndef DLK_TESTS_KEEPER_REST_H
#define DLK_TESTS_KEEPER_REST_H

#include "keeper/keeper.h"
#include "model/timeline.h"
#include "os/sys.h"

static inline void pass_over(struct dlk_watch *w)
{
	(void)w;
}

/* (A wait in the kernel for a file ends by itself.) */
static inline void drop_all(void)
{
	while (!LIST_EMPTY(&dlk_carried))
		dlk_carry_drop(LIST_FIRST(&dlk_carried));
	for (int i = 0; i < 200 && !dlk_carry_bury(); i++) {
		dlk_pause_ns(DLK_MS);
		dlk_errands_back();
	}
	dlk_watch_ended(pass_over);
}

#endif
