/* SPDX-License-Identifier: MIT */
/*
 * The lock calls of a process in another's memory (dlk_presence() says so).
 * Async-signal-safe, and without any state: 0 never; DLK_PASS: ask the kernel;
 * -ENOLCK, said in the log.  errno may change.
 */
#ifndef DLK_BORROWED_H
#define DLK_BORROWED_H

struct flock64;

/* flock(2) */
int dlk_borrowed_flock(int fd, int op);
/* fcntl(2) with a command of record locks, on behalf of `name` */
int dlk_borrowed_record(const char *name, int fd, const struct flock64 *lock);
/* lockf(3) */
int dlk_borrowed_lockf(int fd, int cmd);

#endif
