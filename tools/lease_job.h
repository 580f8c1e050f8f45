/* SPDX-License-Identifier: MIT */
/*
 * One lease of this process's own, for dlockctl lock: got, kept, given back, by
 * the store (lease/store.h) as the library does it, and without any file.
 *
 *	lease_job_begin -> lease_job_get -> { lease_job_renew }* -> lease_job_end
 *
 * Its token's FILE is "lock:" and random digits, which is no file's: no proof of
 * death reaches it (DESIGN L3), and it proves nothing of anybody else.
 *
 * Times are CLOCK_BOOTTIME ns.  One thread; signals that the caller wants to
 * hear meanwhile are blocked and come by `signals`.
 */
#ifndef DLK_TOOLS_LEASE_JOB_H
#define DLK_TOOLS_LEASE_JOB_H

#include "config/config.h"
#include "lease/store.h"

struct lease_job {
	const struct dlk_rule *rule; /* its ttl, timeout, fair, interop */
	struct dlk_store *store;
	struct dlk_lease lease;
	char token[DLK_TOKEN_MAX], claim[DLK_TOKEN_MAX];
	struct dlk_token words;
	uint64_t asked_ns;          /* the last renewal that counts */
	int signals;                /* signalfd(2): what comes ends a wait */
	uint64_t until_ns;          /* a wait ends then; 0: never, */
	bool waits;                 /* or there is none */
	char why[256];              /* of a failure */
	char holder[DLK_TOKEN_MAX]; /* who has it; "" if that is not known */
};

/* What came of asking. */
enum lease_outcome {
	LEASE_HELD,
	LEASE_BUSY,   /* somebody has it, and the wait is over */
	LEASE_SIGNAL, /* a signal came */
	LEASE_FAILED, /* `why` */
};

/* 0, or -errno; the key is the caller's and stays. */
int lease_job_begin(struct lease_job *j, const struct dlk_config *config,
		    const struct dlk_rule *rule, const char *key, bool shared,
		    const char *command);
enum lease_outcome lease_job_get(struct lease_job *j);

/*
 * Once, until that moment at most: 0; DLK_LOST, DLK_GONE, DLK_REPLACED: it is held no more; -errno: it is
 * not known, and is to be tried again.
 */
int lease_job_renew(struct lease_job *j, uint64_t until_ns);
/*
 * Given back, if the server says so within the rule's timeout, and before a
 * signal comes; else its ttl ends it.
 */
bool lease_job_end(struct lease_job *j);

uint64_t lease_job_deadline(const struct lease_job *j);
/* When what runs under it is to be killed: a tenth of the ttl before that. */
uint64_t lease_job_kill_ns(const struct lease_job *j);

#endif
