/* SPDX-License-Identifier: MIT */
/* Which lease is this descriptor's?  See owner.c. */
#ifndef DLK_OWNER_H
#define DLK_OWNER_H

#include <stdbool.h>

#include "hold/hold.h"

/* At the start: which descriptors are there? */
void dlk_owner_begin(void);
/* May another process, or one that we made, have fd's description too? */
bool dlk_shared(int fd);
/* May this process have it by another descriptor, too? */
bool dlk_duplicated(int fd);
/* The lease that fd's own description holds by flock(2), pinned, or NULL. */
struct dlk_hold *dlk_flock_owner(int fd);
/* That of record locks, of fd's owner: pinned, or NULL. */
struct dlk_hold *dlk_record_owner(const struct dlk_file *file,
				  enum dlk_kind kind, int fd);
/*
 * (file_lock) Are both of one description, one of which has an OFD lock?  1, 0; or
 * -errno: there is no telling, for kcmp(2) is not allowed, and both show the same
 * locks, which are to read.
 */
int dlk_ofd_same(int fd1, int fd2);
/* Is h that of fd's owner? */
bool dlk_record_is_owner(const struct dlk_hold *h, enum dlk_kind kind, int fd);

#endif
