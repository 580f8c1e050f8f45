/* SPDX-License-Identifier: MIT */
/* Scripts at one server; see script.h. */
#include "redis/script.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lease/lease.h"
#include "os/sys.h"
#include "model/sha1.h"
#include "model/text.h"
#include "model/token.h"
#include "scripts.h"

struct dlk_arg dlk_script_queue(struct dlk_conn *c,
				const struct dlk_lease *lease)
{
	struct dlk_text t;

	dlk_text_init(&t, c->work, sizeof(c->work));
	dlk_text_str(&t, "{");
	dlk_text_bytes(&t, lease->key, lease->key_len);
	dlk_text_str(&t, "}%q");
	return (struct dlk_arg){ c->work, t.len };
}

struct dlk_arg dlk_script_options(const struct dlk_lease *lease)
{
	if (lease->fair && lease->interop)
		return (struct dlk_arg){ DLK_LITERAL("fair interop") };
	if (lease->fair)
		return (struct dlk_arg){ DLK_LITERAL("fair") };
	if (lease->interop)
		return (struct dlk_arg){ DLK_LITERAL("interop") };
	return (struct dlk_arg){ "", 0 };
}

bool dlk_script_unknown(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR &&
	       strncmp(r->str, "NOSCRIPT", 8) == 0;
}

/* redis.io, "Redis protocol": error names. */
bool dlk_script_passing(const redisReply *r)
{
	static const char *const names[] = {
		"LOADING ",  "BUSY ",     "MASTERDOWN ", "CLUSTERDOWN ",
		"TRYAGAIN ", "READONLY ", "MISCONF ",    "NOREPLICAS ",
	};

	if (r->type != REDIS_REPLY_ERROR)
		return false;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(r->str, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

int dlk_script_refused(struct dlk_conn *c, const redisReply *r)
{
	if (r->type != REDIS_REPLY_ERROR) {
		dlk_conn_set_error(c, "an answer of an unexpected type");
		return -EREMOTEIO;
	}
	dlk_conn_explain(c, r->str);
	return dlk_script_passing(r) ? -EAGAIN : -EREMOTEIO;
}

/* --- how old a server is -------------------------------------------------- */

static int ask_server(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_server_info *s)
{
	const struct dlk_arg info = { DLK_LITERAL("INFO") };
	const redisReply *r;
	char why[160];
	int err = dlk_conn_call(c, deadline_ns, 1, &info, &r);

	if (err)
		return err;
	if (r->type != REDIS_REPLY_STRING)
		return dlk_script_refused(c, r);
	dlk_server_read(s, c->ep, r->str);
	if (!strstr(r->str, "\nuptime_in_seconds:")) {
		dlk_conn_set_error(c, "INFO without uptime_in_seconds");
		return -EREMOTEIO;
	}
	if (!dlk_server_unfit(s, why, sizeof(why)))
		return 0;
	dlk_conn_set_error(c, why);
	return s->replica ? -EAGAIN : -EREMOTEIO; /* it may be promoted */
}

/* Its uptime may be older than its memory: young.lua. */
static int young_memory(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_server_info *s, bool suspect,
			uint64_t *left_ms)
{
	const struct dlk_endpoint *ep = c->ep;
	struct dlk_number delay;
	char name[48];
	struct dlk_text key;
	const redisReply *r;
	int err;

	dlk_text_init(&key, name, sizeof(name));
	dlk_text_str(&key, "dlock%run:");
	dlk_text_u64(&key, ep->restart_delay_ms, 1);
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("EVAL") },
		{ DLK_LITERAL(DLK_LUA_young) },
		{ DLK_LITERAL("1") },
		{ name, key.len },
		{ s->run_id, strlen(s->run_id) },
		dlk_arg_number(&delay, ep->restart_delay_ms, 1),
		{ "1", suspect },
	};

	err = dlk_conn_call(c, deadline_ns, 7, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return dlk_script_refused(c, r);
	if (r->integer > (int64_t)*left_ms)
		*left_ms = (uint64_t)r->integer;
	return 0;
}

/*
 * INFO counts whole seconds of the server's wall clock, from the second it
 * started in: n there is more than n - 1 in truth.
 */
int dlk_script_young(struct dlk_conn *c, uint64_t deadline_ns,
		     uint64_t *left_ms)
{
	const struct dlk_endpoint *ep = c->ep;
	const uint64_t delay_ms = ep->restart_delay_ms;
	struct dlk_server_info s;
	bool suspect;
	uint64_t n;
	int err;

	*left_ms = 0;
	if (!delay_ms)
		return 0;
	err = ask_server(c, deadline_ns, &s);
	if (err)
		return err;
	n = s.uptime_s ? (s.uptime_s - 1) * 1000 : 0;
	if (n < delay_ms)
		*left_ms = delay_ms - n;
	suspect = s.promoted || dlk_server_is_other(&s, dlk_now_ns());
	if (!s.run_id[0] || (*left_ms && !suspect))
		return 0;
	return young_memory(c, deadline_ns, &s, suspect, left_ms);
}

/* --- what a server is taught ---------------------------------------------- */

enum { GUARD_MAX = 80 };

/* The digest as it is behind the whole blocks of the text; see embed.c. */
static const struct {
	const char *text;
	size_t len;
	uint32_t digest[5];
} guarded[DLK_N_GUARDED] = {
#define GUARDED(name)                                                          \
	{                                                                      \
		DLK_LUA_##name, sizeof(DLK_LUA_##name) - 1, DLK_MID_##name     \
	}
	[DLK_QUEUE] = GUARDED(queue),
	[DLK_RELEASE] = GUARDED(release),
	[DLK_ACQUIRE] = GUARDED(acquire),
	[DLK_RECORDS_QUEUE] = GUARDED(records_queue),
	[DLK_RECORDS_SET] = GUARDED(records_set),
	[DLK_RECORDS_GET] = GUARDED(records_get),
	[DLK_RECORDS_ACQUIRE] = GUARDED(records_acquire),
#undef GUARDED
};

static const struct {
	struct dlk_arg renew; /* it grants nothing, and so is anybody's */
	enum dlk_guarded first, last;
} families[] = {
	[DLK_FLOCK_SCRIPTS] = { { DLK_LITERAL(DLK_LUA_renew) },
				DLK_QUEUE,
				DLK_ACQUIRE },
	[DLK_RECORD_SCRIPTS] = { { DLK_LITERAL(DLK_LUA_records_renew) },
				 DLK_RECORDS_QUEUE,
				 DLK_RECORDS_ACQUIRE },
};

/* What stands behind the text of a script that grants. */
static void put_guard(struct dlk_text *t, char room[GUARD_MAX],
		      const struct dlk_conn *c)
{
	const struct dlk_endpoint *ep = c->ep;

	dlk_text_init(t, room, GUARD_MAX);
	dlk_text_str(t, "-- restart_delay ");
	dlk_text_u64(t, ep->restart_delay_ms, 1);
	dlk_text_str(t, "ms, db ");
	dlk_text_i64(t, ep->db);
	dlk_text_str(t, "\n");
}

struct dlk_arg dlk_script_name(struct dlk_conn *c, enum dlk_guarded which)
{
	char *name = c->names[which], room[GUARD_MAX];
	const size_t len = guarded[which].len;
	const size_t whole = len / DLK_SHA1_BLOCK * DLK_SHA1_BLOCK;
	struct dlk_text guard;
	struct dlk_sha1 s;

	if (!name[0]) {
		put_guard(&guard, room, c);
		dlk_sha1_resume(&s, guarded[which].digest, whole);
		dlk_sha1_add(&s, guarded[which].text + whole, len - whole);
		dlk_sha1_add(&s, guard.buf, guard.len);
		dlk_sha1_hex(&s, name);
	}
	return (struct dlk_arg){ name, DLK_SHA1_LEN };
}

/* Teach the server a script; EVALSHA knows it by its SHA-1 from then on. */
static int load(struct dlk_conn *c, uint64_t deadline_ns, struct dlk_arg script)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("SCRIPT") },
					{ DLK_LITERAL("LOAD") },
					script };
	const redisReply *r;
	int err = dlk_conn_call(c, deadline_ns, 3, args, &r);

	if (err)
		return err;
	return r->type == REDIS_REPLY_STRING ? 0 : dlk_script_refused(c, r);
}

/* (Too large for a signal handler's stack.) */
static int load_guarded(struct dlk_conn *c, uint64_t deadline_ns,
			enum dlk_guarded which)
{
	const size_t len = guarded[which].len, size = len + GUARD_MAX;
	char room[GUARD_MAX], *text;
	struct dlk_text guard;
	int err;

	text = dlk_pages(size);
	if (!text)
		return -ENOMEM;
	put_guard(&guard, room, c);
	memcpy(text, guarded[which].text, len);
	memcpy(text + len, guard.buf, guard.len);
	err = load(c, deadline_ns, (struct dlk_arg){ text, len + guard.len });
	munmap(text, size);
	return err;
}

/* After NOSCRIPT: 0 when the server has been taught the family, or DLK_GRACE.
 */
static int admit(struct dlk_conn *c, uint64_t deadline_ns,
		 enum dlk_family family, int64_t *left_ms)
{
	char why[160];
	uint64_t left;
	int err = dlk_script_young(c, deadline_ns, &left);

	/* (A server known to be new was not asked.) */
	if (!err && dlk_server_unfit(&c->server, why, sizeof(why))) {
		dlk_conn_set_error(c, why);
		return c->server.replica ? -EAGAIN : -EREMOTEIO;
	}
	if (!err && left) {
		*left_ms = (int64_t)left;
		return DLK_GRACE;
	}
	if (!err)
		err = load(c, deadline_ns, families[family].renew);
	for (unsigned i = families[family].first;
	     !err && i <= families[family].last; i++)
		err = load_guarded(c, deadline_ns, i);
	return err;
}

int dlk_script_ask(struct dlk_conn *c, uint64_t deadline_ns,
		   enum dlk_family family, int argc, const struct dlk_arg *args,
		   struct dlk_answer *answer, const redisReply **reply)
{
	int err;

	for (int tries = 0; tries < 3; tries++) {
		answer->replaced = false;
		answer->asked_ns = dlk_now_ns();
		err = dlk_conn_call(c, deadline_ns, argc, args, reply);
		if (err)
			return err;
		if (!dlk_script_unknown(*reply)) {
			dlk_server_granted(&c->server, answer->asked_ns);
			return 0;
		}
		dlk_conn_suspect(c);
		err = admit(c, deadline_ns, family, &answer->left_ms);
		if (err)
			return err;
	}
	dlk_conn_set_error(c, "the server forgets its scripts");
	return -EAGAIN;
}

/* --- replies -------------------------------------------------------------- */

int64_t dlk_script_int(const redisReply *r, size_t i)
{
	return r->element[i]->type == REDIS_REPLY_INTEGER
		       ? r->element[i]->integer
		       : INT64_MIN;
}

size_t dlk_script_text(const redisReply *r, char *buf, size_t size)
{
	size_t len = r->len < size ? r->len : 0;

	memcpy(buf, r->str, len);
	buf[len] = '\0';
	return len;
}

struct dlk_arg dlk_script_identity(const char *token)
{
	enum { BEFORE = sizeof("dlock1") + DLK_RANDOM_LEN };
	const char *from = token + BEFORE, *at = from;

	for (int spaces = 0; *at && spaces < 3; at++)
		spaces += *at == ' ';
	return (struct dlk_arg){ from, (size_t)(at - from) };
}

bool dlk_script_succeeds(const char *token, const redisReply *held)
{
	const struct dlk_arg id = dlk_script_identity(token);
	const size_t at = (size_t)(id.text - token);

	/* A claim is no kernel lock's yet (queue.h). */
	return held->len > at + id.len + 20 &&
	       memcmp(held->str + at + id.len, DLK_NEVER, 20) != 0 &&
	       memcmp(held->str, "dlock1 ", 7) == 0 &&
	       memcmp(held->str + at, id.text, id.len) == 0 &&
	       memcmp(held->str + at + id.len, id.text + id.len, 20) > 0;
}
