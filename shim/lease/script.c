/* SPDX-License-Identifier: MIT */
/* Scripts at one server; see script.h. */
#include "lease/script.h"

#include <errno.h>
#include <string.h>

#include "lease/lease.h"
#include "model/text.h"
#include "model/token.h"

struct dlk_arg dlk_script_number(struct dlk_number *n, uint64_t value,
				 unsigned width)
{
	struct dlk_text t;

	dlk_text_init(&t, n->text, sizeof(n->text));
	dlk_text_u64(&t, value, width);
	return (struct dlk_arg){ n->text, t.len };
}

struct dlk_arg dlk_script_signed(struct dlk_number *n, int64_t value)
{
	struct dlk_text t;

	dlk_text_init(&t, n->text, sizeof(n->text));
	dlk_text_i64(&t, value);
	return (struct dlk_arg){ n->text, t.len };
}

struct dlk_arg dlk_script_queue(struct dlk_conn *c,
				const struct dlk_lease *lease)
{
	char *work = dlk_conn_work(c);
	struct dlk_text t;

	dlk_text_init(&t, work, DLK_WORK_SIZE);
	dlk_text_str(&t, "{");
	dlk_text_bytes(&t, lease->key, lease->key_len);
	dlk_text_str(&t, "}%q");
	return (struct dlk_arg){ work, t.len };
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

int dlk_script_append(struct dlk_conn *c, int argc, const struct dlk_arg *args)
{
	const char *argv[DLK_ARGS_MAX];
	size_t len[DLK_ARGS_MAX];

	for (int i = 0; i < argc; i++) {
		argv[i] = args[i].text;
		len[i] = args[i].len;
	}
	return dlk_conn_append(c, argc, argv, len);
}

int dlk_script_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		    const struct dlk_arg *args, const redisReply **reply)
{
	int err = dlk_script_append(c, argc, args);

	if (!err)
		err = dlk_conn_flush(c, deadline_ns);
	return err ? err : dlk_conn_reply(c, deadline_ns, reply);
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
	dlk_conn_set_error(c, r->str);
	return dlk_script_passing(r) ? -EAGAIN : -EREMOTEIO;
}

/*
 * INFO counts whole seconds of the server's wall clock, from the second it
 * started in: n there is more than n - 1 in truth.
 */
int dlk_script_young(struct dlk_conn *c, uint64_t deadline_ns,
		     uint64_t *left_ms)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("INFO") },
					{ DLK_LITERAL("server") } };
	const uint64_t delay_ms = dlk_conn_endpoint(c)->restart_delay_ms;
	const redisReply *r;
	const char *at;
	uint64_t n;
	int err;

	*left_ms = 0;
	if (!delay_ms)
		return 0;
	err = dlk_script_call(c, deadline_ns, 2, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_STRING)
		return dlk_script_refused(c, r);
	at = strstr(r->str, "\nuptime_in_seconds:");
	if (!at || !dlk_number(at + strlen("\nuptime_in_seconds:"), 10, &n)) {
		dlk_conn_set_error(c, "INFO server without uptime_in_seconds");
		return -EREMOTEIO;
	}
	n = n ? (n - 1) * 1000 : 0;
	*left_ms = n < delay_ms ? delay_ms - n : 0;
	return 0;
}

/* Teach the server a script; EVALSHA knows it by its SHA-1 from then on. */
static int load(struct dlk_conn *c, uint64_t deadline_ns, struct dlk_arg script)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("SCRIPT") },
					{ DLK_LITERAL("LOAD") },
					script };
	const redisReply *r;
	int err = dlk_script_call(c, deadline_ns, 3, args, &r);

	if (err)
		return err;
	return r->type == REDIS_REPLY_STRING ? 0 : dlk_script_refused(c, r);
}

int dlk_script_admit(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_arg *scripts, int n, int64_t *left_ms)
{
	uint64_t left;
	int err = dlk_script_young(c, deadline_ns, &left);

	if (!err && left) {
		*left_ms = (int64_t)left;
		return 1;
	}
	for (int i = 0; !err && i < n; i++)
		err = load(c, deadline_ns, scripts[i]);
	return err;
}

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
