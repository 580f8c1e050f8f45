/* SPDX-License-Identifier: MIT */
/* The table of checks, and what is told of what they find; see doctor.h. */
#include "tools/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/screen.h"
#include "tools/table.h"

static const struct check {
	const char *name, *looks_at;
	/* One of them: */
	doctor_fn *here;
	doctor_fn *apart;            /* in a child: it may hang; */
	doctor_fn *as_user;          /* as a program of the user would */
	doctor_server_fn *of_server; /* of each that answers */
} checks[] = {
	{ "rules", "each path section covers something",
	  .apart = doctor_rules },
	{ "templates", "no two files have one key by mistake",
	  .apart = doctor_templates },
	{ "user",
	  "configuration, secret, library, keeper and state_dir can be used",
	  .as_user = doctor_user },
	{ "kernel", "the kernel is new enough", .here = doctor_kernel },
	{ "proc", "/proc shows what is needed", .here = doctor_proc },
	{ "init", "process 1 outlives the programs", .here = doctor_init },
	{ "getent", "names can be looked up by the library",
	  .here = doctor_getent },
	{ "log", "a line reaches the log", .here = doctor_log },
	{ "names", "the servers' names have addresses", .apart = doctor_names },
	{ "answers", "each server answers this user", .here = doctor_answers },
	{ "tls", "certificates are readable, and do not end soon",
	  .as_user = doctor_tls },
	{ "sentinels", "all Sentinels name the same master",
	  .here = doctor_sentinels },
	{ "latency", "it does so quickly", .of_server = doctor_latency },
	{ "role", "it is a master, and new enough", .of_server = doctor_role },
	{ "replicas", "a failover of it forgets no lock",
	  .of_server = doctor_replicas },
	{ "eviction", "it evicts no lock", .of_server = doctor_eviction },
	{ "persistence", "its restart forgets nothing that is believed",
	  .of_server = doctor_persistence },
	{ "room", "it has connections and memory left",
	  .of_server = doctor_room },
	{ "uptime", "it grants locks already", .of_server = doctor_uptime },
	{ "clock", "its clock is that of this host",
	  .of_server = doctor_clock },
	{ "permissions", "the user at Redis may do what is needed",
	  .of_server = doctor_acl },
	{ "privileges", "and nothing more", .of_server = doctor_acl_excess },
	{ "keys", "the keys of the rules are locks, and end",
	  .here = doctor_keys },
	{ "programs", "who has a managed file open has the library",
	  .apart = doctor_programs },
	{ "older", "no program runs by older rules", .apart = doctor_older },
	{ "disabled", "no program has the library turned off",
	  .apart = doctor_disabled },
	{ "wal", "no database shares memory over a managed share",
	  .apart = doctor_wal },
	{ "caches", "managed shares cache no names", .apart = doctor_caches },
	{ "fleet", "all hosts have the same rules, and names of their own",
	  .here = doctor_fleet },
};

enum { N_CHECKS = sizeof(checks) / sizeof(*checks), INDENT = 7 };

/* --- what is told --------------------------------------------------------- */

static const char *const severities[] = {
	[DOCTOR_WARNING] = "WARNING",
	[DOCTOR_CRITICAL] = "CRITICAL",
	[DOCTOR_UNKNOWN] = "UNKNOWN",
};

static void line(const char *label, const char *text)
{
	char *shown = tool_shown(text);

	fputs(label, stdout);
	screen_wrap(stdout, shown, strlen(label), INDENT,
		    screen_columns(stdout), TABLE_PLAIN);
	free(shown);
}

static void text(const struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct doctor_finding *f = &d->findings[i];
		char label[64];

		snprintf(label, sizeof(label),
			 "%-8s  %s: ", severities[f->severity], f->check);
		line(label, f->what);
		line("  why  ", f->why);
		line("  do   ", f->remedy);
	}
	printf("%d checks, %zu finding%s\n", d->config ? N_CHECKS : 0, d->n,
	       d->n == 1 ? "" : "s");
}

static void json(struct json *j, const struct doctor *d)
{
	json_open(j, "checks", '[');
	for (int i = 0; i < N_CHECKS; i++) {
		json_open(j, NULL, '{');
		json_text(j, "check", checks[i].name);
		json_text(j, "looks_at", checks[i].looks_at);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "findings", '[');
	for (size_t i = 0; i < d->n; i++) {
		const struct doctor_finding *f = &d->findings[i];

		json_open(j, NULL, '{');
		json_text(j, "check", f->check);
		json_text(j, "severity", severities[f->severity]);
		json_text(j, "what", f->what);
		json_text(j, "why", f->why);
		json_text(j, "remedy", f->remedy);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* The worst that is known; 3 only if nothing worse is. */
static int status(const struct doctor *d)
{
	int worst = 0;
	bool unknown = false;

	for (size_t i = 0; i < d->n; i++) {
		int severity = (int)d->findings[i].severity;

		if (severity == DOCTOR_UNKNOWN)
			unknown = true;
		else if (severity > worst)
			worst = severity;
	}
	return worst || !unknown ? worst : DOCTOR_UNKNOWN;
}

static int finish(const struct ctl *ctl, struct doctor *d)
{
	int rc = status(d);

	if (ctl->json)
		json(ctl->json, d);
	else
		text(d);
	doctor_forget(d);
	return rc;
}

int ctl_doctor_unable(const struct ctl *ctl, int rc, const char *why)
{
	struct doctor d = { .check = "configuration" };

	if (rc == DLK_EXIT_CONFIG)
		doctor_find(&d, DOCTOR_CRITICAL,
			    "programs that are told to use it fail each lock "
			    "with ENOLCK, and without any nothing is managed",
			    "dlock.conf(5); the message names the line", "%s",
			    why);
	else
		doctor_find(&d, DOCTOR_UNKNOWN, "nothing was looked at",
			    "dlockctl help", "%s", why);
	return finish(ctl, &d);
}

static void run(struct doctor *d, const struct check *check)
{
	d->check = check->name;
	if (check->here)
		check->here(d);
	if (check->apart)
		doctor_apart(d, check->apart, NULL);
	if (check->as_user)
		doctor_apart(d, check->as_user, d->user);
	for (size_t i = 0; check->of_server && i < d->n_servers; i++)
		if (d->servers[i].up)
			check->of_server(d, &d->servers[i]);
}

int verb_doctor(const struct ctl *ctl)
{
	struct doctor d = { .config = ctl->config, .user = ctl->given[OPT_AS] };

	doctor_servers_open(&d);
	for (int i = 0; i < N_CHECKS; i++)
		run(&d, &checks[i]);
	doctor_servers_close(&d);
	return finish(ctl, &d);
}
