/* SPDX-License-Identifier: MIT */
/*
 * Bugs that are sown: what proves that the harness of tests/torture/survival.t
 * would find them.  `make SEED_BUG=N B=build-bugN all` builds one in; without,
 * nothing of this is in any object.  tests/torture/seeded-bugs.t has each of
 * them found.
 *
 *	 1  nobody renews
 *	 2  who writes asks for a shared lease
 *	 3  a refusal by Redis is believed to be a grant, now and then
 *	 4  no answer is believed to be a grant
 *	 5  of ranges, the same as 3
 *	 6  a server that is young grants all the same
 *	 7  nobody sees that all leases were deleted
 *	 8  a restarted server is told of no lease by who holds it
 *	 9  no lease is handed to the keeper
 *	10  the closing of any descriptor ends the lock of its description
 *	11  to give one range back gives back all
 *	12  the keeper takes the end of its process for the end of all locks
 *	13  of ranges, the same as 8
 *	14  a release deletes whatever is there
 */
#ifndef DLK_SEEDED_H
#define DLK_SEEDED_H

#ifndef SEED_BUG
#define SEED_BUG 0
#endif

enum { DLK_SEEDED_BUGS = 14 };

#define dlk_seeded(n) (SEED_BUG == (n))

#endif
