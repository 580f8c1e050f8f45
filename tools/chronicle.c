/* SPDX-License-Identifier: MIT */
/* The stream beside a key; see chronicle.h. */
#include "tools/chronicle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/text.h"
#include "tools/common.h"
#include "tools/scan_keys.h"

enum { NAME_MAX_KEY = DLK_KEY_MAX + 16 };

static const char *name_of(const char *key)
{
	static char name[NAME_MAX_KEY];

	snprintf(name, sizeof(name), "{%s}%%h", key);
	return name;
}

/* 0, or -errno, and who said why behind what `why` has already. */
static int add_at(const struct dlk_endpoint *ep, const char *key,
		  const struct dlk_chronicle_entry *e, char *why, size_t size)
{
	struct dlk_conn *c = dlk_conn_new(ep);
	uint64_t deadline = tool_deadline(ep);
	int err = c ? dlk_conn_open(c, deadline) : -ENOMEM;
	size_t at = strlen(why);

	if (!err)
		err = dlk_chronicle_add(c, deadline, key, strlen(key), e);
	if (err)
		snprintf(why + at, size - at, "%s%s: %s", at ? "; " : "",
			 ep->name, tool_why(c, err));
	dlk_conn_delete(c);
	return err;
}

void chronicle_add(const struct dlk_redis *redis, const char *key,
		   const struct dlk_chronicle_entry *e)
{
	char why[1024] = "";

	if (redis->mode != DLK_QUORUM) {
		if (!add_at(tool_server_of(redis, key, strlen(key)), key, e,
			    why, sizeof(why)))
			return;
	} else {
		for (unsigned i = 0; i < redis->n_endpoints; i++)
			if (!add_at(&redis->endpoints[i], key, e, why,
				    sizeof(why)))
				return;
	}
	tool_say("%s: \"%s\" is not in its history at redis \"%s\" (%s): see "
		 "dlockctl doctor",
		 key, e->what, redis->name, why);
}

/* --- reading -------------------------------------------------------------- */

static bool is_text(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING && strlen(r->str) == r->len;
}

static void take_field(struct dlk_chronicle_entry *e, const char *name,
		       const char *value)
{
	uint64_t n = 0;

	if (!strcmp(name, "what"))
		e->what = value;
	else if (!strcmp(name, "host"))
		e->host = value;
	else if (!strcmp(name, "who"))
		e->who = value;
	else if (!strcmp(name, "token"))
		e->token = value;
	else if (!strcmp(name, "pid") && dlk_number(value, 10, &n))
		e->pid = (unsigned)n;
	else if (!strcmp(name, "lasted") && dlk_number(value, 10, &n))
		e->lasted_ms = n;
}

/* "1700000000000-0" and its fields; false if it is none of ours. */
static bool take(const redisReply *r, uint64_t *at,
		 struct dlk_chronicle_entry *e)
{
	const redisReply *fields;

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    !is_text(r->element[0]) ||
	    !dlk_number(r->element[0]->str, 10, at) || *at > INT64_MAX)
		return false;
	fields = r->element[1];
	if (fields->type != REDIS_REPLY_ARRAY)
		return false;
	*e = (struct dlk_chronicle_entry){ .lasted_ms = DLK_LASTED_UNKNOWN };
	for (size_t i = 0; i + 1 < fields->elements; i += 2)
		if (is_text(fields->element[i]) &&
		    is_text(fields->element[i + 1]))
			take_field(e, fields->element[i]->str,
				   fields->element[i + 1]->str);
	return e->what && e->host && e->who && e->token;
}

int chronicle_read(struct dlk_conn *c, const char *key, chronicle_fn *fn,
		   void *arg)
{
	const char *const argv[] = { "XREVRANGE", name_of(key), "+",
				     "-",         "COUNT",      "100" };
	struct dlk_chronicle_entry e;
	const redisReply *r;
	uint64_t at;
	int err = scan_command(c, 6, argv, REDIS_REPLY_ARRAY,
			       "its history is at a key of another type", &r);

	for (size_t i = 0; !err && i < r->elements; i++)
		if (take(r->element[i], &at, &e))
			fn(arg, (int64_t)at, &e);
	dlk_conn_reset(c);
	return err;
}
