/* SPDX-License-Identifier: MIT */
/*
 * What a failover may forget: the replicas of a master, and the Sentinels that
 * make one of them the master; see doctor.h.
 *
 * INFO says how many replicas there are, and, by "min_slaves_good_slaves",
 * whether min-replicas-to-write is set: so CONFIG is not asked for.
 */
#include <inttypes.h>
#include <string.h>

#include "redis/sentinel.h"
#include "tools/common.h"
#include "tools/doctor.h"

/* --- replicas ------------------------------------------------------------- */

static void find_too_few(struct doctor *d, const struct doctor_server *s,
			 uint64_t there)
{
	doctor_find(d, DOCTOR_CRITICAL,
		    "no lock is granted, and those that are held are lost",
		    "start the replicas, or let replicas be less",
		    "redis \"%s\" (%s): replicas = %" PRIu32 ", and %" PRIu64
		    " follow it",
		    s->redis->name, s->ep->name, s->ep->replicas, there);
}

/* Who is cut off from its replicas, and goes on, while one is the master. */
static void find_unbound(struct doctor *d, const struct doctor_server *s)
{
	doctor_find(
		d, DOCTOR_WARNING,
		"a master that is cut off goes on granting locks while its "
		"replica, made the master, grants them as well",
		"replicas = 1 or more in the redis section; and "
		"min-replicas-to-write 1 in its redis.conf, which ends that "
		"after min-replicas-max-lag",
		"redis \"%s\" (%s): replicas = 0, and min-replicas-to-write "
		"is not set",
		s->redis->name, s->ep->name);
}

void doctor_replicas(struct doctor *d, struct doctor_server *s)
{
	const uint64_t there =
		tool_info(s->text, "connected_slaves", UINT64_MAX);

	if (there < s->ep->replicas)
		find_too_few(d, s, there);
	else if (there != UINT64_MAX && s->ep->n_sentinels &&
		 !s->ep->replicas &&
		 tool_info(s->text, "min_slaves_good_slaves", UINT64_MAX) ==
			 UINT64_MAX)
		find_unbound(d, s);
}

/* --- Sentinels ------------------------------------------------------------ */

struct seen {
	char first[128]; /* the master's address, by the first that told it */
	const char *by;
};

static void ask(struct doctor *d, const struct doctor_server *s, unsigned i,
		struct seen *seen)
{
	const struct dlk_endpoint *ep = &s->ep[1 + i];
	struct dlk_endpoint found;
	char why[256];

	if (dlk_sentinel_ask(s->ep, i, tool_deadline(ep), &found, why,
			     sizeof(why))) {
		doctor_find(
			d, DOCTOR_WARNING,
			"the others are asked; but a failover needs most of "
			"them",
			"look whether it runs, and whether address, master, "
			"sentinel_username and sentinel_password_file are "
			"right",
			"redis \"%s\": Sentinel %s does not name the master: "
			"%s",
			s->redis->name, ep->name, why);
	} else if (!seen->by) {
		seen->by = ep->name;
		memcpy(seen->first, found.name, sizeof(seen->first));
	} else if (strcmp(seen->first, found.name) != 0) {
		doctor_find(
			d, DOCTOR_WARNING,
			"who asks the one that is behind finds no master, or "
			"one that was it before",
			"if that lasts, look whether the Sentinels reach each "
			"other",
			"redis \"%s\": Sentinel %s names %s, and %s names %s",
			s->redis->name, seen->by, seen->first, ep->name,
			found.name);
	}
	memset(&found, 0, sizeof(found));
}

void doctor_sentinels(struct doctor *d)
{
	for (size_t i = 0; i < d->n_servers; i++) {
		const struct doctor_server *s = &d->servers[i];
		struct seen seen = { "", NULL };

		for (unsigned k = 0; k < s->ep->n_sentinels; k++)
			ask(d, s, k, &seen);
	}
}
