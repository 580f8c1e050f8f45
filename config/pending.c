/* SPDX-License-Identifier: MIT */
/* What is read and checked, but not done: delete a line when it is. */
#include <string.h>

#include "config/config.h"

#define NO_EFFECT "parsed, no effect yet"
#define FAILS     "parsed, no effect yet: locking fails with ENOLCK"

/* `when` is a value, "!" and a value, or NULL for any. */
/* clang-format off */
static const struct pending {
	const char *option, *when, *note;
} pending[] = {
	{ "unreachable", "local", NO_EFFECT },
};
/* clang-format on */

static bool applies(const struct pending *p, const char *option,
		    const char *value)
{
	if (strcmp(p->option, option) != 0)
		return false;
	if (!p->when)
		return true;
	if (*p->when == '!')
		return strcmp(p->when + 1, value) != 0;
	return strcmp(p->when, value) == 0;
}

const char *dlk_option_pending(const char *option, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(pending) / sizeof(*pending); i++) {
		if (applies(&pending[i], option, value))
			return pending[i].note;
	}
	return NULL;
}
