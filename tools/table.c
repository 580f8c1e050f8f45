/* SPDX-License-Identifier: MIT */
/* Columns and durations for a terminal; see table.h. */
#include <inttypes.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "model/text.h"
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

void table_init(struct table *t, const struct table_column *columns)
{
	*t = (struct table){ .columns = columns };
	while (columns[t->n_columns].heading)
		t->n_columns++;
	for (unsigned i = 0; i < t->n_columns; i++) {
		table_text(t, columns[i].heading);
		table_look(t, TABLE_STRONG);
	}
}

/* `text` becomes the table's. */
static void append(struct table *t, char *text)
{
	if (!text)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	t->cells = ctl_grow(t->cells, t->n, &t->room, sizeof(*t->cells));
	t->cells[t->n++] = (struct table_cell){ text, TABLE_PLAIN };
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

void table_look(struct table *t, const char *look)
{
	t->cells[t->n - 1].look = look;
}

/* --- how wide ------------------------------------------------------------- */

/*
 * Of a character, as terminals show it: two columns of most East Asian ones,
 * none of an accent.  The program itself has no locale, so that what it prints
 * does not depend on one.
 */
static size_t char_width(uint32_t code)
{
	static locale_t utf8;
	locale_t old;
	int n;

	if (code < 0x300)
		return 1;
	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	if (!utf8)
		return 1;
	old = uselocale(utf8);
	n = wcwidth((wchar_t)code);
	uselocale(old);
	return n < 0 ? 1 : (size_t)n;
}

/* Of the character that `text` begins with; *len: its bytes. */
static size_t first_width(const char *text, size_t *len)
{
	uint32_t code = 0;

	*len = 1;
	if (!(*text & 0x80))
		return 1;
	*len = dlk_utf8(text, strlen(text), &code);
	if (!*len)
		*len = 1;
	return char_width(code);
}

static size_t width(const char *text)
{
	size_t n = 0;

	for (size_t len; *text; text += len)
		n += first_width(text, &len);
	return n;
}

static void measure(const struct table *t, size_t *widths)
{
	for (size_t i = 0; i < t->n; i++) {
		size_t w = width(t->cells[i].text), column = i % t->n_columns;

		if (w > widths[column])
			widths[column] = w;
	}
}

/* The column that has most to give; n_columns: none has. */
static unsigned widest(const struct table *t, unsigned shown,
		       const size_t *widths)
{
	unsigned found = t->n_columns;

	for (unsigned i = 0; i < shown; i++) {
		const struct table_column *c = &t->columns[i];

		if (c->least && widths[i] > c->least &&
		    (found == t->n_columns || widths[i] > widths[found]))
			found = i;
	}
	return found;
}

/* On a line that is full the terminal may wrap: one column stays free. */
static void narrow(const struct table *t, unsigned shown, size_t *widths)
{
	size_t total = 2 * shown - 1;
	unsigned column;

	for (unsigned i = 0; i < shown; i++)
		total += widths[i];
	for (; t->screen && total > t->screen; total--) {
		column = widest(t, shown, widths);
		if (column == t->n_columns)
			return;
		widths[column]--;
	}
}

/* The text, cut to `room` columns; what is written over is the cell's own. */
static void cut(char *text, size_t room, bool keep_end)
{
	size_t total = width(text), used = 0, len, at = 0;

	if (total <= room)
		return;
	while (keep_end && total > room - 3) {
		total -= first_width(text + at, &len);
		at += len;
	}
	while (!keep_end) {
		used += first_width(text + at, &len);
		if (used > room - 3)
			break;
		at += len;
	}
	if (keep_end) {
		memset(text + at - 3, '.', 3);
		memmove(text, text + at - 3, strlen(text + at - 3) + 1);
	} else {
		strcpy(text + at, "...");
	}
}

/* --- printing ------------------------------------------------------------- */

static bool last_empty(const struct table *t)
{
	for (size_t i = 2 * t->n_columns - 1; i < t->n; i += t->n_columns)
		if (*t->cells[i].text)
			return false;
	return true;
}

/* The blanks before a cell wait until there is one: no line ends in them. */
static size_t print_cell(const struct table *t, FILE *f,
			 const struct table_cell *cell, size_t wide, size_t gap)
{
	size_t has = width(cell->text);

	if (!*cell->text)
		return gap + wide + 2;
	if (t->colour && *cell->look)
		fprintf(f, "%*s\033[%sm%s\033[0m", (int)gap, "", cell->look,
			cell->text);
	else
		fprintf(f, "%*s%s", (int)gap, "", cell->text);
	return has < wide ? wide - has + 2 : 2;
}

void table_print(struct table *t, FILE *f)
{
	unsigned shown = t->n_columns - last_empty(t);
	size_t widths[COLUMNS_MAX] = { 0 }, gap = 0;

	measure(t, widths);
	narrow(t, shown, widths);
	for (size_t i = 0; i < t->n; i++) {
		unsigned column = i % t->n_columns;

		cut(t->cells[i].text, widths[column],
		    t->columns[column].keep_end);
		if (column < shown)
			gap = print_cell(t, f, &t->cells[i], widths[column],
					 gap);
		if (column + 1 == t->n_columns) {
			fputc('\n', f);
			gap = 0;
		}
	}
}

void table_fit(struct table *t, FILE *f)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
	struct winsize size;

	t->screen = 0;
	t->colour = false;
	if (!isatty(fileno(f)))
		return;
	t->screen = 80;
	if (!ioctl(fileno(f), TIOCGWINSZ, &size) && size.ws_col)
		t->screen = size.ws_col;
	t->colour = !(no_colour && *no_colour) && term && *term &&
		    strcmp(term, "dumb");
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i].text);
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
