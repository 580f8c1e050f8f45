/* SPDX-License-Identifier: MIT */
/*
 * A command, and all that it starts: so that none of them goes on without the
 * lock, whoever is killed.  Between this process and the command stands another,
 * the guard, and both are subreapers (prctl(2)): who loses his parent stays below,
 * in a session or group of his own too.
 *
 *	dlockctl ---- dlock-guard ---- command ---- what it starts
 *	  killed:	kills ------------> x ---------> x
 *	  kills <------ killed:		  x		 (and they are below dlockctl)
 *
 *  1. The guard MUST be in no way between: it is of the same process group and
 *     session, so the terminal and the shell's jobs are as without it; it hears no
 *     signal; and it leaves the command, when that has ended, to be reaped by this
 *     process, which so has its status from the kernel, and a pid that is nobody
 *     else's until then.
 *  2. It MUST NOT keep anything of this process open: a connection would outlive it.
 *
 *  3. Who was below this process before it had a family is none of it.
 *
 * Where both are killed in one moment (of their group, by SIGKILL), what the command
 * has started is left to whoever did that.
 */
#ifndef DLK_TOOLS_FAMILY_H
#define DLK_TOOLS_FAMILY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Started with this signal mask, under the lease of that key, by a process that has
 * no other family.  Its pid, or -errno.  A command that cannot be executed exits
 * with 126 or 127, after a message.
 */
pid_t family_start(char *const argv[], const sigset_t *mask, const char *key);

/*
 * A signal to all of them; with SIGKILL again until none is left but those who may
 * not be sent any: of a program that has become another user (sudo(8)), kill(2)
 * fails with EPERM.  What came of it in words, for a message, until the next call;
 * `spared` is what those go on to do.
 */
const char *family_kill(int signal, const char *spared);

/*
 * Reap who has ended: true if that was `pid`, the command, and then *status is as
 * wait(2) tells it.  If the guard was killed, all are killed, after a message.
 */
bool family_reap(pid_t pid, int *status);

#endif
