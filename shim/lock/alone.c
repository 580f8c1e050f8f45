/* SPDX-License-Identifier: MIT */
/*
 * A process ends with its last thread, and ours MUST NOT be the one that it
 * waits for.
 *
 * The main thread may end before the others (pthread_exit(3), or the system
 * call); what remains of it is a zombie in the list of threads.  When the last
 * of the others ends as well, glibc calls exit(0), or the kernel ends the
 * process.  With a thread of ours, neither would: the lock would be held by
 * nobody for ever, by a process that blocks even SIGTERM.
 *
 * So our thread looks, from when the main thread leaves; and at every renewal,
 * for the main thread can leave without being seen.  Then it ends, and what
 * would have happened without it happens.
 */
#include "lock/state.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"

enum { LOOK_MS = 50 };

void dlk_thread_leaves(void)
{
	if (!dlk_alive() || dlk_syscall(SYS_gettid) != dlk_pid())
		return;
	atomic_store(&dlk.main_leaves, true);
	dlk_thread_wake();
}

/* "pid (comm) state ... num_threads ...", the 3rd and 20th of proc(5). */
static bool look(bool *main_is_gone, uint64_t *living)
{
	char text[512];
	const char *at;

	if (dlk_slurp("/proc/self/stat", text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	*main_is_gone = at[2] == 'Z' || at[2] == 'X';
	at += 2;
	for (int field = 3; at && field < 20; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at || !dlk_number(at, 10, living))
		return false;
	*living -= *main_is_gone;
	return true;
}

bool dlk_thread_is_last(uint64_t *look_ns)
{
	static uint64_t next_ns; /* only our thread's */
	uint64_t now = dlk_now_ns(), living;
	bool gone;
	int code;

	*look_ns = UINT64_MAX;
	if (now < next_ns && !atomic_load(&dlk.main_leaves))
		return false;
	next_ns = now + LOOK_MS * DLK_MS;
	if (!look(&gone, &living))
		return false;
	if (gone || atomic_load(&dlk.main_leaves))
		*look_ns = next_ns;
	if (!gone || living > 1)
		return false;
	code = atomic_load(&dlk.last_words);
	if (code)
		dlk_syscall(SYS_exit, code - 1);
	return true;
}

static bool is_last_but_ours(void)
{
	uint64_t living;
	bool gone, runs;

	pthread_mutex_lock(&dlk.mutex);
	runs = dlk.thread_runs;
	pthread_mutex_unlock(&dlk.mutex);
	return runs && look(&gone, &living) && living <= 2;
}

/*
 * The kernel takes the last thread's code for the process'.  Two that leave
 * at once may each take the other for the last: then ours is, and repeats
 * what they said.
 */
void dlk_thread_exits(int code)
{
	struct dlk_call call;

	if (!dlk_alive())
		return;
	dlk_enter(&call);
	atomic_store(&dlk.last_words, (code & 0xff) + 1);
	if (is_last_but_ours())
		dlk_syscall(SYS_exit_group, code);
	dlk_leave(&call);
	dlk_thread_leaves();
}
