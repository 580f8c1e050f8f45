/* SPDX-License-Identifier: MIT */
/* Who waits for what; see waits.h. */
#include "lease/waits.h"

#include <errno.h>
#include <string.h>

#include "lease/records.h"
#include "lease/ranges.h"
#include "lease/reply.h"
#include "model/text.h"
#include "scripts.h"

enum { ID_LEN = 20 };

struct name {
	char text[sizeof(DLK_WAITS_KEY) + DLK_PROCESS_LEN];
};

static struct dlk_arg name_of(struct name *n, const char *process)
{
	struct dlk_text t = dlk_text_in(n->text, sizeof(n->text));

	dlk_text_strs(&t, DLK_WAITS_KEY, process, NULL);
	return (struct dlk_arg){ n->text, t.len };
}

static bool is_text(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING;
}

static bool read_stamp(const redisReply *r, uint64_t *stamp)
{
	return is_text(r) && r->len == ID_LEN &&
	       dlk_digits(r->str, ID_LEN, stamp);
}

/* --- telling -------------------------------------------------------------- */

static struct dlk_arg id_or_none(struct dlk_number *n, uint64_t id)
{
	return id ? dlk_arg_number(n, id, ID_LEN) : NO_WORD;
}

/* "OWNER RANGE KEY"; of no length if it is too long. */
static struct dlk_arg what_of(struct dlk_wait *wait)
{
	struct dlk_text t = dlk_text_in(wait->work, sizeof(wait->work));

	dlk_text_strs(&t, wait->owner, " ", NULL);
	dlk_range_put(&t, &wait->range);
	dlk_text_str(&t, " ");
	dlk_text_bytes(&t, wait->key, wait->key_len);
	return (struct dlk_arg){ wait->work, t.cut ? 0 : t.len };
}

int dlk_wait_tell(struct dlk_conn *c, uint64_t deadline_ns,
		  struct dlk_wait *wait)
{
	const struct dlk_arg what = what_of(wait);
	struct dlk_number ms, id;
	struct name name;
	const redisReply *r;
	int err;

	const struct dlk_arg args[] = {
		WORD("EVAL"),
		WORD(DLK_LUA_wait),
		WORD("1"),
		name_of(&name, wait->process),
		dlk_arg_number(&ms, DLK_WAIT_MS, 0),
		id_or_none(&id, wait->id),
		what,
	};

	if (!what.len)
		return -ENAMETOOLONG;
	err = dlk_script_call(c, deadline_ns, 7, args, REDIS_REPLY_ARRAY, &r);
	if (err)
		return err;
	if (r->elements != 2 || !read_stamp(r->element[0], &wait->id) ||
	    !read_stamp(r->element[1], &wait->told))
		return dlk_script_refused(c, r);
	return 0;
}

int dlk_wait_confirm(struct dlk_conn *c, uint64_t deadline_ns,
		     const char *process, uint64_t wait_id,
		     struct dlk_wait *again, uint64_t *clock)
{
	struct name name;
	struct dlk_number ms, id, seen;
	const struct dlk_arg args[] = {
		WORD("EVAL"),
		WORD(DLK_LUA_wait_confirm),
		WORD("1"),
		name_of(&name, process),
		dlk_arg_number(&ms, DLK_WAIT_MS, 0),
		dlk_arg_number(&id, wait_id, ID_LEN),
		id_or_none(&seen, *clock),
		again ? what_of(again) : NO_WORD,
	};
	const redisReply *r;
	int err = dlk_conn_call(c, deadline_ns, 8, args, &r);

	if (err)
		return err;
	if (is_text(r) && r->len == 0)
		return 0;
	return read_stamp(r, clock) ? 1 : dlk_script_refused(c, r);
}

int dlk_wait_end(struct dlk_conn *c, const char *process, uint64_t wait_id)
{
	struct name name;
	struct dlk_number id;
	const struct dlk_arg args[] = { WORD("HDEL"), name_of(&name, process),
					dlk_arg_number(&id, wait_id, ID_LEN) };

	return dlk_conn_append(c, 3, args);
}

/* --- reading -------------------------------------------------------------- */

/* "OWNER RANGE KEY" */
static bool read_what(const char *text, size_t len, struct dlk_wait *wait)
{
	const char *blank = memchr(text, ' ', len), *range, *key;
	size_t owner_len, key_len;

	if (!blank)
		return false;
	owner_len = (size_t)(blank - text);
	range = blank + 1;
	if (owner_len > DLK_RANDOM_LEN ||
	    len < owner_len + 1 + DLK_RANGE_LEN + 2 ||
	    range[DLK_RANGE_LEN] != ' ')
		return false;
	key = range + DLK_RANGE_LEN + 1;
	key_len = len - (size_t)(key - text);
	if (key_len > DLK_KEY_MAX ||
	    !dlk_range_read(range[0], range + 1, &wait->range))
		return false;
	memcpy(wait->owner, text, owner_len);
	wait->owner[owner_len] = '\0';
	memcpy(wait->key, key, key_len);
	wait->key[key_len] = '\0';
	wait->key_len = key_len;
	return true;
}

/* "STAMP OWNER RANGE KEY" */
static bool read_wait(const redisReply *id, const redisReply *what,
		      struct dlk_wait *wait)
{
	return read_stamp(id, &wait->id) && is_text(what) &&
	       what->len > ID_LEN + 1 && what->str[ID_LEN] == ' ' &&
	       dlk_digits(what->str, ID_LEN, &wait->told) &&
	       read_what(what->str + ID_LEN + 1, what->len - ID_LEN - 1, wait);
}

/* What is no wait is passed over: it MUST NOT hide those behind it. */
int dlk_wait_read(struct dlk_conn *c, uint64_t deadline_ns, const char *process,
		  unsigned n, struct dlk_wait *wait)
{
	struct name name;
	const struct dlk_arg args[] = { WORD("HGETALL"),
					name_of(&name, process) };
	const redisReply *r;
	int err =
		dlk_script_call(c, deadline_ns, 2, args, REDIS_REPLY_ARRAY, &r);

	if (err)
		return err;
	memcpy(wait->process, process, DLK_PROCESS_LEN + 1);
	for (size_t i = 0; n < DLK_WAITS_MAX && i + 1 < r->elements; i += 2)
		if (read_wait(r->element[i], r->element[i + 1], wait) &&
		    n-- == 0)
			return 1;
	return 0;
}

/* Of one process there may be several: each is told once. */
static int add_process(dlk_process *found, int n, const redisReply *r)
{
	if (!is_text(r) || r->len != DLK_RANDOM_LEN ||
	    strlen(r->str) != DLK_RANDOM_LEN)
		return n;
	for (int i = 0; i < n; i++)
		if (memcmp(found[i], r->str, DLK_PROCESS_LEN) == 0)
			return n;
	memcpy(found[n], r->str, DLK_PROCESS_LEN);
	found[n][DLK_PROCESS_LEN] = '\0';
	return n + 1;
}

int dlk_wait_blockers(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_wait *wait,
		      dlk_process blockers[DLK_BLOCKERS_MAX])
{
	char range[DLK_RANGE_LEN + 1];
	ssize_t len = dlk_records_ranges_key(wait->key, wait->key_len,
					     wait->work, sizeof(wait->work));
	struct dlk_text t = dlk_text_in(range, sizeof(range));
	const redisReply *r;
	int err, n = 0;

	if (len < 0)
		return (int)len;
	dlk_range_put(&t, &wait->range);
	const struct dlk_arg args[] = {
		WORD("EVAL"),
		WORD(DLK_LUA_records_blockers),
		WORD("2"),
		{ wait->key, wait->key_len },
		{ wait->work, (size_t)len },
		dlk_arg_str(wait->owner),
		{ range, t.len },
	};

	err = dlk_script_call(c, deadline_ns, 7, args, REDIS_REPLY_ARRAY, &r);
	if (err)
		return err;
	for (size_t i = 0; i < r->elements && n < DLK_BLOCKERS_MAX; i++)
		n = add_process(blockers, n, r->element[i]);
	return n;
}
