/* SPDX-License-Identifier: MIT */
/* Columns and durations for a terminal; see table.h. */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/table.h"

enum { COLUMNS_MAX = 16 };

void *ctl_grow(void *array, size_t n, size_t *room, size_t each)
{
	if (n < *room)
		return array;
	*room = *room ? *room * 2 : 64;
	array = reallocarray(array, *room, each);
	if (!array)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	return array;
}

void table_init(struct table *t, const char *const *headings)
{
	*t = (struct table){ 0 };
	while (headings[t->columns])
		table_text(t, headings[t->columns++]);
}

/* `cell` becomes the table's. */
static void append(struct table *t, char *cell)
{
	if (!cell)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	t->cells = ctl_grow(t->cells, t->n, &t->room, sizeof(*t->cells));
	t->cells[t->n++] = cell;
}

void table_cell(struct table *t, const char *bytes, size_t len)
{
	size_t size = 4 * len + 1;
	char *cell = malloc(size);

	if (cell)
		tool_show(cell, size, bytes, len);
	append(t, cell);
}

void table_shown(struct table *t, const char *text)
{
	append(t, strdup(text));
}

void table_text(struct table *t, const char *text)
{
	table_cell(t, text, strlen(text));
}

/* Characters, for a cell is UTF-8: every byte but the continuing ones. */
static size_t width(const char *cell)
{
	size_t n = 0;

	for (; *cell; cell++)
		n += (*cell & 0xc0) != 0x80;
	return n;
}

static void measure(const struct table *t, size_t *widths)
{
	for (size_t i = 0; i < t->n; i++) {
		size_t w = width(t->cells[i]), column = i % t->columns;

		if (w > widths[column])
			widths[column] = w;
	}
}

static bool last_empty(const struct table *t)
{
	for (size_t i = 2 * t->columns - 1; i < t->n; i += t->columns)
		if (*t->cells[i])
			return false;
	return true;
}

/* The blanks before a cell wait until there is one: no line ends in them. */
static size_t print_cell(FILE *f, const char *cell, size_t wide, size_t gap)
{
	if (!*cell)
		return gap + wide + 2;
	fprintf(f, "%*s%s", (int)gap, "", cell);
	return wide - width(cell) + 2;
}

void table_print(const struct table *t, FILE *f)
{
	unsigned shown = t->columns - last_empty(t);
	size_t widths[COLUMNS_MAX] = { 0 }, gap = 0;

	measure(t, widths);
	for (size_t i = 0; i < t->n; i++) {
		unsigned column = i % t->columns;

		if (column < shown)
			gap = print_cell(f, t->cells[i], widths[column], gap);
		if (column + 1 == t->columns) {
			fputc('\n', f);
			gap = 0;
		}
	}
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){ 0 };
}

void ctl_duration(char *out, size_t size, uint64_t ms)
{
	uint64_t s = ms / 1000, m = s / 60, h = m / 60;

	if (ms < 1000)
		snprintf(out, size, "%" PRIu64 "ms", ms);
	else if (s < 60)
		snprintf(out, size, "%" PRIu64 ".%" PRIu64 "s", s,
			 ms % 1000 / 100);
	else if (m < 60)
		snprintf(out, size, "%" PRIu64 "m%02" PRIu64 "s", m, s % 60);
	else if (h < 24)
		snprintf(out, size, "%" PRIu64 "h%02" PRIu64 "m", h, m % 60);
	else
		snprintf(out, size, "%" PRIu64 "d%02" PRIu64 "h", h / 24,
			 h % 24);
}
