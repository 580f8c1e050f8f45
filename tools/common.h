/* SPDX-License-Identifier: MIT */
/*
 * What dlock and dlockctl share: exit codes, messages, names on a terminal,
 * the choice of the configuration, paths as the shim sees them.
 *
 * Both tools are single-threaded.  A message is one line on stderr, begins
 * with the tool's name and has every control byte escaped, whatever a file,
 * a key or a server put into it.
 */
#ifndef DLK_TOOLS_COMMON_H
#define DLK_TOOLS_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define DLK_VERSION "0.1"

/* sysexits.h where it has a name for it; 126 and 127 are the shell's. */
enum dlk_exit {
	DLK_EXIT_OK = 0,
	DLK_EXIT_NOTHING = 1, /* nothing found, a check failed */
	DLK_EXIT_USAGE = 64,
	DLK_EXIT_UNAVAILABLE = 69, /* Redis */
	DLK_EXIT_DENIED = 77,      /* Redis answers, and refuses this user */
	DLK_EXIT_CONFIG = 78,
	DLK_EXIT_CANNOT = 126, /* found, but cannot be run */
	DLK_EXIT_NOT_FOUND = 127,
};

/* The name in front of every message. */
extern const char *tool_name;
/* First thing in main(). */
void tool_begin(const char *name);

/* Hears the text of each message as well; NULL: nobody does. */
extern void (*tool_listener)(const char *text);

/* The exit code of a tool that has no memory to go on. */
extern int tool_unable;

/* One line on stderr. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Would one be taken at once?  Else it waits for who reads, who may be stopped. */
bool tool_is_read(void);

/* The same, and `code` back: "return tool_fail(DLK_EXIT_USAGE, ...)". */
int tool_fail(int code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Memory, never NULL: the tool ends with a message when there is none.  Zeroed;
 * a copy with a NUL behind it; an array of which `n` are used, with room for one
 * more.  And that end, for who gets memory by other means.
 */
void *tool_room(size_t n, size_t each);
char *tool_copy(const void *bytes, size_t len);
void *tool_grow(void *array, size_t n, size_t *room, size_t each);
/* (cppcheck 2.10 does not heed _Noreturn in a header.) */
__attribute__((noreturn)) void tool_no_memory(void);

/* Do these bytes end so, with some before it? */
bool tool_ends(const char *bytes, size_t len, const char *end);

/* A duration in words, as one function or another has it. */
struct tool_span {
	char text[32];
};

/*
 * For a terminal: printable UTF-8 as it is, '\' doubled, every other byte
 * as \xNN (model/text.h).  Writes at most size - 1 bytes and a NUL, never half
 * a character; returns what was written.
 */
size_t tool_show(char *out, size_t size, const char *bytes, size_t len);
/* The same in memory of its own. */
char *tool_shown(const char *text);
/* Behind what stands in `out`, and "; ", as far as there is room. */
void tool_append(char *out, size_t size, const char *format, va_list args);

/*
 * The configuration file: the option's, else $DLOCK_CONFIG, else the default,
 * unless it does not exist: NULL.
 */
const char *tool_config_file(const char *option);

/*
 * Load it, with its warnings and its error as messages.  0, or an exit code.
 */
int tool_config_load(const char *file, struct dlk_config **out);

/*
 * That of the host, where options say what is locked and at which Redis: its
 * host_id and state_dir count whatever is locked.  NULL: there is none; or it
 * cannot be had, which is said.  dlk_config_free().
 */
struct dlk_config *tool_config_host(void);

/* Say so if no rule covers anything that exists. */
void tool_config_idle(const struct dlk_config *config);

/* Does any rule use it? */
bool tool_config_uses(const struct dlk_config *config,
		      const struct dlk_redis *redis);

/*
 * The ttl of what is locked at a server whose section was written for others: the
 * default, but no longer than a restarted server waits for its leases to end,
 * and no shorter than connect_timeout allows.
 */
uint32_t tool_ttl_beside(const struct dlk_endpoint *ep);

/*
 * How many of its servers are looked at: all of a quorum, all masters of a
 * cluster (which is asked for them), else one.  And how many must answer.
 */
unsigned tool_servers(const struct dlk_redis *redis);
/*
 * A cluster is asked once.  Slots move and masters fail: who looks again later,
 * or has waited for somebody, lets it be asked anew.
 */
void tool_servers_forget(void);
/*
 * What keeps us from a server, or it from what it was asked for; and the exit code
 * for it, and its words: "does not answer", "cannot be used".
 */
enum tool_bar {
	TOOL_SILENT = 1, /* no answer comes */
	TOOL_REFUSED, /* it answers, and does it for nobody; or is not trusted */
	TOOL_DENIED,  /* it answers that this user may not */
	TOOL_UNREADY, /* a file of ours, as that of the password, is at fault */
};
int tool_bar_exit(enum tool_bar bar);
const char *tool_bar_words(enum tool_bar bar);
/*
 * Are they known?  0; of a cluster that no node tells of only its first URL is
 * left: what keeps us from that one, and what it said.
 */
enum tool_bar tool_servers_known(const struct dlk_redis *redis,
				 const char **why);
unsigned tool_needed(const struct dlk_redis *redis);
/* The i-th of them; the one that a key is at, of a quorum the first. */
const struct dlk_endpoint *tool_server(const struct dlk_redis *redis,
				       unsigned i);
const struct dlk_endpoint *tool_server_of(const struct dlk_redis *redis,
					  const char *key, size_t len);
/* Of a cluster who has the key; NULL: a node that nobody has named. */
const struct dlk_endpoint *tool_node_of(const struct dlk_redis *redis,
					const char *key, size_t len);
/* Is a key to be looked for there?  (Each of a quorum may have it.) */
bool tool_has_key(const struct dlk_redis *redis, const struct dlk_endpoint *ep,
		  const char *key, size_t len);

/*
 * The path as /proc/self/fd would name it, found as the shim finds the place
 * of a prefix (config.h).  A trailing slash is not kept.  0 or -errno.
 */
int tool_resolve(const char *path, char out[DLK_PATH_MAX]);

/*
 * The private runtime directory of dlock run: the i-th that it may be, 0 the
 * one that it is in this environment; false: there are no more.  A descriptor
 * of it, or -errno; -EPERM: it is not ours, or others can enter it.
 */
bool tool_run_dir(unsigned i, char dir[DLK_PATH_MAX]);
int tool_run_dir_open(const char *dir);

/*
 * A file of dlock's: beside us, as in a build tree, if it is there and can be
 * used so (access(2)); else where it is installed.
 */
void tool_beside(const char *name, const char *installed, int mode,
		 char file[DLK_PATH_MAX]);

/*
 * Does the server answer a PING?  0, or what keeps it from that with the reason in
 * `why`.  An answer that refuses PING alone is an answer.
 */
enum tool_bar tool_ping(const struct dlk_endpoint *ep, char *why, size_t size);

/* Does anybody listen there?  A socket of that type; 0 or -errno. */
int tool_listens(const char *path, int type);
/* Are they one server and database? */
bool tool_same_server(const struct dlk_endpoint *a,
		      const struct dlk_endpoint *b);
/* The time by which one command to this server must be answered. */
uint64_t tool_deadline(const struct dlk_endpoint *ep);
/* One command, on a connection that is opened if need be: 0 or -errno. */
struct dlk_conn;
struct dlk_arg;
struct redisReply;
int tool_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
	      const struct redisReply **reply);
/*
 * May the user do much, but not this, or nobody (NOPERM, an unknown command)?
 * NULL: there was no answer.
 */
bool tool_is_forbidden(const struct redisReply *reply);
/* Of an error that was answered: -EACCES, it is the user's; or -EREMOTEIO. */
int tool_refusal(struct dlk_conn *c, const struct redisReply *reply);
/* Why that, or what else was done with the connection, failed; NULL: it has none. */
const char *tool_why(const struct dlk_conn *c, int err);
enum tool_bar tool_bar(const struct dlk_conn *c, int err);
/* "\nNAME:NUMBER" in the text of INFO, or `otherwise`. */
uint64_t tool_info(const char *info, const char *name, uint64_t otherwise);

#endif
