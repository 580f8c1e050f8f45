/* SPDX-License-Identifier: MIT */
/*
 * What dlockctl list looks at: one configuration that is named; or that of the
 * host and all that dlock run has written for this user, as if they were one;
 * or all locks with default keys at one Redis.
 *
 *  1. A server that several of them name is asked once.
 *  2. What dlock run has written stays when its command ends, for nobody sees
 *     that end.  A private server that is gone says so: nothing is locked
 *     there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/processes.h"

struct list {
	struct dlk_config **configs;
	size_t n, room;
};

static void add(struct list *list, struct dlk_config *config)
{
	list->configs = tool_grow(list->configs, list->n, &list->room,
				  sizeof(struct dlk_config *));
	list->configs[list->n++] = config;
}

/* Of a server on a unix socket this is sure, and costs nothing. */
static bool is_gone(const struct dlk_endpoint *ep)
{
	int err = ep->scheme == DLK_UNIX
			  ? tool_listens(ep->path, SOCK_STREAM | SOCK_NONBLOCK)
			  : 0;

	return err == -ENOENT || err == -ECONNREFUSED;
}

/* HASH.conf, as run_config.c names them. */
static bool is_written(const char *name)
{
	return strspn(name, "0123456789abcdef") == 32 &&
	       !strcmp(name + 32, ".conf");
}

/* Two of the directories may be one. */
static bool has(const struct list *list, const char *file)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->configs[i]->file, file))
			return true;
	return false;
}

static void add_written(struct list *list, const char *dir, const char *name)
{
	struct dlk_error err = { "" };
	struct dlk_config *config;
	char file[DLK_PATH_MAX];

	if (snprintf(file, sizeof(file), "%s/%s", dir, name) >=
	    (int)sizeof(file))
		return;
	if (has(list, file))
		return;
	if (dlk_config_load(file, false, NULL, NULL, &config, &err))
		tool_say("%s", err.text);
	else if (config->n_redis == 1 && is_gone(config->redis->endpoints))
		dlk_config_free(config);
	else
		add(list, config);
}

static void add_all_written(struct list *list, const char *dir)
{
	int fd = tool_run_dir_open(dir);
	const char *name;
	DIR *d;

	if (fd == -EPERM)
		tool_say("%s: not a private directory of ours (owner, mode "
			 "0700): not looked at",
			 dir);
	d = fd < 0 ? NULL : fdopendir(fd);
	while ((name = names_next(&d)))
		if (is_written(name))
			add_written(list, dir, name);
}

/* --- several as one ------------------------------------------------------- */

static bool same_server(const struct dlk_redis *a, const struct dlk_redis *b)
{
	const struct dlk_endpoint *x = a->endpoints, *y = b->endpoints;

	return a->mode == DLK_SINGLE && b->mode == DLK_SINGLE &&
	       tool_same_server(x, y) && !strcmp(x->username, y->username) &&
	       !strcmp(x->password, y->password) &&
	       !strcmp(x->password_file, y->password_file) &&
	       !memcmp(&x->tls, &y->tls, sizeof(x->tls));
}

static const struct dlk_redis *merge_redis(struct dlk_config *all,
					   struct dlk_redis *room,
					   const struct dlk_redis *redis)
{
	for (unsigned i = 0; i < all->n_redis; i++)
		if (same_server(&room[i], redis))
			return &room[i];
	room[all->n_redis] = *redis;
	return &room[all->n_redis++];
}

/* It lives as long as dlockctl does, and so do its parts. */
static struct dlk_config *merge(const struct list *list)
{
	struct dlk_config *all = tool_room(1, sizeof(*all));
	size_t n_redis = 0, n_rules = 0;
	struct dlk_redis *redis;
	struct dlk_rule *rules;

	for (size_t i = 0; i < list->n; i++) {
		n_redis += list->configs[i]->n_redis;
		n_rules += list->configs[i]->n_rules;
	}
	*all = *list->configs[0];
	all->redis = redis = tool_room(n_redis + 1, sizeof(*redis));
	all->rules = rules = tool_room(n_rules + 1, sizeof(*rules));
	all->n_redis = all->n_rules = 0;
	for (size_t i = 0; i < list->n; i++) {
		const struct dlk_config *one = list->configs[i];

		for (unsigned k = 0; k < one->n_rules; k++) {
			struct dlk_rule *rule = &rules[all->n_rules++];

			*rule = one->rules[k];
			rule->redis = merge_redis(all, redis, rule->redis);
		}
	}
	return all;
}

int ctl_config_all(const char *file, struct dlk_config **out)
{
	struct list list = { 0 };
	char dir[DLK_PATH_MAX];
	int rc = 0;

	if (file) {
		rc = tool_config_load(file, out);
		if (rc)
			return rc;
		add(&list, *out);
	}
	for (unsigned i = 0; tool_run_dir(i, dir); i++)
		add_all_written(&list, dir);
	if (!list.n)
		return tool_fail(DLK_EXIT_CONFIG,
				 "no configuration: no -c, no --redis, no "
				 "$DLOCK_CONFIG, no " DLK_CONFIG_DEFAULT
				 ", and nothing that runs under dlock run");
	*out = merge(&list);
	free(list.configs);
	return 0;
}

int ctl_config_redis(const char *url, struct dlk_config **out)
{
	static struct dlk_endpoint ep;
	static struct dlk_redis redis = { .name = "main",
					  .endpoints = &ep,
					  .n_endpoints = 1 };
	static struct dlk_rule rule = { .prefix = "/",
					.prefix_len = 1,
					.place = "/",
					.place_len = 1,
					.there = true,
					.key = "dlock:%p",
					.tells_path = true,
					.ttl_ms = 30000,
					.timeout_ms = 5000,
					.redis = &redis };
	static struct dlk_config config = { .host_id = "",
					    .state_dir = DLK_STATE_DIR_DEFAULT,
					    .redis = &redis,
					    .n_redis = 1,
					    .rules = &rule,
					    .n_rules = 1,
					    .n_there = 1 };
	const struct dlk_config *host;
	struct dlk_error err = { "" };

	config.file = url;
	*out = &config;
	if (dlk_url_parse(url, &ep, &err))
		return tool_fail(DLK_EXIT_USAGE, "--redis: %s", err.text);
	/* As without these options in a file, by the rule's ttl. */
	ep.connect_timeout_ms = 2000;
	ep.restart_delay_ms = rule.ttl_ms;
	/* (It stays, for its texts are used.) */
	host = tool_config_host();
	if (host) {
		config.host_id = host->host_id;
		config.state_dir = host->state_dir;
	}
	return 0;
}
