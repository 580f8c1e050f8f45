/* SPDX-License-Identifier: MIT */
/*
 * The process splits, becomes another, or ends, while its locks may live on
 * in a description that others share (DESIGN L4): then the keeper has them
 * first.  Nothing is released here, for stdio is flushed after us.
 */
#include "entry/lifecycle.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "entry/start.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/container.h"
#include "hold/delegation.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/release.h"
#include "hold/self.h"
#include "hold/thread.h"

enum { FLUSH_MS = 1000 };

/* With all signals blocked, as who holds anything in hand must be. */
static void enter_for(void (*act)(void))
{
	DLK_INSIDE(call);
	act();
}

/* Explicit unlocks that were sent: let the answers arrive. */
static void flush_releases(void)
{
	if (!dlk_any_owed())
		return;
	DLK_INSIDE(call);
	dlk_release_flush(FLUSH_MS);
}

/*
 * What a keeper has by then it keeps: if it were killed for a stall from here on, there
 * would be nobody to tell the next one.
 *
 *	main			the thread		the keeper
 *	all is carried
 *				RENEWED ->
 *	(no core)					(no core)
 *				no answer: kill
 *	exit_group
 */
static void hand_over_at_last(void)
{
	dlk_handover_all();
	if (dlk_any_held())
		enter_for(dlk_hold_left_all);
}

void dlk_before_exec(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk_self.shares, true);
	hand_over_at_last();
	flush_releases();
}

void dlk_before_exit(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk_self.ending, true);
	hand_over_at_last();
	if (dlk_any_held())
		enter_for(dlk_cut_short);
	flush_releases();
}

__attribute__((destructor)) static void finish(void)
{
	dlk_before_exit();
}

/* --- a thread ends -------------------------------------------------------- */

void dlk_main_ends(void)
{
	if (!dlk_alive() || dlk_syscall(SYS_gettid) != dlk_pid())
		return;
	dlk_thread_main_ends();
}

/*
 * The kernel takes the last thread's code for the process'.  Two that leave
 * at once may each take the other for the last: then ours is, and repeats
 * what they said.
 */
void dlk_thread_exits(int code)
{
	struct dlk_call call;
	bool last;

	if (!dlk_alive())
		return;
	dlk_handover_all();
	dlk_enter(&call);
	dlk_thread_exit_code(code);
	last = dlk_thread_is_last_other();
	dlk_leave(&call);
	if (last) {
		dlk_before_exit();
		dlk_syscall(SYS_exit_group, code);
	}
	dlk_main_ends();
}

/* --- privileges and namespaces -------------------------------------------- */

/* initgroups(3) may ask a directory server for seconds: the keeper renews. */
void dlk_before_privileged(struct dlk_privileged *p)
{
	p->paused = dlk_alive();
	if (!p->paused)
		return;
	dlk_handover_all();
	enter_for(dlk_thread_pause);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &p->cancel);
}

void dlk_after_privileged(const struct dlk_privileged *p)
{
	struct dlk_call call;

	if (!p->paused)
		return;
	dlk_enter(&call);
	dlk_delegation_privileges(false);
	dlk_thread_resume();
	dlk_leave(&call);
	dlk_cancel_state(p->cancel);
}

void dlk_after_user_namespace(void)
{
	if (!dlk_alive())
		return;
	DLK_INSIDE(call);
	dlk_delegation_privileges(true);
}

void dlk_before_pid_namespace(void)
{
	if (!dlk_alive())
		return;
	DLK_INSIDE(call);
	if (!dlk_children_elsewhere())
		dlk_delegation_stay();
}

void dlk_after_pid_namespace(bool done)
{
	if (!dlk_alive())
		return;
	DLK_INSIDE(call);
	if (done)
		dlk_note_pid_namespace(true);
	else if (!dlk_any_held())
		dlk_delegation_dismiss();
}

void dlk_before_root(void)
{
	if (dlk_alive())
		dlk_handover_all();
}

void dlk_after_root(bool done)
{
	if (done && dlk_alive() && dlk_any_held())
		enter_for(dlk_delegation_stay);
}

void dlk_after_net_namespace(void)
{
	if (!dlk_alive())
		return;
	DLK_INSIDE(call);
	atomic_store(&dlk_self.away, true);
	dlk_hold_leave_all();
}

static bool threads_are(nlink_t n)
{
	struct stat st;
	const int err = errno;
	const bool known = dlk_stat("/proc/self/task", &st, 0) == 0;

	errno = err;
	return known && st.st_nlink == 2 + n;
}

bool dlk_has_own_table(void)
{
	DLK_INSIDE(call);
	return threads_are(dlk_thread_here() ? 2 : 1);
}

/* With one thread only, there is no other table to mistake for it. */
void dlk_after_own_table(void)
{
	if (!threads_are(1))
		atomic_store(&dlk_self.tables, true);
}
