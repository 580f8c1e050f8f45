/* SPDX-License-Identifier: MIT */
/*
 * What the files of record locks share: record.c (lock, unlock), tentative.c
 * (who is in the way).  All are called between dlk_enter() and dlk_leave();
 * (file_lock) as in record.c.
 */
#ifndef DLK_RECORD_H
#define DLK_RECORD_H

#include "os/signals.h"
#include "lock/request.h"

/* --- record.c ------------------------------------------------------------- */

/*
 * fcntl(2) with F_SETLK, F_SETLKW, F_GETLK or their OFD forms, as called, on
 * behalf of `name`: 0, -errno, or DLK_PASS: not ours, ask the kernel.
 */
int dlk_record(struct dlk_call *call, const char *name, int fd, int cmd,
	       struct flock64 *lock);
/* lockf(3), the same way. */
int dlk_lockf(struct dlk_call *call, int fd, int cmd, off64_t len);

/* The program's lock, unless the kernel would say EFAULT of it. */
bool dlk_record_read(const struct flock64 *from, struct flock64 *to);

/* --- tentative.c ---------------------------------------------------------- */

/*
 * (file_lock) Without a wait, and Redis refused a moment ago: DLK_BUSY if it
 * still would; 0: take the kernel's lock and ask; -errno.
 */
int dlk_record_ask_first(struct request *r);
/* Who is in the way at Redis, past what is of this host and file, and older than
   since_ns? */
int dlk_record_find(struct request *r);
/* Redis refused what it was asked for at began_ns. */
void dlk_record_refused(const struct request *r, uint64_t began_ns);
/* The kernel refused: by one who only asks, perhaps?  EV_AGAIN, EV_BUSY. */
enum acquire_event dlk_record_check_holder(struct request *r);
/* The kernel says EDEADLK (fcntl(2)): it is given time to be none. */
enum acquire_event dlk_record_doubt(struct request *r);
/* F_GETLK, with the key on the stack: 0, -errno, or DLK_OTHER_FILE. */
int dlk_record_get(struct request *r, struct flock64 *lock);

#endif
