/* SPDX-License-Identifier: MIT */
/*
 * The parts of `dlock run`.  Each returns 0, or the exit code that dlock is
 * to end with after it has said why on stderr.
 */
#ifndef DLK_TOOLS_RUN_H
#define DLK_TOOLS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/* The command line. */
struct run_options {
	const char *config;       /* -c */
	const char *redis;        /* --redis */
	const char *const *paths; /* --path, as given */
	unsigned n_paths;
	bool allow_unlocked;
	char **argv; /* the command */
};

/* What the command will run under. */
struct run_plan {
	char config[DLK_PATH_MAX];  /* DLOCK_CONFIG */
	char program[DLK_PATH_MAX]; /* what execvp(3) would find */
	char shim[DLK_PATH_MAX];    /* LD_PRELOAD */
	uint32_t ttl_ms;            /* of the rules written; 0: the default */
	bool own_server;            /* a private Redis is needed */
	struct dlk_endpoint server; /* that one */
	struct dlk_config *loaded;
};

/* run_config.c: choose or write the configuration, and load it. */
int run_config(const struct run_options *opt, struct run_plan *plan);

/*
 * run_beside.c: does what the options manage go with the configuration of the host?
 */
int run_beside(const struct dlk_config *host, const struct dlk_config *own);

/* run_check.c: find the shim and the program; can the two meet? */
int run_check(const struct run_options *opt, struct run_plan *plan);

/*
 * run_away.c: why what this command starts would not be locked, though it can
 * be itself; or NULL.
 */
const char *run_away(char *const argv[]);

/* run_search.c: a command's file as execvp(3) finds it.  0, 126 or 127. */
int run_search(const char *command, char file[DLK_PATH_MAX]);

/* run_server.c: start the private server if need be; does each one answer? */
int run_server(const struct run_plan *plan);
int run_ping(const struct run_plan *plan);

/* run_dir.c: the private runtime directory, made if it is missing. */
int run_dir(char dir[DLK_PATH_MAX]);

/* Replace a file there whole (mode 0600): a reader sees all of it or none. */
int run_dir_write(const char *dir, const char *name, const char *text,
		  size_t len);

/* run_exec.c: set the environment and become the command. */
int run_exec(const struct run_options *opt, const struct run_plan *plan);

#endif
