/* SPDX-License-Identifier: MIT */
/*
 * How the servers are, and what is locked at each, in numbers.
 */
#ifndef DLK_TOOLS_HEALTH_H
#define DLK_TOOLS_HEALTH_H

#include "redis/server.h"
#include "tools/filter.h"

/* What locks are told apart by: row_mode_name(), and whose they are. */
enum { HEALTH_MODES = 4, HEALTH_OWNERS = 2 };
extern const char *const health_modes[HEALTH_MODES];
extern const char *const health_owners[HEALTH_OWNERS];

struct health {
	const struct dlk_redis *redis;
	bool up;           /* it answers, and its locks are known, */
	bool unknown;      /* or they are not, and not for it is away */
	unsigned away;     /* so many of a quorum's masters are */
	enum tool_bar bar; /* 0: none; of several servers, if any does answer,
			      what keeps it from more */
	char why[512];     /* what is wrong of that */
	bool told;         /* by INFO: the server, clients and memory */
	struct dlk_server_info server;
	uint64_t ping_us, clients, max_clients, memory, max_memory;
	uint64_t locks[HEALTH_MODES][HEALTH_OWNERS];
	uint64_t total;     /* of them */
	uint64_t waiters;   /* in all queues */
	uint64_t most;      /* in one of them */
	uint64_t endless;   /* locks that never expire */
	uint64_t other;     /* keys that are no locks, and in the way */
	uint64_t oldest_ms; /* of this host's */
	/* The first such one; NULL: there is none. */
	const struct scan_lock *busiest, *first_endless, *first_other, *oldest;
};

struct healths {
	struct health *v; /* one for each server that a rule uses */
	size_t n;
	struct scan scan; /* of all of them; and what fits the filter */
	struct rows rows;
};

/*
 * Ask each, and count its locks that fit the filter: 0, or an exit code after a
 * message; what was found is there all the same.  In either case health_free().
 */
int health_look(const struct dlk_config *config, const struct filter *filter,
		struct healths *all);
void health_free(struct healths *all);

#endif
