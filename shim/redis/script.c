/* SPDX-License-Identifier: MIT */
/* Scripts at one server; see script.h. */
#include "redis/script.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "lease/lease.h"
#include "model/seeded.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "redis/fault.h"
#include "redis/replicas.h"
#include "model/sha1.h"
#include "model/text.h"
#include "model/token.h"
#include "scripts.h"

struct dlk_arg dlk_script_queue(struct dlk_conn *c,
				const struct dlk_lease *lease)
{
	struct dlk_text t = dlk_text_in(c->work, sizeof(c->work));

	dlk_text_str(&t, "{");
	dlk_text_bytes(&t, lease->key, lease->key_len);
	dlk_text_str(&t, "}%q");
	return (struct dlk_arg){ c->work, t.len };
}

struct dlk_arg dlk_script_options(const struct dlk_lease *lease)
{
	static const char *const words[3][2][2] = {
		[DLK_NO_RANK] = { { "", "interop" },
				  { "fair", "fair interop" } },
		/* (Where there is no queue nothing is fair.) */
		[DLK_JUNIOR] = { { "junior", "junior interop" } },
		[DLK_SENIOR] = { { "senior", "senior interop" } },
	};

	return dlk_arg_str(words[lease->rank][!lease->rank && lease->fair]
				[lease->interop]);
}

bool dlk_script_unknown(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR &&
	       strncmp(r->str, "NOSCRIPT", 8) == 0;
}

bool dlk_script_emptied(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR &&
	       strncmp(r->str, "NOSCRIPT the leases", 19) == 0;
}

static bool is_elsewhere(const struct dlk_conn *c, const char *error)
{
	return c->clustered && (dlk_fault_of(error)->outcome == DLK_ELSEWHERE ||
				strncmp(error, "TRYAGAIN ", 9) == 0);
}

int dlk_script_refused(struct dlk_conn *c, const redisReply *r)
{
	int err;

	if (r->type != REDIS_REPLY_ERROR) {
		dlk_conn_set_error(c, "an answer of an unexpected type");
		return -EREMOTEIO;
	}
	err = is_elsewhere(c, r->str) ? -EREMOTE : dlk_fault_errno(r->str);
	dlk_conn_explain(c, r->str);
	/*
	 * So that it is asked again at once, of who is the master now.  (The
	 * answer goes with it.)
	 */
	if (dlk_conn_is_stale(c))
		dlk_conn_close(c);
	return err;
}

int dlk_script_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		    const struct dlk_arg *args, int type,
		    const redisReply **reply)
{
	int err = dlk_conn_call(c, deadline_ns, argc, args, reply);

	if (err)
		return err;
	return (*reply)->type == type ? 0 : dlk_script_refused(c, *reply);
}

/* --- how old a server is -------------------------------------------------- */

static int ask_server(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_server_info *s)
{
	const struct dlk_arg info = { DLK_LITERAL("INFO") };
	const redisReply *r;
	char why[160];
	int err = dlk_script_call(c, deadline_ns, 1, &info, REDIS_REPLY_STRING,
				  &r);

	if (err)
		return err;
	dlk_server_read(s, c->ep, r->str);
	if (!strstr(r->str, "\nuptime_in_seconds:")) {
		dlk_conn_set_error(c, "INFO without uptime_in_seconds");
		return -EREMOTEIO;
	}
	/* Another connection knows its scripts by other names. */
	if (s->named && strcmp(s->history, c->server.history) != 0) {
		dlk_conn_close(c);
		c->restarted = true;
		dlk_conn_set_error(c, "it is a replica now, or a master again");
		return -EAGAIN;
	}
	if (!dlk_server_unfit(s, why, sizeof(why)))
		return 0;
	if (s->named)
		dlk_conn_close(c);
	dlk_conn_set_error(c, why);
	return s->replica ? -EAGAIN : -EREMOTEIO; /* it may be promoted */
}

/* --- what a server is taught ---------------------------------------------- */

enum { GUARD_MAX = 160 };
_Static_assert((int)DLK_NAMES == DLK_N_GUARDED, "a connection names each");

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
	[DLK_YOUNG] = GUARDED(young),
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

/* What stands behind the text of a script that grants, or says who may. */
static struct dlk_text put_guard(char room[GUARD_MAX], const struct dlk_conn *c,
				 enum dlk_guarded which)
{
	const struct dlk_endpoint *ep = c->ep;
	struct dlk_text t = dlk_text_in(room, GUARD_MAX);

	dlk_text_str(&t, "-- ");
	if (which != DLK_YOUNG) {
		dlk_text_str(&t, "restart_delay ");
		dlk_text_u64(&t, ep->restart_delay_ms, 1);
		dlk_text_str(&t, "ms, ");
	}
	dlk_text_str(&t, "db ");
	dlk_text_i64(&t, ep->db);
	/* A node that was a replica, and is a master again, knows no script of
	 * that name; and that it was asked is known of each slot. */
	if ((c->clustered || ep->n_sentinels) && which != DLK_YOUNG)
		dlk_text_strs(&t, ", history ", c->server.history, NULL);
	if (c->clustered && which == DLK_YOUNG) {
		dlk_text_str(&t, ", slot ");
		dlk_text_i64(&t, c->slot);
	}
	dlk_text_str(&t, "\n");
	return t;
}

struct dlk_arg dlk_script_name(struct dlk_conn *c, enum dlk_guarded which)
{
	char *name = c->names[which], room[GUARD_MAX];
	const size_t len = guarded[which].len;
	const size_t whole = len / DLK_SHA1_BLOCK * DLK_SHA1_BLOCK;
	struct dlk_sha1 s;

	if (!name[0] || which == DLK_YOUNG) {
		const struct dlk_text guard = put_guard(room, c, which);

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

	return dlk_script_call(c, deadline_ns, 3, args, REDIS_REPLY_STRING, &r);
}

/* (Too large for a signal handler's stack.)  To be given back. */
static int guarded_text(struct dlk_conn *c, enum dlk_guarded which,
			struct dlk_arg *text)
{
	const size_t len = guarded[which].len;
	char room[GUARD_MAX], *to = dlk_pages(len + GUARD_MAX);
	const struct dlk_text guard = put_guard(room, c, which);

	if (!to)
		return -ENOMEM;
	memcpy(to, guarded[which].text, len);
	memcpy(to + len, guard.buf, guard.len);
	*text = (struct dlk_arg){ to, len + guard.len };
	return 0;
}

static void guarded_free(enum dlk_guarded which, struct dlk_arg text)
{
	munmap((void *)(uintptr_t)text.text, guarded[which].len + GUARD_MAX);
}

static int load_guarded(struct dlk_conn *c, uint64_t deadline_ns,
			enum dlk_guarded which)
{
	struct dlk_arg text;
	int err = guarded_text(c, which, &text);

	if (err)
		return err;
	err = load(c, deadline_ns, text);
	guarded_free(which, text);
	return err;
}

/* --- how old its memory is ------------------------------------------------ */

/*
 * Whose memory it is: the run id says so of a server of its own.  Of one that
 * Sentinels name, or a cluster, it is its history, for it may be the master again
 * that it was before, and what another one granted meanwhile is lost.
 */
static struct dlk_arg memory_of(const struct dlk_conn *c,
				const struct dlk_server_info *s)
{
	const char *id = s->named || c->clustered ? s->history : s->run_id;

	return id[0] ? dlk_arg_str(id) : (struct dlk_arg){ DLK_LITERAL("0") };
}

/*
 * "dlock%run:DB"; of a cluster "dlock%run:0{TAG}", for each slot has one, which
 * goes with it to another node.
 */
static void put_key(struct dlk_text *t, const struct dlk_conn *c)
{
	char tag[DLK_TAG_LEN + 1];

	dlk_text_str(t, c->ep->n_sentinels ? "dlock%run:named:" : "dlock%run:");
	dlk_text_i64(t, c->ep->db);
	if (!c->clustered)
		return;
	dlk_slot_tag(c->slot, tag);
	dlk_text_strs(t, "{", tag, "}", NULL);
}

/* "dlock%run:DB:DELAY": by its database, for SWAPDB gives it another's. */
static struct dlk_arg gate_of(struct dlk_conn *c)
{
	struct dlk_text t = dlk_text_in(c->gate, sizeof(c->gate));

	put_key(&t, c);
	dlk_text_str(&t, ":");
	dlk_text_u64(&t, c->ep->restart_delay_ms, 1);
	return (struct dlk_arg){ c->gate, t.len };
}

int dlk_script_gate(struct dlk_conn *c, int argc, const struct dlk_arg *args,
		    struct dlk_arg gated[DLK_GATED_MAX])
{
	static const char digits[] = "0123456789";
	const int keys = args[2].text[0] - '0', end = 3 + keys;

	if (!c->ep->restart_delay_ms || dlk_seeded(6) || dlk_seeded(7)) {
		memcpy(gated, args, (size_t)argc * sizeof(*args));
		return argc;
	}
	memcpy(gated, args, (size_t)end * sizeof(*args));
	gated[2] = (struct dlk_arg){ digits + keys + 1, 1 };
	gated[end] = gate_of(c);
	memcpy(gated + end + 1, args + end,
	       (size_t)(argc - end) * sizeof(*args));
	return argc + 1;
}

/*
 * By its name: who knows it has been asked before.  Else by its text, at once,
 * so that nobody finds it known who comes before its answer; and it is kept.
 */
static int call_young(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		      struct dlk_arg *args, bool stranger, const redisReply **r)
{
	struct dlk_arg text;
	int err = dlk_conn_call(c, deadline_ns, argc, args, r);

	if (err || !dlk_script_unknown(*r))
		return err;
	err = guarded_text(c, DLK_YOUNG, &text);
	if (err)
		return err;
	args[0] = (struct dlk_arg){ DLK_LITERAL("EVAL") };
	args[1] = text;
	args[argc - 1] = (struct dlk_arg){ "1", stranger };
	err = dlk_conn_call(c, deadline_ns, argc, args, r);
	guarded_free(DLK_YOUNG, text);
	return err;
}

/*
 * Since its memory began it has granted nothing, but if it was a replica: in the
 * time before somebody asked how old it is, it grants by the scripts that it has
 * from an earlier time as a master.  (Not where their names tell its memories
 * apart: Sentinels, a cluster.)
 */
static void read_youth(const struct dlk_conn *c, const redisReply *r,
		       uint64_t asked_ns, struct dlk_youth *youth)
{
	const char *why = r->element[1]->str;
	const uint64_t since_ms = (uint64_t)dlk_script_int(r, 2);
	const uint64_t now_ms = (uint64_t)dlk_script_int(r, 3);
	const uint64_t age_ns =
		since_ms < now_ms ? (now_ms - since_ms) * DLK_MS : 0;

	youth->left_ms = (uint64_t)dlk_script_int(r, 0);
	youth->emptied = youth->left_ms && strncmp(why, "emptied", 7) == 0;
	if (!youth->left_ms || age_ns >= asked_ns || strstr(why, "open") ||
	    (!c->server.named && !c->clustered && strcmp(why, "promoted") == 0))
		return;
	youth->since_ns = asked_ns - age_ns;
	youth->since_ms = since_ms;
	youth->now_ms = now_ms;
}

/*
 * Of a cluster's node: does it know a script that it is taught by its history?  Then
 * somebody has found that old enough, for some slot, and so it is for all.  (Without a
 * key it does nothing but fail; SCRIPT EXISTS is a right that no other question needs.)
 */
static int ask_if_known(struct dlk_conn *c, uint64_t deadline_ns,
			enum dlk_guarded which, bool *known)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("EVALSHA") },
					dlk_script_name(c, which),
					{ DLK_LITERAL("0") } };
	const redisReply *r;
	int err = dlk_conn_call(c, deadline_ns, 3, args, &r);

	/* (The error names the script.) */
	*known = !err && r->type == REDIS_REPLY_ERROR &&
		 strstr(r->str, c->names[which]);
	return err;
}

static int ask_if_taught(struct dlk_conn *c, uint64_t deadline_ns,
			 const struct dlk_server_info *s, bool *taught)
{
	int err;

	*taught = false;
	if (strcmp(s->history, c->server.history) != 0)
		return 0;
	err = ask_if_known(c, deadline_ns, DLK_ACQUIRE, taught);
	return err || *taught ? err
			      : ask_if_known(c, deadline_ns,
					     DLK_RECORDS_ACQUIRE, taught);
}

/* Its uptime may be older than its memory: young.lua. */
static int young_memory(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_server_info *s, bool suspect,
			struct dlk_youth *youth)
{
	const uint64_t asked_ns = dlk_now_ns();
	struct dlk_number delay, uptime;
	char name[DLK_GATE_SIZE];
	struct dlk_text key = dlk_text_in(name, sizeof(name));
	const redisReply *r;
	int err;

	put_key(&key, c);
	struct dlk_arg args[] = {
		{ DLK_LITERAL("EVALSHA") },
		dlk_script_name(c, DLK_YOUNG),
		{ DLK_LITERAL("2") },
		{ name, key.len },
		gate_of(c),
		memory_of(c, s),
		dlk_arg_number(&delay, c->ep->restart_delay_ms, 1),
		/* INFO counts whole seconds of the server's wall clock, from
		 * the second it started in: n there is more than n - 1. */
		dlk_arg_number(&uptime,
			       s->uptime_s ? (s->uptime_s - 1) * 1000 : 0, 1),
		{ "1", suspect },
		{ "", 0 },
	};

	err = call_young(c, deadline_ns, 10, args,
			 c->clustered || !dlk_server_is_known(s), &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 4 ||
	    r->element[1]->type != REDIS_REPLY_STRING ||
	    dlk_script_int(r, 0) < 0 || dlk_script_int(r, 2) < 0 ||
	    dlk_script_int(r, 3) < 0)
		return dlk_script_refused(c, r);
	read_youth(c, r, asked_ns, youth);
	return 0;
}

int dlk_script_young(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_youth *youth)
{
	struct dlk_server_info s = { 0 };
	bool suspect, taught = false;
	int err;

	*youth = (struct dlk_youth){ 0 };
	if (!c->ep->restart_delay_ms || dlk_seeded(6) ||
	    (c->clustered && c->slot == DLK_NO_SLOT))
		return 0;
	err = ask_server(c, deadline_ns, &s);
	if (err)
		return err;
	suspect = s.promoted || dlk_server_is_other(&s, dlk_now_ns());
	if (c->clustered && suspect)
		err = ask_if_taught(c, deadline_ns, &s, &taught);
	if (!err)
		err = young_memory(c, deadline_ns, &s, suspect && !taught,
				   youth);
	/* Its leases were deleted: what this process holds is to be put back. */
	if (youth->emptied && dlk_server_emptied(&c->server))
		c->restarted = true;
	return err;
}

/* By which history it was taught; any thread, lock-free. */
static _Atomic uint32_t taught_slots[DLK_SLOTS];

bool dlk_script_teach_slot(struct dlk_conn *c, uint64_t deadline_ns, int slot)
{
	const char *history = c->server.history;
	const uint32_t name = (uint32_t)dlk_hash(history, strlen(history)) | 1;
	const int was = c->slot;

	if (!c->ep->restart_delay_ms || !dlk_conn_is_open(c) ||
	    atomic_load(&taught_slots[slot]) == name)
		return false;
	c->slot = slot;
	if (load_guarded(c, deadline_ns, DLK_YOUNG) == 0)
		atomic_store(&taught_slots[slot], name);
	c->slot = was;
	dlk_conn_reset(c);
	return true;
}

/* --- what is asked -------------------------------------------------------- */

/* After NOSCRIPT: 0 when the server has been taught the family, or DLK_GRACE.
 */
static int admit(struct dlk_conn *c, uint64_t deadline_ns,
		 enum dlk_family family, struct dlk_answer *answer)
{
	char why[160];
	struct dlk_youth youth;
	int err = dlk_script_young(c, deadline_ns, &youth);

	answer->emptied = youth.emptied;
	/*
	 * (A server known to be new was not asked.)  One that said it is a
	 * replica when it was connected to, to be asked for a cluster's slots,
	 * may have been promoted since: it is to say so anew.
	 */
	if (!err && dlk_server_unfit(&c->server, why, sizeof(why))) {
		dlk_conn_doubt(c);
		dlk_conn_set_error(c, why);
		return c->server.replica ? -EAGAIN : -EREMOTEIO;
	}
	if (!err && youth.left_ms) {
		answer->left_ms = (int64_t)youth.left_ms;
		return DLK_GRACE;
	}
	if (!err)
		err = load(c, deadline_ns, families[family].renew);
	if (!err && c->ep->restart_delay_ms)
		err = load_guarded(c, deadline_ns, DLK_YOUNG);
	for (unsigned i = families[family].first;
	     !err && i <= families[family].last; i++)
		err = load_guarded(c, deadline_ns, i);
	return err;
}

/*
 * By what INFO said when the connection was made, which may be before this very
 * answer; so what it granted is not believed.  The next one is asked anew.
 */
static int refuse_evictor(struct dlk_conn *c)
{
	struct dlk_text t = dlk_text_in(c->error, sizeof(c->error));

	dlk_text_strs(&t,
		      "it may evict locks that are held: maxmemory-policy is ",
		      c->server.evicts,
		      ", and must be noeviction (or allow_eviction said)",
		      NULL);
	dlk_conn_close(c);
	return -EREMOTEIO;
}

/* What the replicas are asked travels behind it. */
static int call_with_replicas(struct dlk_conn *c, uint64_t deadline_ns,
			      int argc, const struct dlk_arg *args,
			      const redisReply **reply)
{
	if (!c->ep->replicas)
		return dlk_conn_call(c, deadline_ns, argc, args, reply);
	return dlk_conn_append(c, argc, args)
		?: dlk_replicas_ask(c, deadline_ns)
		?: dlk_conn_flush(c, deadline_ns)
		?: dlk_conn_reply(c, deadline_ns, reply);
}

int dlk_script_ask(struct dlk_conn *c, uint64_t deadline_ns,
		   enum dlk_family family, bool grants, int argc,
		   const struct dlk_arg *args, struct dlk_answer *answer,
		   const redisReply **reply)
{
	struct dlk_arg gated[DLK_GATED_MAX];
	int err;

	argc = dlk_script_gate(c, argc, args, gated);
	for (int tries = 0; tries < 3; tries++) {
		answer->replaced = false;
		answer->asked_ns = dlk_now_ns();
		err = grants ? call_with_replicas(c, deadline_ns, argc, gated,
						  reply)
			     : dlk_conn_call(c, deadline_ns, argc, gated,
					     reply);
		if (err)
			return err;
		if (!dlk_script_unknown(*reply)) {
			if (c->server.evicts[0] && !c->ep->allow_eviction)
				return refuse_evictor(c);
			/* (By an error nobody was granted anything.) */
			if ((*reply)->type != REDIS_REPLY_ERROR) {
				dlk_server_granted(&c->server,
						   answer->asked_ns);
				dlk_server_whole(&c->server);
			}
			return 0;
		}
		if (!dlk_script_emptied(*reply))
			dlk_conn_suspect(c);
		err = grants ? dlk_replicas_ignore(c) : 0;
		if (!err)
			err = admit(c, deadline_ns, family, answer);
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
	const char *since = held->str + at + id.len;

	if (held->len <= at + id.len + 20 ||
	    memcmp(held->str, "dlock1 ", 7) != 0 ||
	    memcmp(held->str + at, id.text, id.len) != 0)
		return false;
	/* Of no kernel lock: a claim, or what stays, if not of this very lease. */
	if (memcmp(since, DLK_STAYS, 20) >= 0)
		return memcmp(held->str, token, at) == 0;
	return memcmp(since, id.text + id.len, 20) > 0;
}
