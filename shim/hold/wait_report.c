/* SPDX-License-Identifier: MIT */
/*
 * Waits in the kernel for a record lock, that other hosts are told of (see
 * lock/deadlock.c): the thread looks whether they go on, and tells of them.
 *
 * A wait is not told of while the process owes a release that was lost on its
 * way.  A call that waits may never come back: one that is not seen for long is
 * over.
 */
#include "hold/wait_report.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "config/config.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/thread.h"
#include "model/range.h"
#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"

enum { REPORTED_WAITS = 8 };

enum { TOLD_MS = 200 }; /* for the thread to tell of a wait */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Waits in the kernel that are told of.  Guarded by `mutex`. */
static struct reported_wait {
	struct dlk_store *store; /* NULL: free */
	struct dlk_file file;
	uint64_t id;
	const void *lock;      /* of its fcntl(2) */
	uint64_t clock;        /* the server's, when it was confirmed last */
	uint64_t last_seen_ns; /* by the thread */
	uint64_t last_told_ns;
	pid_t tid;
	int fd; /* as it was when the wait began */
} reported_wait[REPORTED_WAITS];

/* What each waits for, should that expire at the server.  Guarded as well. */
static struct what {
	size_t key_len;
	struct dlk_range range;
	char owner[DLK_RANDOM_LEN + 1];
	char key[DLK_KEY_MAX + 1];
} waited_for[REPORTED_WAITS];

static uint64_t next_look_ns; /* the thread's */

static void note_what(const struct dlk_reported_wait *wait, struct what *what)
{
	what->range = wait->range;
	strcpy(what->owner, wait->owner);
	what->key_len = wait->key_len;
	memcpy(what->key, wait->key, wait->key_len + 1);
}

/* Of this thread there is one at most: an earlier one was left. */
void dlk_wait_report(const struct dlk_reported_wait *wait)
{
	const pid_t tid = (pid_t)dlk_syscall(SYS_gettid);
	struct reported_wait *free = NULL;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < REPORTED_WAITS; i++) {
		if (reported_wait[i].store && reported_wait[i].tid == tid)
			reported_wait[i].store = NULL;
		if (!reported_wait[i].store)
			free = &reported_wait[i];
	}
	if (wait && free) {
		*free = (struct reported_wait){ .store = wait->store,
						.fd = wait->fd,
						.file = wait->file,
						.id = wait->id,
						.tid = tid,
						.lock = wait->lock,
						.last_seen_ns = dlk_now_ns(),
						.last_told_ns = dlk_now_ns() };
		note_what(wait, &waited_for[free - reported_wait]);
	}
	pthread_mutex_unlock(&mutex);
	if (wait)
		dlk_thread_need(dlk_now_ns());
}

/*
 * Who sends it has it pinned, and says so before: until then it
 * may wait for a connection, though others have one.
 */
static bool is_not_sent(const struct dlk_hold *h)
{
	dlk_holds_check();
	return h->out.unsent || (h->out.message != OUTBOX_NOTHING && h->pins);
}

bool dlk_wait_report_owes(struct dlk_store *store, uint64_t by)
{
	while (dlk_now_ns() < by && store->ops->drain(store, by, NULL))
		;
	DLK_GUARD(&dlk_holds_mutex);
	for (const struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (h->lease.ranges_key && is_not_sent(h))
			return true;
	return false;
}

void dlk_wait_report_end(struct dlk_store *store, uint64_t id)
{
	const struct dlk_sending how = { .timeout_ns = 20 * DLK_MS };
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	store->ops->send_wait_end(store, &how, process, id);
}

/* --- the thread's part ---------------------------------------------------- */

/*
 * Is its thread in that very call?  /proc/PID/task/TID/syscall (proc(5)) has
 * the number of the call and its arguments: "72 0x3 0x7 0x7ffd...".  Where that
 * cannot be read, the kernel's list must do.
 */
static bool is_waiting(const struct reported_wait *t)
{
	char name[DLK_NUMBERED_MAX], line[256];
	const char *p = line;
	uint64_t arg = 0;
	ssize_t n;

	dlk_numbered(name, "/proc/self/task/", t->tid, "/syscall");
	n = dlk_slurp(name, line, sizeof(line));
	if (n == -ENOENT || n == -ESRCH)
		return false;
	if (n < 0)
		return dlk_kernel_waits(t->fd, &t->file) != 0;
	for (int i = 0; i < 3 && p; i++)
		p = (p = strchr(p, ' ')) ? p + 1 : NULL;
	return p && strncmp(p, "0x", 2) == 0 && dlk_number(p + 2, 16, &arg) &&
	       arg == (uint64_t)(uintptr_t)t->lock;
}

/* 1 it goes on, 0 it is over, -errno. */
static int confirm(struct reported_wait *t, struct dlk_wait *again,
		   uint64_t until_ns)
{
	struct dlk_attempt attempt = { .timeout_ns = TOLD_MS * DLK_MS,
				       .until_ns = until_ns };
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	return t->store->ops->confirm_wait(t->store, &attempt, process, t->id,
					   again, &t->clock);
}

/*
 * All of the process was stopped for so long that the wait may have expired at
 * Redis: it is told of again.
 */
static int tell_again(const struct reported_wait *slot, struct reported_wait *t,
		      uint64_t until_ns)
{
	const struct what *what = &waited_for[slot - reported_wait];
	struct dlk_wait *w = dlk_pages(sizeof(*w));
	bool still;
	int err = 1;

	if (!w)
		return -ENOMEM;
	pthread_mutex_lock(&mutex);
	still = slot->store && slot->id == t->id;
	w->range = what->range;
	w->key_len = what->key_len;
	memcpy(w->owner, what->owner, sizeof(w->owner));
	memcpy(w->key, what->key, what->key_len + 1);
	pthread_mutex_unlock(&mutex);
	if (still)
		err = confirm(t, w, until_ns);
	munmap(w, sizeof(*w));
	return err;
}

/* As confirm(); -EAGAIN: not now. */
static int tell(const struct reported_wait *slot, struct reported_wait *t,
		uint64_t now, uint64_t until_ns)
{
	const uint64_t by = now + TOLD_MS * DLK_MS;

	if (dlk_wait_report_owes(t->store, by < until_ns ? by : until_ns))
		return -EAGAIN;
	return now - t->last_told_ns > DLK_WAIT_MS / 2 * DLK_MS
		       ? tell_again(slot, t, until_ns)
		       : confirm(t, NULL, until_ns);
}

/* One that is not seen for long is over: nobody came back to say so. */
static void go_on(struct reported_wait *slot, uint64_t now, uint64_t until_ns)
{
	struct reported_wait t;
	bool over = false;

	pthread_mutex_lock(&mutex);
	t = *slot;
	pthread_mutex_unlock(&mutex);
	/* (The marks of leases come before waits.) */
	if (!t.store || dlk_now_ns() >= until_ns)
		return;
	if (is_waiting(&t)) {
		int err = tell(slot, &t, now, until_ns);

		t.last_seen_ns = now;
		if (err > 0)
			t.last_told_ns = now;
		over = err == 0;
	} else if (now - t.last_seen_ns > DLK_WAIT_MS * DLK_MS) {
		dlk_wait_report_end(t.store, t.id);
		over = true;
	}
	pthread_mutex_lock(&mutex);
	if (slot->store && slot->id == t.id) {
		slot->clock = t.clock;
		slot->last_seen_ns = t.last_seen_ns;
		slot->last_told_ns = t.last_told_ns;
		if (over)
			slot->store = NULL;
	}
	pthread_mutex_unlock(&mutex);
}

/* The thread was stopped, and so were they: none of them was to be seen. */
static void excuse(uint64_t now)
{
	DLK_GUARD(&mutex);
	for (int i = 0; i < REPORTED_WAITS; i++)
		reported_wait[i].last_seen_ns = now;
}

void dlk_wait_report_tick(uint64_t now, uint64_t until_ns)
{
	if (now < dlk_wait_report_due_ns())
		return;
	if (now - next_look_ns > DLK_WAIT_MS / 2 * DLK_MS)
		excuse(now);
	for (int i = 0; i < REPORTED_WAITS; i++)
		go_on(&reported_wait[i], now, until_ns);
	next_look_ns = now + DLK_TELL_MS * DLK_MS;
}

uint64_t dlk_wait_report_due_ns(void)
{
	bool any = false;

	DLK_GUARD(&mutex);
	for (int i = 0; i < REPORTED_WAITS; i++)
		any |= reported_wait[i].store != NULL;
	return any ? next_look_ns : UINT64_MAX;
}

/* In a child of fork. */
void dlk_wait_report_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(reported_wait, 0, sizeof(reported_wait));
	next_look_ns = 0;
}
