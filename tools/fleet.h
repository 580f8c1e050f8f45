/* SPDX-License-Identifier: MIT */
/*
 * The fleet: what each host that doctor has run on manages, and how, as it left
 * it at a server.
 *
 *	dlock%fleet	a hash; HOST HOSTNAME = "1 SEEN BOOT" and a line for
 *			each rule, "PREFIX KEY TTL HOLD AT SERVERS"
 *
 * HOST is the word of a token (boot id and host_id).  SEEN is the server's clock
 * in ms when it was left, BOOT the host's CLOCK_BOOTTIME in ns of that moment:
 * so the `since` of a token of that host is a moment by the server's clock, too.
 * AT is "-" for a lock at this very server and database, else the (first)
 * server's address.  SERVERS is the mode, and of a quorum its addresses in their
 * order; an older version left none, a newer one perhaps more words.
 * Words are escaped as those of a token.
 *
 * Anybody may have written it: what is no such text is passed over, and at most
 * FLEET_MAX entries are kept.  Nobody's lock depends on it.
 */
#ifndef DLK_TOOLS_FLEET_H
#define DLK_TOOLS_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "redis/conn.h"

#define FLEET_KEY "dlock%fleet"

enum { FLEET_MAX = 4096, FLEET_RULES = 64, FLEET_KEPT_DAYS = 30 };

struct fleet_rule {
	const char *prefix, *key, *at; /* unescaped; `at` is "" for here */
	const char *servers;           /* "": not known */
	uint64_t ttl_ms, hold_ms;
};

struct fleet_host {
	char *field, *text; /* owned */
	const char *host;   /* in the field: the word of a token */
	const char *name;   /* and its host name, escaped as there */
	int64_t seen_ms;    /* the server's clock */
	uint64_t boot_ns;   /* its own, at that moment */
	struct fleet_rule rules[FLEET_RULES];
	unsigned n_rules;
};

struct fleet {
	struct fleet_host *hosts;
	size_t n, room;
	bool cut;       /* there are more, or larger ones than any dlock left */
	int64_t now_ms; /* the server's clock */
};

/*
 * All that is left there.  0 or -errno (the connection's `error` says why);
 * in either case fleet_free().
 */
int fleet_read(struct dlk_conn *c, struct fleet *f);
void fleet_free(struct fleet *f);

/* Pure: one entry; false if it is none, or one too many. */
bool fleet_add(struct fleet *f, const char *field, size_t field_len,
	       const char *text, size_t len);

/*
 * How long ago that was, by the server's clock, in ms; -1: it is not known of
 * that host (a token's HOST).
 */
int64_t fleet_age_ms(const struct fleet *f, const char *host,
		     uint64_t since_ns);

/*
 * Was it left before that host was booted again, or is it older than
 * FLEET_KEPT_DAYS?  Pure.
 */
bool fleet_is_stale(const struct fleet *f, const struct fleet_host *h);

/* Leave this host's entry at a server, `redis` one of its sections; -errno. */
int fleet_leave(struct dlk_conn *c, const struct dlk_config *config,
		const struct dlk_redis *redis);
/* Take away those that are stale. */
void fleet_sweep(struct dlk_conn *c, const struct fleet *f);

/* HOST and HOSTNAME of this one, as in the field; NUL-terminated. */
enum { FLEET_FIELD_MAX = 512 };
void fleet_own_field(const struct dlk_config *config,
		     char field[FLEET_FIELD_MAX]);

/* Is `rule` locked, perhaps among others, by that server of that section? */
bool fleet_is_here(const struct dlk_rule *rule, const struct dlk_redis *redis,
		   const struct dlk_endpoint *ep);
/* SERVERS: what two hosts MUST have in common to exclude each other there. */
enum { FLEET_SERVERS_MAX = 2048 };
void fleet_servers(const struct dlk_redis *redis, char text[FLEET_SERVERS_MAX]);

#endif
