/* SPDX-License-Identifier: MIT */
/*
 * dlockctl watch: the list, again and again.  On a terminal it stays in its
 * place, as many rows as there is room for; elsewhere each change is a line:
 *
 *	12:00:05 + /var/lock/jobs/nightly.lock EX web1 4242 flock
 *	12:00:35 - /var/lock/jobs/nightly.lock EX web1 4242 flock
 *
 * What came and went between two looks is not seen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/filter.h"
#include "tools/holder.h"
#include "tools/row.h"
#include "tools/table.h"

enum { INTERVAL_MS = 2000, LEAST_MS = 100, ROWS = 24 };

/* CSI: home, to the end of the line, to that of the screen (ECMA-48). */
#define HOME      "\033[H"
#define LINE_END  "\033[K"
#define BELOW     "\033[J"
#define ALL_CLEAR "\033[2J"

/* A row as a line; sorted. */
struct lines {
	char **v;
	size_t n, room;
};

struct watch {
	const struct ctl *ctl;
	struct filter filter;
	uint64_t interval_ms, count; /* 0: for ever */
	bool screen;
	struct lines before;
};

static void clock_text(char out[16])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!localtime_r(&now, &tm) || !strftime(out, 16, "%H:%M:%S", &tm))
		strcpy(out, "-");
}

/* --- lines ---------------------------------------------------------------- */

static char *make_line(const struct scan_lock *lock)
{
	static struct table_column columns[2] = { { "LINE", 0, false },
						  { NULL, 0, false } };
	struct table t;
	char *line = NULL;
	size_t size;
	FILE *f = open_memstream(&line, &size);

	if (!f)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	/* The cells alone, without a heading, by the table's own words. */
	table_init(&t, columns);
	row_cells(&t, lock);
	for (size_t i = 1; i <= ROW_OWNER_CELLS; i++)
		fprintf(f, "%s%s", i > 1 ? " " : "", t.cells[i].text);
	table_free(&t);
	if (fclose(f))
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	return line;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void make_lines(const struct rows *rows, struct lines *lines)
{
	for (size_t i = 0; i < rows->n; i++) {
		lines->v = ctl_grow(lines->v, lines->n, &lines->room,
				    sizeof(*lines->v));
		lines->v[lines->n++] = make_line(rows->lock[i]);
	}
	if (lines->n)
		qsort(lines->v, lines->n, sizeof(*lines->v), by_text);
}

static void free_lines(struct lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->v[i]);
	free(lines->v);
	*lines = (struct lines){ 0 };
}

/* What one has and the other has not; both are sorted. */
static void tell_missing(char sign, const struct lines *in,
			 const struct lines *not_in)
{
	size_t k = 0;
	char at[16];

	clock_text(at);
	for (size_t i = 0; i < in->n; i++) {
		while (k < not_in->n && strcmp(not_in->v[k], in->v[i]) < 0)
			k++;
		if (k < not_in->n && !strcmp(not_in->v[k], in->v[i]))
			k++;
		else
			printf("%s %c %s\n", at, sign, in->v[i]);
	}
}

static void tell_changes(struct watch *w, const struct rows *rows)
{
	struct lines now = { 0 };

	make_lines(rows, &now);
	tell_missing('-', &w->before, &now);
	tell_missing('+', &now, &w->before);
	free_lines(&w->before);
	w->before = now;
}

/* --- a screen ------------------------------------------------------------- */

static unsigned screen_rows(void)
{
	struct winsize size;

	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row
		       ? size.ws_row
		       : ROWS;
}

/* The text's lines, as many as there is room for: true, all of them. */
static void put_lines(const char *text, unsigned room)
{
	while (*text && room--) {
		size_t n = strcspn(text, "\n");

		printf("%.*s" LINE_END "\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static void draw(const struct watch *w, const struct rows *rows)
{
	char *text = NULL, at[16], every[32];
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct table t;

	if (!f)
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	table_init(&t, row_columns);
	for (size_t i = 0; i < rows->n; i++)
		row_cells(&t, rows->lock[i]);
	table_fit(&t, stdout);
	table_print(&t, f);
	table_free(&t);
	if (fclose(f))
		exit(tool_fail(DLK_EXIT_UNAVAILABLE, "out of memory"));
	clock_text(at);
	ctl_duration(every, sizeof(every), w->interval_ms);
	printf(HOME "%s  %zu locks, every %s" LINE_END "\n", at, rows->n,
	       every);
	put_lines(text, screen_rows() - 2);
	fputs(BELOW, stdout);
	free(text);
}

/* --- each look ------------------------------------------------------------ */

static void object(struct json *j, const struct rows *rows, int rc)
{
	json_open(j, NULL, '{');
	json_int(j, "at_ms", (int64_t)time(NULL) * 1000);
	json_bool(j, "complete", !rc);
	json_open(j, "locks", '[');
	for (size_t i = 0; i < rows->n; i++)
		row_json(j, rows->lock[i]);
	json_close(j, ']');
	json_close(j, '}');
}

static int look(struct watch *w)
{
	struct scan scan;
	struct rows rows;
	int rc = scan_all(w->ctl->config, &scan);

	ctl_mark_moved(w->ctl->config, &scan);
	holders_find(&scan);
	filter_rows(&w->filter, &scan, &rows);
	if (w->ctl->json)
		object(w->ctl->json, &rows, rc);
	else if (w->screen)
		draw(w, &rows);
	else if (!rc)
		tell_changes(w, &rows);
	rows_free(&rows);
	scan_free(&scan);
	return rc;
}

/* Until nobody reads it any more. */
static int look_on(struct watch *w)
{
	int rc;

	if (w->screen)
		fputs(ALL_CLEAR, stdout);
	if (w->ctl->json)
		json_open(w->ctl->json, "looks", '[');
	for (;;) {
		rc = look(w);
		if (fflush(stdout) || ferror(stdout) ||
		    (w->count && !--w->count))
			break;
		dlk_pause_ns(w->interval_ms * DLK_MS);
	}
	if (w->ctl->json)
		json_close(w->ctl->json, ']');
	free_lines(&w->before);
	return rc;
}

static int read_count(const struct ctl *ctl, uint64_t *count)
{
	const char *text = ctl->given[OPT_COUNT], *end;

	if (!text)
		return 0;
	end = dlk_number(text, 10, count);
	if (end && !*end && *count)
		return 0;
	return tool_fail(DLK_EXIT_USAGE, "--count: '%s' is no number", text);
}

int verb_watch(const struct ctl *ctl)
{
	static struct watch w;
	int rc;

	w = (struct watch){ .ctl = ctl,
			    .interval_ms = INTERVAL_MS,
			    .screen = !ctl->json && isatty(STDOUT_FILENO) };
	rc = ctl_option_duration(ctl, OPT_INTERVAL, &w.interval_ms);
	if (!rc)
		rc = read_count(ctl, &w.count);
	if (!rc)
		rc = filter_read(ctl, &w.filter);
	if (w.interval_ms < LEAST_MS)
		w.interval_ms = LEAST_MS;
	return rc ? rc : look_on(&w);
}
