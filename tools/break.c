/* SPDX-License-Identifier: MIT */
/*
 * dlockctl break PATH | --token T: take a lease away from who holds it.
 *
 * What is shown is what goes, by the scripts by which its holder would release
 * it: of a whole file compare and delete; of record locks all that the owner
 * has, if it has asked for nothing since (its sequence number).  So the next
 * one in the queue is served; and what changed in between stays.
 *
 *	dlockctl			holder			another
 *	shows token t
 *	asks the user
 *					releases t
 *								is granted u
 *	"yes"
 *	t: not there, u stays
 *
 * The holder goes on as if it held the lock until its next renewal; its kernel
 * lock stays, so on its own host nobody else has it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lease/records.h"
#include "os/log.h"
#include "redis/script.h"
#include "model/slot.h"
#include "tools/boot.h"
#include "tools/chronicle.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/row.h"
#include "tools/scan_keys.h"
#include "tools/subject.h"

/* What came of one of them. */
enum outcome { BROKEN, CHANGED, NOT_OURS, FAILED };

static const char *const outcomes[] = {
	[BROKEN] = "broken",
	[CHANGED] = "changed",
	[NOT_OURS] = "refused",
	[FAILED] = "failed",
};

struct target {
	const struct scan_lock *lock;
	const char *token; /* of the row */
	size_t token_len;
	uint64_t seq; /* of the owner's last request that any server has */
	enum outcome outcome;
	/* Of a quorum's masters, who has it no more, and of a later request. */
	unsigned broken, gone, kept;
	bool asked; /* any server was */
};

struct targets {
	struct target *v;
	size_t n, room;
	const struct dlk_redis *redis; /* of those that are broken now */
};

/* --- which leases --------------------------------------------------------- */

/* Ranges of one owner are rows of their own, and one lease. */
static bool same_lease(const struct scan_lock *a, const struct scan_lock *b)
{
	return a->redis == b->redis && !strcmp(a->key, b->key) && a->ours &&
	       b->ours && !strcmp(a->token.random, b->token.random);
}

/* By its digits, or as a whole. */
static bool is_token(const struct target *t, const char *wanted)
{
	return !wanted || !strcmp(wanted, t->token) ||
	       (t->lock->ours && !strcmp(wanted, t->lock->token.random));
}

/*
 * The text that is compared.  Of another program's lock it is whole only if it
 * is short; in a hash of record locks such a one has no lease that we could
 * name.
 */
static bool name_lease(struct target *t)
{
	const struct scan_lock *lock = t->lock;

	t->token = lock->ours ? lock->token.text : lock->value;
	t->token_len = lock->ours ? lock->token.len : lock->value_len;
	return lock->ours ||
	       (lock->value_len && lock->value_len < SCAN_VALUE_MAX &&
		!(lock->hashed && lock->record));
}

/* Its rows stand together; one of a quorum's masters may lag behind. */
static bool joins(struct targets *all, const struct scan_lock *lock)
{
	struct target *last = all->n ? &all->v[all->n - 1] : NULL;

	if (!last || !same_lease(last->lock, lock))
		return lock->copy;
	if (lock->seq > last->seq)
		last->seq = lock->seq;
	return true;
}

static void collect(const struct scan *scan, const char *wanted,
		    struct targets *all)
{
	for (size_t i = 0; i < scan->n; i++) {
		struct target t = { .lock = &scan->locks[i],
				    .seq = scan->locks[i].seq };
		bool named = name_lease(&t);

		if ((!named && wanted) || joins(all, t.lock))
			continue;
		t.outcome = named ? CHANGED : NOT_OURS;
		if (!is_token(&t, wanted))
			continue;
		all->v = tool_grow(all->v, all->n, &all->room, sizeof(t));
		all->v[all->n++] = t;
	}
}

/* --- breaking one --------------------------------------------------------- */

struct request {
	struct dlk_conn *c;
	struct dlk_lease lease;
	uint64_t seq;
	bool kept;      /* its owner has asked for something since */
	bool by_source; /* the server does not know the script: nobody is
			   served, and who waits finds out by itself */
};

static int append(struct request *r)
{
	struct dlk_range all = { .end = DLK_RANGE_MAX };
	const struct dlk_ranges none = { 0 };

	return r->lease.ranges_key
		       ? dlk_records_set(r->c, &r->lease, r->seq, &all, &none,
					 r->by_source)
		       : dlk_lease_release(r->c, &r->lease, r->by_source);
}

static int call(struct request *r, const redisReply **reply)
{
	uint64_t deadline = tool_deadline(r->c->ep);
	int err = dlk_conn_open(r->c, deadline);

	if (!err)
		err = append(r);
	if (!err)
		err = dlk_conn_flush(r->c, deadline);
	return err ? err : dlk_conn_reply(r->c, deadline, reply);
}

/* The answers of release.lua and records_set.lua; 1: again, for the rest. */
static int judge(struct request *r, const redisReply *reply,
		 enum outcome *outcome)
{
	int64_t code;
	uint64_t seen = 0;

	if (reply->type == REDIS_REPLY_ERROR)
		return scan_check(r->c, reply, REDIS_REPLY_INTEGER);
	if (reply->type == REDIS_REPLY_INTEGER) {
		*outcome = reply->integer == 1 ? BROKEN : CHANGED;
		return 0;
	}
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return -EPROTO;
	code = reply->element[0]->integer;
	r->kept = code == 2;
	dlk_digits(reply->element[1]->str, reply->element[1]->len, &seen);
	*outcome = code == 1 ? BROKEN : CHANGED;
	return code == 2 && seen == r->seq;
}

static int break_one(struct request *r, enum outcome *outcome)
{
	const redisReply *reply;
	int err;

	do {
		err = call(r, &reply);
		if (err)
			return err;
		if (dlk_script_unknown(reply) && !r->by_source) {
			r->by_source = true;
			err = 1;
		} else {
			err = judge(r, reply, outcome);
		}
		dlk_conn_reset(r->c);
	} while (err > 0);
	return err;
}

/* "uid 0, SUDO_USER anna" */
static const char *who(void)
{
	static char text[64];
	const char *sudo = getenv("SUDO_USER");

	snprintf(text, sizeof(text), "uid %u%s%.32s", (unsigned)getuid(),
		 sudo ? ", SUDO_USER " : "", sudo ? sudo : "");
	return text;
}

/* It outlives this terminal: DLOCK_LOG's file, or the system log. */
static void log_it(const struct target *t)
{
	const struct scan_lock *lock = t->lock;
	/* A line has 2 KiB: of a long path the end is left out, not the token. */
	char path[1024], token[DLK_TOKEN_MAX + 1], by[256];

	tool_show(by, sizeof(by), who(), strlen(who()));
	tool_show(path, sizeof(path), lock->path ? lock->path : lock->key,
		  lock->path ? lock->path_len : lock->key_len);
	tool_show(token, sizeof(token), t->token, t->token_len);
	/* At any level: it is the record of who has done it. */
	dlk_log(DLK_ERROR, "dlockctl break by ", by, ": ", path, ": ",
		outcomes[t->outcome], ": ", token, NULL);
}

/* Beside the key, for dlockctl history. */
static void record(const struct target *t)
{
	const struct scan_lock *lock = t->lock;
	char text[96], word[DLK_WORD_MAX], host[DLK_WORD_MAX];
	struct dlk_chronicle_entry e = {
		.what = "broken",
		.host = host,
		.who = word,
		.pid = (unsigned)getpid(),
		.lasted_ms = lock->held_ms < 0 ? DLK_LASTED_UNKNOWN
					       : (uint64_t)lock->held_ms,
		.token = lock->ours ? lock->token.random : "-",
	};

	snprintf(text, sizeof(text), "dlockctl break, %s", who());
	dlk_word(word, sizeof(word), text, strlen(text));
	boot_hostname(host);
	chronicle_add(lock->redis, lock->key, &e);
}

static int break_at(struct dlk_conn *c, struct target *t)
{
	const struct scan_lock *lock = t->lock;
	char ranges[DLK_KEY_MAX + 8];
	struct request r = {
		.c = c,
		.lease = { .key = lock->key,
			   .key_len = lock->key_len,
			   .token = t->token,
			   .token_len = t->token_len,
			   .fair = lock->rule && lock->rule->fair,
			   .interop = lock->rule && lock->rule->interop },
		.seq = t->seq,
		/* release.lua serves those who wait for a whole file. */
		.by_source = lock->record && !lock->ours,
	};
	ssize_t n;
	int err;

	if (lock->record && lock->ours) {
		n = dlk_records_ranges_key(lock->key, lock->key_len, ranges,
					   sizeof(ranges));
		r.lease.ranges_key = n < 0 ? NULL : ranges;
		r.lease.ranges_key_len = n < 0 ? 0 : (size_t)n;
	}
	/* The node's scripts have names of its own (DESIGN 5.8). */
	c->clustered = lock->redis->mode == DLK_CLUSTER;
	c->slot = dlk_slot_of(lock->key, lock->key_len);
	err = c->clustered ? dlk_conn_know(c, tool_deadline(c->ep)) : 0;
	if (!err)
		err = break_one(&r, &t->outcome);
	if (err)
		t->outcome = FAILED;
	t->broken += t->outcome == BROKEN;
	t->gone += !err && !r.kept;
	t->kept += !err && r.kept;
	return err;
}

/* A server within its restart_delay believes a holder that puts it back. */
static void warn_if_young(struct dlk_conn *c)
{
	struct dlk_youth youth = { 0 };
	uint64_t deadline = tool_deadline(c->ep);
	int err = dlk_conn_open(c, deadline);

	if (!err)
		err = dlk_script_young(c, deadline, &youth);
	dlk_conn_reset(c);
	if (!err && youth.left_ms)
		tool_say("warning: the server is within its restart_delay: "
			 "holders that live put their leases back");
}

static bool is_at(const struct target *t, const struct dlk_redis *redis)
{
	return t->lock->redis == redis && t->outcome != NOT_OURS;
}

/* At one server, whatever of it is there. */
static int break_server(struct dlk_conn *c, void *targets)
{
	struct targets *all = targets;
	bool any = false;
	int err = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct scan_lock *lock = all->v[i].lock;

		if (!is_at(&all->v[i], all->redis) ||
		    !tool_has_key(all->redis, c->ep, lock->key, lock->key_len))
			continue;
		/* (What is left when the server has failed was asked of it.) */
		any = true;
		all->v[i].asked = true;
		if (!err)
			err = break_at(c, &all->v[i]);
	}
	if (any && !err)
		warn_if_young(c);
	return err;
}

/*
 * Of a quorum: it is broken where any master had it, and so many have it no
 * more that the others are no majority: those that are away, and those where
 * its owner has asked for something since.
 */
static void judge_all(const struct dlk_redis *redis, struct targets *all)
{
	const unsigned needed =
		redis->mode == DLK_CLUSTER ? 1 : tool_needed(redis);

	for (size_t i = 0; i < all->n; i++) {
		struct target *t = &all->v[i];

		if (!is_at(t, redis))
			continue;
		if (t->gone + t->kept < needed)
			t->outcome = FAILED;
		else
			t->outcome = t->broken && t->gone >= needed ? BROKEN
								    : CHANGED;
		log_it(t);
		if (t->outcome == BROKEN)
			record(t);
	}
}

/* A section without a target is not asked, nor is what is wrong there told. */
static int break_redis(const struct dlk_redis *redis, struct targets *all)
{
	size_t i = 0;
	int rc;

	while (i < all->n && !is_at(&all->v[i], redis))
		i++;
	if (i == all->n)
		return 0;
	all->redis = redis;
	rc = scan_servers(redis, break_server, all);
	judge_all(redis, all);
	return rc;
}

/* --- the verb ------------------------------------------------------------- */

static void show(const struct targets *all, FILE *f)
{
	struct table t;

	table_init(&t, row_columns);
	for (size_t i = 0; i < all->n; i++)
		row_cells(&t, all->v[i].lock);
	table_fit(&t, f);
	table_print(&t, f);
	table_free(&t);
	fflush(f);
}

static bool confirm(const struct ctl *ctl, size_t n)
{
	char answer[16];

	if (ctl->given[OPT_YES])
		return true;
	fprintf(stderr,
		"Break %zu lease%s?  The holder goes on as if it had the lock "
		"until its next renewal.  yes or no: ",
		n, n == 1 ? "" : "s");
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	answer[strcspn(answer, "\n")] = '\0';
	return !strcmp(answer, "yes");
}

static void say_outcomes(const struct targets *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct scan_lock *lock = all->v[i].lock;
		const char *path = lock->path ? lock->path : lock->key;

		if (all->v[i].outcome == CHANGED)
			tool_say("%s: it changed in between: not touched",
				 path);
		if (all->v[i].outcome == NOT_OURS)
			tool_say("%s: not a lease that can be compared: not "
				 "touched (redis-cli can remove its key)",
				 path);
		if (all->v[i].outcome == FAILED && !all->v[i].asked)
			tool_say("%s: not broken: no node of redis \"%s\" (%s) "
				 "says that it has the slot of its key: see "
				 "redis-cli --cluster check, and do it again",
				 path, lock->redis->name,
				 lock->redis->endpoints->name);
	}
}

static void json_outcomes(struct json *j, const struct targets *all)
{
	json_open(j, "leases", '[');
	for (size_t i = 0; i < all->n; i++) {
		json_open(j, NULL, '{');
		json_text(j, "outcome", outcomes[all->v[i].outcome]);
		json_open(j, "lock", '{');
		row_json_members(j, all->v[i].lock);
		json_close(j, '}');
		json_close(j, '}');
	}
	json_close(j, ']');
}

static int break_all(const struct ctl *ctl, struct targets *all)
{
	int rc = 0;

	for (unsigned i = 0; i < ctl->config->n_redis; i++) {
		int one = break_redis(&ctl->config->redis[i], all);

		rc = one > rc ? one : rc;
	}
	say_outcomes(all);
	if (ctl->json)
		json_outcomes(ctl->json, all);
	for (size_t i = 0; i < all->n && !rc; i++)
		if (all->v[i].outcome != BROKEN)
			rc = DLK_EXIT_NOTHING;
	return rc;
}

static int ask_and_break(const struct ctl *ctl, struct targets *all)
{
	if (!all->n)
		return tool_fail(DLK_EXIT_NOTHING, "no such lease is held");
	/* Nobody is to say yes to what was not shown. */
	if (!ctl->json)
		show(all, stdout);
	else if (!ctl->given[OPT_YES])
		show(all, stderr);
	if (!confirm(ctl, all->n))
		return tool_fail(DLK_EXIT_NOTHING, "nothing is broken");
	/* A slot may have moved while an answer was waited for. */
	tool_servers_forget();
	return break_all(ctl, all);
}

/* Of one path its keys are asked for; of a token alone all of them. */
static int look(const struct ctl *ctl, struct scan *scan)
{
	static struct subject subject;
	int rc;

	if (!ctl->argc)
		return scan_all(ctl->config, scan);
	rc = subject_find_managed(ctl->config, ctl->argv[0], &subject);
	return rc ? rc : scan_subject(&subject, scan, NULL, NULL);
}

int verb_break(const struct ctl *ctl)
{
	struct scan scan = { 0 };
	struct targets all = { 0 };
	int rc;

	if (!ctl->argc && !ctl->given[OPT_TOKEN])
		return tool_fail(DLK_EXIT_USAGE,
				 "usage: dlockctl break PATH | --token TOKEN");
	dlk_log_init(getenv("DLOCK_LOG"), false);
	dlk_log_open();
	rc = look(ctl, &scan);
	collect(&scan, ctl->given[OPT_TOKEN], &all);
	/* A server that is away keeps nobody from what another has. */
	if (!rc || all.n) {
		int one = ask_and_break(ctl, &all);

		rc = one > rc ? one : rc;
	}
	free(all.v);
	scan_free(&scan);
	return rc;
}
