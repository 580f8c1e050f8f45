/* SPDX-License-Identifier: MIT */
/*
 * Columns for a terminal: rows are collected, then printed with each column as
 * wide as its widest cell.  Cells are shown by tool_show(), so no byte of a
 * name acts on the terminal.  Two blanks stand between columns; a last column
 * that is empty throughout is left out, heading and all.
 *
 * On a terminal no line is wider than that.  Where one would be, the cells of
 * the last columns that may stand `beneath` do so: below their row, wrapped.
 * Then columns that may be cut are, the widest one first: to no less than their
 * `least`, and if that is not enough, to a few letters; and at last columns are
 * left out, from the right.  What is cut ends in "...", or begins with it where
 * the end tells more, as of a path.  Elsewhere nothing is cut or wrapped, and
 * nothing coloured: a row is a line.
 */
#ifndef DLK_TOOLS_TABLE_H
#define DLK_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/common.h"

struct table_column {
	const char *heading;
	unsigned least; /* 0: it is never cut */
	bool keep_end;
	bool beneath; /* of the last ones */
};

/* Select Graphic Rendition (ECMA-48): "" leaves it as it is. */
#define TABLE_PLAIN  ""
#define TABLE_STRONG "1"
#define TABLE_BAD    "31"
#define TABLE_BUSY   "33"
#define TABLE_OTHER  "36"

struct table_cell {
	char *text; /* escaped */
	const char *look;
	size_t wide;
};

struct table_chunk; /* of the cells' texts */

struct table {
	const struct table_column *columns;
	unsigned n_columns;
	size_t n, room; /* cells */
	struct table_cell *cells;
	struct table_chunk *chunk;
	size_t screen; /* columns that may be filled; 0: any number */
	bool colour;
};

/* Columns end with one without a heading. */
void table_init(struct table *t, const struct table_column *columns);

/* Cells go from left to right, row after row. */
void table_cell(struct table *t, const char *bytes, size_t len);
void table_text(struct table *t, const char *text);

/* A cell that has been through tool_show() already. */
void table_shown(struct table *t, const char *text);

/* The look of the last cell. */
void table_look(struct table *t, const char *look);

/*
 * As `f` is: its width, and colours unless NO_COLOR says otherwise; if it is no
 * terminal, neither.
 */
void table_fit(struct table *t, FILE *f);

void table_print(struct table *t, FILE *f);
void table_free(struct table *t);
/* All three, on standard output. */
void table_end(struct table *t);

/* "950ms", "12.3s", "4m05s", "2h07m", "3d04h". */
struct tool_span ctl_duration(uint64_t ms);

#endif
