/* SPDX-License-Identifier: MIT */
/*
 * Step three of a scan: the owners of the leases in one hash (DESIGN L9).  Of
 * flock a field is an owner's token, and its value the expiry
 * (shim/lease/scripts/acquire.lua); of record locks a field is the random
 * digits of the token, and its value holds the token and more (records.inc).
 *
 * Anybody may have written the hash, so what comes from it is bounded: of a
 * hash without the mark no field is read; of one with it at most
 * SCAN_OWNERS_MAX fields, and DLK_TOKEN_MAX bytes of each are kept.  What is
 * left out is counted.
 */
#ifndef DLK_TOOLS_SCAN_OWNERS_H
#define DLK_TOOLS_SCAN_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/scan_hash.h"

enum { SCAN_OWNERS_MAX = 4096 };

/* Texts are not NUL-terminated. */
struct scan_owner {
	char *field; /* owned */
	size_t len;  /* DLK_TOKEN_MAX: it is as long or longer, so no token */
	char *token; /* or what stands in its place; records: owned */
	size_t token_len;
	uint64_t seq;    /* records: of its last request */
	bool exclusive;  /* (scripts/flock.inc: it lingers) */
	int64_t left_ms; /* of its lease; -1: its expiry is no number */
};

struct scan_owners {
	bool records;              /* in: of record locks, else of flock */
	bool marked;               /* else the hash is foreign */
	struct scan_owner *owners; /* that live; sorted, each once */
	size_t n, room;
	size_t read; /* fields, the mark not among them */
	size_t rest; /* fields that were not; 0: it is complete */
};

/*
 * The owners in the hash at `key`; o->records is set, all else zero.  0;
 * SCAN_GONE: it is a hash no more; or -errno (the
 * connection's `error` says why).  In any case
 * scan_owners_free().
 */
int scan_owners(struct dlk_conn *c, const char *key, size_t len,
		struct scan_owners *o);
void scan_owners_free(struct scan_owners *o);

/*
 * Pure: one field more (to a struct scan_owners), seen at `now_ms` of the
 * server's clock; false if it is one too many.  A value ends in a NUL.
 */
scan_hash_fn scan_owners_add;

/* Pure: HSCAN may name a field twice. */
void scan_owners_sort(struct scan_owners *o);

/* Pure: the owner of a field, once they are sorted; or NULL. */
const struct scan_owner *scan_owners_find(const struct scan_owners *o,
					  struct scan_text field);

#endif
