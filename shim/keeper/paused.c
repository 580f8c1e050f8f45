/* SPDX-License-Identifier: MIT */
/*
 * Those who are stopped while a lease cannot be renewed, and go on when it was
 * (on_lost = "pause", DESIGN 9.9); survive.c says when.
 *
 *  1. The standby is told of each before he is stopped: whoever takes over lets
 *     him go on.
 *  2. Who was stopped before, by a user's ^Z or a debugger, is not continued.
 *  3. Several keepers may stop one process, of one who holds several locks, or
 *     whose child holds another.  He goes on with the last of them: each has a
 *     shared lock, by flock(2), on his own /proc/PID/limits, and nobody continues
 *     him who cannot have it alone.  It ends with the keepers, and with him.  (Not
 *     on a file that is looked at: who closes one with a lock on it waits for who
 *     reads /proc/locks, fs/locks.c.  On "stat" it was 280 ms for a look [m].)
 *
 *	keeper of f		keeper of g
 *	LOCK_SH, SIGSTOP
 *				LOCK_SH ("T", but it is ours), SIGSTOP
 *	f is renewed
 *	LOCK_EX: refused
 *				g is renewed
 *				LOCK_EX, SIGCONT
 *
 *  4. Who runs all the same was continued by somebody else, and perhaps while
 *     another host has his lock: he is killed.  That is looked for, so it takes a
 *     moment (LOOK_MS).
 *  5. SIGSTOP ends no fork(2) that has begun: its child is found, and stopped, at
 *     such a look.
 *
 *	we			who is stopped
 *				fork: his memory is copied
 *	SIGSTOP
 *	has he children?  no
 *				the child is there, and runs; he stands
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "os/log.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { LOOK_MS = 5, STANDS_MS = 50, ROUNDS = 8 };

struct dlk_victims dlk_paused;

static uint64_t look_ns; /* the next one */

/* --- he is stopped -------------------------------------------------------- */

/* Has no other keeper stopped him?  (A lock that cannot be had says nothing.) */
static bool is_users(const struct dlk_victim *v)
{
	return v->lock < 0 || flock(v->lock, LOCK_EX | LOCK_NB) == 0;
}

static void note_who_stopped(struct dlk_victim *v)
{
	char name[DLK_NUMBERED_MAX];

	v->lock = open(dlk_numbered(name, "/proc/", v->pid, "/limits"),
		       O_RDONLY | O_CLOEXEC);
	/* (He may have been continued since he was looked at, and by a keeper
	 * that had it locked before.) */
	if (v->was_stopped && is_users(v) && dlk_victim_state(v) == 'T') {
		dlk_close_all(&v->lock, 1);
		return;
	}
	v->was_stopped = false;
	if (v->lock >= 0)
		flock(v->lock, LOCK_SH);
}

void dlk_paused_stop(size_t from)
{
	for (int round = 0; round < ROUNDS && from < dlk_paused.n; round++) {
		const size_t n = dlk_paused.n;

		for (size_t i = from; i < n; i++) {
			note_who_stopped(&dlk_paused.v[i]);
			dlk_mirror_paused(&dlk_paused.v[i]);
		}
		dlk_victims_signal(&dlk_paused, from, SIGSTOP);
		from = n;
		dlk_victims_find_children(&dlk_paused);
	}
	look_ns = 0;
}

void dlk_paused_adopt(const struct dlk_victim *v)
{
	if (dlk_grow(&dlk_paused.v, &dlk_paused.room, dlk_paused.n, sizeof(*v)))
		dlk_paused.v[dlk_paused.n++] = *v;
}

/* --- he runs all the same ------------------------------------------------- */

void dlk_paused_kill(void)
{
	dlk_victims_signal(&dlk_paused, 0, SIGKILL);
	for (size_t i = 0; i < dlk_paused.n; i++)
		dlk_paused.v[i].killed = true;
}

/* Who ends gives up his locks before he is seen to be dead; and who was just sent
 * SIGSTOP runs for a moment. */
static bool stands(const struct dlk_victim *v)
{
	const uint64_t until = dlk_now_ns() + STANDS_MS * DLK_MS;
	char state;

	do {
		state = dlk_victim_state(v);
		if (state == '\0' || v->killed || dlk_victim_has_ended(v))
			return false;
		if (state == 'T' || state == 't' || v->err)
			return true;
		dlk_pause_ns(DLK_MS);
	} while (dlk_now_ns() < until);
	return false;
}

static bool all_stand(void)
{
	for (size_t i = 0; i < dlk_paused.n; i++)
		if (!stands(&dlk_paused.v[i]))
			return false;
	return true;
}

/*
 * The lock of one who is stopped has ended before it was renewed.  If all stand
 * there, it was given back just before.  Else somebody is dead, by his timer or by
 * somebody's hand, and what works under it without it is not to go on.
 */
void dlk_paused_lock_ended(const struct dlk_kept *k)
{
	struct dlk_line l;

	if (all_stand())
		return;
	dlk_paused_kill();
	dlk_kept_line(&l, DLK_ERROR, k);
	dlk_text_str(&l.text,
		     " is LOST: its lock has ended before it was renewed, so "
		     "these who were stopped for it are killed:");
	for (size_t i = 0; i < dlk_paused.n; i++) {
		dlk_text_str(&l.text, i ? ", " : " ");
		dlk_text_i64(&l.text, dlk_paused.v[i].pid);
	}
	dlk_line_alarm(&l);
}

void dlk_paused_kill_one(struct dlk_victim *v, const char *why)
{
	struct dlk_line l;

	dlk_syscall(SYS_pidfd_send_signal, v->fd, SIGKILL, NULL, 0);
	v->killed = true;
	dlk_line_begin(&l, DLK_ERROR);
	dlk_text_str(&l.text, "process ");
	dlk_victim_put(&l.text, v);
	dlk_text_strs(&l.text, why,
		      " a lease of its lock was renewed (on_lost = "
		      "\"pause\"): it is killed",
		      NULL);
	dlk_line_alarm(&l);
}

/*
 * Stopped ('T', 't'), dead, or in the kernel for long ('D'), and stopped when
 * that is over; a signal takes its time on the way.  Who runs again is stopped
 * first: he may be dying, by somebody else's SIGKILL.
 */
static void look_at(struct dlk_victim *v)
{
	const char state = dlk_victim_state(v);
	const bool stopped = state == 'T' || state == 't';

	if (stopped && v->ran_again) {
		dlk_paused_kill_one(v,
				    " was continued by somebody else before");
		return;
	}
	v->seen_stopped |= stopped;
	if (state != 'R' && state != 'S')
		return;
	v->ran_again |= v->seen_stopped;
	dlk_syscall(SYS_pidfd_send_signal, v->fd, SIGSTOP, NULL, 0);
}

static void stop_born(struct dlk_kept *const *leases, size_t n)
{
	const size_t had = dlk_paused.n;

	if (dlk_victims_find_born(&dlk_paused, leases, n))
		dlk_paused_stop(had);
	for (size_t i = had; i < dlk_paused.n; i++)
		dlk_paused.v[i].k = NULL;
}

uint64_t dlk_paused_due_ns(void)
{
	return dlk_paused.n ? look_ns : UINT64_MAX;
}

void dlk_paused_look(uint64_t now_ns, struct dlk_kept *const *leases, size_t n)
{
	uint64_t took;

	for (size_t i = 0; i < dlk_paused.n; i++)
		if (!dlk_paused.v[i].killed && dlk_paused.v[i].pid != 1)
			look_at(&dlk_paused.v[i]);
	stop_born(leases, n);
	took = dlk_now_ns() - now_ns;
	look_ns = now_ns +
		  (20 * took > LOOK_MS * DLK_MS ? 20 * took : LOOK_MS * DLK_MS);
}

/* --- he goes on ----------------------------------------------------------- */

/* Unless another keeper has stopped him, too, who will. */
static void let_go(const struct dlk_victim *v)
{
	if (v->was_stopped || v->killed)
		return;
	if (v->lock >= 0 && flock(v->lock, LOCK_EX | LOCK_NB) < 0 &&
	    errno == EWOULDBLOCK)
		return;
	dlk_syscall(SYS_pidfd_send_signal, v->fd, SIGCONT, NULL, 0);
}

void dlk_paused_go_on(void)
{
	for (size_t i = 0; i < dlk_paused.n; i++)
		let_go(&dlk_paused.v[i]);
	dlk_victims_free(&dlk_paused, 0);
	dlk_mirror_go_on();
}
