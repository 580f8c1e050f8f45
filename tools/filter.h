/* SPDX-License-Identifier: MIT */
/*
 * Which of the locks of a scan are to be shown, and in which order.
 */
#ifndef DLK_TOOLS_FILTER_H
#define DLK_TOOLS_FILTER_H

#include "tools/ctl.h"
#include "tools/row.h"
#include "tools/subject.h"

struct filter {
	const struct dlk_config *config;
	const char *path; /* fnmatch(3) patterns; NULL: all */
	const char *host;
	bool exact; /* the path is none, but that of the subject */
	bool here, waiting;
	uint64_t older_ms;      /* 0: all */
	unsigned order;         /* of filter.c's table */
	struct subject subject; /* of a path that is no pattern */
};

/* The rows that are left; they belong to the scan. */
struct rows {
	const struct scan_lock **lock;
	size_t n;
	size_t unknown; /* left out, for nobody here knows their age */
};

/*
 * What the options say: 0, or an exit code after a message.  DLK_EXIT_NOTHING:
 * no rule of the configuration can have a lock that fits.
 */
int filter_read(const struct ctl *ctl, struct filter *filter);

void filter_rows(const struct filter *filter, const struct scan *scan,
		 struct rows *rows);
void rows_free(struct rows *rows);
/*
 * All that is to be known of all locks, and those of them that are to be shown:
 * as scan_all(); scan_free() and rows_free().
 */
int rows_look(const struct ctl *ctl, const struct filter *filter,
	      struct scan *scan, struct rows *rows);
void rows_cells(const struct rows *rows, struct table *t);
/* The array "locks". */
void rows_json(const struct rows *rows, struct json *j);

#endif
