/* SPDX-License-Identifier: MIT */
/*
 * The options of a rule and of its redis, as text, and what of them is to be
 * known.
 */
#ifndef DLK_TOOLS_OPTIONS_H
#define DLK_TOOLS_OPTIONS_H

#include "config/config.h"
#include "tools/common.h"

enum { OPTIONS_MAX = 16 };

struct option_row {
	const char *name;
	char value[64];
	const char *note; /* or NULL */
};

/* Those that say how locks behave, in the order of dlock.conf(5); how many. */
unsigned options_of(const struct dlk_rule *rule,
		    struct option_row rows[OPTIONS_MAX]);

/* Its mode, as the configuration has it. */
const char *option_mode(const struct dlk_redis *redis);

/* Milliseconds as the configuration has them: "950ms", "1.5s", "30s". */
struct tool_span option_duration(uint64_t ms);

#endif
