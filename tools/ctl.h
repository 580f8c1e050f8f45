/* SPDX-License-Identifier: MIT */
/*
 * dlockctl: what its verbs are given, and what they share.
 *
 * A verb prints its result on stdout and everything else on stderr, and
 * returns the exit code.  It changes no lock unless its name says so.
 */
#ifndef DLK_TOOLS_CTL_H
#define DLK_TOOLS_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct ctl {
	bool json;
	struct dlk_config *config;
	int argc; /* the verb's own arguments */
	char **argv;
};

int verb_list(const struct ctl *ctl);
int verb_explain(const struct ctl *ctl);

#endif
