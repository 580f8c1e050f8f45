/* SPDX-License-Identifier: MIT */
/* What the hosts left at a server; see fleet.h. */
#include "tools/fleet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"
#include "os/sys.h"
#include "tools/boot.h"
#include "tools/common.h"
#include "tools/options.h"
#include "tools/scan_hash.h"
#include "tools/scan_keys.h"

enum {
	TEXT_MAX = 256 * 1024,
	HEAD = 3,
	SERVERS = 5, /* after the first five words of a rule's line */
	DAY_MS = 24 * 3600 * 1000,
};

/* --- reading -------------------------------------------------------------- */

/* It becomes what it stands for: no longer than it is. */
static void unword(char *word)
{
	size_t size = strlen(word) + 1;

	dlk_unword(word, word, size);
}

/* The first `n` words of a line, cut where the blanks are: how many it has. */
static int split(char *line, char **words, int n)
{
	int i = 0;

	while (line && i < n) {
		words[i] = strsep(&line, " ");
		if (!*words[i++])
			return 0;
	}
	return i;
}

static void read_rule(struct fleet_host *h, char *line)
{
	struct fleet_rule *rule = &h->rules[h->n_rules];
	char *words[SERVERS + 1];
	int n = h->n_rules == FLEET_RULES ? 0 : split(line, words, SERVERS + 1);

	if (n < SERVERS || !dlk_number(words[2], 10, &rule->ttl_ms) ||
	    !dlk_number(words[3], 10, &rule->hold_ms))
		return;
	for (int i = 0; i < n; i++)
		unword(words[i]);
	rule->prefix = words[0];
	rule->key = words[1];
	rule->at = words[4];
	rule->servers = n > SERVERS ? words[SERVERS] : "";
	h->n_rules += rule->prefix[0] == '/';
}

static bool read_head(struct fleet_host *h, char *line)
{
	char *words[HEAD + 1];
	uint64_t seen;

	if (split(line, words, HEAD + 1) != HEAD ||
	    strcmp(words[0], "1") != 0 || !dlk_number(words[1], 10, &seen) ||
	    seen > INT64_MAX || !dlk_number(words[2], 10, &h->boot_ns))
		return false;
	h->seen_ms = (int64_t)seen;
	return true;
}

static bool read_host(struct fleet_host *h)
{
	char *rest = h->text, *blank = strchr(h->field, ' ');

	if (!blank || blank == h->field || !blank[1] ||
	    strchr(blank + 1, ' ') || !read_head(h, strsep(&rest, "\n")))
		return false;
	*blank = '\0';
	h->host = h->field;
	h->name = blank + 1;
	while (rest)
		read_rule(h, strsep(&rest, "\n"));
	return true;
}

static void drop(struct fleet_host *h)
{
	free(h->field);
	free(h->text);
}

bool fleet_add(struct fleet *f, const char *field, size_t field_len,
	       const char *text, size_t len)
{
	struct fleet_host *h;

	if (f->n == FLEET_MAX || field_len >= FLEET_FIELD_MAX || len > TEXT_MAX)
		return false;
	f->hosts = tool_grow(f->hosts, f->n, &f->room, sizeof(*h));
	h = &f->hosts[f->n];
	*h = (struct fleet_host){ .field = tool_copy(field, field_len),
				  .text = tool_copy(text, len) };
	if (!read_host(h)) {
		drop(h);
		return false;
	}
	f->n++;
	return true;
}

static bool take(void *arg, int64_t now_ms, struct scan_text field,
		 struct scan_text value)
{
	struct fleet *f = arg;

	f->now_ms = now_ms;
	fleet_add(f, field.bytes, field.len, value.bytes, value.len);
	return f->n < FLEET_MAX;
}

int fleet_read(struct dlk_conn *c, struct fleet *f)
{
	struct scan_hash hash = { .c = c,
				  .key = FLEET_KEY,
				  .len = strlen(FLEET_KEY),
				  .take = take,
				  .arg = f };
	int err;

	*f = (struct fleet){ 0 };
	err = scan_hash(&hash);
	f->cut = err == -E2BIG;
	return err == SCAN_GONE || f->cut ? 0 : err;
}

void fleet_free(struct fleet *f)
{
	for (size_t i = 0; i < f->n; i++)
		drop(&f->hosts[i]);
	free(f->hosts);
	*f = (struct fleet){ 0 };
}

/* HSCAN may name a host twice: the entries are one. */
int64_t fleet_age_ms(const struct fleet *f, const char *host, uint64_t since_ns)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct fleet_host *h = &f->hosts[i];
		int64_t at;

		if (strcmp(h->host, host) != 0)
			continue;
		at = h->seen_ms + (int64_t)(since_ns / DLK_MS) -
		     (int64_t)(h->boot_ns / DLK_MS);
		return f->now_ms > at ? f->now_ms - at : 0;
	}
	return -1;
}

/* --- leaving -------------------------------------------------------------- */

void fleet_own_field(const struct dlk_config *config,
		     char field[FLEET_FIELD_MAX])
{
	char host[DLK_WORD_MAX], name[DLK_WORD_MAX];

	boot_host(config->host_id, host);
	boot_hostname(name);
	snprintf(field, FLEET_FIELD_MAX, "%s %s", host, name);
}

/* (A cluster's masters are not all in its section.) */
bool fleet_is_here(const struct dlk_rule *rule, const struct dlk_redis *redis,
		   const struct dlk_endpoint *ep)
{
	bool here = rule->redis == redis;

	for (unsigned i = 0; i < rule->redis->n_endpoints && !here; i++)
		here = tool_same_server(&rule->redis->endpoints[i], ep);
	return here;
}

void fleet_servers(const struct dlk_redis *redis, char text[FLEET_SERVERS_MAX])
{
	size_t n = (size_t)sprintf(text, "%s", option_mode(redis));

	for (unsigned i = 0;
	     redis->mode == DLK_QUORUM && i < redis->n_endpoints; i++)
		n += (size_t)snprintf(text + n, FLEET_SERVERS_MAX - n, " %s",
				      redis->endpoints[i].name);
}

static void put_word(FILE *f, const char *text, char end)
{
	static char word[3 * DLK_KEY_MAX + 1];

	dlk_word(word, sizeof(word), text, strlen(text));
	fprintf(f, "%s%c", word, end);
}

static void put_rule(FILE *f, const struct dlk_rule *rule, bool here)
{
	char servers[FLEET_SERVERS_MAX];

	put_word(f, rule->prefix, ' ');
	put_word(f, rule->key, ' ');
	fprintf(f, "%u %u ", rule->ttl_ms, rule->hold_at_least_ms);
	put_word(f, here ? "" : rule->redis->endpoints->name, ' ');
	fleet_servers(rule->redis, servers);
	put_word(f, servers, '\n');
}

static char *make_text(const struct dlk_config *config,
		       const struct dlk_redis *redis,
		       const struct dlk_endpoint *ep, int64_t now_ms)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fprintf(f, "1 %" PRId64 " %" PRIu64 "\n", now_ms, dlk_now_ns());
	for (unsigned i = 0; i < config->n_rules && i < FLEET_RULES; i++)
		put_rule(f, &config->rules[i],
			 fleet_is_here(&config->rules[i], redis, ep));
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

static int call(struct dlk_conn *c, int argc, const char *const *argv, int type,
		const redisReply **reply)
{
	return scan_command(c, argc, argv, type,
			    FLEET_KEY " is of another type", reply);
}

/* The server's clock; 0 if it cannot be had. */
static int64_t ask_time(struct dlk_conn *c, int *err)
{
	static const char *const time[] = { "TIME" };
	const redisReply *r;
	int64_t ms = 0;

	*err = call(c, 1, time, REDIS_REPLY_ARRAY, &r);
	if (!*err && (ms = scan_time(r)) < 0)
		ms = 0;
	dlk_conn_reset(c);
	return ms;
}

/* The host_id in HOST, with its colon; or "". */
static const char *id_of(const struct fleet_host *h)
{
	const char *colon = strchr(h->host, ':');

	return colon ? colon : "";
}

/* Two of one name and host_id: the one was seen before the other was booted. */
static bool is_before(const struct fleet_host *h, const struct fleet_host *g)
{
	int64_t booted_ms = g->seen_ms - (int64_t)(g->boot_ns / DLK_MS);

	return !strcmp(h->name, g->name) && !strcmp(id_of(h), id_of(g)) &&
	       strcmp(h->host, g->host) != 0 && h->seen_ms < booted_ms;
}

bool fleet_is_stale(const struct fleet *f, const struct fleet_host *h)
{
	for (size_t i = 0; i < f->n; i++)
		if (is_before(h, &f->hosts[i]))
			return true;
	return f->now_ms - h->seen_ms >= (int64_t)FLEET_KEPT_DAYS * DAY_MS;
}

void fleet_sweep(struct dlk_conn *c, const struct fleet *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct fleet_host *h = &f->hosts[i];
		char field[FLEET_FIELD_MAX];
		const char *const del[] = { "HDEL", FLEET_KEY, field };
		const redisReply *r;

		if (!fleet_is_stale(f, h))
			continue;
		snprintf(field, sizeof(field), "%s %s", h->host, h->name);
		call(c, 3, del, REDIS_REPLY_INTEGER, &r);
		dlk_conn_reset(c);
	}
}

int fleet_leave(struct dlk_conn *c, const struct dlk_config *config,
		const struct dlk_redis *redis)
{
	char field[FLEET_FIELD_MAX], kept[24], *text = NULL;
	const redisReply *r;
	int err;
	int64_t now_ms = ask_time(c, &err);

	if (err)
		return err;
	fleet_own_field(config, field);
	text = make_text(config, redis, c->ep, now_ms);
	if (!text)
		return -ENOMEM;
	err = call(c, 4,
		   (const char *const[]){ "HSET", FLEET_KEY, field, text },
		   REDIS_REPLY_INTEGER, &r);
	dlk_conn_reset(c);
	free(text);
	snprintf(kept, sizeof(kept), "%lld",
		 (long long)FLEET_KEPT_DAYS * DAY_MS);
	if (!err)
		err = call(c, 3,
			   (const char *const[]){ "PEXPIRE", FLEET_KEY, kept },
			   REDIS_REPLY_INTEGER, &r);
	dlk_conn_reset(c);
	return err;
}
