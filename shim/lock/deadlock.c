/* SPDX-License-Identifier: MIT */
/*
 * Deadlocks of record locks across hosts: F_SETLKW that closes a cycle of
 * waits fails with EDEADLK (fcntl(2)).  The kernel finds those of one host.
 *
 * Owners are processes, as in fs/locks.c (posix_locks_deadlock): OFD locks take
 * no part.  A process that holds something and waits, in the kernel or for
 * Redis, says so at Redis; and each that begins a wait searches from there: who
 * is in my way, what do they wait for, who is in theirs?
 *
 *  1. A false EDEADLK is a defect.  Whether somebody is in the way is asked of
 *     what is granted at that moment, never remembered; and the waits of a
 *     cycle found are looked at again: if all still last, each of its owners
 *     has been waiting all the while, and could release nothing.
 *  2. Of a cycle one gives up: the wait that began last, as in the kernel.
 *     Whoever begins a wait that closes a cycle has the last number in it, and
 *     sees all the others.
 *  3. A process that holds nothing is in nobody's way: its waits cost nothing.
 *  4. What is told of a wait ends with it, or soon after: a call that waits may
 *     never come back (siglongjmp(3)).  Who waits for Redis tells of it anew at
 *     each pause.  Who waits in the kernel is seen by the thread, as long as
 *     the kernel lists the wait (/proc/locks).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lease/waits.h"
#include "lock/ask.h"
#include "model/timeline.h"

enum { NODES = 64, REFRESH_MS = 500, TELLING = 8 };

struct node {
	char process[DLK_PROCESS_LEN + 1];
	uint64_t id;
	int from; /* the node it is in the way of; -1: it is ours */
};

struct tale {
	struct dlk_wait mine, other;
	struct node nodes[NODES];
	int n;
	dlk_process blockers[DLK_BLOCKERS_MAX];
};

/* Waits in the kernel that are told of.  Guarded by the mutex. */
static struct telling {
	const struct dlk_endpoint *ep; /* NULL: free */
	struct dlk_file file;
	uint64_t id;
} telling[TELLING];

static uint64_t next_refresh_ns; /* the thread's */

/* --- telling -------------------------------------------------------------- */

/* Is anybody ever in wait for this process? */
static bool holds_something(void)
{
	bool found = false;

	pthread_mutex_lock(&dlk.mutex);
	for (const struct dlk_held *h = dlk.held; h && !found; h = h->next)
		found = h->state == DLK_HELD && h->kind == DLK_POSIX;
	pthread_mutex_unlock(&dlk.mutex);
	return found;
}

void dlk_deadlock_in_kernel(const struct ask *a, bool begins)
{
	struct telling *free = NULL;

	if (!a->wait_id)
		return;
	pthread_mutex_lock(&dlk.mutex);
	for (int i = 0; i < TELLING; i++) {
		if (telling[i].ep && telling[i].id == a->wait_id)
			telling[i].ep = NULL;
		if (!telling[i].ep)
			free = &telling[i];
	}
	if (begins && free)
		*free = (struct telling){ a->ep, a->file, a->wait_id };
	pthread_mutex_unlock(&dlk.mutex);
	if (begins)
		dlk_thread_need(dlk_now_ns() + REFRESH_MS * DLK_MS);
}

static void describe(const struct ask *a, struct dlk_wait *w)
{
	memcpy(w->key, a->lease.key, a->lease.key_len + 1);
	w->key_len = a->lease.key_len;
	w->range = a->want;
	w->id = a->wait_id;
	dlk_identity_process(w->process);
	strcpy(w->owner, "-");
	if (a->own_random[0])
		memcpy(w->owner, a->own_random, sizeof(w->owner));
}

/* --- the search ----------------------------------------------------------- */

static bool is_known(const struct tale *t, const char *process)
{
	for (int i = 0; i < t->n; i++)
		if (strcmp(t->nodes[i].process, process) == 0)
			return true;
	return false;
}

static void add_node(struct tale *t, const char *process, uint64_t id, int from)
{
	struct node *n = &t->nodes[t->n];

	if (t->n == NODES)
		return;
	memcpy(n->process, process, sizeof(n->process));
	n->id = id;
	n->from = from;
	t->n++;
}

/* The waits of a process that is in the way of node `from`. */
static int add_waits(struct tale *t, struct dlk_conn *c, uint64_t by,
		     const char *process, int from)
{
	int there = 1;

	if (is_known(t, process))
		return 0;
	for (unsigned i = 0; there == 1; i++) {
		there = dlk_wait_read(c, by, process, i, &t->other);
		if (there == 1)
			add_node(t, process, t->other.id, from);
	}
	return there;
}

/* The n-th node's wait, read anew; 0 if it is over. */
static int load(struct tale *t, struct dlk_conn *c, uint64_t by,
		const struct node *n)
{
	int there = 1;

	for (unsigned i = 0; there == 1; i++) {
		there = dlk_wait_read(c, by, n->process, i, &t->other);
		if (there == 1 && t->other.id == n->id)
			return 1;
	}
	return there;
}

/* The last wait of a cycle, ours, and do all of them last? */
static int is_real(const struct tale *t, struct dlk_conn *c, uint64_t by,
		   int at)
{
	int lasts = 1;

	for (int i = at; i > 0; i = t->nodes[i].from)
		if (t->nodes[i].id > t->mine.id)
			return 0;
	for (; at >= 0 && lasts == 1; at = t->nodes[at].from)
		lasts = dlk_wait_lasts(c, by, t->nodes[at].process,
				       t->nodes[at].id);
	return lasts;
}

/* Who is in the way of node `at`: 1 a cycle, 0, -errno. */
static int expand(struct tale *t, struct dlk_conn *c, uint64_t by, int at)
{
	struct dlk_wait *w = &t->mine;
	int n, err = 0;

	if (at > 0) {
		w = &t->other;
		err = load(t, c, by, &t->nodes[at]);
		if (err != 1)
			return err;
	}
	n = dlk_wait_blockers(c, by, w, t->blockers);
	if (n < 0)
		return n;
	err = 0;
	for (int i = 0; i < n && !err; i++) {
		if (strcmp(t->blockers[i], t->mine.process) == 0)
			err = is_real(t, c, by, at);
		else
			err = add_waits(t, c, by, t->blockers[i], at);
	}
	return err;
}

static int search(struct tale *t, struct dlk_conn *c, uint64_t by)
{
	int err = 0;

	t->n = 0;
	add_node(t, t->mine.process, t->mine.id, -1);
	for (int at = 0; at < t->n && !err; at++) {
		err = expand(t, c, by, at);
		dlk_conn_reset(c);
	}
	return err;
}

/* --- one wait ------------------------------------------------------------- */

/* Told of, and not so long ago that it is forgotten. */
static int tell(struct ask *a, struct tale *t, struct dlk_conn *c, uint64_t by)
{
	int err = a->wait_id ? dlk_waits_refresh(c, by, t->mine.process) : 0;

	if (err != 0)
		return err < 0 ? err : 0;
	err = dlk_wait_begin(c, by, &t->mine);
	if (!err)
		a->wait_id = t->mine.id;
	return err;
}

static int tell_and_search(struct ask *a, struct tale *t)
{
	const uint64_t by = dlk_now_ns() + a->patience_ns;
	struct dlk_conn *c = dlk_link_get(a->ep);
	int err = c ? dlk_conn_open(c, by) : -ENOMEM;

	describe(a, &t->mine);
	if (!err)
		err = tell(a, t, c, by);
	if (!err)
		err = search(t, c, by);
	if (c)
		dlk_link_put(c);
	return err;
}

/* Without an answer, the next pause brings the next search. */
int dlk_deadlock_check(struct ask *a)
{
	struct tale *t;
	int err;

	if (a->kind != DLK_POSIX || !holds_something())
		return 0;
	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED)
		return 0;
	err = tell_and_search(a, t);
	munmap(t, sizeof(*t));
	return err == 1 ? -EDEADLK : 0;
}

static void ended(void *arg, const redisReply *reply)
{
	(void)arg;
	(void)reply; /* or it expires */
}

static void end_one(const struct dlk_endpoint *ep, uint64_t id)
{
	struct dlk_conn *c = dlk_link_get_open(ep);
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	if (c && dlk_wait_end(c, process, id) == 0) {
		dlk_conn_defer(c, ended, NULL);
		dlk_conn_flush(c, dlk_now_ns() + 20 * DLK_MS);
	}
	if (c)
		dlk_link_put(c);
}

void dlk_deadlock_end(struct ask *a)
{
	if (a->wait_id)
		end_one(a->ep, a->wait_id);
	a->wait_id = 0;
}

/* --- the thread's part ---------------------------------------------------- */

static void refresh(const struct dlk_endpoint *ep, uint64_t now)
{
	struct dlk_conn *c = dlk_link_get(ep);
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	if (c && dlk_conn_open(c, now + 200 * DLK_MS) == 0)
		dlk_waits_refresh(c, now + 200 * DLK_MS, process);
	if (c)
		dlk_link_put(c);
}

/* One that the kernel does not list is over: nobody came back to say so. */
static bool go_on(struct telling *slot, uint64_t now)
{
	struct telling t;

	pthread_mutex_lock(&dlk.mutex);
	t = *slot;
	pthread_mutex_unlock(&dlk.mutex);
	if (!t.ep)
		return false;
	if (dlk_kernel_waits(&t.file) != 0) {
		refresh(t.ep, now);
		return true;
	}
	pthread_mutex_lock(&dlk.mutex);
	if (slot->id == t.id)
		slot->ep = NULL;
	pthread_mutex_unlock(&dlk.mutex);
	end_one(t.ep, t.id);
	return false;
}

uint64_t dlk_deadlock_tick(uint64_t now)
{
	bool any = false;

	if (now < next_refresh_ns)
		return next_refresh_ns;
	for (int i = 0; i < TELLING; i++)
		any |= go_on(&telling[i], now);
	if (!any)
		return UINT64_MAX;
	next_refresh_ns = now + REFRESH_MS * DLK_MS;
	return next_refresh_ns;
}

void dlk_deadlock_forget(void)
{
	memset(telling, 0, sizeof(telling));
	next_refresh_ns = 0;
}
