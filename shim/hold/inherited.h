/* SPDX-License-Identifier: MIT */
/* POSIX record locks that an execve(2) has left; see inherited.c. */
#ifndef DLK_INHERITED_H
#define DLK_INHERITED_H

#include "os/proc.h"

/*
 * At each record call, before the kernel's lock: which files have some?  False
 * if there is no telling now, and there may be later.
 */
bool dlk_inherited_look(void);
/* Has execve(2) left POSIX locks of this file, that are not adopted yet? */
bool dlk_inherited_on(const struct dlk_file *file);
/*
 * (file_lock) They are; or some were `refused`, and another has them at Redis.
 */
void dlk_inherited_done(const struct dlk_file *file, bool refused);
/*
 * What was asked for them has had no answer, and may have taken the lease of some from
 * the keeper: so it is until all are adopted.
 */
void dlk_inherited_unsure(void);
bool dlk_inherited_is_unsure(void);
/*
 * Are there any?  There will be none where there is none.  Those of our own
 * that are asked for at this moment, by another thread, may be among them: then
 * a wait is told in vain.
 */
bool dlk_inherited_any(void);
/* Has this process any POSIX lock, which others may be in wait for? */
bool dlk_holds_posix(void);
void dlk_inherited_forget(void); /* in a child */

#endif
