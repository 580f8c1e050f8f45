/* SPDX-License-Identifier: MIT */
/*
 * dlockctl watch: the list, again and again.  On a terminal it stays in its
 * place, as many rows as there is room for; elsewhere each change is a line:
 *
 *	12:00:05 + /var/lock/jobs/nightly.lock EX web1 4242 flock
 *	12:00:35 - /var/lock/jobs/nightly.lock EX web1 4242 flock
 *
 * What came and went between two looks is not seen.  A lock of a server that does
 * not answer MUST NOT be said to have gone; nor is it news when that is there again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/filter.h"
#include "tools/screen.h"

enum { INTERVAL_MS = 2000, LEAST_MS = 100 };

/* CSI: home, to the end of the line, to that of the screen (ECMA-48). */
#define HOME      "\033[H"
#define LINE_END  "\033[K"
#define BELOW     "\033[J"
#define ALL_CLEAR "\033[2J"

/* A row as a line, of a lock that is kept there. */
struct line {
	char *text;
	const struct dlk_redis *redis;
	const struct dlk_redis *was; /* it was told of there; or NULL */
};

/* Sorted. */
struct lines {
	struct line *v;
	size_t n, room;
};

struct watch {
	const struct ctl *ctl;
	struct filter filter;
	uint64_t interval_ms, count; /* 0: for ever */
	bool screen;
	struct lines before; /* as far as it is known */
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
	static struct table_column columns[2] = { { .heading = "LINE" },
						  { 0 } };
	struct table t;
	char *line = NULL;
	size_t size;
	FILE *f = open_memstream(&line, &size);

	if (!f)
		tool_no_memory();
	/* The cells alone, without a heading, by the table's own words. */
	table_init(&t, columns);
	row_cells(&t, lock);
	for (size_t i = 1; i <= ROW_OWNER_CELLS; i++)
		fprintf(f, "%s%s", i > 1 ? " " : "", t.cells[i].text);
	table_free(&t);
	if (fclose(f))
		tool_no_memory();
	return line;
}

static int by_text(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	return order ? order : (x->redis > y->redis) - (x->redis < y->redis);
}

/* The text is theirs from then on. */
static void add_line(struct lines *lines, char *text,
		     const struct dlk_redis *redis)
{
	lines->v =
		tool_grow(lines->v, lines->n, &lines->room, sizeof(*lines->v));
	lines->v[lines->n++] = (struct line){ .text = text, .redis = redis };
}

static void sort_lines(struct lines *lines)
{
	if (lines->n)
		qsort(lines->v, lines->n, sizeof(*lines->v), by_text);
}

static void free_lines(struct lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->v[i].text);
	free(lines->v);
	*lines = (struct lines){ 0 };
}

/* What one has and the other has not, one after the other; *i and *k begin at 0. */
static struct line *next_missing(const struct lines *in, size_t *i,
				 const struct lines *not_in, size_t *k)
{
	while (*i < in->n) {
		struct line *line = &in->v[(*i)++];

		while (*k < not_in->n && by_text(&not_in->v[*k], line) < 0)
			++*k;
		if (*k == not_in->n || by_text(&not_in->v[*k], line))
			return line;
		++*k;
	}
	return NULL;
}

static void tell_missing(char sign, const struct lines *in,
			 const struct lines *not_in)
{
	const struct line *line;
	size_t i = 0, k = 0;
	char at[16];

	clock_text(at);
	while ((line = next_missing(in, &i, not_in, &k)))
		printf("%s %c %s\n", at, sign, line->text);
}

/*
 * Of two sections that have one server the one tells of its locks while the other
 * cannot be asked: what goes here and comes there is no news.
 */
static void keep_sections(const struct lines *before, struct lines *now)
{
	size_t i = 0, k = 0, m = 0, n = 0;
	const struct line *gone = next_missing(before, &i, now, &k);
	struct line *come = next_missing(now, &m, before, &n);

	while (gone && come) {
		const int order = strcmp(gone->text, come->text);

		if (!order)
			come->was = gone->redis;
		if (order <= 0)
			gone = next_missing(before, &i, now, &k);
		if (order >= 0)
			come = next_missing(now, &m, before, &n);
	}
	for (i = 0; i < now->n; i++)
		if (now->v[i].was)
			now->v[i].redis = now->v[i].was;
	sort_lines(now);
}

/* What was there, and nobody says that it is no more. */
static void keep_unknown(const struct watch *w, const struct scan *scan,
			 struct lines *now)
{
	const struct line *line;
	struct lines kept = { 0 };
	size_t i = 0, k = 0;

	while ((line = next_missing(&w->before, &i, now, &k)))
		if (scan->failed[line->redis - w->ctl->config->redis].rc)
			add_line(&kept,
				 tool_copy(line->text, strlen(line->text)),
				 line->redis);
	for (i = 0; i < kept.n; i++)
		add_line(now, kept.v[i].text, kept.v[i].redis);
	free(kept.v);
	sort_lines(now);
}

static void tell_changes(struct watch *w, const struct scan *scan,
			 const struct rows *rows)
{
	struct lines now = { 0 };

	for (size_t i = 0; i < rows->n; i++)
		add_line(&now, make_line(rows->lock[i]), rows->lock[i]->redis);
	sort_lines(&now);
	keep_sections(&w->before, &now);
	keep_unknown(w, scan, &now);
	tell_missing('-', &w->before, &now);
	tell_missing('+', &now, &w->before);
	free_lines(&w->before);
	w->before = now;
}

/* --- a screen ------------------------------------------------------------- */

/* What was said in a look, a line each: of the screen it would be cleared. */
static struct lines said;

static void note_said(const char *text)
{
	add_line(&said, tool_shown(text), NULL);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* As many of the lines as there is room for, and how many there are beyond. */
static void put_lines(const char *text, size_t room)
{
	size_t beyond = count_lines(text);

	beyond = beyond > room ? beyond - (room ? --room : 0) : 0;
	for (; *text && room; room--) {
		size_t n = strcspn(text, "\n");

		printf("%.*s" LINE_END "\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
	if (beyond)
		printf("%zu lines more; --path, --host, --waiting, "
		       "--sort" LINE_END "\n",
		       beyond);
}

/* What was said comes first: the rows are not all, or not known to be. */
static void print_screen(const struct rows *rows, FILE *f)
{
	struct table t;

	table_init(&t, row_columns);
	table_fit(&t, stdout);
	for (size_t i = 0; i < said.n; i++)
		screen_wrap(f, said.v[i].text, 0, 2, t.screen,
			    t.colour ? TABLE_BAD : TABLE_PLAIN);
	rows_cells(rows, &t);
	if (rows->n)
		table_print(&t, f);
	table_free(&t);
}

static void draw(const struct watch *w, const struct rows *rows, int rc)
{
	const size_t room = screen_rows(stdout);
	char *text = NULL, at[16];
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		tool_no_memory();
	print_screen(rows, f);
	if (fclose(f))
		tool_no_memory();
	clock_text(at);
	printf(HOME "%s  %zu lock%s%s, every %s" LINE_END "\n", at, rows->n,
	       rows->n == 1 ? "" : "s", rc ? ", NOT ALL ARE KNOWN" : "",
	       ctl_duration(w->interval_ms).text);
	/* One is written, and the cursor stands on another. */
	put_lines(text, room > 2 ? room - 2 : 0);
	fputs(BELOW, stdout);
	free(text);
}

/* --- each look ------------------------------------------------------------ */

static void object(struct json *j, const struct rows *rows, int rc)
{
	json_open(j, NULL, '{');
	json_int(j, "at_ms", (int64_t)time(NULL) * 1000);
	json_bool(j, "complete", !rc);
	rows_json(rows, j);
	json_close(j, '}');
}

static int look(struct watch *w)
{
	struct scan scan;
	struct rows rows;
	int rc;

	tool_servers_forget();
	rc = rows_look(w->ctl, &w->filter, &scan, &rows);
	if (w->ctl->json)
		object(w->ctl->json, &rows, rc);
	else if (w->screen)
		draw(w, &rows, rc);
	else
		tell_changes(w, &scan, &rows);
	rows_free(&rows);
	scan_free(&scan);
	free_lines(&said);
	return rc;
}

/* Until nobody reads it any more. */
static int look_on(struct watch *w)
{
	int rc;

	if (w->screen)
		fputs(ALL_CLEAR, stdout);
	/* What is heard for good is heard for the end of one object. */
	if (!w->ctl->json)
		tool_listener = w->screen ? note_said : NULL;
	else
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
