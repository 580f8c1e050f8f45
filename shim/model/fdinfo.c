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

/* "fe:00:10952755": its length, 0 if it is none. */
static size_t file_name(const char *p)
{
	const char *end = p;
	uint64_t n;

	for (int colons = 0; colons < 2; end++) {
		if (*end == '\0' || *end == ' ' || *end == '\n')
			return 0;
		colons += *end == ':';
	}
	end = dlk_number(end, 10, &n);
	return end ? (size_t)(end - p) : 0;
}

bool dlk_flock_line(const char *line, struct dlk_flock_line *l)
{
	const char *p = skip_word(skip_spaces(line));

	l->waits = strncmp(p, "-> ", 3) == 0;
	if (l->waits)
		p = skip_word(p);
	if (strncmp(p, "FLOCK ", 6) != 0)
		return false;
	p = skip_word(skip_word(p));
	if (strncmp(p, "WRITE ", 6) == 0)
		l->mode = LOCK_EX;
	else if (strncmp(p, "READ ", 5) == 0)
		l->mode = LOCK_SH;
	else
		return false;
	p = dlk_number(skip_word(p), 10, &l->pid);
	if (!p)
		return false;
	l->file = skip_spaces(p);
	l->file_len = file_name(l->file);
	return l->file_len > 0;
}

bool dlk_fdinfo_line(const char *text, struct dlk_flock_line *l)
{
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, "lock:", 5) == 0 && dlk_flock_line(p + 5, l))
			return true;
	}
	return false;
}

bool dlk_locks_line(const char *line, uint64_t ino, uint64_t *pid)
{
	struct dlk_flock_line l;
	const char *p;
	uint64_t n;

	if (!dlk_flock_line(line, &l) || l.waits)
		return false;
	*pid = l.pid;
	p = strchr(strchr(l.file, ':') + 1, ':') + 1;
	return dlk_number(p, 10, &n) && n == ino;
}
