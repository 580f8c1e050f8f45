/* SPDX-License-Identifier: MIT */
/*
 * redis sections.
 *
 *  1. A section names its servers in one way: url or urls.
 *  2. A user name and a password come from one place each.
 *  3. No message shows a password.  One that cannot be had is no error of the
 *     file, but a fault of that Redis: it is not the same for all users, and
 *     what the other sections say holds all the same.
 *  4. A quorum counts no server twice: a majority would be none.
 *  5. A connect_timeout that is not written leaves room in each lease for a
 *     renewal that meets a dead connection (rules.c).
 *  6. Of mode = "sentinel" the URLs, and what logs in by them, are the
 *     Sentinels'; the one server of the section is the master that they name.
 *  7. The delay after a server's restart is at least the longest lease that
 *     it may have forgotten (DESIGN L5); less is said, and 0s is meant.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config/internal.h"
#include "os/secret.h"
#include "os/sys.h"

enum {
	CONNECT_TIMEOUT_MS = 2000,
	CONNECT_TIMEOUT_MAX_MS = 60 * 1000,
	REPLICAS_MAX = 1000,
	QUORUM_MIN = 3,
	QUORUM_MAX = 15,
	SENTINELS_MAX = 15,
};

/* All servers of one section, while they are being filled in. */
struct servers {
	cfg_t *sec;
	const char *option; /* "url" or "urls" */
	struct dlk_redis *redis;
	struct dlk_endpoint *ep;
	unsigned n;
	unsigned sentinels; /* the last ones; then the first is the master */
	bool by_helper;     /* has their passwords */
};

/* Who logs in, and by which password: at the servers, or at the Sentinels. */
struct login {
	const char *username, *password_file; /* the options */
	struct dlk_endpoint *ep;
	unsigned n;
};

static int parse_url(struct dlk_build *b, struct servers *s, unsigned i)
{
	const char *url = cfg_getnstr(s->sec, s->option, i);
	struct dlk_error why = { "" };

	if (!dlk_url_parse(url, &s->ep[i], &why)) {
		if (s->ep[i].password[0] && b->exposed)
			dlk_opt_warn(
				b, s->sec, s->option,
				"holds a password, and everybody may read this "
				"file (use password_file, or chmod o-r)");
		return 0;
	}
	/* Whatever has an '@' may hold a password. */
	if (strchr(url, '@'))
		return dlk_opt_fail(b, s->sec, s->option, "%s", why.text);
	return dlk_opt_fail(b, s->sec, s->option, "\"%.200s\": %s", url,
			    why.text);
}

static int build_urls(struct dlk_build *b, struct servers *s)
{
	unsigned one = cfg_size(s->sec, "url");
	unsigned n = cfg_size(s->sec, "urls"), i;
	int ret = 0;

	if (one && n)
		return dlk_opt_fail(b, s->sec, "urls",
				    "url is given as well (one of the two says "
				    "where Redis is)");
	if (!one && !n)
		return dlk_fail(b, s->sec->line,
				"redis \"%.300s\" has no url (such as url = "
				"\"redis://127.0.0.1:6379/0\")",
				cfg_title(s->sec));
	if (n > DLK_URLS_MAX)
		return dlk_opt_fail(b, s->sec, "urls", "more than %d URLs",
				    DLK_URLS_MAX);
	s->option = one ? "url" : "urls";
	n = one ? 1 : n;
	s->ep = dlk_own(b, n, sizeof(*s->ep));
	if (!s->ep)
		return -ENOMEM;
	s->n = n;
	for (i = 0; !ret && i < n; i++)
		ret = parse_url(b, s, i);
	return ret;
}

static int set_username(struct dlk_build *b, struct servers *s,
			const struct login *l)
{
	const char *name = dlk_opt_text(s->sec, l->username);

	if (!name)
		return 0;
	if (!*name || dlk_has_control(name) ||
	    strlen(name) >= sizeof(s->ep->username))
		return dlk_opt_fail(b, s->sec, l->username,
				    "\"%.200s\" is not a user name (1 to %zu "
				    "bytes, no control bytes)",
				    name, sizeof(s->ep->username) - 1);
	for (unsigned i = 0; i < l->n; i++) {
		if (l->ep[i].username[0])
			return dlk_opt_fail(
				b, s->sec, l->username,
				"the URL of %s has a user name as well",
				l->ep[i].name);
		memcpy(l->ep[i].username, name, strlen(name) + 1);
	}
	return 0;
}

static void warn_exposed(struct dlk_build *b, struct servers *s,
			 const char *option, const char *file, mode_t mode)
{
	const char *what = dlk_secret_exposed(mode);

	if (what)
		dlk_opt_warn(b, s->sec, option,
			     "\"%.200s\" may be %s (mode %03o)", file, what,
			     (unsigned)mode & 0777);
}

/* What is wrong with it becomes the fault of that Redis. */
static int read_password(struct dlk_build *b, struct servers *s,
			 const char *option, const char *file,
			 char text[DLK_SECRET_SIZE])
{
	struct dlk_error *err = b->err, fault = { "" };
	char why[200];
	mode_t mode;
	int ret = dlk_secret_read(file, text, &mode, why, sizeof(why));

	warn_exposed(b, s, option, file, mode);
	if (!ret)
		return 0;
	b->err = &fault;
	dlk_opt_fail(b, s->sec, option, "\"%.200s\" %s", file, why);
	b->err = err;
	s->redis->fault = dlk_own_text(b, fault.text);
	return s->redis->fault ? 0 : -ENOMEM;
}

static int set_password(struct dlk_build *b, struct servers *s,
			const struct login *l, const char *file)
{
	char text[DLK_SECRET_SIZE];
	int ret = read_password(b, s, l->password_file, file, text);

	for (unsigned i = 0; !ret && i < l->n; i++)
		memcpy(l->ep[i].password, text, strlen(text) + 1);
	explicit_bzero(text, sizeof(text));
	return ret;
}

/* Only its name is ours: who reads it is asked for each connection. */
static int set_password_file(struct dlk_build *b, struct servers *s,
			     const struct login *l, const char *file)
{
	struct stat st;

	if (strlen(file) >= sizeof(l->ep->password_file))
		return dlk_opt_fail(b, s->sec, l->password_file,
				    "\"%.200s\" is longer than %zu bytes", file,
				    sizeof(l->ep->password_file) - 1);
	if (dlk_stat(file, &st, 0) == 0)
		warn_exposed(b, s, l->password_file, file, st.st_mode);
	for (unsigned i = 0; i < l->n; i++)
		memcpy(l->ep[i].password_file, file, strlen(file) + 1);
	return 0;
}

static int set_secret(struct dlk_build *b, struct servers *s,
		      const struct login *l)
{
	const char *file = dlk_opt_text(s->sec, l->password_file);

	for (unsigned i = 0; i < l->n; i++) {
		if (!l->ep[i].password[0])
			continue;
		if (s->by_helper)
			return dlk_opt_fail(b, s->sec, "credentials",
					    "the URL of %s has a password, "
					    "which every program reads (say it "
					    "in %s)",
					    l->ep[i].name, l->password_file);
		if (file)
			return dlk_opt_fail(
				b, s->sec, l->password_file,
				"the URL of %s has a password as well",
				l->ep[i].name);
	}
	if (!file)
		return 0;
	if (*file != '/')
		return dlk_opt_fail(b, s->sec, l->password_file,
				    "\"%.200s\" is not an absolute path", file);
	return s->by_helper ? set_password_file(b, s, l, file)
			    : set_password(b, s, l, file);
}

/* Who has the passwords of this section: each program, or its helper. */
static int set_credentials(struct dlk_build *b, struct servers *s)
{
	static const char *const words[] = { "program", "helper", NULL };
	unsigned by = 0;
	int ret = dlk_opt_choice(b, s->sec, "credentials", words, &by);

	s->by_helper = by;
	if (!ret && s->by_helper && !dlk_opt_text(s->sec, "password_file") &&
	    !dlk_opt_text(s->sec, "sentinel_password_file"))
		return dlk_opt_fail(b, s->sec, "credentials",
				    "there is no password_file");
	return ret;
}

static int check_login(struct dlk_build *b, struct servers *s,
		       const struct login *l)
{
	for (unsigned i = 0; i < l->n && !s->redis->fault; i++) {
		if (l->ep[i].username[0] && !l->ep[i].password[0] &&
		    !l->ep[i].password_file[0])
			return dlk_fail(b, dlk_opt_line(s->sec, l->username),
					"redis \"%.300s\" has a user name for "
					"%s and no password (%s)",
					cfg_title(s->sec), l->ep[i].name,
					l->password_file);
	}
	return 0;
}

static int set_login(struct dlk_build *b, struct servers *s,
		     const struct login *l)
{
	return set_username(b, s, l)
		?: set_secret(b, s, l)
		?: check_login(b, s, l);
}

static int set_logins(struct dlk_build *b, struct servers *s)
{
	const struct login servers = { "username", "password_file", s->ep,
				       s->n - s->sentinels };
	const struct login sentinels = { "sentinel_username",
					 "sentinel_password_file",
					 s->ep + s->n - s->sentinels,
					 s->sentinels };

	return set_credentials(b, s)
		?: set_login(b, s, &servers)
		?: set_login(b, s, &sentinels);
}

/* --- Sentinels ------------------------------------------------------------ */

static int check_sentinels(struct dlk_build *b, struct servers *s,
			   const char *name)
{
	if (s->n > SENTINELS_MAX)
		return dlk_opt_fail(b, s->sec, s->option,
				    "more than %d Sentinels", SENTINELS_MAX);
	if (!*name || dlk_has_control(name) || strlen(name) >= 64)
		return dlk_opt_fail(b, s->sec, "master",
				    "\"%.200s\" is not the name of a master (1 "
				    "to 63 bytes, no control bytes)",
				    name);
	for (unsigned i = 1; i < s->n; i++) {
		if (s->ep[i].db != s->ep[0].db ||
		    s->ep[i].scheme != s->ep[0].scheme)
			return dlk_opt_fail(
				b, s->sec, s->option,
				"%s and %s differ in what is the master's: the "
				"database, or whether TLS is spoken",
				s->ep[0].name, s->ep[i].name);
	}
	return 0;
}

/* The database in their URLs is the master's: it is not in their names. */
static void cut_database(struct dlk_endpoint *ep)
{
	char *at = strrchr(ep->name, ep->scheme == DLK_UNIX ? '?' : '/');

	ep->db = 0;
	if (at)
		*at = '\0';
}

static void name_both(struct dlk_endpoint *ep, unsigned n, const char *name)
{
	char by[33];

	for (unsigned i = 1; i <= n; i++)
		cut_database(&ep[i]);
	strcpy(ep->host, name);
	snprintf(by, sizeof(by), "%.32s", ep[1].name);
	snprintf(ep->name, sizeof(ep->name), "%.63s/%d (by Sentinel %s)", name,
		 ep->db, by);
}

static int refuse_options(struct dlk_build *b, struct servers *s)
{
	static const char *const options[] = { "master", "sentinel_username",
					       "sentinel_password_file" };

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		if (dlk_opt_text(s->sec, options[i]))
			return dlk_opt_fail(b, s->sec, options[i],
					    "mode is not \"sentinel\"");
	}
	return 0;
}

/* Whose URLs are read becomes the Sentinels of one server more, the first. */
static int set_master(struct dlk_build *b, struct servers *s)
{
	const char *name = dlk_opt_text(s->sec, "master");
	struct dlk_endpoint *ep;
	int ret;

	if (s->redis->mode != DLK_SENTINEL)
		return refuse_options(b, s);
	name = name ? name : cfg_title(s->sec);
	ret = check_sentinels(b, s, name);
	if (ret)
		return ret;
	ep = dlk_own(b, s->n + 1, sizeof(*ep));
	if (!ep)
		return -ENOMEM;
	/* There is one, for what dlk_opt_fail() answers is never 0. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
	memcpy(ep + 1, s->ep, s->n * sizeof(*ep));
	ep->scheme = ep[1].scheme == DLK_TLS ? DLK_TLS : DLK_TCP;
	ep->db = ep[1].db;
	ep->n_sentinels = s->n;
	ep->connect_timeout_ms = ep[1].connect_timeout_ms;
	ep->allow_eviction = ep[1].allow_eviction;
	ep->replicas = s->redis->replicas;
	name_both(ep, s->n, name);
	explicit_bzero(s->ep, s->n * sizeof(*ep));
	s->ep = ep;
	s->sentinels = s->n++;
	return 0;
}

/* --- TLS ------------------------------------------------------------------ */

static const struct tls_option {
	const char *name;
	size_t at; /* in struct dlk_tls_options */
	bool is_file;
} tls_options[] = {
	{ "ca_file", offsetof(struct dlk_tls_options, ca_file), true },
	{ "cert_file", offsetof(struct dlk_tls_options, cert_file), true },
	{ "key_file", offsetof(struct dlk_tls_options, key_file), true },
	{ "server_name", offsetof(struct dlk_tls_options, server_name), false },
};

static int set_tls_option(struct dlk_build *b, struct servers *s,
			  const struct tls_option *o)
{
	const char *text = dlk_opt_text(s->sec, o->name);
	bool any = false;

	if (!text)
		return 0;
	if (!*text || dlk_has_control(text) ||
	    strlen(text) >= DLK_TLS_TEXT_MAX || (o->is_file && *text != '/'))
		return dlk_opt_fail(b, s->sec, o->name,
				    "\"%.200s\" is not %s (1 to %d bytes, no "
				    "control bytes)",
				    text,
				    o->is_file ? "an absolute path"
					       : "the name of a server",
				    DLK_TLS_TEXT_MAX - 1);
	for (unsigned i = 0; i < s->n; i++) {
		any |= s->ep[i].scheme == DLK_TLS;
		memcpy((char *)&s->ep[i].tls + o->at, text, strlen(text) + 1);
	}
	return any ? 0
		   : dlk_opt_fail(b, s->sec, o->name,
				  "no URL of this section is rediss://");
}

/* Who shows a certificate proves by its key that it is his. */
static int set_tls(struct dlk_build *b, struct servers *s)
{
	const bool cert = dlk_opt_text(s->sec, "cert_file");
	const bool key = dlk_opt_text(s->sec, "key_file");
	int ret = 0;

	for (size_t i = 0;
	     !ret && i < sizeof(tls_options) / sizeof(*tls_options); i++)
		ret = set_tls_option(b, s, &tls_options[i]);
	if (!ret && cert != key)
		ret = dlk_opt_fail(b, s->sec, cert ? "cert_file" : "key_file",
				   "%s is missing (the two go together)",
				   cert ? "key_file" : "cert_file");
	return ret;
}

static bool same_server(const struct dlk_endpoint *a,
			const struct dlk_endpoint *b)
{
	return a->port == b->port && !strcasecmp(a->host, b->host) &&
	       !strcmp(a->path, b->path);
}

static int check_once(struct dlk_build *b, struct servers *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (same_server(&s->ep[i], &s->ep[k]))
				return dlk_opt_fail(
					b, s->sec, s->option,
					"%s is one server with %s (a quorum "
					"counts each once)",
					s->ep[i].name, s->ep[k].name);
		}
	}
	return 0;
}

static int check_quorum(struct dlk_build *b, struct servers *s)
{
	if (s->n < QUORUM_MIN || s->n > QUORUM_MAX)
		return dlk_opt_fail(
			b, s->sec, "mode",
			"\"quorum\" needs %d to %d servers, urls names %u",
			QUORUM_MIN, QUORUM_MAX, s->n);
	if (s->n % 2 == 0)
		return dlk_opt_fail(
			b, s->sec, "mode",
			"\"quorum\" needs an odd number of servers: %u bear "
			"no more failures than %u",
			s->n, s->n - 1);
	if (s->redis->replicas)
		return dlk_opt_fail(
			b, s->sec, "replicas",
			"the masters of a quorum are independent of each "
			"other, and their replicas count for nothing");
	return check_once(b, s);
}

/* The nodes that the others tell of are reached as the first one is. */
static int check_cluster(struct dlk_build *b, struct servers *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (s->ep[i].db)
			return dlk_opt_fail(b, s->sec, s->option,
					    "%s: a cluster has database 0 only",
					    s->ep[i].name);
		if (s->ep[i].scheme == DLK_UNIX)
			return dlk_opt_fail(b, s->sec, s->option,
					    "%s: the nodes of a cluster are "
					    "reached by redis:// or rediss://",
					    s->ep[i].name);
		if (s->ep[i].scheme != s->ep[0].scheme ||
		    strcmp(s->ep[i].username, s->ep[0].username) != 0 ||
		    strcmp(s->ep[i].password, s->ep[0].password) != 0)
			return dlk_opt_fail(b, s->sec, s->option,
					    "%s and %s: the nodes of a cluster "
					    "have one user and password, and "
					    "all of them TLS or none",
					    s->ep[0].name, s->ep[i].name);
	}
	return 0;
}

static int check_mode(struct dlk_build *b, struct servers *s)
{
	switch (s->redis->mode) {
	case DLK_SINGLE:
		if (s->n > 1)
			return dlk_opt_fail(
				b, s->sec, "urls",
				"%u servers, but mode is \"single\" (say "
				"\"sentinel\", \"cluster\" or \"quorum\")",
				s->n);
		return 0;
	case DLK_CLUSTER:
		return check_cluster(b, s);
	case DLK_QUORUM:
		return check_quorum(b, s);
	case DLK_SENTINEL:
		return 0;
	}
	return 0;
}

static int read_numbers(struct dlk_build *b, struct servers *s)
{
	static const char *const modes[] = { "single", "sentinel", "cluster",
					     "quorum", NULL };
	uint32_t timeout = 0; /* it follows the rules: set_timeout() */
	int ret;
	bool evicts = false;

	ret = dlk_opt_choice(b, s->sec, "mode", modes, &s->redis->mode)
		?: dlk_opt_duration(b, s->sec, "connect_timeout", 1,
				       CONNECT_TIMEOUT_MAX_MS, &timeout)
		?: dlk_opt_bool(b, s->sec, "allow_eviction", &evicts)
		?: dlk_opt_number(b, s->sec, "replicas", REPLICAS_MAX,
				     &s->redis->replicas);
	for (unsigned i = 0; i < s->n; i++) {
		s->ep[i].connect_timeout_ms = timeout;
		s->ep[i].allow_eviction = evicts;
		s->ep[i].replicas = s->redis->replicas;
	}
	return ret;
}

static int build_one(struct dlk_build *b, cfg_t *sec, unsigned n)
{
	struct dlk_redis *redis = &b->redis[n];
	struct servers s = { .sec = sec, .redis = redis };
	const char *title = cfg_title(sec);
	int ret;

	if (!*title || dlk_has_control(title))
		return dlk_fail(b, sec->line,
				"\"%.300s\" is not a name for a redis section "
				"(1 byte or more, no control bytes)",
				title);
	redis->file = b->own->pub.file;
	redis->line = sec->line;
	redis->name = dlk_own_text(b, title);
	if (!redis->name)
		return -ENOMEM;
	ret = build_urls(b, &s)
		?: read_numbers(b, &s)
		?: set_master(b, &s)
		?: set_logins(b, &s)
		?: set_tls(b, &s)
		?: check_mode(b, &s);
	b->endpoints[n] = s.ep;
	redis->endpoints = s.ep;
	redis->n_endpoints = s.n - s.sentinels;
	return ret;
}

int dlk_servers_build(struct dlk_build *b, cfg_t *cfg)
{
	unsigned n = cfg_size(cfg, "redis"), i;
	int ret = 0;

	b->redis = dlk_own(b, n, sizeof(*b->redis));
	b->endpoints = dlk_own(b, n, sizeof(void *));
	if (!b->redis || !b->endpoints)
		return -ENOMEM;
	for (i = 0; !ret && i < n; i++)
		ret = build_one(b, cfg_getnsec(cfg, "redis", i), i);
	b->own->pub.redis = b->redis;
	b->own->pub.n_redis = n;
	return ret;
}

/* The shortest and the longest lease of the rules that use `redis`. */
struct ttls {
	uint32_t least, most; /* 0: there is no such rule */
};

static struct ttls find_ttls(const struct dlk_build *b,
			     const struct dlk_redis *redis)
{
	struct ttls t = { 0, 0 };

	for (unsigned i = 0; i < b->own->pub.n_rules; i++) {
		const struct dlk_rule *rule = &b->rules[i];

		if (redis && rule->redis != redis)
			continue;
		if (!t.least || rule->ttl_ms < t.least)
			t.least = rule->ttl_ms;
		if (rule->ttl_ms > t.most)
			t.most = rule->ttl_ms;
		if (rule->hold_at_least_ms > t.most)
			t.most = rule->hold_at_least_ms;
	}
	return t;
}

/* Where it is not written, it is what the shortest lease leaves room for. */
static void set_timeout(struct dlk_build *b, unsigned n, uint32_t least_ttl)
{
	uint32_t timeout = CONNECT_TIMEOUT_MS;
	unsigned k;

	if (least_ttl && timeout > least_ttl / DLK_TTL_PER_TIMEOUT)
		timeout = least_ttl / DLK_TTL_PER_TIMEOUT;
	for (k = 0; k < b->redis[n].n_endpoints + b->endpoints[n]->n_sentinels;
	     k++) {
		struct dlk_endpoint *ep = &b->endpoints[n][k];

		if (!ep->connect_timeout_ms)
			ep->connect_timeout_ms = timeout;
	}
}

static int set_delay(struct dlk_build *b, cfg_t *sec, unsigned n,
		     uint32_t longest_ttl)
{
	uint32_t delay = find_ttls(b, NULL).most ?: DLK_TTL_DEFAULT_MS;
	int ret = dlk_opt_duration(b, sec, "restart_delay", 0, DLK_TTL_MAX_MS,
				   &delay);

	if (ret)
		return ret;
	if (delay && delay < longest_ttl)
		dlk_opt_warn(b, sec, "restart_delay",
			     "%s is less than the longest ttl or hold_at_least "
			     "of its paths, %s: a restarted server may hand "
			     "out a lock that is still held",
			     dlk_span(delay).text, dlk_span(longest_ttl).text);
	for (unsigned k = 0; k < b->redis[n].n_endpoints; k++)
		b->endpoints[n][k].restart_delay_ms = delay;
	return 0;
}

int dlk_servers_follow(struct dlk_build *b, cfg_t *cfg)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < b->own->pub.n_redis; i++) {
		struct ttls t = find_ttls(b, &b->redis[i]);

		set_timeout(b, i, t.least);
		ret = set_delay(b, cfg_getnsec(cfg, "redis", i), i, t.most);
	}
	return ret;
}
