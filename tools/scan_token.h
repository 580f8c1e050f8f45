/* SPDX-License-Identifier: MIT */
/*
 * A token as a row of a scan keeps it: its text, and its words, in memory of
 * that size.  (A struct dlk_token has room for the longest of each word: of
 * 100,000 rows that would be 120 MB.)
 */
#ifndef DLK_TOOLS_SCAN_TOKEN_H
#define DLK_TOOLS_SCAN_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan_token {
	char *text; /* as it is at Redis; owned, and the words are in it, too */
	size_t len;
	uint64_t since_ns;
	uint32_t pid;
	/* Escaped, as in the token; `path` is "" for none. */
	const char *random, *host, *file, *hostname, *command, *path;
};

/* False: it is no token (model/token.h). */
bool scan_token_read(const char *text, size_t len, struct scan_token *t);
void scan_token_free(struct scan_token *t);

#endif
