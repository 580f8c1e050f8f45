/* SPDX-License-Identifier: MIT */
/*
 * Columns for a terminal: rows are collected, then printed with each column as
 * wide as its widest cell.  Cells are shown by tool_show(), so no byte of a
 * name acts on the terminal.  Two blanks stand between columns; a last column
 * that is empty throughout is left out, heading and all.
 */
#ifndef DLK_TOOLS_TABLE_H
#define DLK_TOOLS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct table {
	unsigned columns;
	size_t n, room; /* cells */
	char **cells;   /* escaped; owned */
};

/* Begin with a row of headings, ended by NULL. */
void table_init(struct table *t, const char *const *headings);

/* Cells go from left to right, row after row. */
void table_cell(struct table *t, const char *bytes, size_t len);
void table_text(struct table *t, const char *text);

/* A cell that has been through tool_show() already. */
void table_shown(struct table *t, const char *text);

void table_print(const struct table *t, FILE *f);
void table_free(struct table *t);

/* Never NULL: the tool ends with a message when memory does. */
void *ctl_grow(void *array, size_t n, size_t *room, size_t each);

/* "950ms", "12.3s", "4m05s", "2h07m", "3d04h". */
void ctl_duration(char *out, size_t size, uint64_t ms);

#endif
