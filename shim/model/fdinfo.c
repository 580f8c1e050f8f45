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

/* Behind the number of a line, and "->", if it waits. */
static const char *begin(const char *line, bool *waits)
{
	const char *p = skip_word(skip_spaces(line));

	*waits = strncmp(p, "-> ", 3) == 0;
	return *waits ? skip_word(p) : p;
}

static bool word(const char **p, const char *want)
{
	const size_t len = strlen(want);

	if (strncmp(*p, want, len) != 0 || (*p)[len] != ' ')
		return false;
	*p = skip_word(*p);
	return true;
}

static bool number(const char **p, unsigned base, char after, uint64_t *n)
{
	const char *end = dlk_number(*p, base, n);

	if (!end || *end != after)
		return false;
	*p = end + 1;
	return true;
}

static bool kind_of(const char **p, struct dlk_lock_line *l)
{
	if (word(p, "FLOCK"))
		l->kind = DLK_LINE_FLOCK;
	else if (word(p, "POSIX"))
		l->kind = DLK_LINE_POSIX;
	else if (word(p, "OFDLCK"))
		l->kind = DLK_LINE_OFD;
	else
		return false;
	return word(p, "ADVISORY");
}

static bool mode_of(const char **p, struct dlk_lock_line *l)
{
	l->write = word(p, "WRITE");
	return l->write || word(p, "READ");
}

static bool pid_of(const char **p, struct dlk_lock_line *l)
{
	const bool minus = **p == '-';
	uint64_t n;

	*p += minus;
	if (!number(p, 10, ' ', &n) || n > INT32_MAX)
		return false;
	l->pid = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

static bool range_of(const char *p, struct dlk_lock_line *l)
{
	if (!number(&p, 10, ' ', &l->start))
		return false;
	if (strncmp(p, "EOF", 3) == 0) {
		l->end = INT64_MAX;
		p += 3;
	} else {
		p = dlk_number(p, 10, &l->end);
	}
	return p && (*p == '\0' || *p == '\n') && l->start <= l->end &&
	       l->end <= INT64_MAX;
}

bool dlk_lock_line(const char *line, struct dlk_lock_line *l)
{
	const char *p = line;

	if (strncmp(p, "lock:", 5) == 0)
		p += 5;
	p = begin(p, &l->waits);
	return kind_of(&p, l) && mode_of(&p, l) && pid_of(&p, l) &&
	       number(&p, 16, ':', &l->major) &&
	       number(&p, 16, ':', &l->minor) && number(&p, 10, ' ', &l->ino) &&
	       range_of(p, l);
}

bool dlk_fdinfo_lock(const char *text, enum dlk_line_kind kind,
		     struct dlk_lock_line *l)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "lock:", 5) == 0 && dlk_lock_line(line, l) &&
		    l->kind == kind && !l->waits)
			return true;
	}
	return false;
}
