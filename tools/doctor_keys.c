/* SPDX-License-Identifier: MIT */
/* The keys that the rules' templates give: is each a lock?  See doctor.h. */
#include <string.h>

#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/scan.h"

/* So many of a kind are named; then they are counted. */
enum { NAMED = 3 };

struct kind {
	enum doctor_severity severity;
	const char *what, *why, *remedy;
	bool (*is)(const struct scan_lock *lock);
};

static bool is_other(const struct scan_lock *lock)
{
	return strcmp(lock->type, "string") != 0 && !lock->hashed;
}

/* A hash that is nobody's. */
static bool is_bare(const struct scan_lock *lock)
{
	return lock->unread && !lock->rest && !lock->rest_ranges;
}

static bool is_endless(const struct scan_lock *lock)
{
	return !is_other(lock) && lock->endless && !is_bare(lock);
}

/* (Where its ranges are lost as well, that is the worse.) */
static bool is_ownerless(const struct scan_lock *lock)
{
	return lock->endless && is_bare(lock) && !lock->damage;
}

static bool is_foreign(const struct scan_lock *lock)
{
	return !is_other(lock) && !lock->ours && !lock->unread &&
	       !lock->endless && !(lock->rule && lock->rule->interop);
}

static bool is_damaged(const struct scan_lock *lock)
{
	return lock->damage != NULL;
}

static const struct kind kinds[] = {
	{ DOCTOR_CRITICAL, "is no lock, and is where one has to be",
	  "locks of that path fail with ENOLCK for as long as it is there",
	  "find out whose it is, and remove it (redis-cli UNLINK), or give the "
	  "rule a key of its own",
	  is_other },
	{ DOCTOR_WARNING, "has no ttl, and so never ends",
	  "the path is locked until somebody removes it",
	  "dlockctl show PATH, then dlockctl break PATH; let who made it set a "
	  "ttl",
	  is_endless },
	/* Of these two kinds no lease has a name, and break refuses them. */
	{ DOCTOR_WARNING, "has no ttl and no owner, and so never ends",
	  "it stands in the way of who asks for the path otherwise",
	  "remove it: redis-cli UNLINK KEY, at that server; look for who takes "
	  "the ttl away",
	  is_ownerless },
	{ DOCTOR_WARNING, "is held by another program than dlock",
	  "it wakes nobody: who waits polls, and hands the lock on among "
	  "dlock's own first",
	  "if that program is to share the lock set interop = true in the "
	  "rule; else give the rule a key of its own",
	  is_foreign },
	{ DOCTOR_CRITICAL, "has lost what belongs to it",
	  "what its owner has locked is not respected",
	  "end its holders, then remove what is left of it: redis-cli UNLINK "
	  "KEY '{KEY}%r', at that server; look at what evicts or removes keys "
	  "there",
	  is_damaged },
};

static void look_for(struct doctor *d, const struct scan *scan,
		     const struct kind *kind)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n; i++) {
		const struct scan_lock *lock = &scan->locks[i];

		if (lock->borrowed || lock->copy || !kind->is(lock) ||
		    n++ >= NAMED)
			continue;
		doctor_find(d, kind->severity, kind->why, kind->remedy,
			    "redis \"%s\": key %s %s%s%s", lock->redis->name,
			    lock->key, kind->what,
			    is_other(lock) ? ": type " : "",
			    is_other(lock) ? lock->type : "");
	}
	if (n > NAMED)
		doctor_find(d, kind->severity, kind->why, kind->remedy,
			    "%zu more keys: each %s", n - NAMED, kind->what);
}

void doctor_keys(struct doctor *d)
{
	bool asked = false;
	struct scan scan;

	for (size_t i = 0; i < d->n_servers; i++)
		asked = asked || d->servers[i].up;
	if (!asked)
		return;
	if (scan_all(d->config, &scan))
		doctor_find(d, DOCTOR_UNKNOWN,
			    "what stands in the way of a lock is not seen",
			    "see the message on standard error; dlockctl needs "
			    "SCAN (dlock.conf(5), PERMISSIONS)",
			    "the keys of a server cannot be read");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		look_for(d, &scan, &kinds[i]);
	scan_free(&scan);
}
