/* SPDX-License-Identifier: MIT */
/*
 * dlockctl doctor: what is wrong with this host's setup, why that matters, and
 * what to do.
 *
 *  1. A check is one function of the table in doctor.c.  It adds findings and
 *     nothing else: it prints nothing, and where it cannot look it says so by a
 *     finding of DOCTOR_UNKNOWN, for what is unknown must not be taken for well.
 *  2. It changes no lock.  Of what it writes nothing outlives it but this
 *     host's entry in the fleet (fleet.h), a line in the log and the user's
 *     place in state_dir, as a program of that user would make them.
 *  3. Nothing that a share or another user can delay is waited for longer than
 *     DOCTOR_PATIENCE_MS: that is done apart, in a child that is left behind.
 */
#ifndef DLK_TOOLS_DOCTOR_H
#define DLK_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "redis/conn.h"
#include "redis/server.h"
#include "tools/common.h"

enum { DOCTOR_PATIENCE_MS = 5000 };

/* In the order of the exit status of `check`: 1, 2, 3. */
enum doctor_severity { DOCTOR_WARNING = 1, DOCTOR_CRITICAL, DOCTOR_UNKNOWN };

/* The texts are owned. */
struct doctor_finding {
	enum doctor_severity severity;
	const char *check;
	char *what, *why, *remedy;
};

/* A server that a rule uses. */
struct doctor_server {
	const struct dlk_redis *redis;
	const struct dlk_endpoint *ep;
	struct dlk_conn *c; /* NULL: it cannot be asked */
	bool up;
	enum tool_bar bar; /* if not */
	char why[512];
	struct dlk_server_info info;
	char *text;       /* of INFO; "" if the user may not ask */
	uint64_t ping_us; /* the least of several */
};

struct doctor {
	const struct dlk_config *config;
	const char *user; /* --as; NULL: who runs it */
	struct doctor_server *servers;
	size_t n_servers;
	const char *check; /* the one that runs */
	struct doctor_finding *findings;
	size_t n, room;
};

/* What is wrong by the format; why that matters; what to do. */
void doctor_find(struct doctor *d, enum doctor_severity severity,
		 const char *why, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * In a child: what is looked at from now on, in words that a finding can end with,
 * "whether /a is there".  If that takes too long, it is what is not known.
 */
void doctor_looks(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* doctor_findings.c has them; and all of them go. */
void doctor_forget(struct doctor *d);

/*
 * Run it in a child, as that user if there is one (by name or
 * number), and have what it finds.  One that takes too long is a finding, after
 * those that it had by then.
 */
typedef void doctor_fn(struct doctor *d);
typedef void doctor_server_fn(struct doctor *d, struct doctor_server *s);
void doctor_apart(struct doctor *d, doctor_fn *fn, const char *user);

/* What to do where a password cannot be read. */
#define DOCTOR_SECRET                                                          \
	"make the file that it names, with the password as its only line, "    \
	"and "                                                                 \
	"let a group that the user is in read it (chgrp, chmod 640), and "     \
	"enter "                                                               \
	"the directories before it"

/* doctor_server.c: open all; close all. */
void doctor_servers_open(struct doctor *d);
void doctor_servers_close(struct doctor *d);
/*
 * One command of texts; the reply lives until the next one.  NULL: there was
 * none, and the server is not asked any more.
 */
const redisReply *doctor_call(struct doctor_server *s, int argc,
			      const char *const *argv);

/*
 * The checks: of all, in a child if the table says so; or of each server that
 * answers.
 */
doctor_fn doctor_rules, doctor_templates, doctor_user, doctor_kernel,
	doctor_proc, doctor_init, doctor_getent, doctor_log, doctor_names,
	doctor_answers, doctor_tls, doctor_sentinels, doctor_keys,
	doctor_programs, doctor_older, doctor_disabled, doctor_wal,
	doctor_caches, doctor_fleet;
doctor_server_fn doctor_latency, doctor_role, doctor_replicas, doctor_eviction,
	doctor_persistence, doctor_room, doctor_uptime, doctor_clock,
	doctor_acl, doctor_acl_excess;

#endif
