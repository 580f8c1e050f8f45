/* SPDX-License-Identifier: MIT */
/* A lock as a cache-coherence point; see revalidate.c. */
#ifndef DLK_REVALIDATE_H
#define DLK_REVALIDATE_H

#include <stddef.h>

#include "os/proc.h"

/* After a grant: read anew. */
void dlk_coherence_refresh(int fd);
/* After the grant of these bytes: names that depend on them; `work` is space
   for a path. */
void dlk_coherence_names(int fd, const struct dlk_range *locked, char *work,
			 size_t size);
/*
 * Before a release: hand over what is dirty.  Returned: 0, or the errno of what
 * could not be written (EIO, ENOSPC, EDQUOT), of which there is a line then.  The
 * program's fsync(2) says it all the same; its close(2) is for the caller to fail.
 */
int dlk_coherence_flush(int fd);

#endif
