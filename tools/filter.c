/* SPDX-License-Identifier: MIT */
/*
 * The filters of dlockctl list; see filter.h.
 *
 * A pattern's '*' stands for slashes as well: "*.lock" is every path that ends
 * so.  A path without any such character is taken as explain takes it: below
 * the working directory, and by where its links lead.
 */
#include "tools/filter.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/holder.h"

#define SPECIAL "*?[\\"

/* --- the order ------------------------------------------------------------ */

static int by_number(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Those without a host are the last ones. */
static int by_host(const struct scan_lock *a, const struct scan_lock *b)
{
	int order = b->ours - a->ours;

	return order || !a->ours ? order
				 : strcmp(a->token.hostname, b->token.hostname);
}

/* The oldest first; what is not known is -1. */
static int by_held(const struct scan_lock *a, const struct scan_lock *b)
{
	return by_number(b->held_ms, a->held_ms);
}

/* Who ends first, first; who never ends is -1, and the last. */
static int by_ttl(const struct scan_lock *a, const struct scan_lock *b)
{
	if ((a->ttl_ms < 0) != (b->ttl_ms < 0))
		return a->ttl_ms < 0 ? 1 : -1;
	return by_number(a->ttl_ms, b->ttl_ms);
}

static int by_waiters(const struct scan_lock *a, const struct scan_lock *b)
{
	return by_number((int64_t)b->waiters, (int64_t)a->waiters);
}

static const struct order {
	const char *name;
	int (*compare)(const struct scan_lock *a, const struct scan_lock *b);
} orders[] = {
	{ "path", NULL }, /* a scan is in this order */
	{ "host", by_host }, { "held", by_held },
	{ "ttl", by_ttl },   { "waiters", by_waiters },
};

enum { N_ORDERS = sizeof(orders) / sizeof(*orders) };

/* Of equal ones the order of the scan, in which they are in memory. */
static int compare(const void *x, const void *y, void *arg)
{
	const struct scan_lock *const *a = x, *const *b = y;
	const struct order *order = arg;
	int result = order->compare(*a, *b);

	return result ? result : (*a > *b) - (*a < *b);
}

static int read_order(const struct ctl *ctl, struct filter *filter)
{
	const char *name = ctl->given[OPT_SORT];

	while (name && filter->order < N_ORDERS &&
	       strcmp(name, orders[filter->order].name))
		filter->order++;
	if (filter->order < N_ORDERS)
		return 0;
	return tool_fail(DLK_EXIT_USAGE,
			 "--sort: '%s' is none of path, host, held, ttl and "
			 "waiters",
			 name);
}

/* --- which paths ---------------------------------------------------------- */

static bool is_prefix(const char *prefix, size_t n, const char *of)
{
	return strncmp(prefix, of, n < strlen(of) ? n : strlen(of)) == 0;
}

/* Can a path that begins with these n bytes be one of the rule's? */
static bool may_cover(const struct dlk_rule *rule, const char *path, size_t n)
{
	return is_prefix(path, n, rule->prefix) ||
	       is_prefix(path, n, rule->place);
}

static bool may_be_managed(const struct dlk_config *config,
			   const struct filter *f)
{
	size_t n = strcspn(f->path, SPECIAL);

	if (f->exact)
		return f->subject.rule;
	for (unsigned i = 0; i < config->n_rules; i++)
		if (may_cover(&config->rules[i], f->path, n))
			return true;
	return f->path[0] != '/';
}

/* The directory itself, of which a rule has what is below it. */
static bool is_directory_of_rule(const struct dlk_config *config,
				 const char *path)
{
	const size_t n = strlen(path);

	for (unsigned i = 0; i < config->n_rules; i++) {
		const char *place = config->rules[i].place;

		if (strncmp(place, path, n) == 0 && !strcmp(place + n, "/"))
			return true;
	}
	return false;
}

/*
 * Nothing is locked there, and nothing can be: two answers.  Of a pattern what
 * stands before its first special character is looked at.
 */
static int read_path(const struct ctl *ctl, struct filter *f)
{
	int rc = 0;

	f->path = ctl->given[OPT_PATH];
	if (!f->path)
		return 0;
	f->exact = !f->path[strcspn(f->path, SPECIAL)];
	if (f->exact)
		rc = subject_find(ctl->config, f->path, &f->subject);
	if (rc || may_be_managed(ctl->config, f))
		return rc;
	if (f->exact && is_directory_of_rule(ctl->config, f->subject.path))
		return tool_fail(DLK_EXIT_NOTHING,
				 "%s: a directory; what is locked below it: "
				 "--path '%s/*'",
				 f->path, f->subject.path);
	return tool_fail(DLK_EXIT_NOTHING,
			 "%s: no rule manages it, its locks stay local",
			 f->path);
}

int filter_read(const struct ctl *ctl, struct filter *filter)
{
	int rc;

	*filter = (struct filter){
		.config = ctl->config,
		.host = ctl->given[OPT_HOST],
		.here = ctl->given[OPT_HERE],
		.waiting = ctl->given[OPT_WAITING],
	};
	rc = ctl_option_duration(ctl, OPT_OLDER, &filter->older_ms);
	if (!rc)
		rc = read_order(ctl, filter);
	if (!rc && !ctl->config->n_rules)
		rc = tool_fail(DLK_EXIT_NOTHING,
			       "%s has no path section: no lock is managed",
			       ctl->config->file);
	return rc ? rc : read_path(ctl, filter);
}

/* --- the rows ------------------------------------------------------------- */

static bool has_key(const struct subject *s, const struct scan_lock *lock)
{
	char key[SUBJECT_KEY_MAX];

	return lock->redis == s->rule->redis &&
	       subject_key(s, lock->record ? RECORD_SUFFIX : "", key) &&
	       lock->key_len == strlen(key) &&
	       !memcmp(lock->key, key, lock->key_len);
}

static bool is_named(const struct filter *f, const char *path)
{
	return f->exact ? !strcmp(path, f->subject.spelled) ||
				  !strcmp(path, f->subject.path)
			: !fnmatch(f->path, path, 0);
}

typedef ssize_t respell_fn(const struct dlk_rule *rule, const char *path,
			   size_t len, char *out, size_t size);

static bool is_named_as(const struct filter *f, const struct scan_lock *lock,
			const struct dlk_rule *rule, respell_fn *respell)
{
	char path[DLK_PATH_MAX];

	return respell(rule, lock->path, lock->path_len, path, sizeof(path)) >=
		       0 &&
	       is_named(f, path);
}

/*
 * A key by inode, or one for many files, tells no path.  Where a prefix leads
 * elsewhere its files have two names, of which the key has the one, and a holder
 * the other.
 */
static bool is_path(const struct filter *f, const struct scan_lock *lock)
{
	const struct dlk_rule *rule = lock->rule;

	if (f->exact && has_key(&f->subject, lock))
		return true;
	if (!lock->path)
		return !f->exact && !fnmatch(f->path, lock->key, 0);
	if (is_named(f, lock->path))
		return true;
	if (!rule)
		rule = dlk_config_match(f->config, lock->path, lock->path_len);
	return rule && (is_named_as(f, lock, rule, dlk_rule_spell) ||
			is_named_as(f, lock, rule, dlk_rule_lead));
}

static bool is_of_host(const struct filter *f, const struct scan_lock *lock)
{
	char name[DLK_WORD_MAX];

	if (!lock->ours)
		return false;
	dlk_unword(lock->token.hostname, name, sizeof(name));
	return !fnmatch(f->host, name, 0);
}

static bool fits(const struct filter *f, const struct scan_lock *lock)
{
	return (!f->path || is_path(f, lock)) &&
	       (!f->host || is_of_host(f, lock)) &&
	       (!f->here || lock->of_host) && (!f->waiting || lock->waiters);
}

static bool is_old(const struct filter *f, const struct scan_lock *lock)
{
	return !f->older_ms ||
	       (lock->held_ms >= 0 && (uint64_t)lock->held_ms >= f->older_ms);
}

void filter_rows(const struct filter *filter, const struct scan *scan,
		 struct rows *rows)
{
	size_t room = 0;

	*rows = (struct rows){ 0 };
	for (size_t i = 0; i < scan->n; i++) {
		const struct scan_lock *lock = &scan->locks[i];

		if (lock->copy || !fits(filter, lock))
			continue;
		rows->unknown += filter->older_ms && lock->held_ms < 0;
		if (!is_old(filter, lock))
			continue;
		rows->lock = tool_grow(rows->lock, rows->n, &room,
				       sizeof(struct scan_lock *));
		rows->lock[rows->n++] = lock;
	}
	if (rows->n && orders[filter->order].compare)
		qsort_r(rows->lock, rows->n, sizeof(struct scan_lock *),
			compare, (void *)(uintptr_t)&orders[filter->order]);
}

void rows_free(struct rows *rows)
{
	free(rows->lock);
	*rows = (struct rows){ 0 };
}

int rows_look(const struct ctl *ctl, const struct filter *filter,
	      struct scan *scan, struct rows *rows)
{
	int rc = scan_all(ctl->config, scan);

	holders_find(scan);
	ctl_mark_moved(ctl->config, scan);
	filter_rows(filter, scan, rows);
	return rc;
}

void rows_cells(const struct rows *rows, struct table *t)
{
	for (size_t i = 0; i < rows->n; i++)
		row_cells(t, rows->lock[i]);
}

void rows_json(const struct rows *rows, struct json *j)
{
	json_open(j, "locks", '[');
	for (size_t i = 0; i < rows->n; i++)
		row_json(j, rows->lock[i]);
	json_close(j, ']');
}
