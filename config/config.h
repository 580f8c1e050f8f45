/* SPDX-License-Identifier: MIT */
/*
 * The configuration: which paths are managed, and by which Redis.
 *
 * Calling sequence: dlk_config_load() once, early and in one thread; then any
 * number of dlk_config_match() and dlk_key_*() calls.  The configuration is
 * never changed after it is loaded, so the later calls are thread-,
 * fork- and async-signal-safe, and allocate nothing.
 *
 * Durations are in milliseconds.  Errors are negative errno values.
 */
#ifndef DLK_CONFIG_H
#define DLK_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DLK_CONFIG_DEFAULT    DLK_SYSCONFDIR "/dlock/dlock.conf"
#define DLK_STATE_DIR_DEFAULT "/run/dlock"

/* Bounds: paths as the kernel names them, keys after the template. */
enum {
	DLK_PATH_MAX = 4096,
	DLK_KEY_MAX = 16384,
	DLK_STATE_DIR_MAX = 200,
	DLK_TTL_MIN_MS = 200,
	DLK_TTL_DEFAULT_MS = 30 * 1000,
	DLK_TTL_MAX_MS = 24 * 3600 * 1000,
	DLK_TTL_PER_TIMEOUT = 6, /* at least, of connect_timeout: rules.c */
};

enum dlk_scheme { DLK_TCP, DLK_TLS, DLK_UNIX };
enum dlk_mode { DLK_SINGLE, DLK_SENTINEL, DLK_CLUSTER, DLK_QUORUM };
/* What becomes of a holder that cannot prove its lock any more (DESIGN L6). */
enum dlk_on_lost {
	DLK_LOST_KILL,
	DLK_LOST_HOLD,
	DLK_LOST_PAUSE,
	DLK_LOST_REPORT,
};

/* Its holders are not to run past the stop mark of their lease. */
static inline bool dlk_lost_stops(enum dlk_on_lost o)
{
	return o == DLK_LOST_KILL || o == DLK_LOST_PAUSE;
}

/* It is asked for beyond its end, for they may have it still, or again. */
static inline bool dlk_lost_lasts(enum dlk_on_lost o)
{
	return o == DLK_LOST_HOLD || o == DLK_LOST_PAUSE;
}

enum dlk_unreachable { DLK_UNREACHABLE_FAIL, DLK_UNREACHABLE_LOCAL };
enum dlk_local { DLK_LOCAL_FILE, DLK_LOCAL_SHADOW };
enum dlk_coherence { DLK_COHERENCE_AUTO, DLK_COHERENCE_ON, DLK_COHERENCE_OFF };

/*
 * TLS: whose certificates are trusted (a file of them; "": the system's), what
 * the server asks of us, and under which name it is known ("": `host`).
 */
enum { DLK_TLS_TEXT_MAX = 128 };

struct dlk_tls_options {
	char ca_file[DLK_TLS_TEXT_MAX];
	char cert_file[DLK_TLS_TEXT_MAX], key_file[DLK_TLS_TEXT_MAX];
	char server_name[DLK_TLS_TEXT_MAX];
};

/*
 * One server, with all that is needed to reach it.  Flat, of fixed size and
 * without pointers: it is handed to the keeper as it is.
 */
struct dlk_endpoint {
	int32_t scheme; /* enum dlk_scheme */
	int32_t db;     /* SELECT; 0 .. 65535 */
	uint32_t port;
	uint32_t connect_timeout_ms; /* also the bound of one command */
	uint64_t restart_delay_ms;   /* DESIGN L5, delayed restart */
	uint32_t replicas;           /* that must have what counts (WAIT) */
	uint32_t n_sentinels;        /* those behind it are Sentinels, who
					say where it is; `host` is then its
					name (redis/sentinel.h); 0: none */
	char host[256];              /* TCP, TLS: name or address, no [] */
	char path[108];              /* unix: the socket */
	char username[128];          /* empty: AUTH with a password only */
	char password[512];          /* empty: no AUTH by us */
	char password_file[128];     /* who connects for us reads it, and does
					AUTH (redis/tls.h); empty: nobody */
	int32_t allow_eviction;      /* a truth; no padding: compared as bytes
				      */
	struct dlk_tls_options tls;
	char name[128]; /* for messages: "127.0.0.1:6379/0",
					never with the password */
};

/*
 * Where an absolute path leads, as far as it exists and may be looked at; what
 * comes after that is taken as it is written.  A slash at the end is kept.
 */
struct dlk_place {
	char path[DLK_PATH_MAX];
	size_t len;
	bool directory;   /* that is there */
	bool linked;      /* it leads through a symbolic link */
	unsigned lacks;   /* components at the end that do not exist */
	unsigned unasked; /* that lie in a share which was not looked into */
	int why;          /* the errno of the first that does not exist */
	bool impossible;  /* by a ".." of what is not there: no file can be
			     opened so, until it is */
};

/*
 * What may be looked into: what is on a block device, on the `known` devices,
 * on the share `also` (0: none), or all there is.
 */
enum { DLK_KNOWN_MAX = 8 };

struct dlk_reach {
	bool all;
	bool learn; /* what else is of this machine becomes known */
	dev_t also;
	dev_t known[DLK_KNOWN_MAX];
	unsigned n_known;
};

/* One search; the caller's memory, 12 KiB. */
struct dlk_search {
	struct dlk_place place; /* the result */
	char rest[DLK_PATH_MAX], target[DLK_PATH_MAX];
	unsigned links;
	bool closed;
};

/*
 * 0; or -ELOOP, -ENAMETOOLONG: nothing can be opened by this path.
 * Async-signal-safe; allocates nothing.
 */
int dlk_place_find(const char *path, struct dlk_reach *reach,
		   struct dlk_search *search);

struct dlk_redis {
	const char *name;
	enum dlk_mode mode;
	const struct dlk_endpoint *endpoints;
	unsigned n_endpoints; /* at least 1 */
	unsigned replicas;
	const char *fault; /* why it cannot be used by this user: the password
			      file; a message as in dlk_error.  NULL: it can */
	const char *file;  /* that it is of; NULL: of none */
	int line;
};

struct dlk_rule {
	const char *prefix; /* absolute; ends in '/' for a directory,
			       else names one file */
	size_t prefix_len;
	const char *place; /* where that leads, without symbolic links: the
			      kernel's name of it, when it was read */
	size_t place_len;
	bool there;   /* it covered something then, or a file to come in a
			 directory that was there */
	bool movable; /* it may lead elsewhere by now */
	const char *const *exclude; /* fnmatch(3) patterns, see dlock.conf(5) */
	unsigned n_exclude;
	const struct dlk_redis *redis;
	const char *key;           /* the template, validated */
	bool by_inode, tells_path; /* what it has: dlk_key_by_inode(), ... */
	uint32_t ttl_ms;
	uint32_t timeout_ms;
	uint32_t hold_at_least_ms; /* flock, exclusive; 0: no longer than it is
				      held */
	enum dlk_on_lost on_lost;
	uint32_t pause_ms; /* of "pause": for how long at most; else 0 */
	enum dlk_unreachable unreachable;
	enum dlk_local local;
	enum dlk_coherence coherence;
	bool fair, interop;
	int line;
};

struct dlk_config {
	const char *file;
	const char *host_id;   /* "" unless configured */
	const char *state_dir; /* absolute */
	const struct dlk_redis *redis;
	unsigned n_redis;
	const struct dlk_rule *rules; /* longest prefix first */
	unsigned n_rules;
	unsigned n_there; /* rules that covered something when it was read */
	unsigned n_movable;
	struct dlk_reach reach; /* what was known when it was read */
};

/* One message: "FILE:LINE: option 'ttl': '3x' is not a duration (...)". */
struct dlk_error {
	char text[1024];
};

/* What a loaded configuration should be warned of, one call a warning. */
typedef void dlk_warn_fn(void *arg, const char *text);

/*
 * Parse `file` (libconfuse), check it, and return it in *out.  In a process
 * in secure mode (AT_SECURE) pass secure = true: a file that uses ${VAR} is
 * then refused, for the environment is another's.  The result is the
 * caller's; dlk_config_free().
 *
 * 0, or -errno (-ENOENT, -EACCES: the file; -EPERM: others may write it, and
 * we are root; -EINVAL: its text; -ENOMEM),
 * with err->text set.  Not thread-safe (libconfuse is not), never exits,
 * prints nothing.
 */
int dlk_config_load(const char *file, bool secure, dlk_warn_fn *warn, void *arg,
		    struct dlk_config **out, struct dlk_error *err);

/* The same for a text in memory; `file` serves messages only. */
int dlk_config_parse(const char *file, const char *text, size_t len,
		     bool secure, dlk_warn_fn *warn, void *arg,
		     struct dlk_config **out, struct dlk_error *err);

void dlk_config_free(struct dlk_config *config);

/* Has an absolute path a component "." or ".."? */
bool dlk_path_has_dots(const char *path);

/* Is the rule for all below a directory, or else for one file? */
static inline bool dlk_rule_is_directory(const struct dlk_rule *rule)
{
	return rule->prefix[rule->prefix_len - 1] == '/';
}

/* Does the prefix cover the path, as it is written or where it leads? */
bool dlk_rule_covers(const struct dlk_rule *rule, const char *path);

/*
 * The two names of a path that the rule covers, whichever of them it is: as the
 * configuration spells the prefix, and by the place that this leads to.  In a
 * buffer of `size` bytes, which may be that of the path.  Length, or -EINVAL,
 * -ENAMETOOLONG.
 */
ssize_t dlk_rule_spell(const struct dlk_rule *rule, const char *path,
		       size_t len, char *out, size_t size);
ssize_t dlk_rule_lead(const struct dlk_rule *rule, const char *path, size_t len,
		      char *out, size_t size);

/*
 * The rule of an absolute path (len bytes, NUL-terminated as well), or NULL.
 * A prefix counts as it is written and as the place that it leads to; the
 * longest that covers the path wins.  A path that its exclude patterns name
 * is managed by no rule at all.
 */
const struct dlk_rule *dlk_config_match(const struct dlk_config *config,
					const char *path, size_t len);

/*
 * The same by where the prefixes lead now: links are made, and made to lead
 * elsewhere, while programs run.  `device` is that of the file: if that is a
 * share, it may be asked.  Where a rule covers the path only now, the path (of
 * `size` bytes) is written anew as that rule spells it.  0, or -ENAMETOOLONG.
 * Async-signal-safe.  Not worth it if, `rule` being the answer of
 * dlk_config_match(), dlk_config_may_follow() is false.
 */
bool dlk_config_may_follow(const struct dlk_config *config,
			   const struct dlk_rule *rule);
int dlk_config_follow(const struct dlk_config *config, dev_t device, char *path,
		      size_t size, struct dlk_search *search,
		      const struct dlk_rule **rule);

/* "1500ms", "2s", "3m", "1h" to milliseconds; -EINVAL, -ERANGE. */
int dlk_duration(const char *text, uint64_t *ms);

/* "redis://user:pw@host:port/db", "unix:///path?db=0", "rediss://..." */
int dlk_url_parse(const char *url, struct dlk_endpoint *ep,
		  struct dlk_error *err);

/*
 * The key of a path: the rule's template with %p (the path), %r (the path
 * below the prefix), %i (`inode`, os/file_id.h) and %% replaced.  %p begins
 * with the prefix as the configuration spells it, wherever that leads: hosts
 * that differ in a link make the same key.  In %p and %r the bytes '%', '{',
 * '}' and control bytes (0x01-0x1f, 0x7f) stand as %XX (DESIGN L9).  Writes at
 * most size bytes with the NUL; returns the key's length, or -ENAMETOOLONG,
 * or -EINVAL for a path that is not under the rule's prefix, or an inode that
 * is wanted and NULL.  For a rule of
 * one file, what is below the prefix is the file's last component.
 */
ssize_t dlk_key_expand(const struct dlk_rule *rule, const char *path,
		       size_t len, const char *inode, char *key, size_t size);

/* Has a template %i?  Has it %p or %r, so that a key tells the path? */
bool dlk_key_by_inode(const char *key);
bool dlk_key_tells_path(const char *key);

/*
 * The way back: the path that a key of this rule was made of, below the
 * rule's own prefix as it is written.  Returns its length, or -EINVAL if no
 * path of the template gives this key, or many: an inode tells no path.
 */
ssize_t dlk_key_to_path(const struct dlk_rule *rule, const char *key,
			size_t len, char *path, size_t size);

/*
 * The glob (Redis SCAN MATCH) that finds all keys of the rule's template:
 * glob-special bytes of its fixed part escaped.  Length or -ENAMETOOLONG.
 */
ssize_t dlk_key_glob(const struct dlk_rule *rule, char *glob, size_t size);

#endif
