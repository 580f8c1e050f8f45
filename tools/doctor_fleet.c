/* SPDX-License-Identifier: MIT */
/*
 * Do all hosts lock a path by one key, at one place, for one time?  Two that do
 * not exclude nobody, and neither sees anything wrong; see doctor.h, fleet.h.
 *
 * Hosts are compared by what each left at this host's servers, in any of their
 * databases; of one that doctor has never run on nothing is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/token.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/fleet.h"
#include "tools/options.h"

enum { DATABASES = 64 };

/* One server's fleet, as it is compared. */
struct view {
	struct doctor *d;
	const struct doctor_server *s;
	int db; /* what is read stands there */
	char own[FLEET_FIELD_MAX];
	const char *own_name; /* behind the blank in it */
};

/* What other hosts manage, and this one does not, perhaps because it has it not. */
static struct {
	struct unmanaged {
		char *host, *prefix;
	} * v;
	size_t n, room;
} unmanaged;

static const char *shown(const struct fleet_host *h)
{
	static char name[DLK_WORD_MAX];

	dlk_unword(h->name, name, sizeof(name));
	return name;
}

static bool is_own(const struct view *v, const struct fleet_host *h)
{
	size_t len = strlen(h->host);

	return !strncmp(v->own, h->host, len) && v->own[len] == ' ' &&
	       !strcmp(v->own_name, h->name);
}

/* --- one host's rule, and ours -------------------------------------------- */

static void find_difference(struct view *v, enum doctor_severity severity,
			    const struct fleet_host *h, const char *path,
			    const char *what, const char *its, const char *ours)
{
	doctor_find(v->d, severity,
		    "what excludes on one of them does not on the other, or "
		    "not for as long, and no lock call tells",
		    "make the rule the same on both, then run doctor on each; "
		    "a host that is no more is forgotten after 30 days",
		    "host %s locks %s with %s %s, this one with %s", shown(h),
		    path, what, its, ours);
}

static void compare_times(struct view *v, const struct fleet_host *h,
			  const struct fleet_rule *its,
			  const struct dlk_rule *ours)
{
	if (its->ttl_ms != ours->ttl_ms)
		find_difference(v, DOCTOR_WARNING, h, its->prefix, "ttl",
				option_duration(its->ttl_ms).text,
				option_duration(ours->ttl_ms).text);
	if (its->hold_ms != ours->hold_at_least_ms)
		find_difference(v, DOCTOR_WARNING, h, its->prefix,
				"hold_at_least",
				option_duration(its->hold_ms).text,
				option_duration(ours->hold_at_least_ms).text);
}

/* Of a file of the host's rule: the key that each makes of it. */
static void compare_keys(struct view *v, const struct fleet_host *h,
			 const struct fleet_rule *its, const char *path,
			 const struct dlk_rule *ours)
{
	static char a[DLK_KEY_MAX + 1], b[DLK_KEY_MAX + 1];
	struct dlk_rule rule = { .prefix = its->prefix,
				 .prefix_len = strlen(its->prefix),
				 .place = its->prefix,
				 .place_len = strlen(its->prefix),
				 .key = its->key };
	size_t len = strlen(path);

	if (dlk_key_expand(&rule, path, len, "INODE", a, sizeof(a)) < 0 ||
	    dlk_key_expand(ours, path, len, "INODE", b, sizeof(b)) < 0 ||
	    !strcmp(a, b))
		return;
	find_difference(v, DOCTOR_CRITICAL, h, its->prefix, "key", a, b);
}

/* One server in common is no majority in common (Redlock). */
static void compare_servers(struct view *v, const struct fleet_host *h,
			    const struct fleet_rule *its,
			    const struct dlk_rule *ours)
{
	char own[FLEET_SERVERS_MAX];

	fleet_servers(ours->redis, own);
	if (*its->servers && strcmp(its->servers, own) != 0)
		find_difference(v, DOCTOR_CRITICAL, h, its->prefix, "mode",
				its->servers, own);
}

static void compare_places(struct view *v, const struct fleet_host *h,
			   const struct fleet_rule *its,
			   const struct dlk_rule *ours)
{
	bool here = fleet_is_here(ours, v->s->redis, v->s->ep);
	char where[192];
	const char *at = its->at;

	if (v->db != v->s->ep->db && !*at) {
		snprintf(where, sizeof(where), "database %d of %s", v->db,
			 v->s->ep->name);
		at = where;
	}
	if (!*at && here)
		compare_servers(v, h, its, ours);
	/* Two that are elsewhere meet at another server. */
	if ((*at != '\0') == !here)
		return;
	find_difference(v, DOCTOR_CRITICAL, h, its->prefix, "the Redis",
			*at ? at : v->s->ep->name,
			ours->redis->endpoints->name);
}

static void note_unmanaged(const struct fleet_host *h,
			   const struct fleet_rule *its)
{
	const char *host = shown(h);

	unmanaged.v = tool_grow(unmanaged.v, unmanaged.n, &unmanaged.room,
				sizeof(*unmanaged.v));
	unmanaged.v[unmanaged.n++] = (struct unmanaged){
		.host = tool_copy(host, strlen(host)),
		.prefix = tool_copy(its->prefix, strlen(its->prefix)),
	};
}

/* (Its path is whatever somebody left at the server: a share may hang.) */
static void find_unmanaged(struct doctor *d)
{
	for (size_t i = 0; i < unmanaged.n; i++) {
		const struct unmanaged *u = &unmanaged.v[i];

		doctor_looks("whether %s, which host %s manages, is here",
			     u->prefix, u->host);
		if (access(u->prefix, F_OK))
			continue;
		doctor_find(d, DOCTOR_WARNING,
			    "what is locked there on this host is locked on "
			    "this host only",
			    "give this host the rule as well, if programs lock "
			    "there",
			    "host %s manages %s, which is here, too, and of no "
			    "rule",
			    u->host, u->prefix);
	}
}

static void forget_unmanaged(void)
{
	for (size_t i = 0; i < unmanaged.n; i++) {
		free(unmanaged.v[i].host);
		free(unmanaged.v[i].prefix);
	}
	free(unmanaged.v);
	unmanaged.v = NULL;
	unmanaged.n = unmanaged.room = 0;
}

static void compare_rule(struct view *v, const struct fleet_host *h,
			 const struct fleet_rule *its)
{
	char path[DLK_PATH_MAX];
	size_t len = strlen(its->prefix);
	const struct dlk_rule *ours;

	if (len + 8 > sizeof(path))
		return;
	sprintf(path, "%s%s", its->prefix,
		its->prefix[len - 1] == '/' ? "file" : "");
	ours = dlk_config_match(v->d->config, path, strlen(path));
	if (!ours) {
		note_unmanaged(h, its);
		return;
	}
	compare_places(v, h, its, ours);
	compare_keys(v, h, its, path, ours);
	compare_times(v, h, its, ours);
}

/* --- all hosts ------------------------------------------------------------ */

static void find_twin(struct view *v, const struct fleet_host *h)
{
	char own[DLK_WORD_MAX];

	dlk_unword(v->own_name, own, sizeof(own));
	doctor_find(v->d, DOCTOR_CRITICAL,
		    "to dlock they are one host, and who locks a file on one "
		    "may take the lease of the other for that of a process "
		    "that died",
		    "give each a host_id of its own (dlock.conf(5)): "
		    "containers of one kernel need it, and machines that were "
		    "resumed from one snapshot; a name that this host had is "
		    "forgotten after 30 days",
		    "%s and this host, %s, have one boot id and host_id",
		    shown(h), own);
}

static void find_cut(struct view *v, const struct fleet *f)
{
	doctor_find(v->d, DOCTOR_UNKNOWN,
		    "one of the others may have other rules",
		    "look what " FLEET_KEY " has in that database (HLEN, "
		    "HSCAN), delete it (UNLINK), and run doctor on each host",
		    "redis \"%s\" (%s, database %d): not all hosts were "
		    "compared: after %zu there are more in %s, or larger "
		    "entries, than are read",
		    v->s->redis->name, v->s->ep->name, v->db, f->n, FLEET_KEY);
}

static void compare(struct view *v, const struct fleet *f)
{
	size_t own = strcspn(v->own, " ");

	if (f->cut)
		find_cut(v, f);
	for (size_t i = 0; i < f->n; i++) {
		const struct fleet_host *h = &f->hosts[i];

		if (is_own(v, h) || fleet_is_stale(f, h))
			continue;
		if (strlen(h->host) == own && !strncmp(h->host, v->own, own))
			find_twin(v, h);
		for (unsigned k = 0; k < h->n_rules; k++)
			compare_rule(v, h, &h->rules[k]);
	}
}

/*
 * Where this host's entry is left, and who else has left one.  Ours first: by it
 * what this host left before it was booted again is known.
 */
static void look_here(struct view *v, struct dlk_conn *c)
{
	struct fleet f = { 0 };
	int err = fleet_leave(c, v->d->config, v->s->redis);

	if (!err)
		err = fleet_read(c, &f);
	if (!err) {
		compare(v, &f);
		fleet_sweep(c, &f);
	}
	fleet_free(&f);
	if (err)
		doctor_find(v->d, DOCTOR_UNKNOWN,
			    "whether other hosts have the same rules is not "
			    "known",
			    "let the user use the key dlock%fleet, by what "
			    "dlock.conf(5), PERMISSIONS, lists for dlockctl",
			    "redis \"%s\" (%s): the fleet cannot be read or "
			    "left: %s",
			    v->s->redis->name, v->s->ep->name,
			    tool_why(c, err));
}

/* Of another database: who left one there locks there. */
static void look_elsewhere(struct view *v)
{
	static struct dlk_endpoint ep;
	struct dlk_conn *c;
	struct fleet f;

	ep = *v->s->ep;
	ep.db = v->db;
	c = dlk_conn_new(&ep);
	if (!c)
		return;
	if (!fleet_read(c, &f))
		compare(v, &f);
	fleet_free(&f);
	dlk_conn_delete(c);
}

/* "db3:keys=1,..." of INFO: those that have a key. */
static void look_at_server(struct view *v)
{
	char name[16];

	v->db = v->s->ep->db;
	look_here(v, v->s->c);
	for (int db = 0; db < DATABASES; db++) {
		snprintf(name, sizeof(name), "\ndb%d:", db);
		if (db == v->s->ep->db || !strstr(v->s->text, name))
			continue;
		v->db = db;
		look_elsewhere(v);
	}
}

/* At each server of a quorum: another one may begin with any of them. */
void doctor_fleet(struct doctor *d)
{
	struct view v = { .d = d };

	fleet_own_field(d->config, v.own);
	v.own_name = strchr(v.own, ' ') + 1;
	for (size_t i = 0; i < d->n_servers; i++) {
		v.s = &d->servers[i];
		if (v.s->up && v.s->c &&
		    tool_has_key(v.s->redis, v.s->ep, FLEET_KEY,
				 strlen(FLEET_KEY)))
			look_at_server(&v);
	}
	if (unmanaged.n)
		doctor_apart(d, find_unmanaged, NULL);
	forget_unmanaged();
}
