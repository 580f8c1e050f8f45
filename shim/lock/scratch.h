/* SPDX-License-Identifier: MIT */
#ifndef DLK_SCRATCH_H
#define DLK_SCRATCH_H

#include "config/config.h"
#include "lease/store.h"

/* What a search for a rule needs; the path stays in it. */
struct dlk_room {
	char path[DLK_PATH_MAX + 1];
	struct dlk_search search;
};

/* Page-wise memory for paths and keys: signal handlers have small stacks. */
struct dlk_scratch {
	struct dlk_room room;
	char key[DLK_KEY_MAX + 1];
	char ranges_key[DLK_KEY_MAX + 8];
	char token[DLK_TOKEN_MAX];
	struct dlk_answer answer;
};
struct dlk_scratch *dlk_scratch_get(void);
void dlk_scratch_put(struct dlk_scratch *s);

#endif
