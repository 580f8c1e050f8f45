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
 *     sees all the others.
 *  3. A process that holds nothing is in nobody's way: its waits cost nothing.
 *     But what it held before an execve(2) it holds.
 *  4. Who waits for Redis tells of it anew at each pause; who waits in the
 *     kernel is seen there by the thread, which tells of it.  A call that waits
 *     may never come back, and then nobody does.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/record.h"
#include "model/text.h"
#include "model/timeline.h"

enum { NODES = 64, TELLING = 8 };

enum { TOLD_MS = 200 }; /* for the thread to tell of a wait */

struct node {
	char process[DLK_PROCESS_LEN + 1];
	uint64_t id, told;
	int from; /* the node it is in the way of; -1: it is ours */
};

struct tale {
	struct dlk_store *store;
	struct dlk_attempt attempt;
	uint64_t by_ns; /* for all of it */
	struct dlk_wait mine, other;
	struct node nodes[NODES];
	int n;
	uint64_t suspected, since; /* as in struct ask */
	uint64_t cycle;            /* found now */
	dlk_process blockers[DLK_BLOCKERS_MAX];
};

/* Waits in the kernel that are told of.  Guarded by the mutex. */
static struct telling {
	struct dlk_store *store; /* NULL: free */
	int fd;                  /* as it was when the wait began */
	struct dlk_file file;
	uint64_t id;
	pid_t tid;
	const void *lock;      /* of its fcntl(2) */
	uint64_t clock;        /* the server's, before the thread looks next */
	uint64_t last_seen_ns; /* by the thread */
	uint64_t last_told_ns;
} telling[TELLING];

/* What they wait for, should it be told of again.  Guarded by the mutex. */
static struct what {
	size_t key_len;
	struct dlk_range range;
	char owner[DLK_RANDOM_LEN + 1];
	char key[DLK_KEY_MAX + 1];
} waited_for[TELLING];

static uint64_t next_look_ns; /* the thread's */

/* --- telling -------------------------------------------------------------- */

static bool has_records(void *any, int fd)
{
	dlk_kernel_records(fd, DLK_POSIX, dlk_kernel_note_any, any);
	return *(bool *)any;
}

/*
 * There will be none where there is none.  Those of our own that are asked for
 * at this moment, by another thread, may be among them: then the wait is told
 * in vain.
 */
static bool has_inherited(void)
{
	bool any = false;

	if (dlk_inherited_none())
		return false;
	/* (-2: it could not be looked for.) */
	if (dlk_kernel_find(NULL, DLK_ANY_MODE, has_records, &any) == -1)
		dlk_inherited_forget();
	return any;
}

/* Is anybody ever in wait for this process? */
static bool holds_something(void)
{
	bool found = false;

	pthread_mutex_lock(&dlk.mutex);
	for (const struct dlk_held *h = dlk.held; h && !found; h = h->next)
		found = h->state == DLK_HELD && h->kind == DLK_POSIX;
	pthread_mutex_unlock(&dlk.mutex);
	return found || has_inherited();
}

/* Asked for before the kernel's lock, which would be taken for one. */
void dlk_note_inherited(struct ask *a)
{
	a->inherited = a->lease.fair && has_inherited();
}

bool dlk_overtakes(const struct ask *a)
{
	return a->lease.fair && (atomic_load(&dlk.n_held) || a->inherited);
}

/*
 * Has a release, or a list, failed on its way?  Of what is in flight the answer
 * is read first, where nobody else has the connection.
 */
static bool owes(struct dlk_store *store, uint64_t by)
{
	bool found = false;

	while (dlk_now_ns() < by && store->ops->settle(store, by, NULL))
		;
	pthread_mutex_lock(&dlk.mutex);
	for (const struct dlk_held *h = dlk.held; h && !found; h = h->next)
		found = h->lease.places &&
			(h->state == DLK_OWED ? !h->in_flight : h->list_again);
	pthread_mutex_unlock(&dlk.mutex);
	return found;
}

static void note_what(const struct ask *a, struct what *what)
{
	what->range = a->want;
	strcpy(what->owner, a->own_random[0] ? a->own_random : "-");
	what->key_len = a->lease.key_len;
	memcpy(what->key, a->lease.key, a->lease.key_len + 1);
}

/* Of this thread there is one at most: an earlier one was left. */
void dlk_deadlock_in_kernel(const struct ask *a, const void *lock)
{
	const pid_t tid = (pid_t)dlk_syscall(SYS_gettid);
	struct telling *free = NULL;

	if (!a->wait_id)
		return;
	pthread_mutex_lock(&dlk.mutex);
	for (int i = 0; i < TELLING; i++) {
		if (telling[i].store && telling[i].tid == tid)
			telling[i].store = NULL;
		if (!telling[i].store)
			free = &telling[i];
	}
	if (lock && free) {
		*free = (struct telling){ .store = a->store,
					  .fd = a->fd,
					  .file = a->file,
					  .id = a->wait_id,
					  .tid = tid,
					  .lock = lock,
					  .last_seen_ns = dlk_now_ns(),
					  .last_told_ns = dlk_now_ns() };
		note_what(a, &waited_for[free - telling]);
	}
	pthread_mutex_unlock(&dlk.mutex);
	if (lock)
		dlk_thread_need(dlk_now_ns());
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

/* One question more, in what is left of the time. */
static struct dlk_attempt *next(struct tale *t)
{
	const uint64_t now = dlk_now_ns();

	t->attempt.timeout_ns = now < t->by_ns ? t->by_ns - now : 0;
	return &t->attempt;
}

static int read_wait(struct tale *t, const char *process, unsigned n)
{
	return t->store->ops->read_wait(t->store, next(t), process, n,
					&t->other);
}

static bool is_known(const struct tale *t, const char *process)
{
	for (int i = 0; i < t->n; i++)
		if (strcmp(t->nodes[i].process, process) == 0)
			return true;
	return false;
}

static void add_node(struct tale *t, const struct dlk_wait *w, int from)
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
 * The waits of a process that is in the way of node `from`.  A cycle through
 * one that began after ours is its to give up; but so is none that goes by
 * older ones, and a process is looked at once: so those are left out.
 */
static int add_waits(struct tale *t, const char *process, int from)
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
static int load(struct tale *t, const struct node *n)
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
static int is_real(struct tale *t, int at)
{
	bool told = true;

	t->cycle = t->mine.id;
	for (; at > 0; at = t->nodes[at].from) {
		told &= t->nodes[at].told > t->since;
		t->cycle = t->cycle * 31 + t->nodes[at].id;
	}
	return t->cycle == t->suspected && told ? 1 : DLK_SUSPECTED;
}

/* That a process is in its own way is no cycle: it gave that back. */
static int judge(struct tale *t, const char *process, int at)
{
	if (strcmp(process, t->mine.process) != 0)
		return add_waits(t, process, at);
	return at == 0 ? 0 : is_real(t, at);
}

/* Who is in the way of node `at`: 1 a cycle, DLK_SUSPECTED, 0, -errno. */
static int expand(struct tale *t, int at)
{
	struct dlk_wait *w = &t->mine;
	int n, err = 0;

	if (at > 0 && at < NODES) {
		w = &t->other;
		err = load(t, &t->nodes[at]);
		if (err != 1)
			return err;
	}
	n = t->store->ops->find_blockers(t->store, next(t), w, t->blockers);
	if (n < 0)
		return n;
	err = 0;
	for (int i = 0; i < n && !err; i++)
		err = judge(t, t->blockers[i], at);
	return err;
}

static int search(struct tale *t)
{
	int err = 0;

	t->n = 0;
	add_node(t, &t->mine, -1);
	for (int at = 0; at < t->n && !err; at++)
		err = expand(t, at);
	return err;
}

/* --- one wait ------------------------------------------------------------- */

static int tell_wait(struct tale *t)
{
	return t->store->ops->tell_wait(t->store, next(t), &t->mine);
}

static int tell_and_search(struct ask *a, struct tale *t)
{
	int err;

	t->store = a->store;
	t->by_ns = dlk_now_ns() + a->attempt.timeout_ns;
	if (owes(a->store, t->by_ns))
		return -EAGAIN;
	describe(a, &t->mine);
	err = tell_wait(t);
	a->wait_id = t->mine.id;
	if (!err)
		err = search(t);
	/* The clock, when all of it has been seen. */
	if (err == DLK_SUSPECTED && t->cycle != t->suspected &&
	    tell_wait(t) == 0) {
		a->suspected = t->cycle;
		a->suspected_since = t->mine.told;
	}
	return err;
}

/* Without an answer there is no wait in the kernel, where nobody searches. */
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
	t->suspected = a->suspected;
	t->since = a->suspected_since;
	err = tell_and_search(a, t);
	munmap(t, sizeof(*t));
	a->suspects = err == DLK_SUSPECTED || err < 0;
	return err == 1 ? -EDEADLK : 0;
}

/* Or it expires. */
static void end_one(struct dlk_store *store, uint64_t id)
{
	const struct dlk_sending how = { .timeout_ns = 20 * DLK_MS };
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	store->ops->send_wait_end(store, &how, process, id);
}

void dlk_deadlock_end(struct ask *a)
{
	if (a->wait_id)
		end_one(a->store, a->wait_id);
	a->wait_id = 0;
}

/* --- the thread's part ---------------------------------------------------- */

/*
 * Is its thread in that very call?  /proc/PID/task/TID/syscall (proc(5)) has
 * the number of the call and its arguments: "72 0x3 0x7 0x7ffd...".  Where that
 * cannot be read, the kernel's list must do.
 */
static bool is_waiting(const struct telling *t)
{
	char name[64], line[256];
	const char *p = line;
	uint64_t arg = 0;
	struct dlk_text text;
	ssize_t n;

	dlk_text_init(&text, name, sizeof(name));
	dlk_text_str(&text, "/proc/self/task/");
	dlk_text_i64(&text, t->tid);
	dlk_text_str(&text, "/syscall");
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
static int confirm(struct telling *t, struct dlk_wait *again)
{
	struct dlk_attempt attempt = { .timeout_ns = TOLD_MS * DLK_MS };
	char process[DLK_PROCESS_LEN + 1];

	dlk_identity_process(process);
	return t->store->ops->confirm_wait(t->store, &attempt, process, t->id,
					   again, &t->clock);
}

/*
 * All of the process was stopped for so long that the wait may have expired at
 * Redis: it is told of again.
 */
static int tell_again(const struct telling *slot, struct telling *t)
{
	const struct what *what = &waited_for[slot - telling];
	struct dlk_wait *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool still;
	int err = 1;

	if (w == MAP_FAILED)
		return -ENOMEM;
	pthread_mutex_lock(&dlk.mutex);
	still = slot->store && slot->id == t->id;
	w->range = what->range;
	w->key_len = what->key_len;
	memcpy(w->owner, what->owner, sizeof(w->owner));
	memcpy(w->key, what->key, what->key_len + 1);
	pthread_mutex_unlock(&dlk.mutex);
	if (still)
		err = confirm(t, w);
	munmap(w, sizeof(*w));
	return err;
}

/* As confirm(); -EAGAIN: not now. */
static int tell(const struct telling *slot, struct telling *t, uint64_t now)
{
	if (owes(t->store, now + TOLD_MS * DLK_MS))
		return -EAGAIN;
	return now - t->last_told_ns > DLK_WAIT_MS / 2 * DLK_MS
		       ? tell_again(slot, t)
		       : confirm(t, NULL);
}

/* One that is not seen for long is over: nobody came back to say so. */
static bool go_on(struct telling *slot, uint64_t now)
{
	struct telling t;
	bool over = false;

	pthread_mutex_lock(&dlk.mutex);
	t = *slot;
	pthread_mutex_unlock(&dlk.mutex);
	if (!t.store)
		return false;
	if (is_waiting(&t)) {
		int err = tell(slot, &t, now);

		t.last_seen_ns = now;
		if (err > 0)
			t.last_told_ns = now;
		over = err == 0;
	} else if (now - t.last_seen_ns > DLK_WAIT_MS * DLK_MS) {
		end_one(t.store, t.id);
		over = true;
	}
	pthread_mutex_lock(&dlk.mutex);
	if (slot->store && slot->id == t.id) {
		slot->clock = t.clock;
		slot->last_seen_ns = t.last_seen_ns;
		slot->last_told_ns = t.last_told_ns;
		if (over)
			slot->store = NULL;
	}
	pthread_mutex_unlock(&dlk.mutex);
	return !over;
}

/* The thread was stopped, and so were they: none of them was to be seen. */
static void excuse(uint64_t now)
{
	pthread_mutex_lock(&dlk.mutex);
	for (int i = 0; i < TELLING; i++)
		telling[i].last_seen_ns = now;
	pthread_mutex_unlock(&dlk.mutex);
}

uint64_t dlk_deadlock_tick(uint64_t now)
{
	bool any = false;

	if (now < next_look_ns)
		return next_look_ns;
	if (now - next_look_ns > DLK_WAIT_MS / 2 * DLK_MS)
		excuse(now);
	for (int i = 0; i < TELLING; i++)
		any |= go_on(&telling[i], now);
	if (!any)
		return UINT64_MAX;
	next_look_ns = now + DLK_TELL_MS * DLK_MS;
	return next_look_ns;
}

void dlk_deadlock_forget(void)
{
	memset(telling, 0, sizeof(telling));
	dlk_inherited_forget();
	next_look_ns = 0;
}
