/* SPDX-License-Identifier: MIT */
/*
 * What the files of config/ share with each other and with nobody else.
 *
 *	config.c	the file: have it read, call the rest in order
 *	text.c		comments blanked, what libconfuse gets wrong refused
 *	syntax.c	libconfuse; from here on there are sections and options
 *	streams.c	the streams of a libconfuse inside a library
 *	option.c	one option: its value, its line, its error
 *	servers.c	redis sections
 *	rules.c		path sections
 *	place.c		where a prefix leads on this host
 *
 * Errors: the first one is kept.  Every failing function has set the error's
 * text and returns -errno.
 */
#ifndef DLK_CONFIG_INTERNAL_H
#define DLK_CONFIG_INTERNAL_H

#include <confuse.h>
#include <stdio.h>

#include "config/config.h"
#include "os/arena.h"

enum {
	DLK_FILE_MAX = 1 << 20,          /* bytes of a configuration */
	DLK_SYNTAX_MEMORY_MAX = 1 << 28, /* what libconfuse makes of them */
	DLK_SECTIONS_MAX = 1024,
	DLK_URLS_MAX = 64,
	DLK_TEMPLATE_MAX = 1024,
	DLK_PATTERN_MAX = 1024,
};

/* The configuration and all memory it owns. */
struct dlk_owned {
	struct dlk_config pub; /* first: dlk_config_free() casts */
	struct dlk_arena arena;
};

/* One run of the parser. */
struct dlk_build {
	const char *file;
	bool secure;
	bool exposed; /* everybody may read the file */
	dlk_warn_fn *warn;
	void *warn_arg;
	struct dlk_error *err;
	struct dlk_owned *own;
	struct dlk_redis *redis;
	struct dlk_endpoint **endpoints; /* of each redis, still writable */
	struct dlk_rule *rules;
	struct dlk_search *search; /* memory for read_place() */
	unsigned *section_lines;   /* of each section, in file order */
	unsigned n_sections, n_closed;
};

/* --- error.c --- */

/* Set err's text unless one is there; what is not printable is '?'. */
__attribute__((format(printf, 2, 3))) int dlk_error_set(struct dlk_error *err,
							const char *fmt, ...);

/* The same after "FILE:LINE: "; returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int dlk_fail(struct dlk_build *b,
						   int line, const char *fmt,
						   ...);

/* "out of memory"; returns -ENOMEM. */
int dlk_no_memory(struct dlk_build *b);

__attribute__((format(printf, 3, 4))) void dlk_warn(struct dlk_build *b,
						    int line, const char *fmt,
						    ...);

/*
 * Zeroed memory that lives as long as the configuration, and that no core dump
 * has; NULL: err is set.
 */
void *dlk_own(struct dlk_build *b, size_t n, size_t size);
char *dlk_own_text(struct dlk_build *b, const char *text);

/* --- duration.c --- */

/* Space for "24h", "30s", "1500ms". */
struct dlk_span {
	char text[32];
};
struct dlk_span dlk_span(uint64_t ms);

/* --- text.c --- */

/* A copy for libconfuse, without comments; the caller frees *out. */
int dlk_text_prepare(struct dlk_build *b, const char *text, size_t len,
		     char **out);

/* --- syntax.c --- */

int dlk_syntax_parse(struct dlk_build *b, const char *text, cfg_t **out);
void dlk_syntax_free(cfg_t *cfg);

/* --- streams.c --- */

extern FILE *dlk_stdin, *dlk_stdout, *dlk_stderr;
/* Before libconfuse is called. */
void dlk_syntax_streams(void);
/* What it calls for fmemopen(3). */
FILE *dlk_fmemopen(void *text, size_t size, const char *mode);

/* --- option.c --- */

bool dlk_has_control(const char *text);

/* The text of an option or NULL; where it stands, or else its section. */
const char *dlk_opt_text(cfg_t *sec, const char *name);
int dlk_opt_line(cfg_t *sec, const char *name);

/* Fail with "option 'NAME' of KIND "TITLE": " before the text. */
__attribute__((format(printf, 4, 5))) int dlk_opt_fail(struct dlk_build *b,
						       cfg_t *sec,
						       const char *name,
						       const char *fmt, ...);
__attribute__((format(printf, 4, 5))) void dlk_opt_warn(struct dlk_build *b,
							cfg_t *sec,
							const char *name,
							const char *fmt, ...);

/*
 * Each leaves *out alone where the option is not written.  A duration is in ms, of
 * DLK_TTL_MAX_MS at most.
 */
int dlk_opt_duration(struct dlk_build *b, cfg_t *sec, const char *name,
		     uint32_t min, uint32_t max, uint32_t *out);
int dlk_opt_number(struct dlk_build *b, cfg_t *sec, const char *name,
		   unsigned max, unsigned *out);
int dlk_opt_bool(struct dlk_build *b, cfg_t *sec, const char *name, bool *out);
/*
 * Which of the words; an enum without a negative value is an unsigned (of gcc and
 * clang, or the call does not compile).
 */
int dlk_opt_choice(struct dlk_build *b, cfg_t *sec, const char *name,
		   const char *const words[], unsigned *out);

/* --- servers.c --- */

int dlk_servers_build(struct dlk_build *b, cfg_t *cfg);
/* Once the rules are known: what follows from their leases. */
int dlk_servers_follow(struct dlk_build *b, cfg_t *cfg);

/* --- rules.c --- */

int dlk_rules_build(struct dlk_build *b, cfg_t *cfg);

/* --- key.c, match.c: pure --- */

/* What is wrong with a template, or NULL. */
const char *dlk_key_check(const char *key);

/* The bytes of the prefix, as it is written, that %r and exclude leave out. */
size_t dlk_rule_base(const struct dlk_rule *rule);

/*
 * The path below the prefix; of a rule for one file, that file's last
 * component as the configuration spells it.  False: it is not covered.
 */
struct dlk_below {
	const char *text;
	size_t len;
};
bool dlk_rule_below(const struct dlk_rule *rule, const char *path, size_t len,
		    struct dlk_below *below);

/* What is wrong with a pattern, or NULL; whether it matches len bytes. */
const char *dlk_glob_check(const char *pattern);
bool dlk_glob(const char *pattern, const char *text, size_t len);

#endif
