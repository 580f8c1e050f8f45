/* SPDX-License-Identifier: MIT */
/* The kernel's lock lines; see fdinfo.h. */
#include "model/fdinfo.h"

#include <string.h>

#include "model/text.h"

static const char *skip_spaces(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

static const char *skip_word(const char *p)
{
	while (*p && *p != ' ' && *p != '\t' && *p != '\n')
		p++;
	return skip_spaces(p);
}

/* "1: FLOCK  ADVISORY  WRITE ...": where WRITE begins, or NULL. */
static const char *flock_mode(const char *p)
{
	p = skip_word(skip_spaces(p));
	if (strncmp(p, "FLOCK ", 6) != 0)
		return NULL;
	return skip_word(skip_word(p));
}

int dlk_fdinfo_flock(const char *text)
{
	for (const char *p = text; p; p = strchr(p, '\n')) {
		const char *mode;

		p += *p == '\n';
		if (strncmp(p, "lock:", 5) != 0)
			continue;
		mode = flock_mode(p + 5);
		if (mode && strncmp(mode, "WRITE", 5) == 0)
			return LOCK_EX;
		if (mode && strncmp(mode, "READ", 4) == 0)
			return LOCK_SH;
	}
	return LOCK_UN;
}

bool dlk_locks_line(const char *line, uint64_t ino, uint64_t *pid)
{
	const char *p = flock_mode(line);
	uint64_t n;

	if (!p)
		return false;
	p = dlk_number(skip_word(p), 10, pid);
	if (!p)
		return false;
	p = skip_spaces(p);
	for (int colons = 0; colons < 2; p++) {
		if (*p == '\0' || *p == ' ')
			return false;
		colons += *p == ':';
	}
	return dlk_number(p, 10, &n) && n == ino;
}
