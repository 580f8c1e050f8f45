/* SPDX-License-Identifier: MIT */
/* Waits in the kernel that other hosts are told of; see wait_report.c. */
#ifndef DLK_WAIT_REPORT_H
#define DLK_WAIT_REPORT_H

#include "os/proc.h"
#include "lease/store.h"

enum { DLK_TELL_MS = 25 }; /* so often a wait is told of again */

/* One that was told of once; what it points to is copied, but `lock`. */
struct dlk_reported_wait {
	struct dlk_store *store;
	int fd;
	struct dlk_file file;
	uint64_t id;
	const void *lock; /* of its fcntl(2) */
	struct dlk_range range;
	const char *owner; /* as in struct dlk_wait */
	const char *key;
	size_t key_len;
};

/* This thread is about to wait in the kernel; NULL: it waits no more. */
void dlk_wait_report(const struct dlk_reported_wait *wait);
/*
 * Has a release, or a list, failed on its way?  Of what is in flight the answer
 * is read first, where nobody else has the connection.
 */
bool dlk_wait_report_owes(struct dlk_store *store, uint64_t by);
/* It is over, or given up: said and not waited for, or it expires. */
void dlk_wait_report_end(struct dlk_store *store, uint64_t id);
/* (the thread) Tell of those that go on, for no longer than until then. */
void dlk_wait_report_tick(uint64_t now_ns, uint64_t until_ns);
/* And when that is due; UINT64_MAX: there are none. */
uint64_t dlk_wait_report_due_ns(void);
void dlk_wait_report_forget(void); /* in a child */

#endif
