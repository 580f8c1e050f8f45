/* SPDX-License-Identifier: MIT */
/*
 * The last few files of this thread whose path was of no interest.
 *
 * A file that no rule manages costs a readlink(2) in /proc at each lock, which
 * is slow (3 us where flock(2) takes 0.3).  So a thread remembers the last
 * few, and asks with two statx(2) whether the path still names this file, by
 * the same mount and as its only link.  What that cannot see (its directory
 * was moved and a symlink left in its place) is seen CACHE_MS later.
 *
 * Async-signal-safe, without malloc; errno may change.
 */
#ifndef DLK_PATH_CACHE_H
#define DLK_PATH_CACHE_H

#include <stdbool.h>
#include <stddef.h>

void dlk_path_cache_add(int fd, const char *path, size_t len);

/* Is fd's file one of them, by the path that it had then? */
bool dlk_path_cache_has(int fd);

#endif
