/* SPDX-License-Identifier: MIT */
/* The kernel's lock lines; see fdinfo.h. */
#include "model/fdinfo.h"

#include <string.h>
#include <sys/file.h>

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

/* To behind the next "lock:" that begins a line, if there is one. */
static bool next_lock(const char **text)
{
	for (const char *p = *text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, "lock:", 5) == 0) {
			*text = p + 5;
			return true;
		}
	}
	return false;
}

bool dlk_fdinfo_lock(const char *text, enum dlk_line_kind kind,
		     struct dlk_lock_line *l)
{
	while (next_lock(&text))
		if (dlk_lock_line(text, l) && l->kind == kind && !l->waits)
			return true;
	return false;
}

int dlk_fdinfo_flock(const char *text)
{
	bool waits;

	while (next_lock(&text)) {
		const char *p = begin(text, &waits);

		if (strncmp(p, "FLOCK ", 6) != 0)
			continue;
		p = skip_word(skip_word(p));
		if (strncmp(p, "WRITE", 5) == 0)
			return LOCK_EX;
		if (strncmp(p, "READ", 4) == 0)
			return LOCK_SH;
	}
	return LOCK_UN;
}
