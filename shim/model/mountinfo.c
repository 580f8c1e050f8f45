/* SPDX-License-Identifier: MIT */
/* The kernel's lines of mounts; see mountinfo.h. */
#include "model/mountinfo.h"

#include <string.h>

#include "model/text.h"

/* From one space to behind the next one, or NULL. */
static const char *next_word(const char *p)
{
	p = p ? strchr(p, ' ') : NULL;
	return p ? p + 1 : NULL;
}

/* Blanks and the like stand as \040: one byte each. */
static bool is_escape(const char *p)
{
	return p[0] == '\\' && p[1] && p[2] && p[3];
}

static size_t path_len(const char *p)
{
	size_t n = 0;

	for (; *p && *p != ' '; n++)
		p += is_escape(p) ? 4 : 1;
	return n;
}

static bool number(const char **p, char after, uint64_t *n)
{
	const char *end = dlk_number(*p, 10, n);

	if (!end || *end != after)
		return false;
	*p = end + 1;
	return true;
}

bool dlk_mount_line(const char *line, struct dlk_mount_line *m)
{
	const char *p = line;
	uint64_t parent;
	size_t len;

	if (!number(&p, ' ', &m->id) || !number(&p, ' ', &parent) ||
	    !number(&p, ':', &m->major) || !number(&p, ' ', &m->minor))
		return false;
	p = next_word(p); /* behind the root of the mount */
	if (!p)
		return false;
	m->point = p;
	m->point_len = path_len(p);
	p = strstr(p, " - ");
	if (!p)
		return false;
	p += 3;
	len = strcspn(p, " ");
	m->type[0] = '\0';
	if (len < sizeof(m->type)) {
		memcpy(m->type, p, len);
		m->type[len] = '\0';
	}
	m->options = next_word(next_word(p)) ?: "";
	return true;
}

bool dlk_mount_point(const struct dlk_mount_line *m, char *path, size_t size)
{
	const char *p = m->point;

	if (m->point_len >= size)
		return false;
	for (size_t i = 0; i < m->point_len; i++) {
		const bool escape = is_escape(p);

		path[i] = escape ? (char)((p[1] - '0') << 6 |
					  (p[2] - '0') << 3 | (p[3] - '0'))
				 : *p;
		p += escape ? 4 : 1;
	}
	path[m->point_len] = '\0';
	return true;
}

bool dlk_mount_option(const char *options, const char *name)
{
	const size_t len = strlen(name);

	for (const char *p = options; *p; p += strspn(p, ",")) {
		size_t n = strcspn(p, ",");

		if (n == len && memcmp(p, name, len) == 0)
			return true;
		p += n;
	}
	return false;
}
