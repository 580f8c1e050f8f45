/* SPDX-License-Identifier: MIT */
/* This boot of this kernel, as tokens have it. */
#ifndef DLK_TOOLS_BOOT_H
#define DLK_TOOLS_BOOT_H

enum { BOOT_ID = 32 };

/* 32 hex digits; or fewer, where there is no /proc. */
void boot_id(char boot[BOOT_ID + 1]);

#endif
