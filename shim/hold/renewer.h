/* SPDX-License-Identifier: MIT */
/* What the thread does; see renewer.c. */
#ifndef DLK_RENEWER_H
#define DLK_RENEWER_H

/* Before the first lease, once: 0, or -ENOMEM. */
int dlk_renewer_begin(void);

#endif
