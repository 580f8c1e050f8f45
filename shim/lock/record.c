/* SPDX-License-Identifier: MIT */
/*
 * Record locks: fcntl(F_SETLK), its OFD forms, and lockf().  The kernel's lock
 * first, the lease second (DESIGN L1).
 *
 * A POSIX lock belongs to the process and the inode, an OFD lock to the open
 * file description (fcntl(2), "Advisory record locking").  So:
 *
 *	int a = open("f", O_RDWR), b = open("f", O_RDWR);
 *	lock all of "f" through a;
 *	close(b);			(the lock is gone)
 *
 *  1. Closing any descriptor of a file MUST drop all the process's POSIX locks
 *     on it; a child of fork() starts with none; exec() keeps them.
 *  2. A range is granted whole or not at all; what was held survives a
 *     refusal, in the kernel and at Redis, whatever other threads ask for.
 *  3. A weaker lock and an unlock never fail for Redis' sake.
 *  4. F_GETLK answers for other owners only: the kernel's first, then those of
 *     other hosts, whose l_pid is negative (a process of another system, as
 *     the kernel itself says of NFS).
 *
 * Each owner has one lease with a list of ranges.  One thread at a time works
 * on a file's (the file_lock): so the list says what is granted at that moment,
 * and what a refused call must give back follows from it:
 *
 *	thread 1			thread 2, same process
 *	kernel: WRITE 0-9
 *	Redis refuses			waits at the file_lock
 *	list has no 0-9: unlock it
 *					kernel: WRITE 0-9, Redis grants
 *
 * Nobody sleeps inside: a wait for a local holder is a wait in the kernel, and
 * what it brought is asked for once more, inside.
 */
#include "lock/record.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/log.h"
#include "os/path_cache.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/revalidate.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/inherited.h"
#include "hold/liveness.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "hold/thread.h"
#include "lock/deadlock.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/flock.h"
#include "lock/follow.h"
#include "lock/record_parts.h"
#include "lock/wait_slot.h"
#include "model/range.h"
#include "model/timeline.h"
#include "model/token.h"

/* Record locks have a key of their own: the kernel keeps them from flock's. */
#define RECORDS "%rec"

/* --- the calls ------------------------------------------------------------ */

static bool in_time(const struct dlk_held *h)
{
	bool yes;

	dlk_holds_lock();
	yes = dlk_now_ns() < h->valid.deadline_ns;
	dlk_holds_unlock();
	return yes;
}

/*
 * No byte is asked for that is not granted already: Redis need not agree.  But
 * what cannot be proved any more is not granted once more (DESIGN L5); nor what
 * another process may have taken over, and given back, by the same description:
 * a weaker lock, that may not fail for Redis' sake, if the kernel says that.
 */
static bool has_it(const struct request *a)
{
	const bool shared = a->kind == DLK_OFD && dlk_shared(a->fd);
	struct dlk_range rest = a->want, part;

	if (!a->own || dlk_ranges_lacks(dlk_record_granted(a), &rest, &part))
		return false;
	if (dlk_record_weakens(a))
		return !shared || dlk_record_is_listed(a);
	return !shared && in_time(a->own);
}

/* (file_lock) A part weaker, or as it was. */
static int weaken(struct request *a)
{
	struct dlk_range was = dlk_ranges_piece(dlk_record_granted(a),
						a->want.start, a->want.end);
	int err = dlk_record_set(a, &a->want);

	if (err || (was.type == a->want.type && was.end == a->want.end))
		return err;
	if (a->own->coherent)
		dlk_coherence_flush(a->fd);
	/* Without room for the split, Redis keeps the stronger lock. */
	if (dlk_ranges_set(&a->own->ranges, a->want) == 0)
		dlk_list_send(a->own, &a->want);
	return 0;
}

static int unlisted(struct request *a)
{
	dlk_record_roll_back(a);
	dlk_request_line(
		a, DLK_ERROR,
		"not asked: this file system (FUSE) keeps its locks to "
		"itself",
		"",
		"; the call fails with ENOLCK.  Mount it without lock "
		"forwarding");
	return -ENOLCK;
}

/* (file_lock) [KLOCK] */
static enum acquire_event try_kernel(struct request *a)
{
	int err;

	if (has_it(a)) {
		err = weaken(a);
		return err ? dlk_event_of_kernel(a, err) : EV_COVERED;
	}
	err = dlk_record_look_before(a);
	if (err)
		return dlk_event_error(a, err);
	err = dlk_record_take(a);
	if (!err && a->on_fuse && !dlk_record_weakens(a) &&
	    !dlk_record_is_listed(a))
		err = unlisted(a);
	return dlk_event_of_kernel(a, err);
}

/* What was asked for is granted by Redis. */
static void finish(struct request *a, bool weaker)
{
	dlk_trace_call(a, "granted");
	if (weaker && dlk_follow_is_there(a))
		dlk_record_set(a, &a->want);
	if (a->own->coherent) {
		dlk_coherence_refresh(a->fd);
		dlk_coherence_names(a->fd, &a->want, a->s->path,
				    sizeof(a->s->path));
	}
}

/* (file_lock) [ASK] */
static enum acquire_event ask(struct request *a)
{
	const uint64_t began = dlk_now_ns();
	const bool weaker = dlk_record_weakens(a);
	int err;

	if (weaker && a->own->coherent)
		dlk_coherence_flush(a->fd);
	err = dlk_record_ask(a);
	if (err >= 0 && a->slot.word == 'g')
		a->slot.word = 0;
	if (err == DLK_BUSY)
		dlk_record_refused(a, began);
	if (err == DLK_GONE)
		return dlk_record_lost(a);
	if (!err)
		err = dlk_record_keep(a);
	if (!err)
		finish(a, weaker);
	return dlk_event_of_redis(a, err);
}

/* (file_lock) */
static enum acquire_event rollback(struct request *a)
{
	dlk_record_roll_back(a);
	return EV_OK;
}

/* The search for deadlocks leaves our own lease out. */
static void note_random(struct request *a)
{
	a->own_random[0] = '\0';
	if (a->own)
		memcpy(a->own_random, a->own->lease.token + sizeof("dlock1"),
		       DLK_RANDOM_LEN);
}

/*
 * Does the kernel still have the process's first range?  An OFD lock would meet
 * it; its own list takes as long as there are locks in it.
 */
static bool first_is_there(const struct request *a)
{
	struct dlk_range first = { .type = DLK_WRITE };
	struct flock64 l = { 0 };

	if (a->kind != DLK_POSIX || a->own->ranges.n == 0)
		return false;
	first.start = first.end = a->own->ranges.v[0].start;
	dlk_range_to(&first, &l);
	return real.fcntl64(a->fd, F_OFD_GETLK, &l) == 0 &&
	       l.l_type != F_UNLCK && l.l_pid == dlk_pid();
}

/*
 * If the kernel has none any more (a descriptor was closed behind our back),
 * the lease is not to be counted on: the keeper releases what it carries, and a
 * local program that proves the owner dead (L3) has its bytes at Redis.
 *
 *	we			Redis		here		another host
 *	0-9
 *	(closed unseen)
 *				by proof <-	0-9
 *				released <-	unlocks
 *				granted					0-9
 *	0-9 once more: no
 *	byte is new
 *
 * An OFD lock ends with its last descriptor: only the next description by that
 * number can be taken for its own, and its list takes long to read.
 */
static void forget_ended(struct request *a)
{
	if (!a->own ||
	    (a->kind == DLK_OFD && !dlk_is_delegated(a->own) && !has_it(a)) ||
	    first_is_there(a) || dlk_record_compare(a->own) != 0)
		return;
	dlk_hold_end(a->own, END_GONE);
	dlk_request_let_go(a);
}

static bool same_key(const struct dlk_lease *a, const struct dlk_lease *b)
{
	return a->key_len == b->key_len &&
	       memcmp(a->key, b->key, a->key_len) == 0;
}

/* A handler is about to run, and the call may never come back. */
static void away(void *arg)
{
	struct request *a = arg;

	dlk_queue_away(a);
	dlk_request_empty_hands(a);
}

/*
 * What the kernel has granted already must be given back inside: then no signal
 * is let in.
 */
static enum acquire_event enter(struct request *a)
{
	struct dlk_call *call = a->acquire.in_hand ? NULL : a->call;
	const int err = dlk_gate_enter(call, &a->file, away, a);
	int then;

	if (a->s)
		return err ? dlk_event_error(a, err) : EV_OK;
	then = dlk_request_fill_hands(a, err);
	if (!then)
		then = dlk_follow_up(a);
	if (!err && then)
		dlk_gate_leave(&a->file);
	return dlk_event_of_place(a, then);
}

static void leave(struct request *a)
{
	dlk_request_let_go(a);
	dlk_gate_leave(&a->file);
	a->lease = a->by_path; /* the owner's own may be gone now */
}

/* (file_lock) */
static enum acquire_event prepare(struct request *a)
{
	int err;

	a->own = dlk_record_owner(&a->file, a->kind, a->fd);
	forget_ended(a);
	err = dlk_record_adopt(a);
	note_random(a);
	a->elsewhere = a->own && !same_key(&a->lease, &a->own->lease);
	if (!err && !has_it(a))
		err = dlk_record_ask_first(a);
	return err == DLK_GONE ? EV_LOST : dlk_event_of_redis(a, err);
}

/* A local holder that outlasts this is a program that knows nothing of us. */
enum { GRANTED_MS = 20 };

/*
 * [WAKE] Redis has granted: a local holder in our way is one who only asks, and
 * is refused; or a program that knows nothing of us.
 */
static bool passes_soon(const struct request *a)
{
	if (!a->slot.word || dlk_acquire_has_waited(&a->acquire, dlk_now_ns(),
						    1, GRANTED_MS * DLK_MS))
		return false;
	dlk_pause_ns(DLK_MS / 10);
	return true;
}

static bool is_tentative(struct request *a)
{
	return a->acquire.wait ? passes_soon(a) : dlk_record_is_by_asker(a);
}

static enum acquire_event closes_cycle(struct request *a)
{
	if (dlk_deadlock_check(a) < 0)
		return EV_DEADLOCK;
	return a->suspects ? EV_SUSPECTED : EV_OK;
}

/*
 * A record lock waits at Redis, and some time has passed: -EDEADLK; 't' if its
 * owner has come to something by another thread, so that it is to ask again; 0.
 */
static int look_around(struct request *a)
{
	int err = dlk_deadlock_check(a);
	bool news;

	if (err || !dlk_gate_try(&a->file))
		return err;
	a->own = dlk_record_owner(&a->file, a->kind, a->fd);
	news = a->own &&
	       (has_it(a) || memcmp(a->own->lease.token + sizeof("dlock1"),
				    a->own_random, DLK_RANDOM_LEN) != 0);
	dlk_request_let_go(a);
	dlk_gate_leave(&a->file);
	return news ? 't' : 0;
}

static const struct lock_kind record_kind = {
	.enter = enter,
	.prepare = prepare,
	.kernel_try = try_kernel,
	.ask = ask,
	.rollback = rollback,
	.leave = leave,
	.holder_is_tentative = is_tentative,
	.kernel_wait = dlk_record_wait,
	.closes_cycle = closes_cycle,
	.look_around = look_around,
	.doubt = dlk_record_doubt,
};

/* (file_lock) The lease goes first, then the kernel's lock (L1). */
static void give_up(struct dlk_held *h, int fd, struct dlk_range range)
{
	if (h->coherent)
		dlk_coherence_flush(fd);
	range.type = DLK_UNLOCKED;
	if (dlk_ranges_set(&h->ranges, range) < 0)
		return; /* no room for the split: Redis keeps the whole */
	if (h->ranges.n == 0)
		dlk_hold_end(h, END_UNLOCKED);
	else
		dlk_list_send(h, &range);
}

static int unlock_records(struct request *a)
{
	int err;

	a->call->wait = false;
	dlk_gate_enter(a->call, &a->file, away, a);
	/* A handler has run. */
	if (!a->s) {
		dlk_request_fill_hands(a, 0);
		if (dlk_follow_moved(a)) {
			dlk_gate_leave(&a->file);
			return a->s ? DLK_OTHER_FILE : -ENOLCK;
		}
	}
	a->own = dlk_record_owner(&a->file, a->kind, a->fd);
	if (a->lease.key && a->s)
		dlk_record_adopt(
			a); /* or the keeper has the whole, until it ends */
	if (a->own)
		give_up(a->own, a->fd, a->want);
	err = dlk_record_set(a, &a->want);
	dlk_request_let_go(a);
	dlk_gate_leave(&a->file);
	return err;
}

/* The key, and what goes with it. */
static int begin(struct request *a)
{
	int err = dlk_request_begin(a, RECORDS);
	ssize_t n;

	if (err)
		return err;
	n = dlk_records_places(a->lease.key, a->lease.key_len, a->s->places,
			       sizeof(a->s->places));
	a->lease.places = a->s->places;
	a->lease.places_len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? -ENOLCK : 0;
}

/* In a wait there is no scratch. */
#define on_stack(text, len) memcpy(alloca((len) + 1), (text), (len) + 1)
#define hold_key(a)                                                            \
	((a)->lease.key = on_stack((a)->lease.key, (a)->lease.key_len),        \
	 (a)->lease.places =                                                   \
		 on_stack((a)->lease.places, (a)->lease.places_len))

static int lock_managed(struct request *a)
{
	char claim[DLK_TOKEN_MAX];
	int err = begin(a);

	if (err)
		return err;
	hold_key(a);
	dlk_follow_threads(a);
	a->slot.claim = claim;
	a->by_path = a->lease;
	/* Before the kernel's lock, which would be taken for one. */
	a->inherited = a->lease.fair && dlk_inherited_any();
	err = dlk_engine_run(a, &record_kind);
	dlk_queue_end(a);
	a->slot.claim = NULL;
	dlk_deadlock_end(a);
	return err;
}

/* --- fcntl ---------------------------------------------------------------- */

/*
 * The kernel answers EFAULT for a bad pointer; so do not touch it ourselves.
 * Unless it does not let us ask (seccomp(2)): nothing may pass unlocked.
 */
bool dlk_record_read(const struct flock64 *from, struct flock64 *to)
{
	struct iovec there = { (void *)(uintptr_t)from, sizeof(*to) };
	struct iovec here = { to, sizeof(*to) };
	ssize_t n = process_vm_readv((pid_t)dlk_syscall(SYS_gettid), &here, 1,
				     &there, 1, 0);

	if (n < 0 && errno != EFAULT) {
		*to = *from;
		return true;
	}
	return n == sizeof(*to);
}

static int read_range(int fd, const struct flock64 *lock,
		      struct dlk_range *range)
{
	struct stat st = { 0 };
	off64_t offset = 0;

	if (lock->l_whence == SEEK_CUR)
		offset = lseek64(fd, 0, SEEK_CUR);
	/* A pipe has none; the kernel counts from 0 there. */
	if (offset < 0)
		offset = 0;
	/* The kernel takes the size that it knows, too (fs/locks.c). */
	if (lock->l_whence == SEEK_END && dlk_fstat_known(fd, &st) < 0)
		return -errno;
	return dlk_range_of(lock, offset, st.st_size, range);
}

static bool is_ofd(int cmd)
{
	return cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW || cmd == F_OFD_GETLK;
}

static bool is_question(int cmd)
{
	return cmd == F_GETLK || cmd == F_OFD_GETLK;
}

static bool is_wait(int cmd)
{
	return cmd == F_SETLKW || cmd == F_OFD_SETLKW;
}

static bool is_lock(const struct flock64 *lock)
{
	return lock->l_type == F_RDLCK || lock->l_type == F_WRLCK;
}

static int get_managed(struct request *a, struct flock64 *lock)
{
	int err = begin(a);

	if (err)
		return err;
	hold_key(a);
	return dlk_record_get(a, lock);
}

static int unlock_managed(struct request *a)
{
	if (dlk_inherited_on(&a->file) && begin(a) == 0)
		hold_key(a);
	else
		a->lease.key = NULL;
	return unlock_records(a);
}

static int act(struct request *a, int cmd, struct flock64 *lock)
{
	if (is_question(cmd))
		return get_managed(a, lock);
	if (a->want.type == DLK_UNLOCKED)
		return unlock_managed(a);
	a->call->wait = is_wait(cmd);
	a->call->cancels = a->call->wait;
	return lock_managed(a);
}

/* The path is a rule's: the kernel may still have something to say first. */
static int on_rule(struct request *a, int cmd, struct flock64 *lock)
{
	struct flock64 copy;
	int err;

	if (dlk_kernel_is_path_only(a->fd) || !dlk_record_read(lock, &copy) ||
	    (is_ofd(cmd) && copy.l_pid != 0) ||
	    (is_question(cmd) && !is_lock(&copy)))
		return DLK_PASS;
	a->kind = is_ofd(cmd) ? DLK_OFD : DLK_POSIX;
	err = read_range(a->fd, &copy, &a->want);
	if (err)
		return err;
	a->blocked = a->want;
	err = dlk_kernel_file(a->fd, &a->file);
	if (err)
		return err;
	dlk_inherited_look();
	return act(a, cmd, lock);
}

/* The file that the descriptor has now. */
static int on_file(struct request *a, int cmd, struct flock64 *lock)
{
	int err;

	*a = (struct request){
		.call = a->call,
		.name = a->name,
		.fd = a->fd,
		.program_fd = a->fd,
		.s = a->s,
		.followed = a->followed,
		.number = a->number,
	};
	err = dlk_classify(a->fd, a->s->path, sizeof(a->s->path), a->name,
			   &a->rule);
	if (err)
		return err;
	return a->rule ? on_rule(a, cmd, lock) : DLK_PASS;
}

int dlk_record(struct dlk_call *call, const char *name, int fd, int cmd,
	       struct flock64 *lock)
{
	struct request a = {
		.call = call, .name = name, .fd = fd, .program_fd = fd
	};
	int err;

	/* One that is pending acts whether there is a wait or not. */
	if (is_wait(cmd))
		pthread_testcancel();
	if (dlk_path_cache_has(fd))
		return DLK_PASS;
	dlk_enter(call);
	err = dlk_request_fill_hands(&a, 0);
	if (!a.s)
		dlk_log(DLK_ERROR, name, ": fails with ENOLCK: no memory",
			NULL);
	if (!err)
		err = on_file(&a, cmd, lock);
	while (err == DLK_OTHER_FILE)
		err = on_file(&a, cmd, lock);
	dlk_request_end(&a);
	if (a.rule)
		dlk_thread_catch_up();
	dlk_leave(call);
	return err;
}

/* As glibc's lockf() has it: the section begins at the offset (lockf(3)). */
int dlk_lockf(struct dlk_call *call, int fd, int cmd, off64_t len)
{
	struct flock64 lock = { .l_whence = SEEK_CUR, .l_len = len };
	int err;

	switch (cmd) {
	case F_ULOCK:
		lock.l_type = F_UNLCK;
		return dlk_record(call, "lockf", fd, F_SETLK, &lock);
	case F_LOCK:
		lock.l_type = F_WRLCK;
		return dlk_record(call, "lockf", fd, F_SETLKW, &lock);
	case F_TLOCK:
		lock.l_type = F_WRLCK;
		return dlk_record(call, "lockf", fd, F_SETLK, &lock);
	case F_TEST:
		lock.l_type = F_RDLCK;
		err = dlk_record(call, "lockf", fd, F_GETLK, &lock);
		if (err || lock.l_type == F_UNLCK || lock.l_pid == dlk_pid())
			return err;
		return -EACCES;
	default:
		return DLK_PASS; /* EINVAL is libc's to say */
	}
}
