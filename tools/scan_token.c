/* SPDX-License-Identifier: MIT */
/* A token in memory of its size; see scan_token.h. */
#include "tools/scan_token.h"

#include <stdlib.h>
#include <string.h>

#include "model/token.h"
#include "tools/common.h"

/* "dlock1 RANDOM HOST FILE SINCE PID HOSTNAME COMMAND [PATH]" */
enum { RANDOM = 1, HOST, FILE_ID, HOSTNAME = 6, COMMAND, PATH, WORDS };

bool scan_token_read(const char *text, size_t len, struct scan_token *t)
{
	const char *words[WORDS];
	struct dlk_token token;
	char *copy, *rest;

	*t = (struct scan_token){ 0 };
	if (len >= DLK_TOKEN_MAX || !dlk_token_parse(text, len, &token))
		return false;
	copy = tool_room(2, len + 1);
	memcpy(copy, text, len);
	rest = memcpy(copy + len + 1, text, len);
	for (int i = 0; i < WORDS; i++)
		words[i] = strsep(&rest, " ") ?: "";
	*t = (struct scan_token){
		.text = copy,
		.len = len,
		.since_ns = token.since_ns,
		.pid = token.pid,
		.random = words[RANDOM],
		.host = words[HOST],
		.file = words[FILE_ID],
		.hostname = words[HOSTNAME],
		.command = words[COMMAND],
		.path = words[PATH],
	};
	return true;
}

void scan_token_free(struct scan_token *t)
{
	free(t->text);
	*t = (struct scan_token){ 0 };
}
