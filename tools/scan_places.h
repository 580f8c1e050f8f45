/* SPDX-License-Identifier: MIT */
/*
 * Step four of a scan: the ranges of record locks, all owners' of one key, in
 * its companion {KEY%rec}%r (shim/lease/scripts/records.inc).
 *
 * They are read in order, by pages, so the server and we work a while at a
 * time however many there are; at most SCAN_PLACES_MAX of them, and what is
 * left is counted.  A member that is no range is passed over.
 */
#ifndef DLK_TOOLS_SCAN_PLACES_H
#define DLK_TOOLS_SCAN_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "redis/conn.h"
#include "model/range.h"
#include "model/token.h"

enum { SCAN_PLACES_MAX = 16384 };

struct scan_place {
	char owner[DLK_RANDOM_LEN]; /* its field in the hash */
	struct dlk_range range;
};

struct scan_places {
	struct scan_place *places; /* by owner, then start */
	size_t n, room;
	size_t read; /* members */
	size_t rest; /* members that were not; 0: it is complete */
	bool odd;    /* the companion is of another type */
	bool lost;   /* the hash is there, and no companion is */
};

/*
 * The ranges of the lease at `key`: 0, or -errno as scan_owners().  In any
 * case scan_places_free().
 */
int scan_places(struct dlk_conn *c, const char *key, size_t len,
		struct scan_places *p);
void scan_places_free(struct scan_places *p);

/* Pure: one member more; false if it is one too many. */
bool scan_places_add(struct scan_places *p, const char *member, size_t len);

#endif
