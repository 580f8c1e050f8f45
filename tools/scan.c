/* SPDX-License-Identifier: MIT */
/* Every lock, with what its key and its value tell; see scan.h. */
#include "tools/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/lease.h"
#include "os/sys.h"
#include "tools/boot.h"
#include "tools/common.h"
#include "tools/fleet.h"
#include "tools/scan_ask.h"
#include "tools/scan_keys.h"
#include "tools/scan_owners.h"
#include "tools/scan_places.h"
#include "tools/scan_queue.h"
#include "tools/subject.h"

#define WAITS "dlock%wait:"
#define RUN   "dlock%run:"

/* Of a queue's fields those that are no waiters: head and tail. */
enum { ENDS = 2 };

/* What the keys of one server are judged by. */
struct view {
	const struct dlk_config *config;
	const struct dlk_redis *redis;
	char host[DLK_WORD_MAX]; /* this one, as a token has it */
	uint64_t now_ns;
	struct fleet fleet; /* by which other hosts' clocks are known, */
	const struct dlk_endpoint *fleet_at; /* and who has it */
	struct scan *scan;                   /* what is found */
	const struct subject *subject;       /* NULL: all keys of the rules */
	scan_at_fn *also;
	void *also_arg;
};

static bool begins_with(const char *key, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len > n && !memcmp(key, prefix, n);
}

/*
 * {KEY}%q and its like belong to a lock; lease/waits.h's, that of
 * scripts/young.lua, and the fleet, to none.
 */
static bool companion(const char *key, size_t len)
{
	const char *brace = memrchr(key, '}', len);

	if (begins_with(key, len, WAITS) || begins_with(key, len, RUN) ||
	    (len == strlen(FLEET_KEY) && !memcmp(key, FLEET_KEY, len)))
		return true;
	return *key == '{' && brace && brace + 1 < key + len && brace[1] == '%';
}

/*
 * The path a key stands for.  A template may fit keys of other rules as well:
 * the rule that manages the path it gives goes before one that does not.
 */
static const struct dlk_rule *find_path(const struct view *v, const char *key,
					size_t len, char *path, size_t *n)
{
	const struct dlk_rule *found = NULL;
	char text[DLK_PATH_MAX];

	for (unsigned i = 0; i < v->config->n_rules; i++) {
		const struct dlk_rule *rule = &v->config->rules[i];
		ssize_t got;
		bool own;

		if (rule->redis != v->redis)
			continue;
		got = dlk_key_to_path(rule, key, len, text, sizeof(text));
		if (got < 0)
			continue;
		own = dlk_config_match(v->config, text, (size_t)got) == rule;
		if (found && !own)
			continue;
		found = rule;
		*n = (size_t)got;
		memcpy(path, text, *n + 1);
		if (own)
			break;
	}
	return found;
}

static void set_path(struct scan_lock *lock, const char *path, size_t len)
{
	lock->path = tool_copy(path, len);
	lock->path_len = len;
	lock->borrowed_path = false;
}

/* The family first: "%rec" can end no path, for '%' is "%25" in a key. */
static void resolve(const struct view *v, struct scan_lock *lock)
{
	char path[DLK_PATH_MAX];
	size_t len = lock->key_len, n;

	lock->record = tool_ends(lock->key, len, RECORD_SUFFIX);
	if (lock->record)
		len -= strlen(RECORD_SUFFIX);
	lock->rule = find_path(v, lock->key, len, path, &n);
	if (lock->rule)
		set_path(lock, path, n);
}

/* A key by inode tells no path; its holder does. */
static void resolve_by_holder(struct scan_lock *lock)
{
	char path[DLK_WORD_PATH_MAX] = "";
	size_t len;

	if (lock->path || !lock->ours || !lock->token.path[0])
		return;
	len = dlk_unword(lock->token.path, path, sizeof(path));
	set_path(lock, path, len);
}

static void judge_value(const struct view *v, const char *value, size_t len,
			struct scan_lock *lock)
{
	uint64_t since;

	lock->ours = scan_token_read(value, len, &lock->token);
	if (!lock->ours) {
		lock->value_len = len < SCAN_VALUE_MAX ? len : SCAN_VALUE_MAX;
		memcpy(lock->value, value, lock->value_len);
		lock->value[lock->value_len] = '\0';
		return;
	}
	since = lock->token.since_ns;
	lock->here = strcspn(v->host, ":") == BOOT_ID &&
		     !strncmp(lock->token.host, v->host, BOOT_ID);
	/* Of the same boot is not enough: a host_id tells those of one kernel
	 * apart. */
	lock->of_host = lock->here && !strcmp(lock->token.host, v->host);
	if (lock->here && since <= v->now_ns)
		lock->held_ms = (int64_t)((v->now_ns - since) / 1000000);
	if (!lock->here && since < DLK_NO_LOCK_NS)
		lock->held_ms =
			fleet_age_ms(&v->fleet, lock->token.host, since);
}

/* NULL: the answer names none. */
static const char *type_of(const struct scan_answer *r)
{
	if (!r->type)
		return "string";
	return r->type->type == REDIS_REPLY_STATUS ? r->type->str : NULL;
}

/* A key is judged; false if it is gone, or no lock. */
static bool judge(const struct view *v, const struct scan_answer *r,
		  struct scan_lock *lock)
{
	const char *type = type_of(r);

	lock->held_ms = -1;
	lock->seq = 1; /* a string is of the owner's first request */
	lock->redis = v->redis;
	lock->ttl_ms = r->ttl->integer;
	lock->endless = lock->ttl_ms < 0;
	if (r->queue && r->queue->type == REDIS_REPLY_INTEGER &&
	    r->queue->integer > ENDS)
		lock->waiters = (size_t)r->queue->integer - ENDS;
	if (lock->ttl_ms == -2 || !type || !strcmp(type, "none"))
		return false;
	snprintf(lock->type, sizeof(lock->type), "%s", type);
	lock->range = (struct dlk_range){ 0, DLK_RANGE_MAX, DLK_WRITE };
	if (strcmp(lock->type, "string"))
		return true;
	if (r->value->type != REDIS_REPLY_STRING)
		return false; /* it changed its type just now */
	judge_value(v, r->value->str, r->value->len, lock);
	return true;
}

/* The next row; it counts once scan->n does. */
static struct scan_lock *next_row(struct scan *scan)
{
	scan->locks = tool_grow(scan->locks, scan->n, &scan->room,
				sizeof(*scan->locks));
	scan->locks[scan->n] = (struct scan_lock){ 0 };
	return &scan->locks[scan->n];
}

static void add(const struct view *v, struct scan_key *key,
		const struct scan_answer *r)
{
	struct scan_lock *lock = next_row(v->scan);

	if (!judge(v, r, lock))
		return;
	lock->key = key->bytes;
	lock->key_len = key->len;
	key->bytes = NULL;
	resolve(v, lock);
	resolve_by_holder(lock);
	v->scan->n++;
}

static void drop(struct scan *scan, size_t at)
{
	free(scan->locks[at].key);
	free(scan->locks[at].path);
	scan_token_free(&scan->locks[at].token);
	scan->locks[at] = scan->locks[--scan->n];
}

/*
 * The rows that the one of a hash that is ours becomes.  It stays as a row
 * without an owner if there is something to say of the hash itself.
 */
struct expansion {
	const struct view *v;
	size_t at;
	struct scan_lock base;
	size_t n; /* rows so far */
};

static void begin(struct expansion *x, bool unread)
{
	x->base = x->v->scan->locks[x->at];
	x->base.hashed = true;
	x->v->scan->locks[x->at] = x->base;
	x->v->scan->locks[x->at].unread = unread;
	x->base.borrowed = x->base.borrowed_path = true;
	x->base.rest = x->base.rest_ranges = 0;
	x->base.damage = NULL;
	x->n = unread;
}

static struct scan_lock *add_owner(struct expansion *x,
				   const struct scan_owner *owner)
{
	struct scan_lock *lock = &x->v->scan->locks[x->at];

	if (x->n++) {
		lock = next_row(x->v->scan);
		*lock = x->base;
		x->v->scan->n++;
	}
	lock->ttl_ms = owner->left_ms;
	lock->seq = owner->seq;
	lock->exclusive = owner->exclusive;
	judge_value(x->v, owner->token, owner->token_len, lock);
	resolve_by_holder(lock);
	return lock;
}

/* Without a ttl it is there to stay, in the way of those who SET NX. */
static void finish(struct expansion *x)
{
	if (x->n)
		return;
	if (x->base.endless)
		x->v->scan->locks[x->at].unread = true;
	else
		drop(x->v->scan, x->at);
}

static void expand(struct expansion *x, const struct scan_owners *o)
{
	struct scan_lock *lock = &x->v->scan->locks[x->at];

	lock->rest = o->rest;
	begin(x, o->rest);
	for (size_t i = 0; i < o->n; i++)
		add_owner(x, &o->owners[i]);
	finish(x);
}

/* A range whose owner has expired, or is not there, holds nothing. */
static void expand_ranges(struct expansion *x, const struct scan_owners *o,
			  const struct scan_places *p)
{
	struct scan_lock *lock = &x->v->scan->locks[x->at];

	lock->rest = o->rest;
	lock->rest_ranges = p->rest;
	if (p->odd)
		lock->damage = "its ranges are at a key of another type";
	else if (p->lost && o->n)
		lock->damage = "its ranges are lost";
	begin(x, o->rest || p->rest || lock->damage);
	for (size_t i = 0; i < p->n; i++) {
		const struct scan_place *place = &p->places[i];
		const struct scan_owner *owner = scan_owners_find(
			o, (struct scan_text){ place->owner,
					       sizeof(place->owner) });

		if (owner)
			add_owner(x, owner)->range = place->range;
	}
	finish(x);
}

static int expand_records(struct dlk_conn *c, struct expansion *x,
			  const struct scan_owners *o)
{
	const struct scan_lock *lock = &x->v->scan->locks[x->at];
	struct scan_places places;
	int err = scan_places(c, lock->key, lock->key_len, &places);

	if (!err)
		expand_ranges(x, o, &places);
	scan_places_free(&places);
	return err;
}

/* The owners of the hash at row `at`; a foreign one stays as it is. */
static int expand_hash(struct dlk_conn *c, struct view *v, size_t at)
{
	struct scan *scan = v->scan;
	struct scan_lock *base = &scan->locks[at];
	struct scan_owners owners = { .records = base->record };
	struct expansion x = { .v = v, .at = at };
	int err = scan_owners(c, base->key, base->key_len, &owners);

	v->now_ns = dlk_now_ns();
	if (err == SCAN_GONE)
		drop(scan, at);
	else if (!err && owners.marked && owners.records)
		err = expand_records(c, &x, &owners);
	else if (!err && owners.marked)
		expand(&x, &owners);
	scan_owners_free(&owners);
	return err < 0 ? err : 0;
}

/* From the end, for rows are appended and the last one fills a gap. */
static int expand_hashes(struct dlk_conn *c, struct view *v, size_t from)
{
	int err = 0;

	for (size_t i = v->scan->n; i-- > from && !err;)
		if (!strcmp(v->scan->locks[i].type, "hash"))
			err = expand_hash(c, v, i);
	return err;
}

/* Those that belong to a lock, or to none, are nobody's. */
static void drop_companions(struct scan_keys *keys)
{
	size_t kept = 0;

	for (size_t i = 0; i < keys->n; i++)
		if (companion(keys->keys[i].bytes, keys->keys[i].len))
			free(keys->keys[i].bytes);
		else
			keys->keys[kept++] = keys->keys[i];
	keys->n = kept;
}

static int batch(struct dlk_conn *c, struct view *v, struct scan_key *keys,
		 size_t n)
{
	static struct scan_answer answers[SCAN_BATCH];
	int err = scan_ask(c, keys, n, answers);

	v->now_ns = dlk_now_ns();
	for (size_t i = 0; i < n && !err; i++)
		add(v, &keys[i], &answers[i]);
	dlk_conn_reset(c);
	return err;
}

/*
 * What was counted are entries of the queue, and some of them are of waiters that
 * have died: a script removes those when it comes by them.
 */
static int count_waiters(struct dlk_conn *c, struct view *v, size_t from)
{
	int err = 0;

	for (size_t i = from; i < v->scan->n && !err; i++) {
		struct scan_lock *lock = &v->scan->locks[i];
		struct scan_queue q = { .record = lock->record };

		if (!lock->waiters)
			continue;
		err = scan_queue(c, lock->key, lock->key_len, &q);
		lock->waiters = q.n;
		scan_queue_free(&q);
	}
	return err;
}

/* A batch of keys after the other; they are the caller's to free. */
static int scan_named(struct dlk_conn *c, struct view *v,
		      struct scan_keys *keys)
{
	int err = 0;

	drop_companions(keys);
	for (size_t i = 0, n; i < keys->n && !err; i += n) {
		size_t from = v->scan->n;

		n = scan_batch(keys->keys + i, keys->n - i);
		err = batch(c, v, keys->keys + i, n);
		if (!err)
			err = count_waiters(c, v, from);
		if (!err)
			err = expand_hashes(c, v, from);
	}
	return err;
}

/* One of many, perhaps, that dlock run wrote: then it may be removed. */
struct written {
	char text[DLK_PATH_MAX + 16];
};

static struct written written_in(const struct dlk_redis *redis)
{
	struct written w = { "" };

	if (redis->file)
		snprintf(w.text, sizeof(w.text), " (%s:%d)", redis->file,
			 redis->line);
	return w;
}

static struct scan_failure last; /* of those that could not be asked */

static int cannot(const struct dlk_redis *redis, const struct dlk_endpoint *ep,
		  enum tool_bar bar, const char *why)
{
	last.rc = tool_bar_exit(bar);
	last.bar = bar;
	snprintf(last.why, sizeof(last.why), "%s: %s%s", ep->name,
		 bar == TOOL_DENIED ? "not allowed: " : "", why);
	return tool_fail(last.rc, "redis \"%s\": %s%s", redis->name, last.why,
			 written_in(redis).text);
}

/* Nothing is asked of a section of which the password cannot be read. */
static int unusable(const struct dlk_redis *redis)
{
	last.bar = TOOL_UNREADY;
	last.rc = tool_bar_exit(last.bar);
	snprintf(last.why, sizeof(last.why), "%s", redis->fault);
	return tool_fail(last.rc, "%s", redis->fault);
}

static int scan_at(const struct dlk_redis *redis, unsigned i, scan_at_fn *fn,
		   void *arg)
{
	const struct dlk_endpoint *ep;
	const char *why;
	struct dlk_conn *c;
	enum tool_bar bar = tool_servers_known(redis, &why);
	int err, rc = 0;

	ep = tool_server(redis, i);
	if (bar)
		return cannot(redis, ep, bar, why);
	c = dlk_conn_new(ep);
	if (!c)
		return cannot(redis, ep, TOOL_SILENT, strerror(ENOMEM));
	c->clustered = redis->mode == DLK_CLUSTER;
	c->slot = DLK_NO_SLOT;
	err = fn(c, arg);
	if (err)
		rc = cannot(redis, ep, tool_bar(c, err), tool_why(c, err));
	dlk_conn_delete(c);
	return rc;
}

/* *good of them have answered; 0: all.  What is wrong with the section is told
 * once, however many servers it has. */
static int ask_each(const struct dlk_redis *redis, scan_at_fn *fn, void *arg,
		    unsigned *good)
{
	int rc = 0, one;

	*good = 0;
	if (redis->fault)
		return unusable(redis);
	for (unsigned i = 0; i < tool_servers(redis); i++) {
		one = scan_at(redis, i, fn, arg);
		*good += !one;
		rc = one ? one : rc;
	}
	return rc;
}

int scan_each(const struct dlk_redis *redis, scan_at_fn *fn, void *arg)
{
	unsigned good;

	return ask_each(redis, fn, arg, &good);
}

/* Of a quorum who is away is told of; what the others have is enough. */
int scan_servers(const struct dlk_redis *redis, scan_at_fn *fn, void *arg)
{
	unsigned good;
	int rc = ask_each(redis, fn, arg, &good);

	return good && good >= tool_needed(redis) ? 0 : rc;
}

static int find_keys(struct dlk_conn *c, const struct view *v,
		     struct scan_keys *keys)
{
	char key[SUBJECT_KEY_MAX];

	if (!v->subject)
		return scan_keys(c, v->config, v->redis, keys);
	if (subject_key_at(v->subject, "", c->ep, key))
		scan_keys_add(keys, key, strlen(key));
	if (subject_key_at(v->subject, RECORD_SUFFIX, c->ep, key))
		scan_keys_add(keys, key, strlen(key));
	return 0;
}

/*
 * Who may not read it knows less.  Each server has its own, by its own clock; but
 * of a cluster one node has it for all of them, and it is asked once.
 */
static void know_fleet(struct dlk_conn *c, struct view *v)
{
	const struct dlk_endpoint *at =
		v->redis->mode == DLK_CLUSTER
			? tool_server_of(v->redis, FLEET_KEY, strlen(FLEET_KEY))
			: c->ep;
	struct dlk_conn *its;

	if (v->fleet_at == at)
		return;
	fleet_free(&v->fleet);
	v->fleet_at = at;
	its = at == c->ep ? c : dlk_conn_new(at);
	if (its)
		fleet_read(its, &v->fleet);
	if (its != c)
		dlk_conn_delete(its);
}

static int scan_server(struct dlk_conn *c, void *view)
{
	struct view *v = view;
	struct scan_keys keys = { 0 };
	int err = find_keys(c, v, &keys);

	if (!err && keys.n) {
		know_fleet(c, v);
		err = scan_named(c, v, &keys);
	}
	scan_keys_free(&keys);
	return !err && v->also ? v->also(c, v->also_arg) : err;
}

static int by_token(const struct scan_token *a, const struct scan_token *b)
{
	int order = strcmp(a->hostname, b->hostname);

	if (!order)
		order = (a->pid > b->pid) - (a->pid < b->pid);
	return order ? order : strcmp(a->random, b->random);
}

/*
 * Of a holder that is not ours its value is all that tells it from another one: as
 * much of it as is kept.  And what is no lock has its type.
 */
static int by_value(const struct scan_lock *x, const struct scan_lock *y)
{
	int order = strcmp(x->type, y->type);

	if (!order)
		order = (x->value_len > y->value_len) -
			(x->value_len < y->value_len);
	return order ? order : memcmp(x->value, y->value, x->value_len);
}

/* Of one key: who holds it, foreign ones, what is left. */
static int by_owner(const struct scan_lock *x, const struct scan_lock *y)
{
	const uint64_t a = x->range.start, b = y->range.start;
	int order = x->unread - y->unread;

	if (!order)
		order = y->ours - x->ours;
	if (!order)
		order = x->ours ? by_token(&x->token, &y->token)
				: by_value(x, y);
	return order ? order : (a > b) - (a < b);
}

static int by_path(const void *a, const void *b)
{
	const struct scan_lock *x = a, *y = b;
	int order =
		strcmp(x->path ? x->path : x->key, y->path ? y->path : y->key);

	if (!order)
		order = strcmp(x->key, y->key);
	return order ? order : by_owner(x, y);
}

static bool is_same(const struct scan_lock *a, const struct scan_lock *b)
{
	return a->redis == b->redis && !strcmp(a->key, b->key) &&
	       a->ours == b->ours && a->unread == b->unread &&
	       a->range.start == b->range.start &&
	       (a->ours ? !strcmp(a->token.random, b->token.random)
			: !by_value(a, b));
}

/* The rows are sorted; and what several masters have is one lock. */
static void sort(struct scan *scan)
{
	struct scan_lock *first = NULL;

	if (scan->n)
		qsort(scan->locks, scan->n, sizeof(*scan->locks), by_path);
	for (size_t i = 0; i < scan->n; i++) {
		struct scan_lock *lock = &scan->locks[i];

		if (lock->redis->mode != DLK_QUORUM)
			continue;
		lock->copy = first && is_same(first, lock);
		if (!lock->copy)
			first = lock;
		first->masters++;
		if (lock->ttl_ms > first->ttl_ms)
			first->ttl_ms = lock->ttl_ms;
		/* (A master may have been away when doctor ran.) */
		if (first->held_ms < 0)
			first->held_ms = lock->held_ms;
	}
}

/* --- one server by two names ---------------------------------------------- */

/* The rows of a lease: a token is 128 random bits, and of no other one. */
static int by_lease(const void *a, const void *b)
{
	const struct scan_lock *x = *(struct scan_lock *const *)a;
	const struct scan_lock *y = *(struct scan_lock *const *)b;
	int order = strcmp(x->token.random, y->token.random);

	if (!order)
		order = strcmp(x->key, y->key);
	return order ? order : (x->redis > y->redis) - (x->redis < y->redis);
}

static bool is_at_home(const struct dlk_config *config,
		       const struct scan_lock *lock)
{
	const struct dlk_rule *rule =
		lock->path
			? dlk_config_match(config, lock->path, lock->path_len)
			: NULL;

	return rule && rule->redis == lock->redis;
}

/* Of a lease those count of the section whose rule it is, else of the first one. */
static void choose_section(const struct dlk_config *config,
			   struct scan_lock **rows, size_t n)
{
	const struct dlk_redis *redis = rows[0]->redis;

	if (redis == rows[n - 1]->redis)
		return;
	for (size_t i = n; i-- > 0;)
		if (is_at_home(config, rows[i]))
			redis = rows[i]->redis;
	for (size_t i = 0; i < n; i++)
		if (rows[i]->redis != redis)
			rows[i]->copy = true;
}

/*
 * Two sections may name one server, in two spellings or for two users, and then
 * each has all leases that are there.  Whether they do, its address does not tell.
 */
static void find_copies(const struct dlk_config *config, struct scan *scan)
{
	struct scan_lock **rows;
	size_t n = 0, end;

	if (config->n_redis < 2)
		return;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
	rows = tool_room(scan->n + 1, sizeof(*rows));
	for (size_t i = 0; i < scan->n; i++)
		if (scan->locks[i].ours)
			rows[n++] = &scan->locks[i];
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
	qsort(rows, n, sizeof(*rows), by_lease);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n; end++)
			if (strcmp(rows[i]->token.random,
				   rows[end]->token.random) ||
			    strcmp(rows[i]->key, rows[end]->key))
				break;
		choose_section(config, rows + i, end - i);
	}
	free(rows);
}

int scan_subject(const struct subject *s, struct scan *scan, scan_at_fn *also,
		 void *arg)
{
	struct view v = { .config = s->config,
			  .redis = s->rule->redis,
			  .scan = scan,
			  .subject = s,
			  .also = also,
			  .also_arg = arg };
	int rc;

	*scan = (struct scan){ 0 };
	boot_host(s->config->host_id, v.host);
	rc = scan_servers(v.redis, scan_server, &v);
	fleet_free(&v.fleet);
	sort(scan);
	return rc;
}

int scan_all(const struct dlk_config *config, struct scan *scan)
{
	struct view v = { .config = config, .scan = scan };
	int rc = 0;

	*scan = (struct scan){ 0 };
	scan->failed = tool_room(config->n_redis + 1, sizeof(*scan->failed));
	boot_host(config->host_id, v.host);
	for (unsigned i = 0; i < config->n_redis; i++) {
		v.redis = &config->redis[i];
		if (tool_config_uses(config, v.redis)) {
			int one = scan_servers(v.redis, scan_server, &v);

			rc = one ? one : rc;
			if (one)
				scan->failed[i] = last;
			scan->failed[i].rc = one;
		}
	}
	fleet_free(&v.fleet);
	sort(scan);
	find_copies(config, scan);
	return rc;
}

void scan_free(struct scan *scan)
{
	for (size_t i = 0; i < scan->n; i++) {
		if (!scan->locks[i].borrowed)
			free(scan->locks[i].key);
		if (!scan->locks[i].borrowed_path)
			free(scan->locks[i].path);
		scan_token_free(&scan->locks[i].token);
		free(scan->locks[i].holder);
	}
	free(scan->locks);
	free(scan->failed);
	*scan = (struct scan){ 0 };
}
