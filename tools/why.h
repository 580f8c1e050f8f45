/* SPDX-License-Identifier: MIT */
/*
 * Why a rule does not hold for a path, though one may have thought so.  Pure.
 */
#ifndef DLK_TOOLS_WHY_H
#define DLK_TOOLS_WHY_H

#include "config/config.h"

struct why {
	const struct dlk_rule *rule;
	char reason[1200];
};

/*
 * The i-th rule (of config->n_rules) against a path: true if it was near and
 * lost, with the reason.  `given` is the path as the user wrote it, `won` the
 * rule that holds or NULL.
 */
bool why_not(const struct dlk_config *config, unsigned i, const char *path,
	     const char *given, const struct dlk_rule *won, struct why *why);

#endif
