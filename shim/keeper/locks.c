/* SPDX-License-Identifier: MIT */
/*
 * Is a guarded lock still there?  What /proc/locks can prove (DESIGN L4).
 *
 * The lock that conflicts with the guarded one is not granted while readers
 * come and go, and some files cannot be opened for it.  Then the kernel's list
 * of locks is looked at: the guarded one is known by the process that took it,
 * its file and its mode, as the keeper read them in fdinfo when it was handed
 * the descriptor.
 *
 *  1. That it is gone MUST be proved.  Whatever cannot be known counts as
 *     there: a lease that ends late costs a wait, one that ends early costs
 *     the lock.
 *  2. A process that has ended keeps its line in the first pid namespace only.
 *     Elsewhere a line that is missing proves something of a living taker
 *     alone, or by who stands in the way of the keeper's own wait (below).
 *  3. A conversion by one who shares the description is a lock of another
 *     taker.  A shared one has been given up by it (flock(2), NOTES); an
 *     exclusive one may have become the shared one that somebody is seen with,
 *     so it is gone only if nobody has any, and a shared one at the most if
 *     there are others.
 *
 * Who stands in the way.  Locks of a file stand in the order they were
 * granted, and a wait hangs on the first that it conflicts with (fs/locks.c,
 * flock_lock_inode).  A shared lock that was once seen with our own wait for
 * the exclusive one on it was the first; when that wait hangs on another's, it
 * is gone, be its taker alive or not.  But a wait that is older than the lock may
 * have come along with its taker's, which it was below (locks_move_blocks), and
 * then that lock is the last:
 *
 *	a writer		a reader	our wait	another reader
 *	has it			waits		below his
 *	unlock							granted
 *				granted		hangs on his
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "os/proc.h"
#include "os/sys.h"
#include "model/fdinfo.h"
#include "model/text.h"

/* A process that took a guarded lock: is it alive? */
struct dlk_taker {
	LIST_ENTRY(dlk_taker) next;
	uint64_t pid;
	int fd; /* pidfd; hear.c's, where it is the shim's process */
	unsigned refs;
};

static LIST_HEAD(, dlk_taker) takers;

/* --- whose /proc is it? --------------------------------------------------- */

enum view {
	NOT_OURS, /* another namespace's, or none: its pids mean nothing */
	OURS,
	FIRST, /* ours, the first one: it shows all, dead takers too */
};

static enum view view(void)
{
	/* PROC_PID_INIT_INO, include/linux/proc_ns.h */
	static const char first[] = "pid:[4026531836]";
	static enum view known = NOT_OURS;
	static bool asked;
	char name[64];
	ssize_t n;

	if (asked || dlk_kernel_shows_our_pids() < 0)
		return known;
	asked = true;
	if (!dlk_kernel_shows_our_pids())
		return known;
	n = readlink("/proc/self/ns/pid", name, sizeof(name));
	known = n == sizeof(first) - 1 && memcmp(name, first, (size_t)n) == 0
			? FIRST
			: OURS;
	return known;
}

/* --- takers --------------------------------------------------------------- */

static bool alive(const struct dlk_taker *t)
{
	return t && !dlk_polled(t->fd, POLLIN, 0);
}

static struct dlk_taker *find_taker(uint64_t pid)
{
	struct dlk_taker *t;

	LIST_FOREACH(t, &takers, next)
	if (t->pid == pid && alive(t))
		break;
	if (t)
		t->refs++;
	return t;
}

static void close_pidfd(uint64_t pid, int fd)
{
	if (fd != dlk_shim_process((pid_t)pid))
		close(fd);
}

/* The shim's, if the number is its process's still; or -1. */
static int shims_pidfd(uint64_t pid)
{
	return dlk_shim_process_lives((pid_t)pid) > 0
		       ? dlk_shim_process((pid_t)pid)
		       : -1;
}

/* By its pidfd, which is its own then; NULL: no memory. */
static struct dlk_taker *new_taker(uint64_t pid, int fd)
{
	const int shims = shims_pidfd(pid);
	struct dlk_taker *t = calloc(1, sizeof(*t));

	if (!t || shims >= 0)
		close_pidfd(pid, fd);
	if (!t)
		return NULL;
	t->fd = shims >= 0 ? shims : fd;
	t->pid = pid;
	t->refs = 1;
	LIST_INSERT_HEAD(&takers, t, next);
	return t;
}

static struct dlk_taker *taker(uint64_t pid)
{
	struct dlk_taker *t = find_taker(pid);
	int fd;

	if (t)
		return t;
	fd = (int)dlk_syscall(SYS_pidfd_open, (pid_t)pid, 0);
	return fd < 0 ? NULL : new_taker(pid, fd);
}

static void forget_taker(struct dlk_taker *t)
{
	if (!t || --t->refs)
		return;
	LIST_REMOVE(t, next);
	close_pidfd(t->pid, t->fd);
	free(t);
}

/* --- a guarded lock ------------------------------------------------------- */

/*
 * The taker is who the line names only if he lives after it was read: his
 * number may have been another's a moment before.
 */
void dlk_guard_begin(struct dlk_guard *g, int fd)
{
	struct dlk_lock_line l;

	*g = (struct dlk_guard){ 0 };
	if (view() == NOT_OURS || dlk_kernel_flock(fd, &l) <= 0)
		return;
	g->mode = l.write ? LOCK_EX : LOCK_SH;
	g->pid = (uint64_t)l.pid;
	g->file = dlk_list_file(&l);
	if (view() == FIRST || g->pid == 0)
		return;
	g->taker = taker(g->pid);
	if (dlk_kernel_flock(fd, &l) > 0 && (uint64_t)l.pid == g->pid &&
	    alive(g->taker))
		return;
	forget_taker(g->taker);
	g->taker = NULL;
}

void dlk_guard_end(struct dlk_guard *g)
{
	forget_taker(g->taker);
	g->taker = NULL;
}

int dlk_guard_taker(const struct dlk_guard *g)
{
	return g->taker ? g->taker->fd : -1;
}

void dlk_guard_adopt(struct dlk_guard *g, int taker_fd)
{
	g->taker = taker_fd < 0 ? NULL : find_taker(g->pid);
	if (g->taker)
		close(taker_fd);
	else if (taker_fd >= 0)
		g->taker = new_taker(g->pid, taker_fd);
}

bool dlk_guard_can_tell(const struct dlk_guard *g)
{
	return g->mode && g->pid && (view() == FIRST || alive(g->taker));
}

bool dlk_guard_same(const struct dlk_guard *a, const struct dlk_guard *b)
{
	return a->pid == b->pid && a->file == b->file && a->mode == b->mode;
}

/* --- the verdict ---------------------------------------------------------- */

bool dlk_locks_look(void)
{
	return view() != NOT_OURS && dlk_list_read();
}

/*
 * Its line is there.  (If its taker is dead by now, that proves nothing.)  A wait
 * that hung on another's lock meanwhile looks for the first one anew after that:
 * while there are readers there are none who wait, so it is below none of them.
 */
static void note_where_we_hang(struct dlk_guard *g, const struct dlk_listed *on,
			       bool older)
{
	if (!alive(g->taker))
		return;
	if (on->pid != g->pid)
		g->was_behind = true;
	else if (older || g->was_behind)
		g->was_first = true;
}

enum dlk_verdict dlk_guard_judge(struct dlk_guard *g, unsigned n_same,
				 bool older)
{
	const struct dlk_listed *e, *on = NULL;
	unsigned same = 0, readers = 0;
	size_t n;

	if (!g->mode || !g->pid)
		return DLK_UNKNOWN;
	n = dlk_list_of(g->file, &e);
	for (size_t i = 0; i < n; i++) {
		same += e[i].pid == g->pid && e[i].mode == g->mode;
		readers += e[i].mode == LOCK_SH;
		if (e[i].blocks_us)
			on = &e[i];
	}
	if (same) {
		/* (Two may be one that was read twice; the next look may tell.) */
		if (same == 1 && on)
			note_where_we_hang(g, on, older);
		/* (Of writers the latest one is there.) */
		return g->mode == LOCK_SH && same < n_same ? DLK_SOME_GONE
							   : DLK_THERE;
	}
	/* He would be shown, and not as one of them. */
	if (g->mode != LOCK_SH && readers && dlk_guard_can_tell(g))
		return DLK_SHARED_NOW;
	if (view() == FIRST)
		return g->mode == LOCK_SH || n == 0 ? DLK_GONE_NOW
						    : DLK_UNKNOWN;
	if (g->mode != LOCK_SH)
		return DLK_UNKNOWN;
	/* He lives after the list was read, so it would show his line. */
	if (alive(g->taker) || (g->was_first && on))
		return DLK_GONE_NOW;
	return DLK_UNKNOWN;
}
