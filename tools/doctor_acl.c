/* SPDX-License-Identifier: MIT */
/*
 * Whether the user at Redis may do what dlock does there, and how much more;
 * see doctor.h.
 *
 * It is tried.  The commands that scripts call are called by a script, on a key
 * that nobody has and that is gone when the script is: so nobody sees it, and
 * the server refuses to a script what it refuses to its user.
 */
#include <stdio.h>
#include <string.h>

#include "model/slot.h"
#include "os/sys.h"
#include "redis/fault.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/fleet.h"

#define CHANNEL "dlock%wake:00000000000000000000000000000000"

/* dlock.conf(5), PERMISSIONS; "@" is the key.  What it makes it removes. */
static const char *const by_script[] = {
	"EXISTS @",
	"TYPE @",
	"GET @",
	"GETRANGE @ 0 1",
	"STRLEN @",
	"PTTL @",
	"HSET @ a 1",
	"PEXPIRE @ 1000",
	"PEXPIREAT @ 99999999999999",
	"PEXPIRETIME @",
	"HSETNX @ b 1",
	"HINCRBY @ a 1",
	"HGET @ a",
	"HMGET @ a b",
	"HGETALL @",
	"HKEYS @",
	"HLEN @",
	"HEXISTS @ a",
	"HRANDFIELD @",
	"HDEL @ a",
	"UNLINK @",
	"ZADD @ 0 a",
	"ZLEXCOUNT @ - +",
	"ZRANGEBYLEX @ - +",
	"ZREVRANGEBYLEX @ + -",
	"ZREM @ a",
	"DEL @",
	"SET @ 1 PX 1000",
	"DEL @",
	("PUBLISH " CHANNEL " x"),
	"TIME",
	"XADD @ MAXLEN 1 * a 1",
	"HSTRLEN @ a",
	"HSCAN @ 0",
	"XREVRANGE @ + - COUNT 1",
	"DEL @",
};

enum { N_BY_SCRIPT = sizeof(by_script) / sizeof(*by_script), NAME = 64 };

static const char script[] =
	"local bad = {} "
	"for i = 1, #ARGV do "
	"local words = {} "
	"for word in ARGV[i]:gmatch('%S+') do "
	"words[#words + 1] = word == '@' and KEYS[1] or word "
	"end "
	"local r = redis.pcall(unpack(words)) "
	"if type(r) == 'table' and r.err and (r.err:find('NOPERM') or "
	"r.err:find('permission') or r.err:find('The user executing') or "
	"r.err:find('nknown Redis command')) then "
	"bad[#bad + 1] = words[1] end "
	"end "
	"return bad";

/* No lock needs these. */
static bool is_dlockctls_own(const char *which)
{
	static const char *const words[] = { "SCAN", "HSCAN", "HSTRLEN",
					     "XREVRANGE", FLEET_KEY };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(which, words[i]))
			return true;
	return false;
}

static void find_refused(struct doctor *d, const struct doctor_server *s,
			 const char *what, const char *which)
{
	const bool own = is_dlockctls_own(which);

	doctor_find(d, own ? DOCTOR_WARNING : DOCTOR_CRITICAL,
		    own ? "dlockctl cannot show what is locked, or what befell "
			  "it, or compare hosts; no lock needs it"
			: "locks that need it fail with ENOLCK, or are found "
			  "by looking again and again",
		    "give the user what dlock.conf(5), PERMISSIONS, lists "
		    "(ACL SETUSER), and take it out of rename-command in "
		    "redis.conf, if it is there",
		    "redis \"%s\" (%s): user \"%s\" may not %s%s",
		    s->redis->name, s->ep->name,
		    *s->ep->username ? s->ep->username : "default", what,
		    which);
}

/*
 * A key of the rule, of a directory one that nobody has; false: there is none.
 * It is only looked at: what is tried is done with its companion "%d".
 */
static bool rule_key(const struct dlk_rule *rule, char *key, size_t size)
{
	char path[DLK_PATH_MAX + NAME];
	uint64_t random;
	int n = snprintf(path, sizeof(path), "%s", rule->prefix);

	dlk_random(&random, sizeof(random));
	if (path[n - 1] == '/')
		n += snprintf(path + n, sizeof(path) - (size_t)n,
			      ".dlock-doctor-%016llx",
			      (unsigned long long)random);
	return dlk_key_expand(rule, path, (size_t)n, "0", key, size) >= 0;
}

/* --- what scripts do ------------------------------------------------------ */

static const redisReply *call_script(struct doctor_server *s, const char *key,
				     const char *const *lines, int n)
{
	struct dlk_arg args[4 + N_BY_SCRIPT] = {
		{ DLK_LITERAL("EVAL") },
		{ DLK_LITERAL(script) },
		{ DLK_LITERAL("1") },
		{ key, strlen(key) },
	};
	const redisReply *reply = NULL;

	for (int i = 0; i < n; i++)
		args[4 + i] = (struct dlk_arg){ lines[i], strlen(lines[i]) };
	dlk_conn_reset(s->c);
	return tool_call(s->c, 4 + n, args, &reply) ? NULL : reply;
}

/* Of a cluster it is in a slot that this node has, or it would run nothing. */
static void script_key(const struct doctor_server *s, const char *base,
		       char *key, size_t size)
{
	char tag[DLK_TAG_LEN + 1];

	if (s->redis->mode != DLK_CLUSTER) {
		snprintf(key, size, "{%s}%%d", base);
		return;
	}
	for (int slot = 0; slot < DLK_SLOTS; slot++) {
		dlk_slot_tag(slot, tag);
		snprintf(key, size, "dlock%%wait:{%s}doctor", tag);
		if (tool_has_key(s->redis, s->ep, key, strlen(key)))
			return;
	}
}

static void try_script(struct doctor *d, struct doctor_server *s,
		       const struct dlk_rule *rule)
{
	static char base[DLK_KEY_MAX + 1], key[DLK_KEY_MAX + NAME];
	const redisReply *r;

	if (!rule_key(rule, base, sizeof(base)))
		return;
	script_key(s, base, key, sizeof(key));
	r = call_script(s, key, by_script, N_BY_SCRIPT);
	if (tool_is_forbidden(r))
		find_refused(d, s, "EVAL for the keys of ", rule->prefix);
	for (size_t i = 0; r && r->type == REDIS_REPLY_ARRAY && i < r->elements;
	     i++)
		if (r->element[i]->type == REDIS_REPLY_STRING)
			find_refused(d, s, "", r->element[i]->str);
}

/* The keys of a lock, those that stand beside it, and those of none. */
static void try_keys(struct doctor *d, struct doctor_server *s,
		     const struct dlk_rule *rule)
{
	static char key[DLK_KEY_MAX + 1], one[DLK_KEY_MAX + NAME];
	static const struct {
		const char *before, *key, *behind;
	} names[] = {
		{ "", key, "" },
		{ "", key, "%rec" },
		{ "{", key, "}%q" },
		{ "{", key, "}%s" },
		{ "{", key, "}%h" },
		{ "{", key, "%rec}%q" },
		{ "{", key, "%rec}%r" },
		{ "", "dlock%wait:0123456789abcdef", "" },
		{ "", "dlock%run:1", "" },
		{ "", FLEET_KEY, "" },
	};
	const char *const exists[] = { "EXISTS", one };

	if (!rule_key(rule, key, sizeof(key)))
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(one, sizeof(one), "%s%s%s", names[i].before,
			 names[i].key, names[i].behind);
		if (tool_is_forbidden(doctor_call(s, 2, exists)))
			find_refused(d, s, "use keys like ", one);
	}
}

/* --- what is asked by itself ---------------------------------------------- */

/* What only some setups need. */
enum need { ALWAYS, CLUSTERED, REPLICATED };

static bool is_needed(const struct dlk_redis *redis, enum need need)
{
	return need == ALWAYS ||
	       (need == CLUSTERED && redis->mode == DLK_CLUSTER) ||
	       (need == REPLICATED && redis->replicas);
}

static void try_alone(struct doctor *d, struct doctor_server *s)
{
	static const struct {
		enum need need;
		const char *name;
		int n;
		const char *words[6];
	} commands[] = {
		{ ALWAYS, "PING", 1, { "PING" } },
		{ ALWAYS, "INFO", 1, { "INFO" } },
		{ ALWAYS, "SELECT", 2, { "SELECT", "0" } },
		{ ALWAYS,
		  "CLIENT SETNAME",
		  3,
		  { "CLIENT", "SETNAME", "dlockctl" } },
		{ ALWAYS,
		  "EVALSHA",
		  3,
		  { "EVALSHA", "ffffffffffffffffffffffffffffffffffffffff",
		    "0" } },
		{ ALWAYS, "SCRIPT LOAD", 3, { "SCRIPT", "LOAD", "return 1" } },
		{ ALWAYS, "SCAN", 4, { "SCAN", "0", "COUNT", "1" } },
		{ REPLICATED, "WAIT", 3, { "WAIT", "0", "0" } },
		{ CLUSTERED, "CLUSTER SLOTS", 2, { "CLUSTER", "SLOTS" } },
		{ CLUSTERED, "ASKING", 1, { "ASKING" } },
		{ CLUSTERED, "SPUBLISH", 3, { "SPUBLISH", CHANNEL, "x" } },
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		char db[16];
		const char *words[6];

		if (!is_needed(s->redis, commands[i].need))
			continue;
		memcpy(words, commands[i].words, sizeof(words));
		snprintf(db, sizeof(db), "%d", (int)s->ep->db);
		if (!strcmp(words[0], "SELECT"))
			words[1] = db;
		if (tool_is_forbidden(doctor_call(s, commands[i].n, words)))
			find_refused(d, s, "", commands[i].name);
	}
}

/* A connection of its own: who listens may ask nothing else. */
static void try_subscribe(struct doctor *d, const struct doctor_server *s)
{
	const bool cluster = s->redis->mode == DLK_CLUSTER;
	const char *const words[] = { cluster ? "SSUBSCRIBE" : "SUBSCRIBE",
				      CHANNEL };
	struct doctor_server alone = { .redis = s->redis, .ep = s->ep };

	alone.c = dlk_conn_new(s->ep);
	if (tool_is_forbidden(doctor_call(&alone, 2, words)))
		find_refused(d, s, cluster ? "SSUBSCRIBE to " : "SUBSCRIBE to ",
			     words[1]);
	dlk_conn_delete(alone.c);
}

/* The first rule of the server tries the commands, each its keys. */
void doctor_acl(struct doctor *d, struct doctor_server *s)
{
	bool first = true;

	try_alone(d, s);
	try_subscribe(d, s);
	for (unsigned i = 0; i < d->config->n_rules && s->c; i++) {
		const struct dlk_rule *rule = &d->config->rules[i];

		if (rule->redis != s->redis)
			continue;
		if (first)
			try_script(d, s, rule);
		first = false;
		try_keys(d, s, rule);
	}
}

/* --- and nothing more ----------------------------------------------------- */

/*
 * It did it.  Any error says that it did not, whatever keeps it from that; but
 * for "another node has this key", which comes after the user has been looked at.
 */
static bool may(struct doctor_server *s, int argc, const char *const *argv)
{
	const redisReply *r = doctor_call(s, argc, argv);

	return r && (r->type != REDIS_REPLY_ERROR ||
		     dlk_fault_of(r->str)->outcome == DLK_ELSEWHERE);
}

/* Where no password is asked for, who reaches a unix socket is the server's
 * friend by the socket's mode. */
static bool is_private(const struct doctor_server *s)
{
	return s->ep->scheme == DLK_UNIX && !*s->ep->password &&
	       !*s->ep->password_file;
}

void doctor_acl_excess(struct doctor *d, struct doctor_server *s)
{
	static const char *const config[] = { "CONFIG", "GET", "maxmemory" };
	static const char *const users[] = { "ACL", "LIST" };
	static const char *const other[] = {
		"EXISTS", "no%key%of%dlock%ffffffffffffffff"
	};
	const char *what;

	if (is_private(s))
		return;
	if (may(s, 2, users))
		what = "manage the server's users";
	else if (may(s, 3, config))
		what = "configure the server";
	else if (may(s, 2, other))
		what = "use keys that are none of dlock's";
	else
		return;
	doctor_find(d, DOCTOR_WARNING,
		    *s->ep->password_file
			    ? "every program that the library is loaded into "
			      "is logged in as this user, and has the right "
			      "that goes with it"
			    : "every program that the library is loaded into "
			      "has this password in its memory, and the right "
			      "that goes with it",
		    "make a user of its own for dlock (dlock.conf(5), "
		    "PERMISSIONS), and give the default one a password",
		    "redis \"%s\" (%s): user \"%s\" may also %s",
		    s->redis->name, s->ep->name,
		    *s->ep->username ? s->ep->username : "default", what);
}
