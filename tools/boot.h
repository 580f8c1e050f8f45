/* SPDX-License-Identifier: MIT */
/* This host, by the words that tokens have of it. */
#ifndef DLK_TOOLS_BOOT_H
#define DLK_TOOLS_BOOT_H

#include "model/token.h"

enum { BOOT_ID = 32 };

/* 32 hex digits; or fewer, where there is no /proc. */
void boot_id(char boot[BOOT_ID + 1]);
/* HOST: that, and ":" and the host_id unless it is "". */
void boot_host(const char *host_id, char word[DLK_WORD_MAX]);
/* HOSTNAME. */
void boot_hostname(char word[DLK_WORD_MAX]);

#endif
