/* SPDX-License-Identifier: MIT */
/*
 * The process splits, becomes another, or ends, while its locks may live on
 * in a description that others share (DESIGN L4): then the keeper has them
 * first.  Nothing is released here, for stdio is flushed after us.
 */
#include "lock/state.h"

#include <unistd.h>

#include "entry/real.h"

enum { FLUSH_MS = 200 };

void dlk_before_child(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk.shares, true);
	dlk_handover_all();
}

/* Explicit unlocks that were sent: let the answers arrive. */
static void flush_releases(void)
{
	struct dlk_call call;

	if (atomic_load(&dlk.n_owed) == 0)
		return;
	dlk_enter(&call);
	dlk_release_flush(FLUSH_MS);
	dlk_leave(&call);
}

void dlk_before_exec(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk.shares, true);
	dlk_handover_all();
	flush_releases();
}

void dlk_before_exit(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk.ending, true);
	dlk_handover_all();
	flush_releases();
}

/*
 * In a child of fork(2): it has its parent's memory but none of its threads,
 * none of its leases (they stay with the description: the parent's keeper
 * sees their end), and must not speak on its connections.
 */
void dlk_after_fork(void)
{
	struct dlk_call call;

	dlk_enter(&call);
	if (atomic_load(&dlk_birth->pid) == 0) {
		atomic_store(&dlk_birth->pid, dlk_pid());
		pthread_mutex_init(&dlk.mutex, NULL);
		/* The objects are a copy of the parent's; a few pages. */
		dlk.held = NULL;
		dlk.spare = NULL;
		dlk.thread_runs = false;
		atomic_store(&dlk.n_held, 0);
		atomic_store(&dlk.n_owed, 0);
		atomic_store(&dlk.shares, true);
		atomic_store(&dlk.main_leaves, false);
		atomic_store(&dlk.last_words, 0);
		dlk_links_forget();
		dlk_handover_forget();
		dlk_own_forget();
		dlk_identity_forget();
	}
	dlk_leave(&call);
}
