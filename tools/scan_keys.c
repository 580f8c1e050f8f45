/* SPDX-License-Identifier: MIT */
/*
 * SCAN over the rules' templates; see scan_keys.h.
 *
 * SCAN may name a key twice, and two rules may share a template: so sort, and
 * keep one of each.  A reply is bounded by DLK_REPLY_MAX, keys are not short
 * by law: when a page is too large it is asked for again in smaller ones (the
 * cursor is not bound to a connection).
 */
#include "tools/scan_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"

/* The walk over one glob. */
struct walk {
	char glob[2 * DLK_KEY_MAX];
	size_t glob_len;
	char cursor[SCAN_CURSOR];
	bool small;
};

int scan_check(struct dlk_conn *c, const redisReply *reply, int type)
{
	if (reply->type == type || reply->type == REDIS_REPLY_NIL)
		return 0;
	if (reply->type != REDIS_REPLY_ERROR)
		return -EPROTO;
	if (!strncmp(reply->str, "WRONGTYPE", strlen("WRONGTYPE")))
		return 0;
	return tool_refusal(c, reply);
}

int scan_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
	      int type, const redisReply **reply)
{
	int err = tool_call(c, argc, args, reply);

	return err ? err : scan_check(c, *reply, type);
}

int scan_command(struct dlk_conn *c, int argc, const char *const *argv,
		 int type, const char *wrong, const redisReply **reply)
{
	struct dlk_arg args[SCAN_WORDS];
	int err;

	for (int i = 0; i < argc; i++)
		args[i] = (struct dlk_arg){ argv[i], strlen(argv[i]) };
	err = scan_call(c, argc, args, type, reply);
	if (!err && (*reply)->type != type) {
		dlk_conn_set_error(c, wrong);
		err = -EREMOTEIO;
	}
	return err;
}

void scan_keys_add(struct scan_keys *keys, const char *name, size_t len)
{
	if (len > DLK_KEY_MAX)
		return;
	keys->keys = tool_grow(keys->keys, keys->n, &keys->room,
			       sizeof(*keys->keys));
	keys->keys[keys->n++] = (struct scan_key){ tool_copy(name, len), len };
}

int scan_page(const redisReply *reply, char cursor[SCAN_CURSOR],
	      const redisReply **page)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= SCAN_CURSOR ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY)
		return -EPROTO;
	strcpy(cursor, reply->element[0]->str);
	*page = reply->element[1];
	return 0;
}

/* One page; -EPROTO may mean that it was too large. */
static int page(struct dlk_conn *c, struct walk *w, struct scan_keys *keys)
{
	const char *count = w->small ? "16" : "500";
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("SCAN") },  { w->cursor, strlen(w->cursor) },
		{ DLK_LITERAL("MATCH") }, { w->glob, w->glob_len },
		{ DLK_LITERAL("COUNT") }, { count, strlen(count) },
	};
	const redisReply *reply, *names;
	int err = scan_call(c, 6, args, REDIS_REPLY_ARRAY, &reply);

	if (!err)
		err = scan_page(reply, w->cursor, &names);
	for (size_t i = 0; !err && i < names->elements; i++)
		if (names->element[i]->type == REDIS_REPLY_STRING)
			scan_keys_add(keys, names->element[i]->str,
				      names->element[i]->len);
	dlk_conn_reset(c);
	return err;
}

static int walk(struct dlk_conn *c, struct walk *w, struct scan_keys *keys)
{
	strcpy(w->cursor, "0");
	do {
		int err = page(c, w, keys);

		if (err == -EPROTO && !w->small) {
			w->small = true;
			err = page(c, w, keys);
		}
		if (err)
			return err;
	} while (strcmp(w->cursor, "0"));
	return 0;
}

/* Has a rule before this one the same template on the same server? */
static bool walked(const struct dlk_config *config, unsigned rule)
{
	const struct dlk_rule *r = config->rules;

	for (unsigned i = 0; i < rule; i++)
		if (r[i].redis == r[rule].redis &&
		    !strcmp(r[i].key, r[rule].key))
			return true;
	return false;
}

static int by_bytes(const void *a, const void *b)
{
	const struct scan_key *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->bytes, y->bytes, len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void sort(struct scan_keys *keys)
{
	size_t kept = 0;

	if (keys->n)
		qsort(keys->keys, keys->n, sizeof(*keys->keys), by_bytes);
	for (size_t i = 0; i < keys->n; i++) {
		if (kept && !by_bytes(&keys->keys[kept - 1], &keys->keys[i]))
			free(keys->keys[i].bytes);
		else
			keys->keys[kept++] = keys->keys[i];
	}
	keys->n = kept;
}

int scan_keys(struct dlk_conn *c, const struct dlk_config *config,
	      const struct dlk_redis *redis, struct scan_keys *keys)
{
	int err = 0;

	for (unsigned i = 0; i < config->n_rules && !err; i++) {
		struct walk w = { .small = false };
		ssize_t len;

		if (config->rules[i].redis != redis || walked(config, i))
			continue;
		len = dlk_key_glob(&config->rules[i], w.glob, sizeof(w.glob));
		w.glob_len = (size_t)len;
		err = len < 0 ? (int)len : walk(c, &w, keys);
	}
	sort(keys);
	return err;
}

void scan_keys_free(struct scan_keys *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		free(keys->keys[i].bytes);
	free(keys->keys);
	*keys = (struct scan_keys){ 0 };
}
