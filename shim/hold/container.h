/* SPDX-License-Identifier: MIT */
/* The end of a process in a container; see container.c. */
#ifndef DLK_CONTAINER_H
#define DLK_CONTAINER_H

/* The process ends: in a container, what ends with it has a second left. */
void dlk_cut_short(void);

#endif
