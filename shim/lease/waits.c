/* SPDX-License-Identifier: MIT */
/* Who waits for what; see waits.h. */
#include "lease/waits.h"

#include <errno.h>
#include <string.h>

#include "lease/records.h"
#include "lease/script.h"
#include "model/text.h"
#include "scripts.h"

#define LITERAL DLK_LITERAL

enum { ID_LEN = 20, DIGITS = 19 };

struct name {
	char text[sizeof("dlock%wait:") + DLK_PROCESS_LEN];
};

static struct dlk_arg name_of(struct name *n, const char *process)
{
	struct dlk_text t;

	dlk_text_init(&t, n->text, sizeof(n->text));
	dlk_text_str(&t, "dlock%wait:");
	dlk_text_str(&t, process);
	return (struct dlk_arg){ n->text, t.len };
}

struct id {
	char text[ID_LEN + 1];
};

static struct dlk_arg id_of(struct id *id, uint64_t n)
{
	struct dlk_text t;

	dlk_text_init(&t, id->text, sizeof(id->text));
	dlk_text_u64(&t, n, ID_LEN);
	return (struct dlk_arg){ id->text, t.len };
}

static void put_range(struct dlk_text *t, const struct dlk_range *r)
{
	dlk_text_str(t, r->type == DLK_WRITE ? "W" : "R");
	dlk_text_u64(t, r->start, DIGITS);
	dlk_text_u64(t, r->end, DIGITS);
}

/* A text of the server's, only as long as it should be. */
static bool is_text(const redisReply *r)
{
	return r->type == REDIS_REPLY_STRING;
}

static int call_int(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		    const struct dlk_arg *args)
{
	const redisReply *r;
	int err = dlk_script_call(c, deadline_ns, argc, args, &r);

	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return dlk_script_refused(c, r);
	return r->integer > 0;
}

/* --- telling -------------------------------------------------------------- */

int dlk_wait_begin(struct dlk_conn *c, uint64_t deadline_ns,
		   struct dlk_wait *wait)
{
	char ms[16];
	struct dlk_text t, m;
	struct name name;
	const redisReply *r;
	int err;

	dlk_text_init(&t, wait->work, sizeof(wait->work));
	dlk_text_str(&t, wait->owner);
	dlk_text_str(&t, " ");
	put_range(&t, &wait->range);
	dlk_text_str(&t, " ");
	dlk_text_bytes(&t, wait->key, wait->key_len);
	dlk_text_init(&m, ms, sizeof(ms));
	dlk_text_u64(&m, DLK_WAIT_MS, 0);
	const struct dlk_arg args[] = {
		{ LITERAL("EVAL") }, { LITERAL(DLK_LUA_wait) },
		{ LITERAL("1") },    name_of(&name, wait->process),
		{ ms, m.len },       { wait->work, t.len },
	};

	if (t.cut)
		return -ENAMETOOLONG;
	err = dlk_script_call(c, deadline_ns, 6, args, &r);
	if (err)
		return err;
	if (!is_text(r) || !dlk_number(r->str, 10, &wait->id))
		return dlk_script_refused(c, r);
	return 0;
}

int dlk_wait_end(struct dlk_conn *c, const char *process, uint64_t wait_id)
{
	struct name name;
	struct id id;
	const struct dlk_arg args[] = { { LITERAL("HDEL") },
					name_of(&name, process),
					id_of(&id, wait_id) };

	return dlk_script_append(c, 3, args);
}

int dlk_waits_refresh(struct dlk_conn *c, uint64_t deadline_ns,
		      const char *process)
{
	struct name name;
	char ms[16];
	struct dlk_text m;

	dlk_text_init(&m, ms, sizeof(ms));
	dlk_text_u64(&m, DLK_WAIT_MS, 0);
	const struct dlk_arg args[] = { { LITERAL("PEXPIRE") },
					name_of(&name, process),
					{ ms, m.len } };

	return call_int(c, deadline_ns, 3, args);
}

/* --- reading -------------------------------------------------------------- */

static bool read_offset(const char *text, uint64_t *n)
{
	char digits[DIGITS + 1];

	memcpy(digits, text, DIGITS);
	digits[DIGITS] = '\0';
	return dlk_number(digits, 10, n) == digits + DIGITS &&
	       *n <= DLK_RANGE_MAX;
}

/* "OWNER RANGE KEY" */
static bool read_what(const redisReply *r, struct dlk_wait *wait)
{
	const size_t range_len = 1 + 2 * DIGITS;
	const char *blank = memchr(r->str, ' ', r->len), *range, *key;
	size_t owner_len, key_len;

	if (!blank)
		return false;
	owner_len = (size_t)(blank - r->str);
	range = blank + 1;
	if (owner_len > DLK_RANDOM_LEN ||
	    r->len < owner_len + 1 + range_len + 2 || range[range_len] != ' ')
		return false;
	key = range + range_len + 1;
	key_len = r->len - (size_t)(key - r->str);
	if (key_len > DLK_KEY_MAX ||
	    !read_offset(range + 1, &wait->range.start) ||
	    !read_offset(range + 1 + DIGITS, &wait->range.end))
		return false;
	wait->range.type = range[0] == 'W' ? DLK_WRITE : DLK_READ;
	memcpy(wait->owner, r->str, owner_len);
	wait->owner[owner_len] = '\0';
	memcpy(wait->key, key, key_len);
	wait->key[key_len] = '\0';
	wait->key_len = key_len;
	return true;
}

int dlk_wait_read(struct dlk_conn *c, uint64_t deadline_ns, const char *process,
		  unsigned n, struct dlk_wait *wait)
{
	struct name name;
	const struct dlk_arg args[] = { { LITERAL("HGETALL") },
					name_of(&name, process) };
	const redisReply *r, *id, *what;
	int err = dlk_script_call(c, deadline_ns, 2, args, &r);

	if (err)
		return err;
	if (r->type != REDIS_REPLY_ARRAY)
		return dlk_script_refused(c, r);
	if (n >= DLK_WAITS_MAX || r->elements < 2 * (n + 1))
		return 0;
	id = r->element[2 * n];
	what = r->element[2 * n + 1];
	memcpy(wait->process, process, DLK_PROCESS_LEN + 1);
	return is_text(id) && dlk_number(id->str, 10, &wait->id) &&
	       is_text(what) && read_what(what, wait);
}

int dlk_wait_lasts(struct dlk_conn *c, uint64_t deadline_ns,
		   const char *process, uint64_t wait_id)
{
	struct name name;
	struct id id;
	const struct dlk_arg args[] = { { LITERAL("HEXISTS") },
					name_of(&name, process),
					id_of(&id, wait_id) };

	return call_int(c, deadline_ns, 3, args);
}

/* Of one process there may be several: each is told once. */
static int add_process(dlk_process *found, int n, const redisReply *r)
{
	if (!is_text(r) || r->len != DLK_RANDOM_LEN)
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
	char range[2 + 2 * DIGITS];
	ssize_t len = dlk_records_places(wait->key, wait->key_len, wait->work,
					 sizeof(wait->work));
	struct dlk_text t;
	const redisReply *r;
	int err, n = 0;

	if (len < 0)
		return (int)len;
	dlk_text_init(&t, range, sizeof(range));
	put_range(&t, &wait->range);
	const struct dlk_arg args[] = {
		{ LITERAL("EVAL") },
		{ LITERAL(DLK_LUA_records_blockers) },
		{ LITERAL("2") },
		{ wait->key, wait->key_len },
		{ wait->work, (size_t)len },
		{ wait->owner, strlen(wait->owner) },
		{ range, t.len },
	};

	err = dlk_script_call(c, deadline_ns, 7, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_ARRAY)
		return dlk_script_refused(c, r);
	for (size_t i = 0; i < r->elements && n < DLK_BLOCKERS_MAX; i++)
		n = add_process(blockers, n, r->element[i]);
	return n;
}
