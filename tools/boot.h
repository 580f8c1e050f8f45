/* SPDX-License-Identifier: MIT */
/* This host, by the words that tokens have of it. */
#ifndef DLK_TOOLS_BOOT_H
#define DLK_TOOLS_BOOT_H

#include "model/token.h"

enum { BOOT_ID = 32 };

/*
 * HOST: the boot id, 32 hex digits, or "unknown" where it cannot be read; and ":" and
 * the host_id.  Without a host_id, of the two the first, or "": nothing tells this host
 * from others.
 */
void boot_host(const char *host_id, char word[DLK_WORD_MAX]);
/* HOSTNAME. */
void boot_hostname(char word[DLK_WORD_MAX]);

#endif
