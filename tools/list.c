/* SPDX-License-Identifier: MIT */
/*
 * dlockctl list: a row for each lock that is in Redis, one for each owner of
 * a shared lock and for each range of one of record locks.
 *
 * A key that is no lock of ours is shown as well, for it stands in the way of
 * one: a foreign value is a holder, another type is a mistake, a key without
 * a ttl is held until somebody removes it.
 *
 * How long a lock has been held is known for holders on this host, and on those
 * that doctor has run on since their boot: a token carries CLOCK_BOOTTIME, which
 * counts from the boot of its own kernel, and only what doctor leaves (fleet.h)
 * tells what that is by the server's clock.
 */

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/filter.h"

static size_t count(const struct scan *scan)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n; i++)
		n += !scan->locks[i].copy;
	return n;
}

static void print(const struct ctl *ctl, const struct scan *scan,
		  const struct rows *rows)
{
	struct table t;

	if (ctl->json)
		rows_json(rows, ctl->json);
	if (rows->n && !ctl->json) {
		table_init(&t, row_columns);
		rows_cells(rows, &t);
		table_end(&t);
	}
	if (!rows->n && scan->n)
		tool_say("none of the locks held is like that (there are %zu)",
			 count(scan));
	else if (!rows->n)
		tool_say("no locks held");
}

static void say_unknown(const struct rows *rows)
{
	if (rows->unknown)
		tool_say("how long a lock is held is known on its own host "
			 "only: %zu left out (and where dlockctl doctor has "
			 "run on that one)",
			 rows->unknown);
}

int verb_list(const struct ctl *ctl)
{
	static struct filter filter;
	struct scan scan;
	struct rows rows;
	int rc = filter_read(ctl, &filter);

	if (rc)
		return rc;
	rc = rows_look(ctl, &filter, &scan, &rows);
	if (scan.n || !rc)
		print(ctl, &scan, &rows);
	say_unknown(&rows);
	rows_free(&rows);
	scan_free(&scan);
	return rc;
}
