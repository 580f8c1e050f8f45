/* SPDX-License-Identifier: MIT */
/*
 * Refused by a lock of our own process, of another file that has the same key:
 *
 *	lock f; write new, rename it over f; open f; lock f
 *
 * In the kernel these are two files, and both locks are granted.  By a key of
 * the name they are one lock (by %i they are not), and the second call would
 * wait for its own process, for ever.  So it fails at once, and says so.
 *
 *  1. Only a lock that the kernel still shows counts.  One that was closed
 *     behind our back is given back here, and the call asks anew.
 *  2. By %i two files of one key are two nodes of one file (hard links on
 *     FUSE).  flock and OFD locks of two descriptions conflict on one host as
 *     well, and may be waited for; POSIX locks of one process never do.
 */
#include "lock/replaced.h"

#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "hold/end.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/liveness.h"
#include "model/range.h"
#include "model/text.h"

/* A hold of the key, by another file. */
static bool is_in_way(const struct dlk_hold *h, const void *arg)
{
	const struct request *r = arg;

	return dlk_hold_is_held(h) && dlk_request_same_key(r, h) &&
	       !dlk_same_file(&h->file, &r->file);
}

/* Would the kernel, too, have two locks of one file wait for each other? */
static bool waits_as_bare(const struct request *r, const struct dlk_hold *h)
{
	return r->rule->by_inode &&
	       (r->kind != DLK_POSIX || h->kind != DLK_POSIX);
}

/* (pinned) 1 it is in our way; 0 it is not; -1 its lock has ended. */
static int judge_records(const struct request *r, struct dlk_hold *h)
{
	const uint64_t until = dlk_now_ns() + r->attempt.timeout_ns;
	unsigned conversions;
	bool conflicts;
	int there;

	/* (Who has it may wait for Redis, or for a file server.  Who waits looks again,
	 * for he would wait for himself.) */
	if (dlk_file_lock(NULL, &h->file, until, NULL, NULL))
		return r->acquire.wait ? -1 : 0;
	if (!dlk_hold_is_known(h, &conversions)) {
		dlk_file_unlock(&h->file);
		return -1;
	}
	there = dlk_record_compare(h);
	if (there == 0)
		dlk_hold_end(h, END_GONE);
	conflicts = dlk_ranges_conflict(&h->ranges, &r->want);
	dlk_file_unlock(&h->file);
	return there == 0 ? -1 : conflicts;
}

/* A shadow was removed under its lock, and another one is locked now. */
static bool is_same_by_shadows(const struct request *r,
			       const struct dlk_hold *h)
{
	struct dlk_file ours, its;

	return dlk_request_by_shadow(r) && h->program_fd >= 0 &&
	       dlk_kernel_file(r->program_fd, &ours) == 0 &&
	       dlk_kernel_file(h->program_fd, &its) == 0 &&
	       dlk_same_file(&ours, &its);
}

static int judge(const struct request *r, struct dlk_hold *h)
{
	if (waits_as_bare(r, h) || is_same_by_shadows(r, h))
		return 0;
	if (r->kind != DLK_FLOCK)
		return judge_records(r, h);
	if (r->mode == LOCK_SH && dlk_hold_mode(h) == LOCK_SH)
		return 0;
	return dlk_hold_look(h) == 0 ? -1 : 1;
}

static void say(const struct request *r, struct dlk_hold *h)
{
	char number[24];
	struct dlk_text t;

	if (h->told_replaced)
		return;
	h->told_replaced = true;
	dlk_text_init(&t, number, sizeof(number));
	dlk_text_i64(&t, dlk_hold_program_fd(h));
	dlk_request_line(
		r, DLK_WARNING,
		"this process itself holds the key, by descriptor ", number,
		r->acquire.wait
			? ", which is of another file (was it renamed or "
			  "replaced?); the call fails with EDEADLK"
			: ", which is of another file (was it renamed or "
			  "replaced?); the call fails with EAGAIN");
}

enum acquire_event dlk_request_replaced(struct request *r)
{
	struct dlk_hold *h = NULL;
	int verdict = 0;

	while (verdict == 0 && (h = dlk_hold_next(h, is_in_way, r)))
		verdict = judge(r, h);
	if (!h)
		return EV_OK;
	if (verdict > 0)
		say(r, h);
	dlk_unpin(h);
	return verdict < 0 ? EV_AGAIN : EV_BUSY;
}
