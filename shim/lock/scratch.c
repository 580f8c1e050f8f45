/* SPDX-License-Identifier: MIT */
/* Memory for paths, keys and an answer; see scratch.h. */
#include "lock/scratch.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "os/sys.h"

enum { SPARES = 8 };
/* One is always there: a lock that we only pass on needs it, too. */
static struct dlk_scratch first;
static _Atomic(struct dlk_scratch *) spares[SPARES] = { &first };

struct dlk_scratch *dlk_scratch_get(void)
{
	struct dlk_scratch *s;

	for (int i = 0; i < SPARES; i++) {
		s = atomic_exchange(&spares[i], NULL);
		if (s)
			return s;
	}
	return dlk_pages(sizeof(*s));
}

void dlk_scratch_put(struct dlk_scratch *s)
{
	for (int i = 0; s && i < SPARES; i++) {
		struct dlk_scratch *none = NULL;

		if (atomic_compare_exchange_strong(&spares[i], &none, s))
			return;
	}
	/* (`first`, if a place was free only while we looked, stays lost.) */
	if (s && s != &first)
		munmap(s, sizeof(*s));
}
