/* SPDX-License-Identifier: MIT */
/*
 * A command, and all that it starts: so that none of them goes on without the
 * lock.  This process becomes their subreaper (prctl(2)), so whoever loses his
 * parent stays below it, in a session or group of his own too.
 */
#ifndef DLK_TOOLS_FAMILY_H
#define DLK_TOOLS_FAMILY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Started with this signal mask; killed if this process is.  Its pid, or -errno.
 * A command that cannot be executed exits with 126 or 127, after a message.
 */
pid_t family_start(char *const argv[], const sigset_t *mask);

/* A signal to all of them; with SIGKILL again until none is left. */
void family_kill(int signal);

/*
 * Reap who has ended: true if that was `pid`, and then *status is as wait(2)
 * tells it.
 */
bool family_reap(pid_t pid, int *status);

#endif
