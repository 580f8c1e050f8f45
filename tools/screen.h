/* SPDX-License-Identifier: MIT */
/*
 * A terminal: how large it is, and how wide a text stands on it.
 *
 * Texts have been through tool_show(), so each character of theirs is seen, and
 * none does anything.
 */
#ifndef DLK_TOOLS_SCREEN_H
#define DLK_TOOLS_SCREEN_H

#include <stddef.h>
#include <stdio.h>

/*
 * How many columns of a line may be filled, for on a line that is full some
 * terminals wrap; 0: it is no terminal, and a line may be of any length.
 */
size_t screen_columns(FILE *f);
/* Its lines; 0 as above. */
size_t screen_rows(FILE *f);

/* The columns that a text takes; and its first character, of *len bytes. */
size_t screen_width(const char *text);
size_t screen_first(const char *text, size_t *len);

/*
 * The text from column `at` on, and a newline; a line that is full is continued
 * below at `indent`.  It is cut at blanks: a word that is longer than a line
 * stands whole, so that it can be copied.  A `columns` of 0 wraps nothing.
 * `look` is that of a table's cell, begun and ended on each line.
 */
void screen_wrap(FILE *f, const char *text, size_t at, size_t indent,
		 size_t columns, const char *look);

#endif
