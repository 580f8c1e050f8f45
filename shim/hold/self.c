/* SPDX-License-Identifier: MIT */
#include "hold/self.h"

#include <stdatomic.h>

struct dlk_self dlk_self;

/* (It shares all that it has with its parent.) */
void dlk_self_forget(void)
{
	atomic_store(&dlk_self.shares, true);
	atomic_store(&dlk_self.tables, false);
	atomic_store(&dlk_self.away, false);
	atomic_store(&dlk_self.ending, false);
}
