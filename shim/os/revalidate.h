/* SPDX-License-Identifier: MIT */
/* A lock as a cache-coherence point; see revalidate.c. */
#ifndef DLK_REVALIDATE_H
#define DLK_REVALIDATE_H

#include <stddef.h>

#include "os/proc.h"

/* After a grant: read anew.  Before a release: hand over what is dirty. */
void dlk_coherence_refresh(int fd);
/* After the grant of these bytes: names that depend on them; `work` is space
   for a path. */
void dlk_coherence_names(int fd, const struct dlk_range *locked, char *work,
			 size_t size);
void dlk_coherence_flush(int fd);

#endif
