/* SPDX-License-Identifier: MIT */
/* The process, or a thread of it, changes or ends; see lifecycle.c. */
#ifndef DLK_LIFECYCLE_H
#define DLK_LIFECYCLE_H

#include <stdbool.h>

/* The main thread is about to end by itself. */
void dlk_main_ends(void);
/* A thread does by SYS_exit: of the program's last one it ends the process. */
void dlk_thread_exits(int code);

/* The process becomes another program, or ends. */
void dlk_before_exec(void);
void dlk_before_exit(void);

/*
 * Around a call that changes privileges or namespaces, on the thread that
 * makes it.  errno stays as it is.
 */
struct dlk_privileged {
	bool paused;
	int cancel; /* the program's cancellation state */
};
void dlk_before_privileged(struct dlk_privileged *p);
void dlk_after_privileged(const struct dlk_privileged *p);
/* The process is in another user namespace: its ids are others'. */
void dlk_after_user_namespace(void);
/* The next child may be process 1 of a new namespace: pid_namespaces(7). */
void dlk_before_pid_namespace(void);
void dlk_after_pid_namespace(bool done);
/*
 * The root changes (chroot(2), pivot_root(2); with a mount namespace, setns(2)), and
 * no keeper may be found there, nor /proc: so who holds something has one before,
 * and it stays, for what is locked later.
 */
void dlk_before_root(void);
void dlk_after_root(bool done);
/* No new connection goes where the keeper's go. */
void dlk_after_net_namespace(void);
/* No thread but ours has the caller's descriptors.  (False: there may be one.) */
bool dlk_has_own_table(void);
/* This thread has a descriptor table of its own now, perhaps. */
void dlk_after_own_table(void);

#endif
