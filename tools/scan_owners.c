/* SPDX-License-Identifier: MIT */
/*
 * HSCAN over a hash of leases; see scan_owners.h.
 *
 * The mark's length is asked before the mark, and both before any field.
 */
#include "tools/scan_owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lease/records.h"
#include "model/token.h"
#include "tools/common.h"

#define MARK "dlock"

/* Of the number that a value begins with (DESIGN 6.4). */
enum { SEQ_LEN = 20 };

static char *copy(struct scan_text text, size_t *len)
{
	*len = text.len < DLK_TOKEN_MAX ? text.len : DLK_TOKEN_MAX;
	return tool_copy(text.bytes, *len);
}

static struct scan_owner *keep(struct scan_owners *o, struct scan_text field,
			       struct scan_text token, int64_t left_ms)
{
	struct scan_owner *owner;

	o->owners = tool_grow(o->owners, o->n, &o->room, sizeof(*owner));
	owner = &o->owners[o->n++];
	owner->left_ms = left_ms;
	owner->field = owner->token = copy(field, &owner->len);
	owner->token_len = owner->len;
	if (o->records)
		owner->token = copy(token, &owner->token_len);
	return owner;
}

/* Of records: the token in it, and its expiry, or all of it and none. */
static int64_t read_head(struct scan_text *value, uint64_t *seq)
{
	struct dlk_records_owner owner;

	if (!dlk_records_read_owner(value->bytes, value->len, &owner))
		return -1;
	dlk_digits(value->bytes, SEQ_LEN, seq);
	*value = (struct scan_text){ owner.token, owner.token_len };
	return (int64_t)owner.expiry_ms;
}

/* "EXPIRY", or of a lease that lingers "EXPIRY EX|SH ..."; -1: no number. */
static int64_t read_expiry(struct scan_text value, bool *exclusive)
{
	uint64_t n = 0;
	const char *end = dlk_number(value.bytes, 10, &n);

	*exclusive = end && strncmp(end, " EX ", 4) == 0;
	return end && (!*end || *end == ' ') && n <= INT64_MAX ? (int64_t)n
							       : -1;
}

bool scan_owners_add(void *owners, int64_t now_ms, struct scan_text field,
		     struct scan_text value)
{
	struct scan_owners *o = owners;
	struct scan_owner *owner;
	bool exclusive = false;
	uint64_t seq = 0;
	int64_t at;

	if (field.len == strlen(MARK) && !memcmp(field.bytes, MARK, field.len))
		return true;
	if (o->read == SCAN_OWNERS_MAX)
		return false;
	o->read++;
	at = o->records ? read_head(&value, &seq)
			: read_expiry(value, &exclusive);
	if (at >= 0 && at <= now_ms)
		return true;
	owner = keep(o, field, value, at < 0 ? -1 : at - now_ms);
	owner->seq = seq;
	owner->exclusive = exclusive;
	return true;
}

static void drop(struct scan_owner *owner)
{
	if (owner->token != owner->field)
		free(owner->token);
	free(owner->field);
}

static int by_field(const void *a, const void *b)
{
	const struct scan_owner *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->field, y->field, len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Two fields that were cut may differ in what is gone: both are kept. */
static bool same(const struct scan_owner *x, const struct scan_owner *y)
{
	return x->len < DLK_TOKEN_MAX && !by_field(x, y);
}

void scan_owners_sort(struct scan_owners *o)
{
	size_t kept = 0;

	if (o->n)
		qsort(o->owners, o->n, sizeof(*o->owners), by_field);
	for (size_t i = 0; i < o->n; i++) {
		if (kept && same(&o->owners[kept - 1], &o->owners[i]))
			drop(&o->owners[i]);
		else
			o->owners[kept++] = o->owners[i];
	}
	o->n = kept;
}

const struct scan_owner *scan_owners_find(const struct scan_owners *o,
					  struct scan_text field)
{
	char bytes[DLK_TOKEN_MAX];
	struct scan_owner key = { .field = bytes, .len = field.len };

	if (!o->n || field.len >= sizeof(bytes))
		return NULL;
	memcpy(bytes, field.bytes, field.len);
	return bsearch(&key, o->owners, o->n, sizeof(key), by_field);
}

/* The mark is a field of fixed name and value. */
static int read_mark(struct dlk_conn *c, struct dlk_arg key, bool *marked)
{
	const struct dlk_arg mark = { DLK_LITERAL(MARK) };
	const struct dlk_arg length[] = { { DLK_LITERAL("HSTRLEN") },
					  key,
					  mark };
	const struct dlk_arg value[] = { { DLK_LITERAL("HGET") }, key, mark };
	const redisReply *reply;
	int err = scan_hash_call(c, 3, length, REDIS_REPLY_INTEGER, &reply);

	if (err || reply->integer != 1)
		return err;
	err = scan_hash_call(c, 3, value, REDIS_REPLY_STRING, &reply);
	if (!err)
		*marked = !strcmp(reply->str, "1");
	return err;
}

/*
 * The fields, the mark not among them.  After the mark: what has none may be
 * gone.
 */
static int read_count(struct dlk_conn *c, struct dlk_arg key, size_t *fields)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("HLEN") }, key };
	const redisReply *reply;
	int err = scan_hash_call(c, 2, args, REDIS_REPLY_INTEGER, &reply);

	if (err)
		return err;
	if (reply->integer <= 0)
		return SCAN_GONE;
	*fields = (size_t)reply->integer - 1;
	return 0;
}

/* Too many fields, or too large ones: then the rest is counted. */
int scan_owners(struct dlk_conn *c, const char *key, size_t len,
		struct scan_owners *o)
{
	struct scan_hash hash = { c, key, len, scan_owners_add, o, "" };
	const struct dlk_arg name = { key, len };
	size_t fields = 0;
	int err = read_mark(c, name, &o->marked);

	if (!err)
		err = read_count(c, name, &fields);
	dlk_conn_reset(c);
	if (!err && o->marked)
		err = scan_hash(&hash);
	if (err == -E2BIG) {
		o->rest = fields > o->read ? fields - o->read : 1;
		err = 0;
	}
	scan_owners_sort(o);
	return err;
}

void scan_owners_free(struct scan_owners *o)
{
	for (size_t i = 0; i < o->n; i++)
		drop(&o->owners[i]);
	free(o->owners);
	*o = (struct scan_owners){ 0 };
}
