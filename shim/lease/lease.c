/* SPDX-License-Identifier: MIT */
/*
 * Leases at one server; see lease.h and scripts/.
 *
 * Only the acquire script is kept from a young server (DESIGN L5, delayed
 * restart).  Redis 7 does not keep scripts over a restart, so NOSCRIPT is the
 * sign of one:
 *
 *	holder A			server			client B
 *	acquire k, granted
 *					crash, empty restart
 *								EVALSHA acquire
 *					NOSCRIPT
 *								uptime < delay:
 *								not granted
 *	renew k -> none
 *	uptime < delay: restore
 *	(its old deadline has not
 *	passed, so B is kept out)
 *					uptime > delay
 *								SCRIPT LOAD,
 *								EVALSHA -> busy
 */
#include "lease/lease.h"

#include <errno.h>
#include <string.h>

#include "lease/records.h"
#include "lease/sys.h"
#include "model/text.h"
#include "scripts.h"

#define LITERAL(s) (s), sizeof(s) - 1

struct arg {
	const char *text;
	size_t len;
};

enum { ARGS_MAX = 10 };

static int append(struct dlk_conn *c, int argc, const struct arg *args)
{
	const char *argv[ARGS_MAX];
	size_t len[ARGS_MAX];

	for (int i = 0; i < argc; i++) {
		argv[i] = args[i].text;
		len[i] = args[i].len;
	}
	return dlk_conn_append(c, argc, argv, len);
}

static int call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		const struct arg *args, const redisReply **reply)
{
	int err = append(c, argc, args);

	if (!err)
		err = dlk_conn_flush(c, deadline_ns);
	return err ? err : dlk_conn_reply(c, deadline_ns, reply);
}

const char *dlk_lease_why(const struct dlk_conn *c)
{
	return dlk_conn_error(c);
}

/* Errors that pass by themselves (redis.io, "Redis protocol": error names). */
static bool passing(const char *error)
{
	static const char *const names[] = {
		"LOADING ",  "BUSY ",     "MASTERDOWN ", "CLUSTERDOWN ",
		"TRYAGAIN ", "READONLY ", "MISCONF ",    "NOREPLICAS ",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(error, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static int refused(struct dlk_conn *c, const redisReply *r)
{
	if (r->type != REDIS_REPLY_ERROR) {
		dlk_conn_set_error(c, "an answer of an unexpected type");
		return -EREMOTEIO;
	}
	dlk_conn_set_error(c, r->str);
	return passing(r->str) ? -EAGAIN : -EREMOTEIO;
}

static bool is_noscript(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR &&
	       strncmp(r->str, "NOSCRIPT", 8) == 0;
}

static const struct arg none = { "", 0 };

static struct arg mode(const struct dlk_lease *lease)
{
	return lease->shared ? (struct arg){ LITERAL("SH") }
			     : (struct arg){ LITERAL("EX") };
}

/* --- acquire -------------------------------------------------------------- */

static int64_t int_at(const redisReply *r, size_t i)
{
	return r->element[i]->type == REDIS_REPLY_INTEGER
		       ? r->element[i]->integer
		       : INT64_MIN;
}

static int read_answer(struct dlk_conn *c, const redisReply *r,
		       struct dlk_answer *answer)
{
	const redisReply *text;

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[2]->type != REDIS_REPLY_STRING)
		return refused(c, r);
	text = r->element[2];
	answer->holder_len = text->len < DLK_TOKEN_MAX ? text->len : 0;
	memcpy(answer->holder, text->str, answer->holder_len);
	answer->holder[answer->holder_len] = '\0';
	switch (int_at(r, 0)) {
	case 1:
		answer->replaced = int_at(r, 1) == 1;
		return 0;
	case 0:
		answer->left_ms = int_at(r, 1);
		return DLK_BUSY;
	case 2:
		return DLK_ODD;
	default:
		return refused(c, r);
	}
}

/*
 * How old the server is.  INFO counts whole seconds of its wall clock, from
 * the second it started in: n there is more than n - 1 in truth.
 */
static int uptime(struct dlk_conn *c, uint64_t deadline_ns,
		  uint64_t *at_least_ms)
{
	const struct arg args[] = { { LITERAL("INFO") },
				    { LITERAL("server") } };
	const redisReply *r;
	const char *at;
	uint64_t n;
	int err = call(c, deadline_ns, 2, args, &r);

	if (err)
		return err;
	if (r->type != REDIS_REPLY_STRING)
		return refused(c, r);
	at = strstr(r->str, "\nuptime_in_seconds:");
	if (!at || !dlk_number(at + strlen("\nuptime_in_seconds:"), 10, &n)) {
		dlk_conn_set_error(c, "INFO server without uptime_in_seconds");
		return -EREMOTEIO;
	}
	*at_least_ms = n ? (n - 1) * 1000 : 0;
	return 0;
}

/* Teach the server a script; EVALSHA knows it by its SHA-1 from then on. */
static int load(struct dlk_conn *c, uint64_t deadline_ns, struct arg script)
{
	const struct arg args[] = { { LITERAL("SCRIPT") },
				    { LITERAL("LOAD") },
				    script };
	const redisReply *r;
	int err = call(c, deadline_ns, 3, args, &r);

	if (err)
		return err;
	return r->type == REDIS_REPLY_STRING ? 0 : refused(c, r);
}

/*
 * May this server grant at all?  Then teach it the scripts: acquire last, for
 * whoever finds that one counts on the others.
 */
static int admit(struct dlk_conn *c, uint64_t deadline_ns,
		 struct dlk_answer *answer)
{
	static const struct arg scripts[] = { { LITERAL(DLK_LUA_release) },
					      { LITERAL(DLK_LUA_renew) },
					      { LITERAL(DLK_LUA_acquire) } };
	uint64_t delay_ms = dlk_conn_endpoint(c)->restart_delay_ms, age_ms = 0;
	int err = delay_ms ? uptime(c, deadline_ns, &age_ms) : 0;

	if (err)
		return err;
	if (delay_ms && age_ms < delay_ms) {
		answer->left_ms = (int64_t)(delay_ms - age_ms);
		return DLK_YOUNG;
	}
	for (int i = 0; !err && i < 3; i++)
		err = load(c, deadline_ns, scripts[i]);
	return err;
}

/* "HOST FILE", with the spaces around, as they stand in the token. */
static struct arg identity(const struct dlk_lease *lease)
{
	enum { BEFORE = sizeof("dlock1") + DLK_RANDOM_LEN };
	const char *from = lease->token + BEFORE, *at = from;

	for (int spaces = 0; *at && spaces < 3; at++)
		spaces += *at == ' ';
	return (struct arg){ from, (size_t)(at - from) };
}

static struct arg since(const struct dlk_lease *lease)
{
	struct arg id = identity(lease);

	return (struct arg){ id.text + id.len, 20 };
}

int dlk_lease_acquire(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease, bool proof,
		      const struct dlk_lease *instead,
		      struct dlk_answer *answer)
{
	char ttl[16];
	struct dlk_text t;
	const redisReply *r;
	int err;

	dlk_text_init(&t, ttl, sizeof(ttl));
	dlk_text_u64(&t, lease->ttl_ms, 0);
	const struct arg args[] = {
		{ LITERAL("EVALSHA") },
		{ LITERAL(DLK_SHA_acquire) },
		{ LITERAL("1") },
		{ lease->key, lease->key_len },
		{ lease->token, lease->token_len },
		{ ttl, t.len },
		identity(lease),
		proof ? since(lease) : none,
		mode(lease),
		instead ? (struct arg){ instead->token, instead->token_len }
			: none,
	};

	for (int tries = 0; tries < 3; tries++) {
		answer->replaced = false;
		answer->asked_ns = dlk_now_ns();
		err = call(c, deadline_ns, 10, args, &r);
		if (err)
			return err;
		if (!is_noscript(r))
			return read_answer(c, r, answer);
		err = admit(c, deadline_ns, answer);
		if (err)
			return err;
	}
	dlk_conn_set_error(c, "the server forgets its scripts");
	return -EAGAIN;
}

/* --- release -------------------------------------------------------------- */

static int compare(struct dlk_conn *c, struct arg how, struct arg script,
		   const struct dlk_lease *lease, bool with_ttl)
{
	char ttl[16];
	struct dlk_text t;

	dlk_text_init(&t, ttl, sizeof(ttl));
	dlk_text_u64(&t, lease->ttl_ms, 0);
	const struct arg args[] = {
		how,
		script,
		{ LITERAL("1") },
		{ lease->key, lease->key_len },
		{ lease->token, lease->token_len },
		{ ttl, t.len },
	};

	return append(c, with_ttl ? 6 : 5, args);
}

static const struct arg evalsha = { LITERAL("EVALSHA") };
static const struct arg eval = { LITERAL("EVAL") };

/* An owner's records end with a list that is empty, after all other requests. */
static int release_records(struct dlk_conn *c, const struct dlk_lease *lease,
			   bool text)
{
	static const struct dlk_ranges nothing;
	struct dlk_range all = { .end = DLK_RANGE_MAX };

	return dlk_records_set(c, lease, UINT64_MAX, &all, &nothing, text);
}

int dlk_lease_release(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool text)
{
	const struct arg sha = { LITERAL(DLK_SHA_release) };
	const struct arg lua = { LITERAL(DLK_LUA_release) };

	if (lease->places)
		return release_records(c, lease, text);
	return compare(c, text ? eval : evalsha, text ? lua : sha, lease,
		       false);
}

int dlk_lease_released(const redisReply *reply)
{
	uint64_t seq;

	if (!reply)
		return -EPIPE;
	if (reply->type == REDIS_REPLY_INTEGER)
		return 0;
	if (reply->type == REDIS_REPLY_ARRAY)
		return dlk_records_was_set(reply, &seq);
	if (is_noscript(reply))
		return -ENOENT;
	return reply->type == REDIS_REPLY_ERROR && passing(reply->str)
		       ? -EAGAIN
		       : -EREMOTEIO;
}

/* --- renew ---------------------------------------------------------------- */

int dlk_lease_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		    bool text)
{
	const struct arg sha = { LITERAL(DLK_SHA_renew) };
	const struct arg lua = { LITERAL(DLK_LUA_renew) };

	if (lease->places)
		return dlk_records_renew(c, lease, text);
	return compare(c, text ? eval : evalsha, text ? lua : sha, lease, true);
}

/* A newer token of our host and file is our kernel lock's successor. */
static bool is_successor(const struct dlk_lease *lease, const redisReply *held)
{
	struct arg id = identity(lease);
	const size_t at = (size_t)(id.text - lease->token);

	return held->len > at + id.len + 20 &&
	       memcmp(held->str, "dlock1 ", 7) == 0 &&
	       memcmp(held->str + at, id.text, id.len) == 0 &&
	       memcmp(held->str + at + id.len, id.text + id.len, 20) > 0;
}

int dlk_lease_renewed(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease)
{
	const redisReply *r;
	int err;

	if (lease->places)
		return dlk_records_renewed(c, deadline_ns, lease);
	err = dlk_conn_reply(c, deadline_ns, &r);
	if (err)
		return err;
	if (is_noscript(r))
		return -ENOENT;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_STRING)
		return refused(c, r);
	switch (int_at(r, 0)) {
	case 1:
		return 0;
	case 0:
		return is_successor(lease, r->element[1]) ? DLK_REPLACED
							  : DLK_LOST;
	case -1:
		return DLK_GONE;
	default:
		return refused(c, r);
	}
}

int dlk_lease_restore(struct dlk_conn *c, uint64_t deadline_ns,
		      const struct dlk_lease *lease)
{
	uint64_t delay_ms = dlk_conn_endpoint(c)->restart_delay_ms, age_ms = 0;
	char ttl[16];
	struct dlk_text t;
	const redisReply *r;
	int err = delay_ms ? uptime(c, deadline_ns, &age_ms) : 0;

	if (err)
		return err;
	if (age_ms >= delay_ms)
		return DLK_GONE;
	dlk_text_init(&t, ttl, sizeof(ttl));
	dlk_text_u64(&t, lease->ttl_ms, 0);
	const struct arg args[] = {
		{ LITERAL("EVAL") },
		{ LITERAL(DLK_LUA_restore) },
		{ LITERAL("1") },
		{ lease->key, lease->key_len },
		{ lease->token, lease->token_len },
		{ ttl, t.len },
		mode(lease),
	};

	err = call(c, deadline_ns, 7, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return refused(c, r);
	return r->integer == 1 ? 0 : DLK_LOST;
}

/* --- weaken --------------------------------------------------------------- */

int dlk_lease_weaken(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease)
{
	const redisReply *r;
	int err = compare(c, eval, (struct arg){ LITERAL(DLK_LUA_weaken) },
			  lease, true);

	if (!err)
		err = dlk_conn_flush(c, deadline_ns);
	if (!err)
		err = dlk_conn_reply(c, deadline_ns, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return refused(c, r);
	return r->integer == 1 ? 0 : DLK_GONE;
}
