/* SPDX-License-Identifier: MIT */
/* What this process is, and did, that matters to whose its locks are. */
#ifndef DLK_SELF_H
#define DLK_SELF_H

#include <stdatomic.h>
#include <stdbool.h>

#include "config/config.h"

struct dlk_self {
	/* Written before main(), and read-only after. */
	bool on; /* there are rules, or a broken config */
	struct dlk_config *config;
	struct dlk_error broken; /* why there is no config; "" if fine */
	char keeper_path[512];

	pid_t pid;           /* ours; a child of vfork(2) has another */
	_Atomic bool shares; /* made a child, sent or received a descriptor */
	_Atomic bool dups;   /* duplicated a descriptor, or received one */
	_Atomic bool ending; /* no hook may come any more */
	_Atomic bool tables; /* threads with tables of their own */
	_Atomic bool away;   /* in another network namespace */
};

extern struct dlk_self dlk_self;

void dlk_self_forget(void); /* in a child */

#endif
