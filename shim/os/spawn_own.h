/* SPDX-License-Identifier: MIT */
/*
 * A program of ours beside the guest's: dlock-keeper, dlock-tls.  It is no child
 * of the program's (dlk_spawn), has `end` as its descriptor 3, and logs where
 * this process does.
 */
#ifndef DLK_SPAWN_OWN_H
#define DLK_SPAWN_OWN_H

#include <sys/types.h>

/*
 * The file at `path`; where there is none, or `path` is "", the one at
 * `installed`.  `name` is its command.  Its pid, or -errno.
 */
pid_t dlk_spawn_own(const char *name, const char *path, const char *installed,
		    int end);

/* Why none was started (dlk_spawn), for messages. */
const char *dlk_spawn_why(int err);

#endif
