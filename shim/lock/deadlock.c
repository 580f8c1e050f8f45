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
 *     what is granted at that moment, never remembered; and a cycle found is
 *     suspected until each of its waits has been told of anew.  So each of its
 *     owners was waiting all the while, and could release nothing:
 *
 *	p			server			q
 *	waits for q		p's wait
 *	siglongjmp()
 *							waits for p: a cycle
 *	releases		nobody tells of p's
 *							is granted
 *
 *     Nor is a wait told of while the process owes a release that was lost on
 *     its way: what it has given back is in somebody's way, and will not be.
 *
 *	p			server			q
 *	releases f ->		(lost)
 *							waits for f
 *	waits for q		a cycle, it seems
 *	releases f ->
 *							is granted
 *
 *  2. Of a cycle one gives up: the wait that began last, as in the kernel.
 *     Whoever begins a wait that closes a cycle has the last number in it, and
 *     sees all the others.  What has expired meanwhile, for who waits for Redis
 *     was stopped or had no answer, nobody sees: so it is a new one then, and
 *     searches for itself.
 *
 *	p: waits for Redis	server			q
 *	(stopped)		p's wait expires
 *							waits for p's other
 *							lock: no cycle, so
 *							in the kernel
 *	goes on			p's wait, after q's
 *	a cycle
 *
 *  3. A process that holds nothing is in nobody's way: its waits cost nothing.
 *     But what it held before an execve(2) it holds.
 *  4. Who waits for Redis tells of it anew at each pause; who waits in the
 *     kernel is seen there by the thread, which tells of it.  A call that waits
 *     may never come back, and then nobody does.
 */
#include "lock/deadlock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/identity.h"
#include "hold/inherited.h"
#include "hold/wait_report.h"

enum { NODES = 64 };

struct node {
	char process[DLK_PROCESS_LEN + 1];
	uint64_t id, told;
	int from; /* the node it is in the way of; -1: it is ours */
};

struct cycle_search {
	struct request *r;
	struct dlk_attempt attempt;
	uint64_t by_ns; /* for all of it */
	struct dlk_wait mine, other;
	struct node nodes[NODES];
	int n;
	uint64_t cycle; /* found now */
	dlk_process blockers[DLK_BLOCKERS_MAX];
};

void dlk_deadlock_in_kernel(const struct request *r, const void *lock)
{
	const struct dlk_reported_wait wait = {
		.store = r->store,
		.fd = r->fd,
		.file = r->file,
		.id = r->wait_id,
		.lock = lock,
		.range = r->want,
		.owner = r->own_random[0] ? r->own_random : "-",
		.key = r->lease.key,
		.key_len = r->lease.key_len,
	};

	if (r->wait_id)
		dlk_wait_report(lock ? &wait : NULL);
}

static void describe(const struct request *r, struct dlk_wait *w)
{
	memcpy(w->key, r->lease.key, r->lease.key_len + 1);
	w->key_len = r->lease.key_len;
	w->range = r->want;
	w->id = r->wait_id;
	dlk_identity_process(w->process);
	strcpy(w->owner, "-");
	if (r->own_random[0])
		memcpy(w->owner, r->own_random, sizeof(w->owner));
}

/* --- the search ----------------------------------------------------------- */

/* One question more, in what is left of the time. */
static struct dlk_attempt *next(struct cycle_search *t)
{
	t->attempt.timeout_ns = dlk_left_ns(t->by_ns);
	return &t->attempt;
}

static int read_wait(struct cycle_search *t, const char *process, unsigned n)
{
	return t->r->store->ops->read_wait(t->r->store, next(t), process, n,
					   &t->other);
}

static bool is_known(const struct cycle_search *t, const char *process)
{
	for (int i = 0; i < t->n; i++)
		if (strcmp(t->nodes[i].process, process) == 0)
			return true;
	return false;
}

static void add_node(struct cycle_search *t, const struct dlk_wait *w, int from)
{
	struct node *n = &t->nodes[t->n];

	if (t->n == NODES)
		return;
	memcpy(n->process, w->process, sizeof(n->process));
	n->id = w->id;
	n->told = w->told;
	n->from = from;
	t->n++;
}

/* In the order of the beginning; by the server's clock, which may be set. */
static bool is_later(const struct dlk_wait *w, const struct dlk_wait *mine)
{
	return w->id > mine->id ||
	       (w->id == mine->id && strcmp(w->process, mine->process) > 0);
}

/*
 * The waits of a process that is in the way of node `from`.  The youngest wait
 * of a cycle gives up.  Ignore waits younger than ours: their own search sees
 * that cycle.
 */
static int add_waits(struct cycle_search *t, const char *process, int from)
{
	int there = 1;

	if (is_known(t, process))
		return 0;
	for (unsigned i = 0; there == 1; i++) {
		there = read_wait(t, process, i);
		if (there == 1 && !is_later(&t->other, &t->mine))
			add_node(t, &t->other, from);
	}
	return there;
}

/* The n-th node's wait, read anew; 0 if it is over. */
static int load(struct cycle_search *t, const struct node *n)
{
	int there = 1;

	for (unsigned i = 0; there == 1; i++) {
		there = read_wait(t, n->process, i);
		if (there == 1 && t->other.id == n->id)
			return 1;
	}
	return there;
}

/*
 * A cycle that ends with ours.  Is it the one suspected, and have all waits
 * lasted beyond the moment at which it was all there?
 */
static int is_real(struct cycle_search *t, int at)
{
	bool told = true;

	t->cycle = t->mine.id;
	for (; at > 0; at = t->nodes[at].from) {
		told &= t->nodes[at].told > t->r->suspected_since;
		t->cycle = t->cycle * 31 + t->nodes[at].id;
	}
	return t->cycle == t->r->suspected && told ? 1 : DLK_SUSPECTED;
}

/* That a process is in its own way is no cycle: it gave that back. */
static int judge(struct cycle_search *t, const char *process, int at)
{
	if (strcmp(process, t->mine.process) != 0)
		return add_waits(t, process, at);
	return at == 0 ? 0 : is_real(t, at);
}

/* Who is in the way of node `at`: 1 a cycle, DLK_SUSPECTED, 0, -errno. */
static int expand(struct cycle_search *t, int at)
{
	struct dlk_wait *w = &t->mine;
	int n, err = 0;

	if (at > 0 && at < NODES) {
		w = &t->other;
		err = load(t, &t->nodes[at]);
		if (err != 1)
			return err;
	}
	n = t->r->store->ops->find_blockers(t->r->store, next(t), w,
					    t->blockers);
	if (n < 0)
		return n;
	err = 0;
	for (int i = 0; i < n && !err; i++)
		err = judge(t, t->blockers[i], at);
	return err;
}

static int search(struct cycle_search *t)
{
	int err = 0;

	t->n = 0;
	add_node(t, &t->mine, -1);
	for (int at = 0; at < t->n && !err; at++)
		err = expand(t, at);
	return err;
}

/* --- one wait ------------------------------------------------------------- */

static int tell_wait(struct cycle_search *t)
{
	return t->r->store->ops->tell_wait(t->r->store, next(t), &t->mine);
}

static int tell_and_search(struct request *r, struct cycle_search *t)
{
	int err;

	t->r = r;
	t->by_ns = dlk_now_ns() + r->attempt.timeout_ns;
	if (dlk_wait_report_owes(r->store, t->by_ns))
		return -EAGAIN;
	describe(r, &t->mine);
	err = tell_wait(t);
	r->wait_id = t->mine.id;
	if (!err)
		err = search(t);
	/* The clock, when all of it has been seen. */
	if (err == DLK_SUSPECTED && t->cycle != r->suspected &&
	    tell_wait(t) == 0) {
		r->suspected = t->cycle;
		r->suspected_since = t->mine.told;
	}
	return err;
}

/*
 * Who holds something and waits for another might be one of a cycle: said once,
 * where nobody can find that out.
 */
static void say_not_searched(const struct request *r)
{
	static atomic_bool said;

	if (!atomic_exchange(&said, true))
		dlk_request_line(
			r, DLK_WARNING, "waits, and holds other record locks: ",
			"a quorum of masters cannot tell of a deadlock",
			" with another host (EDEADLK), which lasts until one "
			"of the programs ends");
}

/* Without an answer there is no wait in the kernel, where nobody searches. */
enum acquire_event dlk_deadlock_check(struct request *r)
{
	struct cycle_search *t;
	int err;

	if (r->kind != DLK_POSIX || !dlk_holds_posix())
		return EV_OK;
	if (r->store->no_queue) {
		say_not_searched(r);
		return EV_OK;
	}
	t = dlk_pages(sizeof(*t));
	if (!t)
		return EV_OK;
	err = tell_and_search(r, t);
	munmap(t, sizeof(*t));
	r->suspects = err == DLK_SUSPECTED || err < 0;
	if (err == 1)
		return EV_DEADLOCK;
	return r->suspects ? EV_SUSPECTED : EV_OK;
}

void dlk_deadlock_end(struct request *r)
{
	if (r->wait_id)
		dlk_wait_report_end(r->store, r->wait_id);
	r->wait_id = 0;
}
