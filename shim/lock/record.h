/* SPDX-License-Identifier: MIT */
/*
 * What the files of record locks share: record.c (lock, unlock), tentative.c
 * (who is in the way), record_kernel.c and record_grant.c (the kernel's part,
 * and Redis').  All are called between dlk_enter() and dlk_leave(); those of the
 * latter two inside the file's file_lock, but for dlk_record_wait().
 */
#ifndef DLK_RECORD_H
#define DLK_RECORD_H

#include "lock/request.h"

/* --- record.c ------------------------------------------------------------- */

/*
 * fcntl(2) with F_SETLK, F_SETLKW, F_GETLK or their OFD forms, as called, on
 * behalf of `name`: 0, -errno, or DLK_PASS: not ours, ask the kernel.
 */
int dlk_record(const char *name, int fd, int cmd, struct flock64 *lock);
/* lockf(3), the same way; `narrow`: for it libc asks with offsets of 32 bits. */
int dlk_lockf(int fd, int cmd, off64_t len, bool narrow);

/* The program's lock, unless the kernel would say EFAULT of it. */
bool dlk_record_read(const void *from, void *to, size_t size);
/* And back: 0, or -EFAULT. */
int dlk_record_write(const void *from, void *to, size_t size);

/* --- tentative.c ---------------------------------------------------------- */

/*
 * (file_lock) Without a wait, and Redis refused a moment ago: DLK_BUSY if it
 * still would; 0: take the kernel's lock and ask; -errno.
 */
int dlk_record_ask_first(struct request *r);
/* Who is in the way at Redis, but for leases of this host and file that are
   older than since_ns? */
int dlk_record_find(struct request *r);
/*
 * DLK_BUSY was no refusal: the server has swept a part of what the dead had there,
 * and is to be asked at once to sweep more (records_acquire.lua).  Each question
 * has the patience, and all of them since began_ns the call's timeout as well.
 */
bool dlk_record_is_half_swept(const struct request *r, uint64_t began_ns);
/* Redis refused what it was asked for at began_ns. */
void dlk_record_refused(const struct request *r, uint64_t began_ns);
/* The kernel refused: by one who only asks, perhaps?  EV_AGAIN, EV_BUSY. */
enum acquire_event dlk_record_check_holder(struct request *r);
/* The kernel says EDEADLK (fcntl(2)): it is given time to be none. */
enum acquire_event dlk_record_doubt(struct request *r);
/* F_GETLK, with the key on the stack: 0, -errno, or DLK_OTHER_FILE. */
int dlk_record_get(struct request *r, struct flock64 *lock);

/* --- record_kernel.c ------------------------------------------------------ */

/* What the owner has by now, of the whole file. */
const struct dlk_ranges *dlk_record_granted(const struct request *r);
/*
 * Would the kernel's lock weaken something, were it taken as it is asked?  Of
 * what the owner's list has, or also what was found there before the call.
 */
bool dlk_record_weakens_granted(const struct request *r);
bool dlk_record_weakens(const struct request *r);
/* Is the description open for it?  Else the kernel's EBADF comes first (fcntl(2)). */
bool dlk_record_is_open_for(const struct request *r);
/* Does the kernel show all of what is asked for?  And stronger, some of it? */
bool dlk_record_is_listed(const struct request *r);
bool dlk_record_is_listed_stronger(const struct request *r);
/* May other processes have locks of this owner, which no list of ours has? */
bool dlk_record_shares(const struct request *r);
/* What a shared description has, or the kernel alone: 0, or -ENOLCK. */
int dlk_record_look_before(struct request *r);
/* [KLOCK] Without a wait; r->blocked is what was refused.  0 or -errno. */
int dlk_record_take(struct request *r);
/* The same for this range, of this type, as it is. */
int dlk_record_set(const struct request *r, const struct dlk_range *range);
/* Every byte as it is granted: what this call took is undone. */
enum acquire_event dlk_record_roll_back(struct request *r);
/* (not inside) A wait in the kernel, for r->blocked. */
enum acquire_event dlk_record_wait(struct request *r);

/* --- record_grant.c ------------------------------------------------------- */

/* Ask, with proof if it is of use: as the store's acquire_range(). */
int dlk_record_ask(struct request *r);
/* [GRANT] The kernel has granted and so has Redis: 0, or -errno. */
int dlk_record_keep(struct request *r);
/* The server does not know the owner any more. */
enum acquire_event dlk_record_lost(struct request *r);
/* What the kernel has from before an execve(2) is asked for anew. */
int dlk_record_adopt(struct request *r);

#endif
