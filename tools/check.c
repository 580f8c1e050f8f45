/* SPDX-License-Identifier: MIT */
/*
 * dlockctl check: one line and an exit status for monitoring, as its plugins
 * are wont: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
 *
 * What is unknown must not be taken for well: whatever keeps it from looking is
 * UNKNOWN, unless something is known to be wrong: a server that does not answer,
 * or lets nobody in as this user, is.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/health.h"
#include "tools/table.h"

enum state { OK, WARNING, CRITICAL, UNKNOWN };

static const char *const states[] = { "OK", "WARNING", "CRITICAL", "UNKNOWN" };

/* From when on; 0: never. */
struct limits {
	uint64_t held_ms, waiters;
};

struct place {
	char text[512];
};

struct report {
	enum state state;
	/* What is wrong, one thing after another. */
	char text[2 * DLK_PATH_MAX];
};

/* From well to worse: what is known to be wrong goes before what is unknown. */
static const int ranks[] = {
	[OK] = 0, [UNKNOWN] = 1, [WARNING] = 2, [CRITICAL] = 3
};

/* The worse state counts, and only its reasons are told. */
__attribute__((format(printf, 3, 4))) static void add(struct report *r,
						      enum state state,
						      const char *format, ...)
{
	va_list args;

	if (ranks[state] < ranks[r->state])
		return;
	if (state != r->state)
		r->text[0] = '\0';
	r->state = state;
	va_start(args, format);
	tool_append(r->text, sizeof(r->text), format, args);
	va_end(args);
}

/* --- the limits ----------------------------------------------------------- */

static bool read_limit(struct limits *l, const char *word)
{
	char *end;

	if (!strncmp(word, "held=", 5))
		return !dlk_duration(word + 5, &l->held_ms) && l->held_ms;
	if (strncmp(word, "waiters=", 8) || word[8] < '1' || word[8] > '9')
		return false;
	l->waiters = strtoul(word + 8, &end, 10);
	return !*end;
}

/* "held=10m,waiters=5" */
static int read_limits(const struct ctl *ctl, enum ctl_option option,
		       struct limits *l)
{
	char text[128], *rest = text, *word;
	bool right = true;

	if (!ctl->given[option])
		return 0;
	right = snprintf(text, sizeof(text), "%s", ctl->given[option]) <
		(int)sizeof(text);
	while (right && (word = strsep(&rest, ",")))
		right = read_limit(l, word);
	return right ? 0
		     : tool_fail(DLK_EXIT_USAGE,
				 "%s: '%s' is no limit (held=10m,waiters=5)",
				 ctl_option_name(option), ctl->given[option]);
}

/* --- what is wrong -------------------------------------------------------- */

/* Sections of several files may have one name: with the server's address. */
static struct place place(const struct health *h)
{
	struct place p;

	snprintf(p.text, sizeof(p.text), "redis \"%s\" (%s)", h->redis->name,
		 h->redis->endpoints->name);
	return p;
}

static const char *name_of(const struct scan_lock *lock)
{
	return lock->path ? lock->path : lock->key;
}

static void check_limits(struct report *r, const struct health *h,
			 enum state state, const struct limits *l)
{
	if (l->held_ms && h->oldest_ms >= l->held_ms)
		add(r, state, "%s: %s is held for %s", place(h).text,
		    name_of(h->oldest), ctl_duration(h->oldest_ms).text);
	if (l->waiters && h->most >= l->waiters)
		add(r, state, "%s: %" PRIu64 " wait for %s", place(h).text,
		    h->most, name_of(h->busiest));
}

static void check_server(struct report *r, const struct health *h)
{
	char room[160];
	const char *unfit = dlk_server_unfit(&h->server, room, sizeof(room));

	if (!h->told)
		add(r, UNKNOWN,
		    "%s: this user may not INFO: its role, eviction "
		    "and memory are not known",
		    place(h).text);
	if (h->away)
		add(r, WARNING, "%s: %u of its %u masters %s: %s",
		    place(h).text, h->away, h->redis->n_endpoints,
		    h->bar != TOOL_SILENT ? tool_bar_words(h->bar)
		    : h->away == 1        ? "does not answer"
					  : "do not answer",
		    h->why);
	if (unfit)
		add(r, CRITICAL, "%s: %s", place(h).text, unfit);
	if (h->server.evicts[0])
		add(r, CRITICAL, "%s: it may evict locks (maxmemory-policy %s)",
		    place(h).text, h->server.evicts);
	if (h->max_clients && h->clients * 10 >= h->max_clients * 9)
		add(r, WARNING, "%s: %" PRIu64 " of %" PRIu64 " connections",
		    place(h).text, h->clients, h->max_clients);
	if (h->max_memory && h->memory * 10 >= h->max_memory * 9)
		add(r, WARNING, "%s: its memory is nearly full", place(h).text);
	if (h->endless)
		add(r, WARNING,
		    "%s: %" PRIu64 " without a ttl, never expiring, first %s",
		    place(h).text, h->endless, name_of(h->first_endless));
	if (h->other)
		add(r, WARNING,
		    "%s: %" PRIu64 " keys that are no locks, first %s",
		    place(h).text, h->other, name_of(h->first_other));
}

/* --- the line ------------------------------------------------------------- */

struct sums {
	uint64_t locks, waiters, oldest_ms, ping_us;
};

static struct sums sum(const struct healths *all)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		const struct health *h = &all->v[i];

		s.locks += h->total;
		s.waiters += h->waiters;
		s.oldest_ms =
			h->oldest_ms > s.oldest_ms ? h->oldest_ms : s.oldest_ms;
		s.ping_us = h->ping_us > s.ping_us ? h->ping_us : s.ping_us;
	}
	return s;
}

/* For the line, of which a '|' would begin the figures: free(3) it. */
static char *reason(const char *text)
{
	char *shown = tool_shown(text);

	for (char *p = shown; (p = strchr(p, '|')); *p = '/')
		;
	return shown;
}

static void line(const struct report *r, const struct sums *s)
{
	char *shown = reason(r->text);

	printf("DLOCK %s - %s%s%" PRIu64 " locks, %" PRIu64
	       " waiting | locks=%" PRIu64 " waiters=%" PRIu64
	       " held=%.3fs ping=%.6fs\n",
	       states[r->state], shown, *shown ? "; " : "", s->locks,
	       s->waiters, s->locks, s->waiters, (double)s->oldest_ms / 1e3,
	       (double)s->ping_us / 1e6);
	free(shown);
}

static void json(struct json *j, const struct report *r, const struct sums *s)
{
	json_text(j, "state", states[r->state]);
	json_text(j, "reason", r->text);
	json_int(j, "locks", (int64_t)s->locks);
	json_int(j, "waiters", (int64_t)s->waiters);
	json_int(j, "held_max_ms", (int64_t)s->oldest_ms);
	json_int(j, "redis_ping_us", (int64_t)s->ping_us);
}

int ctl_check_unknown(const struct ctl *ctl, const char *why)
{
	char *shown = reason(why);

	if (ctl->json) {
		json_text(ctl->json, "state", states[UNKNOWN]);
		json_text(ctl->json, "reason", why);
	} else {
		printf("DLOCK %s - %s\n", states[UNKNOWN], shown);
	}
	free(shown);
	return UNKNOWN;
}

/* --- the verb ------------------------------------------------------------- */

static void check_all(struct report *r, const struct healths *all,
		      const struct limits limits[2])
{
	for (size_t i = 0; i < all->n; i++) {
		const struct health *h = &all->v[i];

		if (h->up) {
			check_server(r, h);
			check_limits(r, h, WARNING, &limits[0]);
			check_limits(r, h, CRITICAL, &limits[1]);
		} else if (h->unknown) {
			add(r, UNKNOWN, "redis \"%s\": %s", h->redis->name,
			    h->why);
		} else {
			add(r, CRITICAL, "redis \"%s\" %s: %s", h->redis->name,
			    tool_bar_words(h->bar), h->why);
		}
	}
}

static int look(const struct ctl *ctl, const struct filter *filter,
		const struct limits limits[2])
{
	struct report r = { 0 };
	struct healths all;
	struct sums s;

	health_look(ctl->config, filter, &all);
	check_all(&r, &all, limits);
	s = sum(&all);
	if (ctl->json)
		json(ctl->json, &r, &s);
	else
		line(&r, &s);
	health_free(&all);
	return r.state;
}

int verb_check(const struct ctl *ctl)
{
	static struct filter filter;
	struct limits limits[2] = { 0 };
	int rc = filter_read(ctl, &filter);

	if (rc == DLK_EXIT_NOTHING)
		rc = DLK_EXIT_CONFIG;
	if (!rc)
		rc = read_limits(ctl, OPT_WARNING, &limits[0]);
	if (!rc)
		rc = read_limits(ctl, OPT_CRITICAL, &limits[1]);
	return rc ? rc : look(ctl, &filter, limits);
}
