/* SPDX-License-Identifier: MIT */
/*
 * dlockctl stats: the servers and their locks in numbers, for people, in JSON,
 * or in the text format of Prometheus for node_exporter's textfile collector.
 * One table has all of them.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/health.h"
#include "tools/table.h"

/* What a number is of, and so by what it is divided for Prometheus. */
enum unit { COUNT, BYTES, SECONDS, MILLISECONDS, MICROSECONDS };

static const struct metric {
	const char *name; /* in JSON; and "dlock_NAME", in the base unit */
	enum unit unit;
	size_t offset;
	bool told; /* by INFO, if the user may */
	const char *help;
} metrics[] = {
	{ "waiters", COUNT, offsetof(struct health, waiters), false,
	  "Calls that wait in the queues." },
	{ "waiters_max", COUNT, offsetof(struct health, most), false,
	  "Calls that wait for one lock, at most." },
	{ "endless", COUNT, offsetof(struct health, endless), false,
	  "Locks without a ttl, which never expire." },
	{ "other_keys", COUNT, offsetof(struct health, other), false,
	  "Keys that are no locks, and stand in the way of one." },
	{ "held_max", MILLISECONDS, offsetof(struct health, oldest_ms), false,
	  "How long the oldest lock of this host is held." },
	{ "redis_ping", MICROSECONDS, offsetof(struct health, ping_us), false,
	  "How long a PING took." },
	{ "redis_uptime", SECONDS, offsetof(struct health, server.uptime_s),
	  true, "How long the server runs." },
	{ "redis_clients", COUNT, offsetof(struct health, clients), true,
	  "Connections of the server." },
	{ "redis_clients_max", COUNT, offsetof(struct health, max_clients),
	  true, "Connections that it takes at most." },
	{ "redis_memory", BYTES, offsetof(struct health, memory), true,
	  "Memory that the server uses." },
	{ "redis_memory_max", BYTES, offsetof(struct health, max_memory), true,
	  "Memory that it uses at most; 0 is no limit." },
};

enum { N_METRICS = sizeof(metrics) / sizeof(*metrics) };

/* Of what is not known nothing is said. */
static bool is_known(const struct health *h, const struct metric *m)
{
	return h->up && (h->told || !m->told);
}

static uint64_t value(const struct health *h, const struct metric *m)
{
	uint64_t n;

	memcpy(&n, (const char *)h + m->offset, sizeof(n));
	return n;
}

static const char *suffix(enum unit unit, bool base)
{
	static const char *const json[] = { "", "_bytes", "_s", "_ms", "_us" };

	if (unit < SECONDS || !base)
		return json[unit];
	return "_seconds";
}

/* --- for Prometheus ------------------------------------------------------- */

/*
 * A label's value: no control byte and nothing but UTF-8, by tool_show(); and
 * '\' and '"' escaped.
 */
static void label(const char *name, const char *text)
{
	char shown[1024];

	tool_show(shown, sizeof(shown), text, strlen(text));
	printf("%s=\"", name);
	for (const char *p = shown; *p; p++)
		printf(*p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	putchar('"');
}

/* Sections of several files may have one name, and one server several users. */
static void labels(const struct health *h)
{
	label("redis", h->redis->name);
	putchar(',');
	label("server", h->redis->endpoints->name);
	if (!*h->redis->endpoints->username)
		return;
	putchar(',');
	label("user", h->redis->endpoints->username);
}

static bool has_same_labels(const struct health *a, const struct health *b)
{
	const struct dlk_endpoint *x = a->redis->endpoints;
	const struct dlk_endpoint *y = b->redis->endpoints;

	return !strcmp(a->redis->name, b->redis->name) &&
	       !strcmp(x->name, y->name) && !strcmp(x->username, y->username);
}

/* A series is printed once: of two whose passwords differ the first one's. */
static void keep_first(struct healths *all)
{
	size_t n = 0, k;

	for (size_t i = 0; i < all->n; i++) {
		for (k = 0; k < n; k++)
			if (has_same_labels(&all->v[k], &all->v[i]))
				break;
		if (k == n)
			all->v[n++] = all->v[i];
	}
	all->n = n;
}

static void head(const char *name, const char *unit, const char *help)
{
	printf("# HELP dlock_%s%s %s\n# TYPE dlock_%s%s gauge\n", name, unit,
	       help, name, unit);
}

static void prometheus_metric(const struct healths *all, const struct metric *m)
{
	static const double divisors[] = { 1, 1, 1, 1e3, 1e6 };
	const char *unit = suffix(m->unit, true);

	head(m->name, unit, m->help);
	for (size_t i = 0; i < all->n; i++) {
		if (!is_known(&all->v[i], m))
			continue;
		printf("dlock_%s%s{", m->name, unit);
		labels(&all->v[i]);
		printf("} %.15g\n",
		       (double)value(&all->v[i], m) / divisors[m->unit]);
	}
}

static void prometheus_locks(const struct health *h)
{
	for (unsigned m = 0; m < HEALTH_MODES; m++)
		for (unsigned o = 0; o < HEALTH_OWNERS; o++) {
			fputs("dlock_locks{", stdout);
			labels(h);
			printf(",mode=\"%s\",owner=\"%s\"} %" PRIu64 "\n",
			       health_modes[m], health_owners[o],
			       h->locks[m][o]);
		}
}

static void prometheus(struct healths *all)
{
	keep_first(all);
	head("up", "", "Does the server answer?");
	for (size_t i = 0; i < all->n; i++) {
		fputs("dlock_up{", stdout);
		labels(&all->v[i]);
		printf("} %d\n", all->v[i].up);
	}
	head("locks", "", "Locks that are held, owners and ranges.");
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].up)
			prometheus_locks(&all->v[i]);
	for (unsigned i = 0; i < N_METRICS; i++)
		prometheus_metric(all, &metrics[i]);
}

/* --- for people ----------------------------------------------------------- */

static void text_value(uint64_t n, enum unit unit)
{
	if (unit == SECONDS || unit == MILLISECONDS)
		puts(ctl_duration(unit == SECONDS ? n * 1000 : n).text);
	else
		printf("%" PRIu64 "%s\n", n, unit == MICROSECONDS ? "us" : "");
}

static void text_server(const struct health *h)
{
	const char *server = h->redis->endpoints->name;
	char name[512], at[4 * sizeof(h->redis->endpoints->name)];
	char version[4 * sizeof(h->server.version)], why[4 * sizeof(h->why)];

	tool_show(name, sizeof(name), h->redis->name, strlen(h->redis->name));
	tool_show(at, sizeof(at), server, strlen(server));
	tool_show(version, sizeof(version), h->server.version,
		  strlen(h->server.version));
	printf("redis \"%s\", %s: %s %s\n", name, at,
	       h->up        ? "Redis"
	       : h->unknown ? "not known"
			    : tool_bar_words(h->bar),
	       version);
	tool_show(why, sizeof(why), h->why, strlen(h->why));
	if (*why)
		printf("  %s\n", why);
	if (!h->up)
		return;
	for (unsigned m = 0; m < HEALTH_MODES; m++)
		for (unsigned o = 0; o < HEALTH_OWNERS; o++)
			if (h->locks[m][o])
				printf("  locks %-5s %-13s%" PRIu64 "\n",
				       health_modes[m], health_owners[o],
				       h->locks[m][o]);
	for (unsigned i = 0; i < N_METRICS; i++) {
		if (!is_known(h, &metrics[i]))
			continue;
		printf("  %-25s", metrics[i].name);
		text_value(value(h, &metrics[i]), metrics[i].unit);
	}
}

/* --- for machines --------------------------------------------------------- */

static void json_locks(struct json *j, const struct health *h)
{
	json_open(j, "locks", '[');
	for (unsigned m = 0; m < HEALTH_MODES; m++)
		for (unsigned o = 0; o < HEALTH_OWNERS; o++) {
			json_open(j, NULL, '{');
			json_text(j, "mode", health_modes[m]);
			json_text(j, "owner", health_owners[o]);
			json_int(j, "count", (int64_t)h->locks[m][o]);
			json_close(j, '}');
		}
	json_close(j, ']');
}

static void json_server(struct json *j, const struct health *h)
{
	char name[64];

	json_open(j, NULL, '{');
	json_text(j, "redis", h->redis->name);
	json_text(j, "server", h->redis->endpoints->name);
	json_bool(j, "up", h->up);
	if (*h->why)
		json_text(j, "why", h->why);
	if (h->up && h->told)
		json_text(j, "version", h->server.version);
	if (h->up)
		json_locks(j, h);
	for (unsigned i = 0; i < N_METRICS; i++) {
		snprintf(name, sizeof(name), "%s%s", metrics[i].name,
			 suffix(metrics[i].unit, false));
		if (is_known(h, &metrics[i]))
			json_int(j, name, (int64_t)value(h, &metrics[i]));
	}
	json_close(j, '}');
}

/* --- the verb ------------------------------------------------------------- */

static void print(const struct ctl *ctl, struct healths *all)
{
	if (ctl->json)
		json_open(ctl->json, "servers", '[');
	for (size_t i = 0; i < all->n && !ctl->given[OPT_PROMETHEUS]; i++)
		if (ctl->json)
			json_server(ctl->json, &all->v[i]);
		else
			text_server(&all->v[i]);
	if (ctl->json)
		json_close(ctl->json, ']');
	else if (ctl->given[OPT_PROMETHEUS])
		prometheus(all);
}

/* For Prometheus a server that is away is a value, and no failure. */
int verb_stats(const struct ctl *ctl)
{
	static struct filter filter;
	struct healths all;
	int rc = filter_read(ctl, &filter);

	if (rc)
		return rc;
	if (ctl->json && ctl->given[OPT_PROMETHEUS])
		return tool_fail(DLK_EXIT_USAGE,
				 "--prometheus goes not with --json");
	rc = health_look(ctl->config, &filter, &all);
	print(ctl, &all);
	health_free(&all);
	return ctl->given[OPT_PROMETHEUS] ? 0 : rc;
}
