/* SPDX-License-Identifier: MIT */
/*
 * The locks that are in Redis now, as far as the rules' templates find them.
 *
 * Read-only: SCAN, PTTL, GETRANGE, TYPE; of its queue EXISTS, HLEN, TIME, HSCAN; of a
 * hash HSTRLEN, HGET, HLEN, TIME, HSCAN; of its ranges ZRANGEBYLEX, ZLEXCOUNT,
 * EXISTS.  A key
 * is found once, however many templates match it; what it holds is somebody's
 * bytes and never trusted: at most DLK_TOKEN_MAX of them are kept, of a hash of
 * leases so many of each owner.  The answer is no snapshot: a lock that comes
 * or goes meanwhile may be there or not.
 */
#ifndef DLK_TOOLS_SCAN_H
#define DLK_TOOLS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "model/range.h"
#include "model/token.h"
#include "tools/common.h"
#include "tools/scan_token.h"

enum { SCAN_VALUE_MAX = 40 }; /* what is kept of a foreign value */

/* One for each key; or for each owner in a hash, and each range of it. */
struct scan_lock {
	const struct dlk_redis *redis;
	char *key; /* NUL-terminated; may hold others */
	size_t key_len;
	char *path; /* by the key, or by the token; else NULL */
	size_t path_len;
	const struct dlk_rule *rule; /* that the key is of; or NULL */
	uint64_t seq;                /* records: its owner's last request */
	bool borrowed;               /* the key belongs to another row, */
	bool borrowed_path;          /* or the path does */
	bool record;                 /* KEY%rec: record locks, else flock */
	bool hashed;                 /* of a hash that is ours */
	bool exclusive;              /* the same, and yet no reader's */
	struct dlk_range range;      /* records, unless `unread` */
	char type[16];               /* Redis' word for the value's type */
	bool ours;                   /* the value is a token: `token` is set */
	bool here;          /* its host's kernel is the one we run on, */
	bool of_host;       /* and its host_id, too, is ours */
	bool endless;       /* the key has no ttl */
	int64_t ttl_ms;     /* of this owner; -1: none */
	int64_t held_ms;    /* -1: unknown, another host's clock counts, of
			       which nothing is known (fleet.h) */
	bool unread;        /* hashed: no owner, the hash itself */
	size_t waiters;     /* in the key's queue, that live */
	size_t rest;        /* its fields that were not read */
	size_t rest_ranges; /* the same of its companion */
	const char *damage; /* what is wrong with it, or NULL */
	bool moved;         /* the locked file has another name, or none */
	unsigned masters; /* of a quorum: that have it, of those that answer */
	bool copy; /* this row is that of another one: of another master, or of
		      another section that has this server, too */
	struct scan_holder *holder; /* who it is here (holder.h); or NULL */
	size_t value_len;           /* of a foreign holder */
	char value[SCAN_VALUE_MAX + 1];
	struct scan_token token;
};

/* Why its locks are not known. */
struct scan_failure {
	int rc; /* an exit code; 0: they are */
	enum tool_bar bar;
	char why[512];
};

struct scan {
	struct scan_lock *locks; /* by path, then key */
	size_t n, room;
	struct scan_failure *failed; /* scan_all: of each of the configuration's
					servers */
};

/*
 * 0, or an exit code after a message: then what the other servers have is
 * there all the same.  In either case scan_free().
 */
int scan_all(const struct dlk_config *config, struct scan *scan);
void scan_free(struct scan *scan);

/*
 * What is done at one server, by a connection of its own, which is not open yet:
 * 0 or -errno.
 */
struct dlk_conn;
typedef int scan_at_fn(struct dlk_conn *c, void *arg);
/*
 * It is done at each of those that tool_servers() counts.  0, where enough of them
 * have answered; or an exit code, after a message for each that has not.
 */
int scan_servers(const struct dlk_redis *redis, scan_at_fn *fn, void *arg);
/* The same, but all of them are to answer: what one has the others may not have. */
int scan_each(const struct dlk_redis *redis, scan_at_fn *fn, void *arg);

/*
 * As scan_all(), of the two keys of one path, which has a key, at the servers that
 * may have them.  At each that has answered, `also` asks more; NULL: nobody does.
 */
struct subject;
int scan_subject(const struct subject *s, struct scan *scan, scan_at_fn *also,
		 void *arg);

#endif
