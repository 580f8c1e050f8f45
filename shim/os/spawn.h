/* SPDX-License-Identifier: MIT */
/* Programs that are started, and no child of the program's; see spawn.c. */
#ifndef DLK_SPAWN_H
#define DLK_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Start a program of which the caller's program sees nothing, neither by
 * wait(2) nor SIGCHLD.  Exit signal 0 (clone(2)) would do, but execve(2) makes
 * it SIGCHLD again: `while (wait(NULL) > 0)` would wait for it.  So a child
 * with exit signal 0, which never execs, starts it and is gone; process 1, or
 * the nearest subreaper, inherits it.  `keep` becomes its descriptor 3; 0, 1
 * and 2 are /dev/null, or 2 is `log` if that is none less than 0; no other is
 * open in it; all signals are blocked.
 *
 * Its pid, or -errno.  It has begun; or, where it has a file that a server is to be
 * told of before, it does so later, or fails to, and is in a session of its own by
 * then.  -EHOSTDOWN: that keeps others from it already.
 */
pid_t dlk_spawn(const char *file, char *const argv[], char *const envp[],
		int keep, int log, bool stdout_too);
/*
 * (the keeper) From here on all that is of a file server has such a number, or a
 * higher one, and no other matters long: what is started has no copy of that, and
 * begins though the server be dead.  The process may have no POSIX locks.
 */
enum { DLK_SPAWN_WITHOUT = 64 };
void dlk_spawn_without(void);
/*
 * Where process 1 is this very process, its end is ours to see: call this, until
 * true: it is reaped, or no child of ours.  `name` is its command, as a pid
 * may have become another's.
 */
bool dlk_reap(pid_t pid, const char *name);
/* The same for all of a process group; their names begin with this. */
bool dlk_reap_group(pid_t group, const char *name);

#endif
