/* SPDX-License-Identifier: MIT */
/* The servers in numbers; see health.h. */
#include "tools/health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/sys.h"
#include "redis/conn.h"
#include "tools/common.h"
#include "tools/row.h"
#include "tools/scan_keys.h"

const char *const health_modes[HEALTH_MODES] = { "EX", "SH", "WRITE", "READ" };
const char *const health_owners[HEALTH_OWNERS] = { "dlock", "foreign" };

/* --- a server ------------------------------------------------------------- */

static void read_info(struct health *h, const struct dlk_endpoint *ep,
		      const char *info)
{
	dlk_server_read(&h->server, ep, info);
	h->clients = tool_info(info, "connected_clients", 0);
	h->max_clients = tool_info(info, "maxclients", 0);
	h->memory = tool_info(info, "used_memory", 0);
	h->max_memory = tool_info(info, "maxmemory", 0);
}

/* One that this user may not is answered as well. */
static int ask_one(struct dlk_conn *c, const char *command, int type,
		   const redisReply **reply)
{
	const struct dlk_arg arg = dlk_arg_str(command);
	int err = tool_call(c, 1, &arg, reply);

	return err || tool_is_forbidden(*reply) ? err
						: scan_check(c, *reply, type);
}

/* The second command: the first one has the connection's set-up with it. */
static int ask_info(struct dlk_conn *c, const struct dlk_endpoint *ep,
		    struct health *h)
{
	const redisReply *reply;
	uint64_t before;
	int err = ask_one(c, "INFO", REDIS_REPLY_STRING, &reply);

	h->told = !err && reply->type == REDIS_REPLY_STRING;
	if (h->told)
		read_info(h, ep, reply->str);
	dlk_conn_reset(c);
	if (err)
		return err;
	before = dlk_now_ns();
	err = ask_one(c, "PING", REDIS_REPLY_STATUS, &reply);
	h->ping_us = (dlk_now_ns() - before) / 1000;
	return err;
}

/*
 * Of what is to be read before a connection programs of others may have more than
 * this user has.
 */
static void note_bar(struct health *h, enum tool_bar bar)
{
	if (bar > h->bar)
		h->bar = bar;
	h->unknown = bar == TOOL_UNREADY;
}

/* One server; what is worse of several is the section's. */
static int look_at(struct health *h, const struct dlk_endpoint *ep)
{
	struct health one = { .redis = h->redis };
	struct dlk_conn *c = dlk_conn_new(ep);
	char room[160];
	int err = c ? ask_info(c, ep, &one) : -ENOMEM;

	if (err) {
		snprintf(h->why, sizeof(h->why), "%s: %s", ep->name,
			 tool_why(c, err));
		note_bar(h, tool_bar(c, err));
	}
	dlk_conn_delete(c);
	if (err)
		return err;
	if (!h->up || one.server.evicts[0] ||
	    dlk_server_unfit(&one.server, room, sizeof(room)))
		h->server = one.server;
	if (!h->up || one.clients > h->clients) {
		h->clients = one.clients;
		h->max_clients = one.max_clients;
	}
	if (!h->up || one.memory > h->memory) {
		h->memory = one.memory;
		h->max_memory = one.max_memory;
	}
	if (one.ping_us > h->ping_us)
		h->ping_us = one.ping_us;
	h->told = one.told && (h->told || !h->up);
	h->up = true;
	return 0;
}

static void look(struct health *h)
{
	unsigned n, good = 0;

	if (h->redis->fault) {
		snprintf(h->why, sizeof(h->why), "%s", h->redis->fault);
		h->bar = TOOL_UNREADY;
		h->unknown = true;
		return;
	}
	n = tool_servers(h->redis);
	for (unsigned i = 0; i < n; i++)
		good += !look_at(h, tool_server(h->redis, i));
	h->up = good >= tool_needed(h->redis);
	h->away = n - good;
}

static void look_at_servers(const struct dlk_config *config,
			    struct healths *all)
{
	all->n = 0;
	all->v = tool_room(config->n_redis + 1, sizeof(*all->v));
	for (unsigned i = 0; i < config->n_redis; i++) {
		if (!tool_config_uses(config, &config->redis[i]))
			continue;
		all->v[all->n].redis = &config->redis[i];
		look(&all->v[all->n++]);
	}
}

/* --- its locks ------------------------------------------------------------ */

static void count_key(struct health *h, const struct scan_lock *lock)
{
	h->waiters += lock->waiters;
	if (lock->waiters <= h->most)
		return;
	h->most = lock->waiters;
	h->busiest = lock;
}

static void count(struct health *h, const struct scan_lock *lock)
{
	const char *mode = row_mode_name(lock);
	unsigned m = 0;

	if (lock->endless && !h->endless++)
		h->first_endless = lock;
	while (m < HEALTH_MODES && strcmp(mode, health_modes[m]))
		m++;
	if (lock->unread)
		return;
	if (m == HEALTH_MODES) {
		if (!h->other++)
			h->first_other = lock;
		return;
	}
	h->total++;
	h->locks[m][!lock->ours]++;
	if (!lock->here || lock->held_ms < (int64_t)h->oldest_ms)
		return;
	h->oldest_ms = (uint64_t)lock->held_ms;
	h->oldest = lock;
}

/* The rows of a key are neighbours, in the order of a scan. */
static void count_all(struct healths *all)
{
	const struct scan_lock *before = NULL;

	for (size_t i = 0; i < all->rows.n; i++) {
		const struct scan_lock *lock = all->rows.lock[i];

		for (size_t k = 0; k < all->n; k++) {
			if (all->v[k].redis != lock->redis)
				continue;
			count(&all->v[k], lock);
			if (!before || before->redis != lock->redis ||
			    strcmp(before->key, lock->key))
				count_key(&all->v[k], lock);
		}
		before = lock;
	}
}

/*
 * Of a server whose locks could not be read nothing is known.  It does answer:
 * it lets this user in, who may not do this.
 */
static int count_locks(const struct dlk_config *config,
		       const struct filter *filter, struct healths *all)
{
	int rc = scan_all(config, &all->scan);

	filter_rows(filter, &all->scan, &all->rows);
	count_all(all);
	for (size_t i = 0; i < all->n; i++) {
		struct health *h = &all->v[i];
		const struct scan_failure *f =
			&all->scan.failed[h->redis - config->redis];

		if (!h->up || !f->rc)
			continue;
		h->up = false;
		h->bar = f->bar;
		h->unknown = f->bar != TOOL_SILENT;
		snprintf(h->why, sizeof(h->why), "%s", f->why);
	}
	return rc;
}

int health_look(const struct dlk_config *config, const struct filter *filter,
		struct healths *all)
{
	look_at_servers(config, all);
	return count_locks(config, filter, all);
}

void health_free(struct healths *all)
{
	rows_free(&all->rows);
	scan_free(&all->scan);
	free(all->v);
	*all = (struct healths){ 0 };
}
