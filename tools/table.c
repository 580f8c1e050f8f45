/* SPDX-License-Identifier: MIT */
/* Columns and durations for a terminal; see table.h. */
#include "tools/table.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/screen.h"

/* LETTERS: what is left of a column in need. */
enum { COLUMNS_MAX = 16, CHUNK = 64 * 1024, INDENT = 4, LETTERS = 4 };

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

/*
 * Texts stand one after another in large pieces of memory: a list of 100,000
 * locks has a million.
 */
struct table_chunk {
	struct table_chunk *next;
	size_t used, size;
	char text[];
};

static struct table_chunk *new_chunk(struct table_chunk *next, size_t least)
{
	size_t size = least > CHUNK ? least : CHUNK;
	struct table_chunk *chunk = malloc(sizeof(*chunk) + size);

	if (!chunk)
		tool_no_memory();
	*chunk = (struct table_chunk){ .next = next, .size = size };
	return chunk;
}

/* Room for the text of the next cell, until append(). */
static char *room_for(struct table *t, size_t size)
{
	if (!t->chunk || t->chunk->size - t->chunk->used < size)
		t->chunk = new_chunk(t->chunk, size);
	return t->chunk->text + t->chunk->used;
}

/* So long is what stands in that room now. */
static void append(struct table *t, size_t len)
{
	char *text = t->chunk->text + t->chunk->used;

	t->chunk->used += len + 1;
	t->cells = tool_grow(t->cells, t->n, &t->room, sizeof(*t->cells));
	t->cells[t->n++] =
		(struct table_cell){ text, TABLE_PLAIN, screen_width(text) };
}

void table_cell(struct table *t, const char *bytes, size_t len)
{
	size_t size = 4 * len + 1;

	append(t, tool_show(room_for(t, size), size, bytes, len));
}

void table_shown(struct table *t, const char *text)
{
	size_t len = strlen(text);

	memcpy(room_for(t, len + 1), text, len + 1);
	append(t, len);
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

static void measure(const struct table *t, size_t *widths)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->cells[i].wide > widths[i % t->n_columns])
			widths[i % t->n_columns] = t->cells[i].wide;
}

static bool is_too_wide(const struct table *t, unsigned shown,
			const size_t *widths)
{
	size_t total = 2 * (shown - 1);

	for (unsigned i = 0; i < shown; i++)
		total += widths[i];
	return t->screen && total > t->screen;
}

/* What a column is not cut below, as a rule or in need; 0: it is not cut. */
static size_t least(const struct table_column *c, bool in_need)
{
	return in_need && c->least ? LETTERS : c->least;
}

/* The column that has most to give; n_columns: none has. */
static unsigned widest(const struct table *t, unsigned shown,
		       const size_t *widths, bool in_need)
{
	unsigned found = t->n_columns;

	for (unsigned i = 0; i < shown; i++) {
		size_t n = least(&t->columns[i], in_need);

		if (n && widths[i] > n &&
		    (found == t->n_columns || widths[i] > widths[found]))
			found = i;
	}
	return found;
}

/* True: that is enough. */
static bool narrow(const struct table *t, unsigned shown, size_t *widths,
		   bool in_need)
{
	while (is_too_wide(t, shown, widths)) {
		unsigned column = widest(t, shown, widths, in_need);

		if (column == t->n_columns)
			return false;
		widths[column]--;
	}
	return true;
}

/* How many columns are shown, each as wide as said then. */
static unsigned fit(const struct table *t, unsigned shown, size_t *widths)
{
	if (narrow(t, shown, widths, false) || narrow(t, shown, widths, true))
		return shown;
	while (shown > 1 && is_too_wide(t, shown, widths))
		shown--;
	return shown;
}

/* The text, cut to `room` columns; what is written over is the cell's own. */
static void cut(struct table_cell *cell, size_t room, bool keep_end)
{
	size_t total = cell->wide, used = 0, len, at = 0;
	char *text = cell->text;

	if (total <= room)
		return;
	while (keep_end && total > room - 3) {
		total -= screen_first(text + at, &len);
		at += len;
	}
	while (!keep_end) {
		used += screen_first(text + at, &len);
		if (used > room - 3)
			break;
		at += len;
	}
	if (keep_end) {
		memset(text + at - 3, '.', 3);
		cell->text = text + at - 3;
	} else {
		strcpy(text + at, "...");
	}
	cell->wide = screen_width(cell->text);
}

/* --- printing ------------------------------------------------------------- */

/* How many of the columns there is anything in, but for the last one all. */
static unsigned count_shown(const struct table *t)
{
	for (size_t i = 2 * t->n_columns - 1; i < t->n; i += t->n_columns)
		if (*t->cells[i].text)
			return t->n_columns;
	return t->n_columns - 1;
}

/* Those of them that stand in a line, if the others stand beneath it. */
static unsigned count_in_line(const struct table *t, unsigned shown)
{
	while (shown > 1 && t->columns[shown - 1].beneath)
		shown--;
	return shown;
}

static void put_blanks(FILE *f, size_t n)
{
	static const char blanks[] = "                                ";

	for (size_t some; n; n -= some) {
		some = n < sizeof(blanks) - 1 ? n : sizeof(blanks) - 1;
		fwrite(blanks, 1, some, f);
	}
}

/* The blanks before a cell wait until there is one: no line ends in them. */
static size_t print_cell(const struct table *t, FILE *f,
			 const struct table_cell *cell, size_t wide, size_t gap)
{
	if (!*cell->text)
		return gap + wide + 2;
	put_blanks(f, gap);
	if (t->colour && *cell->look)
		fprintf(f, "\033[%sm%s\033[0m", cell->look, cell->text);
	else
		fputs(cell->text, f);
	return cell->wide < wide ? wide - cell->wide + 2 : 2;
}

static void print_row(const struct table *t, FILE *f, struct table_cell *cells,
		      unsigned shown, const size_t *widths)
{
	size_t gap = 0;

	for (unsigned i = 0; i < shown; i++) {
		cut(&cells[i], widths[i], t->columns[i].keep_end);
		gap = print_cell(t, f, &cells[i], widths[i], gap);
	}
	fputc('\n', f);
}

static void print_beneath(const struct table *t, FILE *f,
			  const struct table_cell *cell)
{
	if (!*cell->text || !strcmp(cell->text, "-"))
		return;
	put_blanks(f, INDENT);
	screen_wrap(f, cell->text, INDENT, INDENT, t->screen,
		    t->colour ? cell->look : TABLE_PLAIN);
}

void table_print(struct table *t, FILE *f)
{
	const unsigned all = count_shown(t);
	size_t widths[COLUMNS_MAX] = { 0 };
	unsigned in_line = all, shown;

	measure(t, widths);
	if (is_too_wide(t, all, widths))
		in_line = count_in_line(t, all);
	shown = fit(t, in_line, widths);
	for (size_t i = 0; i < t->n; i += t->n_columns) {
		print_row(t, f, &t->cells[i], shown, widths);
		for (unsigned k = in_line; i && k < all; k++)
			print_beneath(t, f, &t->cells[i + k]);
	}
}

void table_fit(struct table *t, FILE *f)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

	t->screen = screen_columns(f);
	t->colour = t->screen && !(no_colour && *no_colour) && term && *term &&
		    strcmp(term, "dumb");
}

void table_free(struct table *t)
{
	while (t->chunk) {
		struct table_chunk *next = t->chunk->next;

		free(t->chunk);
		t->chunk = next;
	}
	free(t->cells);
	*t = (struct table){ 0 };
}

void table_end(struct table *t)
{
	table_fit(t, stdout);
	table_print(t, stdout);
	table_free(t);
}

struct tool_span ctl_duration(uint64_t ms)
{
	const uint64_t s = ms / 1000, m = s / 60, h = m / 60;
	struct tool_span out;
	const size_t size = sizeof(out.text);

	if (ms < 1000)
		snprintf(out.text, size, "%" PRIu64 "ms", ms);
	else if (s < 60)
		snprintf(out.text, size, "%" PRIu64 ".%" PRIu64 "s", s,
			 ms % 1000 / 100);
	else if (m < 60)
		snprintf(out.text, size, "%" PRIu64 "m%02" PRIu64 "s", m,
			 s % 60);
	else if (h < 24)
		snprintf(out.text, size, "%" PRIu64 "h%02" PRIu64 "m", h,
			 m % 60);
	else
		snprintf(out.text, size, "%" PRIu64 "d%02" PRIu64 "h", h / 24,
			 h % 24);
	return out;
}
