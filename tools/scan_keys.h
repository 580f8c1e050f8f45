/* SPDX-License-Identifier: MIT */
/*
 * Step one of a scan: the keys on one server that any rule's template gives.
 */
#ifndef DLK_TOOLS_SCAN_KEYS_H
#define DLK_TOOLS_SCAN_KEYS_H

#include <stddef.h>

#include "config/config.h"
#include "redis/conn.h"

struct scan_key {
	char *bytes; /* NUL-terminated; owned */
	size_t len;
};

struct scan_keys {
	struct scan_key *keys; /* sorted, each once */
	size_t n, room;
};

/* 0, or -errno (the connection's `error` says why). */
int scan_keys(struct dlk_conn *c, const struct dlk_config *config,
	      const struct dlk_redis *redis, struct scan_keys *keys);
void scan_keys_add(struct scan_keys *keys, const char *name, size_t len);
void scan_keys_free(struct scan_keys *keys);

/*
 * 0: the reply is of this type; or it is WRONGTYPE or none, for the key was
 * made anew, or is gone, since.
 * Else -EACCES (this user may not), -EREMOTEIO (an error), -EPROTO; the
 * connection's `error` has the server's words.
 */
int scan_check(struct dlk_conn *c, const redisReply *reply, int type);
/* A command, and that. */
int scan_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
	      int type, const redisReply **reply);

/*
 * The answer to SCAN or HSCAN: where it goes on, and what it has.  0, or -EPROTO.
 */
enum { SCAN_CURSOR = 24 };
int scan_page(const redisReply *reply, char cursor[SCAN_CURSOR],
	      const redisReply **page);

/*
 * A command of at most SCAN_WORDS words: 0, and its reply is of this type; else
 * as scan_check(), or -EREMOTEIO and `wrong` for what is of another type.
 */
enum { SCAN_WORDS = 18 };
int scan_command(struct dlk_conn *c, int argc, const char *const *argv,
		 int type, const char *wrong, const redisReply **reply);

#endif
