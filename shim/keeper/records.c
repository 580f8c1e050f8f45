/* SPDX-License-Identifier: MIT */
/*
 * Is a guarded record lock still there (DESIGN L4)?
 *
 *  1. A POSIX lock ends with its process, whatever else happens.
 *  2. What conflicts with a write lock of a range, asked for on a description
 *     of our own, is told by F_OFD_GETLK: where nothing does, there is no lock.
 *  3. What does may be another's, so it is the owner's own ranges that are
 *     judged.  The server has them: what another local owner has taken by
 *     proof is cut out of them (L3), so what the kernel shows there is the
 *     owner's; and of whom all was taken nothing is there.  Of a POSIX lock the
 *     kernel names the process, of OFD locks nobody; what another's read lock
 *     may hide counts as there, and is in nobody's way but who is refused by
 *     that as well.
 *  4. While the shim is there, and has the lock by its own account, it gives
 *     parts back itself.  All of it may go without its knowledge: by another
 *     process that has its descriptor table (CLONE_FILES) or closes behind its
 *     back.  What is given back then is so only if the shim has asked for
 *     nothing since the server told us the ranges:
 *
 *	keeper			server			shim
 *	5's list: 0-9	<-
 *	the kernel: none
 *				6: granted	<-	lock 20-29
 *	5: nothing left ->
 *				stale
 *
 *  5. A restarted server has forgotten them.  While the shim that took them is
 *     there it puts them back, for it knows what Redis granted.  After an
 *     exec(2) the kernel knows: what it shows of the process, if nobody's read
 *     lock hides it, is put back.  So it is where what the server has is older
 *     than what was listed before: its memory was saved, or copied, before that.
 *
 * Nothing waits in the kernel here: descriptions that are closed (inotify), a
 * process that has gone (its socket) and ticks are the moments to look.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "model/token.h"

enum { QUESTIONS = 1000, RECLAIMED_SEQ = 2, FRESH_MS = 1000 };

static uint64_t unreachable_ns; /* until then no server is asked for ranges */

static int grow(struct dlk_ranges *set, size_t n)
{
	struct dlk_range *v = realloc(set->v, 2 * n * sizeof(*v));

	if (!v)
		return -ENOMEM;
	set->v = v;
	set->room = 2 * n;
	return 0;
}

/* --- what the kernel shows ------------------------------------------------ */

struct walk {
	int fd;
	pid_t pid; /* -1: OFD locks, which have none (fcntl(2)) */
	struct dlk_ranges *shown;
	bool hidden; /* another's read lock, and perhaps the owner's beneath */
	int left;    /* questions */
};

/* Who is in the way of a write lock there?  1, 0: nobody; -1: no telling. */
static int ask(struct walk *w, uint64_t start, uint64_t end,
	       struct dlk_range *found, pid_t *pid)
{
	struct dlk_range all = { start, end, DLK_WRITE };
	struct flock64 lock = { 0 };

	dlk_range_to(&all, &lock);
	if (w->left-- == 0 || fcntl(w->fd, F_OFD_GETLK, &lock) < 0)
		return -1;
	*pid = lock.l_pid;
	return lock.l_type == F_UNLCK                  ? 0
	       : dlk_range_of(&lock, 0, 0, found) == 0 ? 1
						       : -1;
}

/* A piece that begins where it was asked for. */
static int note(struct walk *w, struct dlk_range piece, pid_t pid,
		const struct dlk_range *in)
{
	if (pid != w->pid && piece.type == DLK_WRITE)
		return 0;
	w->hidden |= pid != w->pid;
	if (piece.type > in->type)
		piece.type = in->type;
	return dlk_ranges_set(w->shown, piece);
}

/*
 * The owner's locks within a range, no stronger than that; false if there is
 * no telling.  The kernel's first answer need not be the first in the file.
 */
static bool walk(struct walk *w, const struct dlk_range *in)
{
	uint64_t at = in->start, to = in->end;

	for (;;) {
		struct dlk_range found;
		pid_t pid;
		int any = ask(w, at, to, &found, &pid);

		if (any < 0)
			return false;
		if (any && found.start > at) {
			to = found.start - 1;
			continue;
		}
		found.start = at;
		if (any && found.end < to)
			to = found.end;
		found.end = to;
		if (any && note(w, found, pid, in) < 0)
			return false;
		if (to == in->end)
			return true;
		at = to + 1;
		to = in->end;
	}
}

static struct walk begin(const struct dlk_kept *k, struct dlk_ranges *shown)
{
	shown->n = 0;
	return (struct walk){
		.fd = k->watch->fd,
		.pid = k->add.kind == DLK_KEPT_POSIX ? (pid_t)k->add.pid : -1,
		.shown = shown,
		.left = QUESTIONS,
	};
}

/* --- what of it is the owner's -------------------------------------------- */

static bool is_whole(const struct dlk_ranges *list,
		     const struct dlk_ranges *shown)
{
	struct dlk_range rest, part;

	for (size_t i = 0; i < list->n; i++) {
		rest = list->v[i];
		if (dlk_ranges_lacks(shown, &rest, &part))
			return false;
	}
	return true;
}

/* The listed ranges as the kernel shows them. */
static bool look_at(const struct dlk_kept *k, struct dlk_ranges *shown)
{
	struct walk w = begin(k, shown);

	for (size_t i = 0; i < k->ranges.n; i++)
		if (!walk(&w, &k->ranges.v[i]))
			return false;
	return true;
}

/* The server's list, of this moment; 0 or what it is not. */
static int list(struct dlk_kept *k)
{
	struct dlk_store *s = k->section->store;
	struct dlk_attempt at = dlk_section_attempt(k->section);
	int err;

	k->ranges.n = 0;
	k->ranges.grow = grow;
	err = s->ops->list_ranges(s, &at, &k->lease, &k->ranges, &k->seq);
	k->listed_ns = err ? 0 : dlk_now_ns();
	if (!err && k->seen_seq < k->seq)
		k->seen_seq = k->seq;
	if (err < 0)
		unreachable_ns = dlk_now_ns() + FRESH_MS * DLK_MS;
	return err;
}

/* Parts of it have ended: the server is told, or all of it is owed. */
static enum dlk_verdict reduce(struct dlk_kept *k,
			       const struct dlk_ranges *shown, bool ours)
{
	struct dlk_store *s = k->section->store;
	struct dlk_attempt at = dlk_section_attempt(k->section);
	int err;

	if (ours && shown->n == 0)
		return DLK_GONE_NOW;
	if (!ours && shown->n)
		return DLK_THERE;
	err = s->ops->reduce_ranges(s, &at, &k->lease, k->seq, shown);
	k->listed_ns = 0;
	return !err && shown->n == 0 ? DLK_GONE_NOW : DLK_THERE;
}

static enum dlk_verdict judge_ranges(struct dlk_kept *k, bool ours)
{
	static struct dlk_ranges shown = { .grow = grow };
	const uint64_t now = dlk_now_ns();

	if (k->ranges.n && now < k->listed_ns + FRESH_MS * DLK_MS &&
	    look_at(k, &shown) && is_whole(&k->ranges, &shown))
		return DLK_THERE;
	if (now < unreachable_ns || list(k))
		return DLK_THERE;
	if (k->ranges.n == 0)
		return ours ? DLK_GONE_NOW : DLK_THERE;
	if (!look_at(k, &shown) || is_whole(&k->ranges, &shown))
		return DLK_THERE;
	return reduce(k, &shown, ours);
}

static bool any_lock(const struct dlk_kept *k)
{
	static struct dlk_ranges shown = { .grow = grow };
	const struct dlk_range whole = { 0, DLK_RANGE_MAX, DLK_WRITE };
	struct walk w = begin(k, &shown);
	struct dlk_range found;
	pid_t pid;

	if (k->add.kind == DLK_KEPT_OFD)
		return ask(&w, 0, DLK_RANGE_MAX, &found, &pid) != 0;
	return !walk(&w, &whole) || shown.n;
}

enum dlk_verdict dlk_records_judge(struct dlk_kept *k)
{
	const bool posix = k->add.kind == DLK_KEPT_POSIX;
	const bool ours = k->by != DLK_BY_PROCESS || !dlk_shim_lives();
	const int fd = k->watch->fd;

	if (posix && kill((pid_t)k->add.pid, 0) < 0 && errno == ESRCH)
		return DLK_GONE_NOW;
	/* No descriptor, and nobody left to tell its end. */
	if (fd < 0)
		return posix || dlk_shim_lives() || k->watch->opening
			       ? DLK_THERE
			       : DLK_UNKNOWN;
	if (!dlk_watch_answers(k->watch))
		return DLK_THERE;
	if (!any_lock(k))
		return DLK_GONE_NOW;
	return posix && !ours ? DLK_THERE : judge_ranges(k, ours);
}

/* --- after a restart of the server ---------------------------------------- */

bool dlk_records_may_put_back(const struct dlk_kept *k)
{
	return !dlk_shim_lives() && k->add.kind == DLK_KEPT_POSIX &&
	       k->watch->fd >= 0;
}

void dlk_records_put_back(const struct dlk_kept *k, struct dlk_renewal *r)
{
	static struct dlk_ranges shown = { .grow = grow };
	const struct dlk_range whole = { 0, DLK_RANGE_MAX, DLK_WRITE };
	struct dlk_store *s = k->section->store;
	struct dlk_attempt at = dlk_section_attempt(k->section);
	struct walk w = begin(k, &shown);
	struct dlk_token t;

	if (!dlk_records_may_put_back(k) || !dlk_watch_answers(k->watch) ||
	    !walk(&w, &whole) || w.hidden || shown.n == 0 ||
	    !dlk_token_parse(k->lease.token, k->lease.token_len, &t)) {
		r->result = -EAGAIN;
		return;
	}
	r->sent_seq = k->seen_seq < RECLAIMED_SEQ ? RECLAIMED_SEQ : k->seen_seq;
	s->ops->reclaim_ranges(s, &at, r, t.since_ns, &shown);
}
