/* SPDX-License-Identifier: MIT */
/*
 * The address of a Redis:
 *
 *	redis://[USER:PASSWORD@]HOST[:PORT][/DB]	rediss:// for TLS
 *	unix://[USER:PASSWORD@]/PATH[?db=DB]
 *
 *  1. A URL is taken whole or refused: nothing unknown is skipped.
 *  2. No message and no name shows a user name's or password's bytes.
 *  3. USER, PASSWORD and PATH are percent-decoded; HOST is not.
 *
 * Pure: no I/O, no look-up of names, no allocation.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "config/internal.h"

enum { REDIS_PORT = 6379, DB_MAX = 65535 };

/* A part of the URL; never NUL-terminated. */
struct part {
	const char *p;
	size_t len;
};

static void skip(struct part *s, size_t n)
{
	s->p += n;
	s->len -= n;
}

static bool cut(struct part *rest, const char *stops, struct part *head)
{
	size_t n = 0;

	while (n < rest->len && !strchr(stops, rest->p[n]))
		n++;
	*head = (struct part){ rest->p, n };
	skip(rest, n);
	return rest->len > 0;
}

/* At most 5 digits, so it cannot overflow; -1: no number. */
static int32_t number(struct part s)
{
	int32_t n = 0;

	if (s.len == 0 || s.len > 5)
		return -1;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		n = n * 10 + (s.p[i] - '0');
	}
	return n;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int decode(struct part s, char *out, size_t size, const char *what,
		  struct dlk_error *err)
{
	size_t i, n = 0;

	for (i = 0; i < s.len; i++) {
		int c = (unsigned char)s.p[i];

		if (c == '%') {
			int high = s.len - i > 2 ? hex_digit(s.p[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(s.p[i + 2]) : -1;

			c = low >= 0 ? high * 16 + low : 0;
			i += 2;
		}
		if (!c)
			return dlk_error_set(
				err,
				"the %s of this URL holds a '%%' that begins "
				"no %%XX (%%25 is a percent sign)",
				what);
		if (n + 1 >= size)
			return dlk_error_set(
				err,
				"the %s of this URL is longer than %zu bytes",
				what, size - 1);
		out[n++] = (char)c;
	}
	out[n] = '\0';
	return 0;
}

/*
 * "redis://name@host" is a user name to some clients and a password to
 * others; here it is a user name, whose password comes from elsewhere.
 */
static int parse_user(struct part info, struct dlk_endpoint *ep,
		      struct dlk_error *err)
{
	struct part user;

	if (cut(&info, ":", &user)) {
		skip(&info, 1);
		if (!info.len)
			return dlk_error_set(
				err, "the password of this URL is empty");
	}
	return decode(user, ep->username, sizeof(ep->username), "user name",
		      err)
		       ?: decode(info, ep->password, sizeof(ep->password),
				 "password", err);
}

/* Take "USER:PASSWORD@" off the authority, which ends at its last '@'. */
static int take_user(struct part *authority, struct dlk_endpoint *ep,
		     struct dlk_error *err)
{
	const char *last = memrchr(authority->p, '@', authority->len);
	struct part info;

	if (!last)
		return 0;
	info = (struct part){ authority->p, (size_t)(last - authority->p) };
	skip(authority, info.len + 1);
	return parse_user(info, ep, err);
}

static int bad_host(struct part host, struct dlk_error *err)
{
	return dlk_error_set(err,
			     "\"%.*s\" is not a host (a name, an IPv4 address, "
			     "or an IPv6 address in [])",
			     (int)(host.len > 255 ? 255 : host.len), host.p);
}

static int set_ipv6(struct part host, struct dlk_endpoint *ep,
		    struct dlk_error *err)
{
	char address[INET6_ADDRSTRLEN] = "";
	struct in6_addr in6;
	struct part zone = host, bare;

	cut(&zone, "%", &bare);
	if (bare.len < sizeof(address))
		memcpy(address, bare.p, bare.len);
	if (host.len >= sizeof(ep->host) || zone.len == 1 ||
	    inet_pton(AF_INET6, address, &in6) != 1)
		return bad_host(host, err);
	memcpy(ep->host, host.p, host.len);
	return 0;
}

static int set_name(struct part host, struct dlk_endpoint *ep,
		    struct dlk_error *err)
{
	if (host.len == 0 || host.len >= sizeof(ep->host))
		return bad_host(host, err);
	for (size_t i = 0; i < host.len; i++) {
		char c = host.p[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
		    !(c >= 'A' && c <= 'Z') && !strchr("-._", c))
			return bad_host(host, err);
	}
	memcpy(ep->host, host.p, host.len);
	return 0;
}

static int parse_port(struct part s, struct dlk_endpoint *ep,
		      struct dlk_error *err)
{
	int32_t port;

	ep->port = REDIS_PORT;
	if (!s.len)
		return 0;
	skip(&s, 1);
	port = number(s);
	if (port < 1 || port > 65535)
		return dlk_error_set(err, "\"%.*s\" is not a port (1 to 65535)",
				     (int)(s.len > 255 ? 255 : s.len), s.p);
	ep->port = (uint32_t)port;
	return 0;
}

static int parse_host(struct part s, struct dlk_endpoint *ep,
		      struct dlk_error *err)
{
	bool bracket = s.len && *s.p == '[';
	struct part host, whole = s;
	int ret;

	if (bracket)
		skip(&s, 1);
	cut(&s, bracket ? "]" : ":", &host);
	if (bracket) {
		if (!s.len)
			return bad_host(whole, err);
		skip(&s, 1);
		if (s.len && *s.p != ':')
			return bad_host(whole, err);
	} else if (s.len && memchr(s.p + 1, ':', s.len - 1)) {
		return bad_host(whole, err);
	}
	ret = bracket ? set_ipv6(host, ep, err) : set_name(host, ep, err);
	return ret ?: parse_port(s, ep, err);
}

static int set_db(struct part s, struct dlk_endpoint *ep, bool *set,
		  struct dlk_error *err)
{
	int32_t db = number(s);

	if (db < 0 || db > DB_MAX)
		return dlk_error_set(
			err,
			"\"%.*s\" is not a database (a number, 0 to 65535)",
			(int)(s.len > 255 ? 255 : s.len), s.p);
	if (*set && ep->db != db)
		return dlk_error_set(err,
				     "the URL names two databases, %d and %d",
				     ep->db, db);
	*set = true;
	ep->db = db;
	return 0;
}

/* "?db=N", and nothing else: a parameter that is skipped is a surprise. */
static int parse_query(struct part s, struct dlk_endpoint *ep, bool db_set,
		       struct dlk_error *err)
{
	struct part name;
	int ret = 0;

	while (!ret && s.len) {
		skip(&s, 1);
		cut(&s, "=&", &name);
		if (name.len != 2 || memcmp(name.p, "db", 2) != 0 || !s.len ||
		    *s.p != '=')
			return dlk_error_set(err, "this URL has a parameter "
						  "that is not db=NUMBER");
		skip(&s, 1);
		cut(&s, "&", &name);
		ret = set_db(name, ep, &db_set, err);
	}
	return ret;
}

static int parse_unix(struct part path, struct dlk_endpoint *ep,
		      struct dlk_error *err)
{
	int ret;

	if (path.len < 2 || *path.p != '/')
		return dlk_error_set(err, "a unix URL names an absolute path "
					  "(unix:///run/redis.sock)");
	ret = decode(path, ep->path, sizeof(ep->path), "socket path", err);
	if (ret)
		return ret;
	snprintf(ep->name, sizeof(ep->name), "unix:%s?db=%d", ep->path, ep->db);
	return 0;
}

static int parse_tcp(struct part authority, struct part path,
		     struct dlk_endpoint *ep, bool *db_set,
		     struct dlk_error *err)
{
	int ret = parse_host(authority, ep, err);

	if (ret || path.len < 2)
		return ret;
	skip(&path, 1);
	return set_db(path, ep, db_set, err);
}

/* The host is cut to what fits: a name for messages, not an address. */
static void name_tcp(struct dlk_endpoint *ep)
{
	bool v6 = strchr(ep->host, ':') != NULL;

	snprintf(ep->name, sizeof(ep->name), "%s%.100s%s:%u/%d", v6 ? "[" : "",
		 ep->host, v6 ? "]" : "", ep->port, ep->db);
}

static bool parse_scheme(struct part *s, struct dlk_endpoint *ep)
{
	static const struct {
		const char *text;
		enum dlk_scheme scheme;
	} schemes[] = {
		{ "redis://", DLK_TCP },
		{ "rediss://", DLK_TLS },
		{ "unix://", DLK_UNIX },
	};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
		size_t n = strlen(schemes[i].text);

		if (s->len < n || memcmp(s->p, schemes[i].text, n) != 0)
			continue;
		ep->scheme = schemes[i].scheme;
		skip(s, n);
		return true;
	}
	return false;
}

static int check_bytes(struct part s, struct dlk_error *err)
{
	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f)
			return dlk_error_set(
				err,
				"this URL holds a space or a control byte");
	}
	if (memchr(s.p, '#', s.len))
		return dlk_error_set(err, "this URL holds a '#' (in a password "
					  "it is written %%23)");
	return 0;
}

/* After the scheme: authority, path, query, in this order. */
static int parse_rest(struct part s, struct dlk_endpoint *ep,
		      struct dlk_error *err)
{
	struct part authority, path;
	bool db_set = false;
	int ret;

	cut(&s, "/?", &authority);
	/* A raw '/' in a password would make the rest of it a path. */
	if (ep->scheme != DLK_UNIX && memchr(s.p, '@', s.len))
		return dlk_error_set(
			err, "this URL has an '@' after its '/' (in a password "
			     "'/' is written %%2F and '?' %%3F)");
	cut(&s, "?", &path);
	ret = take_user(&authority, ep, err);
	if (!ret && ep->scheme != DLK_UNIX)
		ret = parse_tcp(authority, path, ep, &db_set, err);
	if (!ret)
		ret = parse_query(s, ep, db_set, err);
	if (!ret && ep->scheme == DLK_UNIX)
		ret = parse_unix(authority.len ? authority : path, ep, err);
	else if (!ret)
		name_tcp(ep);
	return ret;
}

int dlk_url_parse(const char *url, struct dlk_endpoint *ep,
		  struct dlk_error *err)
{
	struct part s = { url, strlen(url) };
	int ret;

	memset(ep, 0, sizeof(*ep));
	ret = check_bytes(s, err);
	if (ret)
		return ret;
	if (!parse_scheme(&s, ep))
		return dlk_error_set(
			err, "this is no URL of a Redis (redis://HOST:PORT/DB, "
			     "rediss://HOST:PORT/DB or unix:///PATH?db=DB)");
	return parse_rest(s, ep, err);
}
