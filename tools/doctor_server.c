/* SPDX-License-Identifier: MIT */
/*
 * How each Redis is: what it says of itself (INFO), how fast it answers, and
 * what its clock shows; see doctor.h.  A server that does not answer is one
 * finding, and not asked any more.
 */
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/timeline.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/options.h"
#include "tools/scan_hash.h"

/* A round trip is the cost of a lock, and a name is looked up for each
 * connection. */
enum {
	PINGS = 5,
	TRIES = 2,
	SLOW_US = 20000,
	SLOW_NAME_MS = 1000,
	CLOCK_OFF_MS = 1000
};

/* --- asking --------------------------------------------------------------- */

/* It is not asked any more. */
static void lose(struct doctor_server *s, int err)
{
	s->bar = tool_bar(s->c, err);
	snprintf(s->why, sizeof(s->why), "%s", tool_why(s->c, err));
	dlk_conn_delete(s->c);
	s->c = NULL;
	s->up = false;
}

const redisReply *doctor_call(struct doctor_server *s, int argc,
			      const char *const *argv)
{
	struct dlk_arg args[16];
	const redisReply *reply = NULL;
	int err;

	if (!s->c)
		return NULL;
	dlk_conn_reset(s->c);
	for (int i = 0; i < argc; i++)
		args[i] = (struct dlk_arg){ argv[i], strlen(argv[i]) };
	err = tool_call(s->c, argc, args, &reply);
	if (!err)
		return reply;
	lose(s, err);
	return NULL;
}

static void measure(struct doctor_server *s)
{
	static const char *const ping[] = { "PING" };

	s->ping_us = UINT64_MAX;
	for (int i = 0; i < PINGS && s->c; i++) {
		uint64_t before = dlk_now_ns(), us;

		doctor_call(s, 1, ping);
		us = (dlk_now_ns() - before) / 1000;
		if (us < s->ping_us)
			s->ping_us = us;
	}
}

static void open_one(struct doctor_server *s)
{
	static const char *const info[] = { "INFO" };
	const redisReply *reply = NULL;

	s->text = tool_copy("", 0);
	if (s->redis->fault) {
		s->bar = TOOL_UNREADY;
		snprintf(s->why, sizeof(s->why), "%s", s->redis->fault);
		return;
	}
	/* On a busy host one answer may be late. */
	for (int i = 0; i < TRIES && !reply; i++) {
		s->c = dlk_conn_new(s->ep);
		reply = doctor_call(s, 1, info);
	}
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ERROR && !tool_is_forbidden(reply)) {
		lose(s, tool_refusal(s->c, reply));
		return;
	}
	s->up = true;
	if (reply->type == REDIS_REPLY_STRING) {
		dlk_server_read(&s->info, s->ep, reply->str);
		free(s->text);
		s->text = tool_copy(reply->str, strlen(reply->str));
	}
	measure(s);
}

static void open_section(struct doctor *d, const struct dlk_redis *redis,
			 size_t *room)
{
	for (unsigned i = 0; i < tool_servers(redis); i++) {
		struct doctor_server *s;

		d->servers =
			tool_grow(d->servers, d->n_servers, room, sizeof(*s));
		s = &d->servers[d->n_servers++];
		*s = (struct doctor_server){ .redis = redis,
					     .ep = tool_server(redis, i) };
		open_one(s);
	}
}

void doctor_servers_open(struct doctor *d)
{
	size_t room = 0;

	for (unsigned i = 0; i < d->config->n_redis; i++)
		if (tool_config_uses(d->config, &d->config->redis[i]))
			open_section(d, &d->config->redis[i], &room);
}

void doctor_servers_close(struct doctor *d)
{
	for (size_t i = 0; i < d->n_servers; i++) {
		dlk_conn_delete(d->servers[i].c);
		free(d->servers[i].text);
	}
	free(d->servers);
}

/* The longest ttl, or hold_at_least, of the rules that use it. */
static uint64_t longest_lease_ms(const struct doctor *d,
				 const struct doctor_server *s)
{
	uint64_t longest = 0;

	for (unsigned i = 0; i < d->config->n_rules; i++) {
		const struct dlk_rule *rule = &d->config->rules[i];

		if (rule->redis != s->redis)
			continue;
		if (rule->ttl_ms > longest)
			longest = rule->ttl_ms;
		if (rule->hold_at_least_ms > longest)
			longest = rule->hold_at_least_ms;
	}
	return longest;
}

/* --- its name, and whether it answers ------------------------------------- */

static void look_up(struct doctor *d, const struct dlk_endpoint *ep)
{
	struct addrinfo *list = NULL, hints = { .ai_socktype = SOCK_STREAM };
	uint64_t before = dlk_now_ns(), ms;
	int err = getaddrinfo(ep->host, NULL, &hints, &list);

	ms = (dlk_now_ns() - before) / DLK_MS;
	if (!err)
		freeaddrinfo(list);
	if (err)
		doctor_find(d, DOCTOR_CRITICAL,
			    "no lock can be asked for, and all fail with "
			    "ENOLCK",
			    "correct the name, or the resolver (getent ahosts "
			    "NAME), or write an address in the url",
			    "\"%s\" has no address: %s", ep->host,
			    gai_strerror(err));
	else if (ms >= SLOW_NAME_MS)
		doctor_find(d, DOCTOR_WARNING,
			    "each new connection waits for it, and locks fail "
			    "where it takes longer than connect_timeout",
			    "write an address in the url, or the name in "
			    "/etc/hosts",
			    "\"%s\" is found after %" PRIu64 " ms", ep->host,
			    ms);
}

/* A resolver may hang. */
void doctor_names(struct doctor *d)
{
	for (size_t i = 0; i < d->n_servers; i++) {
		const struct dlk_endpoint *ep = d->servers[i].ep;

		/* (A master has no name but the Sentinels' for it.) */
		for (unsigned k = 0; k <= ep->n_sentinels; k++)
			if (ep[k].scheme != DLK_UNIX && !ep[k].n_sentinels)
				look_up(d, &ep[k]);
	}
}

/* Of its section so many answer. */
static unsigned answering(const struct doctor *d, const struct dlk_redis *redis)
{
	unsigned n = 0;

	for (size_t i = 0; i < d->n_servers; i++)
		n += d->servers[i].redis == redis && d->servers[i].up;
	return n;
}

/* What becomes of locks; a silent server is waited for before. */
static const char *locks_without(const struct doctor_server *s, bool enough)
{
	if (enough)
		return "the others are a majority still; without it locks fail "
		       "with ENOLCK";
	if (s->bar != TOOL_SILENT)
		return s->redis->mode == DLK_CLUSTER
			       ? "each lock whose slot it has fails with ENOLCK"
			       : "each lock under its rules fails with ENOLCK";
	return s->redis->mode == DLK_CLUSTER
		       ? "each lock whose slot it has fails with ENOLCK, after "
			 "the rule's timeout, until a replica is in its place"
		       : "each lock under its rules fails with ENOLCK, after "
			 "the rule's timeout";
}

static const char *remedy_of(enum tool_bar bar)
{
	if (bar == TOOL_UNREADY)
		return DOCTOR_SECRET "; the same goes for ca_file, cert_file "
				     "and key_file";
	if (bar == TOOL_SILENT)
		return "look whether it runs, and whether address and firewall "
		       "are right (redis-cli -u URL ping)";
	return "mend what that says; look whether the url's database, user and "
	       "password are right (redis-cli -u URL ping)";
}

static void find_away(struct doctor *d, const struct doctor_server *s)
{
	bool enough = answering(d, s->redis) >= tool_needed(s->redis);

	doctor_find(d, enough ? DOCTOR_WARNING : DOCTOR_CRITICAL,
		    locks_without(s, enough), remedy_of(s->bar),
		    "redis \"%s\" (%s) %s: %s", s->redis->name, s->ep->name,
		    tool_bar_words(s->bar), s->why);
}

/* (What is wrong with a whole section is said once.) */
void doctor_answers(struct doctor *d)
{
	const struct dlk_redis *said = NULL;

	for (size_t i = 0; i < d->n_servers; i++) {
		const struct doctor_server *s = &d->servers[i];

		if (s->up || (s->redis->fault && s->redis == said))
			continue;
		find_away(d, s);
		said = s->redis;
	}
}

void doctor_latency(struct doctor *d, struct doctor_server *s)
{
	if (s->ping_us >= SLOW_US)
		doctor_find(d, DOCTOR_WARNING,
			    "each lock costs a round trip, and a server that "
			    "is slow now times out under load",
			    "a server nearer to the hosts; look at its SLOWLOG "
			    "and at what else it serves",
			    "redis \"%s\" (%s) takes %" PRIu64 ".%" PRIu64
			    " ms for a PING",
			    s->redis->name, s->ep->name, s->ping_us / 1000,
			    s->ping_us / 100 % 10);
}

/* --- what it says of itself ----------------------------------------------- */

void doctor_role(struct doctor *d, struct doctor_server *s)
{
	char room[160];
	const char *unfit = dlk_server_unfit(&s->info, room, sizeof(room));

	if (unfit)
		doctor_find(
			d, DOCTOR_CRITICAL,
			"it can grant nothing: locks fail with ENOLCK",
			"name the master, of Redis 7.0 or newer, in the url",
			"redis \"%s\" (%s): %s", s->redis->name, s->ep->name,
			unfit);
}

void doctor_eviction(struct doctor *d, struct doctor_server *s)
{
	if (s->info.evicts[0])
		doctor_find(d, DOCTOR_CRITICAL,
			    "when its memory is full it removes locks that are "
			    "held, and another host is granted them",
			    "CONFIG SET maxmemory-policy noeviction, and the "
			    "same in redis.conf",
			    "redis \"%s\" (%s): maxmemory-policy is %s",
			    s->redis->name, s->ep->name, s->info.evicts);
}

/* "always", or what else it is; NULL: this user may not ask. */
static const char *ask_fsync(struct doctor_server *s)
{
	static const char *const ask[] = { "CONFIG", "GET", "appendfsync" };
	const redisReply *r = doctor_call(s, 3, ask);

	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_STRING)
		return NULL;
	return r->element[1]->str;
}

static void find_forgetful(struct doctor *d, const struct doctor_server *s,
			   const char *how)
{
	doctor_find(d, DOCTOR_CRITICAL,
		    "after a restart it grants what somebody may still hold",
		    "take restart_delay out (its default is long enough), or "
		    "set appendonly yes and appendfsync always in redis.conf",
		    "redis \"%s\" (%s): %s, and restart_delay is %s where "
		    "leases last %s",
		    s->redis->name, s->ep->name, how,
		    option_duration(s->ep->restart_delay_ms).text,
		    option_duration(longest_lease_ms(d, s)).text);
}

void doctor_persistence(struct doctor *d, struct doctor_server *s)
{
	const char *fsync;

	if (s->ep->restart_delay_ms >= longest_lease_ms(d, s))
		return;
	if (!tool_info(s->text, "aof_enabled", 0)) {
		find_forgetful(d, s, "appendonly is no");
		return;
	}
	fsync = ask_fsync(s);
	if (!fsync)
		doctor_find(d, DOCTOR_UNKNOWN,
			    "if it is not, a restart grants what somebody may "
			    "still hold, for restart_delay is shorter than "
			    "leases last",
			    "ask it as an administrator (redis-cli CONFIG GET "
			    "appendfsync), or take restart_delay out (its "
			    "default is long enough)",
			    "redis \"%s\" (%s): this user may not ask whether "
			    "appendfsync is always",
			    s->redis->name, s->ep->name);
	else if (strcmp(fsync, "always") != 0)
		find_forgetful(d, s, "appendfsync is not always");
}

void doctor_room(struct doctor *d, struct doctor_server *s)
{
	uint64_t n = tool_info(s->text, "connected_clients", 0);
	uint64_t most = tool_info(s->text, "maxclients", UINT64_MAX);
	uint64_t used = tool_info(s->text, "used_memory", 0);
	uint64_t all = tool_info(s->text, "maxmemory", 0);

	if (most && n >= most / 4 * 3)
		doctor_find(d, DOCTOR_WARNING,
			    "each process that locks has one connection, each "
			    "that waits two: who gets none fails with ENOLCK",
			    "raise maxclients, and the file limit of its "
			    "service (LimitNOFILE)",
			    "redis \"%s\" (%s): %" PRIu64 " of %" PRIu64
			    " connections are in use",
			    s->redis->name, s->ep->name, n, most);
	if (all && used >= all / 10 * 9)
		doctor_find(d, DOCTOR_WARNING,
			    "a server that is full grants no new lock",
			    "raise maxmemory, or find out what fills it "
			    "(redis-cli --bigkeys)",
			    "redis \"%s\" (%s): its memory is nearly full",
			    s->redis->name, s->ep->name);
}

/* What it was told by INFO is a moment old; the second is its clock's. */
void doctor_uptime(struct doctor *d, struct doctor_server *s)
{
	uint64_t ms = s->info.uptime_s * 1000;

	if (!s->info.run_id[0] || ms >= s->ep->restart_delay_ms)
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "it may have forgotten who holds what; until then LOCK_NB "
		    "fails with ENOLCK and others wait",
		    "wait; if it restarts often, find out why (its log)",
		    "redis \"%s\" (%s) was restarted: it grants nothing for "
		    "another %s",
		    s->redis->name, s->ep->name,
		    option_duration(s->ep->restart_delay_ms - ms).text);
}

/* --- its clock ------------------------------------------------------------ */

static int64_t local_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* How far its clock is from ours, less what the round trip may hide. */
static int64_t clock_off_ms(struct doctor_server *s)
{
	static const char *const time[] = { "TIME" };
	const int64_t before = local_ms();
	const redisReply *r = doctor_call(s, 1, time);
	const int64_t after = local_ms(), its = r ? scan_time(r) : -1;

	if (its > after)
		return its - after;
	return its >= 0 && its < before ? its - before : 0;
}

void doctor_clock(struct doctor *d, struct doctor_server *s)
{
	int64_t off = clock_off_ms(s);
	int64_t far = off < 0 ? -off : off;

	if (far >= CLOCK_OFF_MS)
		doctor_find(d, DOCTOR_WARNING,
			    "leases are counted by the server's clock: one "
			    "that is set right by a jump ends them early",
			    "let both keep time (chrony, systemd-timesyncd), "
			    "slewing and not stepping",
			    "redis \"%s\" (%s): its clock is %" PRId64
			    ".%" PRId64 " s %s this host's",
			    s->redis->name, s->ep->name, far / 1000,
			    far / 100 % 10, off > 0 ? "ahead of" : "behind");
}
