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
#include "os/proc.h"
#include "os/real.h"
#include "os/revalidate.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/delegation.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/inherited.h"
#include "hold/liveness.h"
#include "hold/local.h"
#include "hold/owner.h"
#include "hold/release.h"
#include "lock/deadlock.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/flock.h"
#include "lock/follow.h"
#include "lock/wait.h"
#include "model/narrow.h"
#include "model/range.h"
#include "model/token.h"

/* Record locks have a key of their own: the kernel keeps them from flock's. */
#define RECORDS "%rec"

/* --- the calls ------------------------------------------------------------ */

static bool in_time(const struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	return dlk_now_ns() < h->valid.deadline_ns;
}

/*
 * No byte is asked for that is not granted already: Redis need not agree.  But
 * what cannot be proved any more is not granted once more (DESIGN L5); nor what
 * another process may have taken over, and given back, by the same description:
 * a weaker lock, that may not fail for Redis' sake, if the kernel says that.
 */
static bool has_it(const struct request *r)
{
	const bool shared = dlk_record_shares(r);
	struct dlk_range rest = r->want, part;

	if (!r->own || dlk_ranges_lacks(dlk_record_granted(r), &rest, &part))
		return false;
	if (dlk_record_weakens_granted(r))
		return !shared || dlk_record_is_listed(r);
	return !shared && in_time(r->own);
}

/*
 * The list cannot say it; so the kernel is not told either.  Where a byte is on
 * the list and the kernel has given it up, a program of this host may take it
 * over by proof (L3), and another host after it; locked once more, it would be
 * had already.
 */
static int no_room(const struct request *r)
{
	if (r->s)
		dlk_request_say(r, DLK_ERROR,
				"no memory for the list of its ranges", "",
				"; the call fails with ENOLCK, and what was "
				"locked stays so");
	return -ENOLCK;
}

/* What is written under a lock comes before its end, or a weaker one (L10). */
static void flush(const struct request *r)
{
	if (r->own ? r->own->revalidates
		   : dlk_revalidation_needed(r->rule, r->fd, &r->file))
		dlk_coherence_flush(r->fd);
}

/* (file_lock) A part weaker, or as it was. */
static int weaken(struct request *r)
{
	struct dlk_range was = dlk_ranges_piece(dlk_record_granted(r),
						r->want.start, r->want.end);
	const bool same = was.type == r->want.type && was.end == r->want.end;
	int err;

	if (!same && dlk_ranges_reserve(&r->own->ranges))
		return no_room(r);
	err = dlk_record_set(r, &r->want);
	if (err || same)
		return err;
	if (r->own->revalidates)
		dlk_coherence_flush(r->fd);
	dlk_ranges_set(&r->own->ranges, r->want);
	dlk_list_send(r->own, &r->want);
	return 0;
}

static int unlisted(struct request *r)
{
	dlk_record_roll_back(r);
	dlk_request_line(
		r, DLK_ERROR,
		"not asked: this file system (FUSE) keeps its locks to "
		"itself",
		"",
		"; the call fails with ENOLCK.  Mount it without lock "
		"forwarding");
	return -ENOLCK;
}

/*
 * What this process has locked without Redis stays so until it is unlocked, if
 * no more than that is asked for; but what a lease was for is its own affair.
 */
static bool is_local(const struct request *r)
{
	return r->acquire.may_be_local && !r->acquire.in_hand &&
	       dlk_local_perhaps(&r->file) && !dlk_record_shares(r) &&
	       !(r->own && !in_time(r->own)) && !has_it(r) &&
	       dlk_record_is_listed(r);
}

/* (file_lock) What our own lease has of it is no more than what is asked for. */
static void weaken_list(struct request *r)
{
	struct dlk_range piece;

	for (uint64_t at = r->want.start;; at = piece.end + 1) {
		piece = dlk_ranges_piece(dlk_record_granted(r), at,
					 r->want.end);
		if (piece.type > r->want.type) {
			piece.type = r->want.type;
			dlk_ranges_set(&r->own->ranges, piece);
		}
		if (piece.end == r->want.end)
			break;
	}
	dlk_list_send(r->own, &r->want);
}

/* (file_lock) By the kernel alone. */
static int weaken_here(struct request *r)
{
	int err;

	if (r->own && dlk_ranges_reserve(&r->own->ranges))
		return no_room(r);
	flush(r);
	err = dlk_record_set(r, &r->want);
	if (!err && dlk_record_weakens_granted(r))
		weaken_list(r);
	return err;
}

/* (file_lock) What a lease had of it is weaker, perhaps. */
static int keep_local(struct request *r)
{
	const int err = dlk_record_weakens(r) ? weaken_here(r) : 0;

	if (err)
		dlk_record_roll_back(r);
	return err;
}

/*
 * A weaker lock never fails for Redis' sake (DESIGN L1).  What our own list does not
 * have is of the program before an execve(2), whose keeper finds it weaker in the
 * kernel, and tells Redis.  (In the meantime it is more than was asked for.)
 */
static enum acquire_event weakened_here_only(struct request *r)
{
	const int err = weaken_here(r);

	if (err)
		return dlk_event_error(r, err);
	dlk_request_line(
		r, DLK_WARNING,
		"cannot weaken the lease to a shared one yet: ", r->attempt.why,
		"; it may stay exclusive until Redis answers");
	return EV_COVERED;
}

/* Redis does not say whether it grants it, or cannot grant it to anybody. */
static bool is_for_redis_sake(enum acquire_event cause)
{
	return cause == EV_NO_ANSWER || cause == EV_UNUSABLE ||
	       cause == EV_YOUNG;
}

/* (file_lock) [KLOCK] */
static enum acquire_event try_kernel(struct request *r)
{
	int err;

	if (has_it(r)) {
		err = weaken(r);
		return err ? dlk_event_of_kernel(r, err) : EV_COVERED;
	}
	err = dlk_record_look_before(r);
	if (err)
		return dlk_event_error(r, err);
	err = dlk_record_take(r);
	if (!err && r->on_fuse && !dlk_record_weakens(r) &&
	    !dlk_record_is_listed(r))
		err = unlisted(r);
	if (!err && r->acquire.local)
		err = keep_local(r);
	return dlk_event_of_kernel(r, err);
}

/*
 * The file server was late, and so was Redis.  (What the owner had before, or
 * a sharer has, is the thread's to judge, and not this call's to undo.)
 */
static int ended_meanwhile(struct request *r)
{
	r->own->ranges.n = 0; /* so the kernel's lock goes, too */
	dlk_hold_end(r->own, END_UNLOCKED);
	strcpy(r->attempt.why, "the lease ended before the file was fresh");
	return -ETIMEDOUT;
}

/* What was asked for is granted by Redis: 0, or -ETIMEDOUT. */
static int finish(struct request *r, bool weaker, bool is_new)
{
	dlk_trace_call(r, "granted", NULL);
	if (weaker && dlk_follow_is_there(r))
		dlk_record_set(r, &r->want);
	if (!r->own->revalidates)
		return 0;
	dlk_coherence_refresh(r->fd);
	dlk_coherence_names(r->fd, &r->want, r->s->room.path,
			    sizeof(r->s->room.path));
	return is_new && r->before.n == 0 && !in_time(r->own)
		       ? ended_meanwhile(r)
		       : 0;
}

/*
 * What we had is a sharer's, who has unlocked it and locked it for himself (11.6): he
 * renews that, and we begin with what is asked for.  What of that was on our list is
 * what the description had before, and stays if we are refused.
 */
static bool leave_to_sharer(struct request *r)
{
	const struct dlk_ranges *had = dlk_record_granted(r);
	struct dlk_range piece;

	if (!r->own ||
	    !dlk_record_is_sharers(r->own, &r->attempt, &r->s->answer))
		return false;
	for (uint64_t at = r->want.start;; at = piece.end + 1) {
		piece = dlk_ranges_piece(had, at, r->want.end);
		if (piece.type != DLK_UNLOCKED &&
		    dlk_ranges_set(&r->before, piece) < 0)
			return false;
		if (piece.end == r->want.end)
			break;
	}
	dlk_hold_end(r->own, END_GONE);
	dlk_request_let_go(r);
	dlk_request_by_path(r, &r->by_path);
	return true;
}

/* (file_lock) [ASK] */
static enum acquire_event ask(struct request *r)
{
	const uint64_t began = dlk_now_ns();
	const bool weaker = dlk_record_weakens(r);
	uint64_t patience_ns = r->attempt.timeout_ns;
	bool is_new;
	int err;

	if (weaker) {
		patience_ns = dlk_request_weakens(r);
		flush(r);
	}
	err = dlk_record_ask(r);
	r->attempt.timeout_ns = patience_ns;
	if (err == DLK_GONE && leave_to_sharer(r))
		err = dlk_record_ask(r);
	is_new = !r->own;
	if (err >= 0 && r->slot.word == 'g')
		r->slot.word = 0;
	if (err == DLK_BUSY)
		dlk_record_refused(r, began);
	if (err == DLK_GONE)
		return dlk_record_lost(r);
	if (!err)
		err = dlk_record_keep(r);
	if (!err)
		err = finish(r, weaker, is_new);
	return dlk_event_of_redis(r, err);
}

/* The search for deadlocks leaves our own lease out. */
static void note_random(struct request *r)
{
	r->own_random[0] = '\0';
	if (r->own)
		memcpy(r->own_random, dlk_token_digits(r->own->lease.token),
		       DLK_RANDOM_LEN);
}

/*
 * Does the kernel still have the process's first range?  An OFD lock would meet
 * it; its own list takes as long as there are locks in it.
 */
static bool first_is_there(const struct request *r)
{
	struct dlk_range first = { .type = DLK_WRITE };
	struct flock64 l = { 0 };

	if (r->kind != DLK_POSIX || r->own->ranges.n == 0)
		return false;
	first.start = first.end = r->own->ranges.v[0].start;
	dlk_range_to(&first, &l);
	return real.fcntl64(r->fd, F_OFD_GETLK, &l) == 0 &&
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
static void forget_ended(struct request *r)
{
	if (!r->own ||
	    (r->kind == DLK_OFD && !dlk_is_delegated(r->own) && !has_it(r)) ||
	    first_is_there(r) || dlk_record_compare(r->own) != 0)
		return;
	dlk_hold_end(r->own, END_GONE);
	dlk_request_let_go(r);
}

static int enter(struct request *r, struct dlk_call *call, uint64_t until_ns)
{
	return dlk_file_lock(call, &r->file, until_ns, dlk_request_away, r);
}

static void leave(struct request *r)
{
	dlk_request_let_go(r);
	dlk_file_unlock(&r->file);
	dlk_request_by_path(r, &r->by_path); /* the owner's may be gone now */
}

/*
 * What was there before an execve(2) is nobody's but ours: if no more is asked for,
 * it can be had by the kernel's word.  (Not if the lease may have been taken from its
 * keeper meanwhile: then it is asked for until somebody knows.)
 */
static enum acquire_event not_adopted(struct request *r, int err)
{
	const enum acquire_event event =
		err == DLK_GONE ? EV_LOST : dlk_event_of_redis(r, err);

	if (is_for_redis_sake(event) && !dlk_inherited_is_unsure() &&
	    !r->acquire.in_hand && dlk_follow_is_there(r) &&
	    dlk_record_is_listed_stronger(r))
		return weakened_here_only(r);
	return event;
}

/* (file_lock) */
static enum acquire_event prepare(struct request *r)
{
	int err;

	r->own = dlk_record_owner(&r->file, r->kind, r->fd);
	forget_ended(r);
	err = r->acquire.local ? 0 : dlk_record_adopt(r);
	note_random(r);
	r->other_key = r->own && !dlk_request_same_key(r, r->own);
	if (r->acquire.local)
		return EV_OK;
	if (err)
		return not_adopted(r, err);
	if (is_local(r))
		return EV_LOCAL;
	if (!has_it(r))
		err = dlk_record_ask_first(r);
	return dlk_event_of_redis(r, err);
}

/*
 * A record lock waits at Redis, and some time has passed: -EDEADLK; 't' if its
 * owner has come to something by another thread, so that it is to ask again; 0.
 */
static int look_around(struct request *r)
{
	bool news;

	if (dlk_deadlock_check(r) == EV_DEADLOCK)
		return -EDEADLK;
	if (!dlk_file_trylock(&r->file))
		return 0;
	r->own = dlk_record_owner(&r->file, r->kind, r->fd);
	news = r->own &&
	       (has_it(r) || memcmp(dlk_token_digits(r->own->lease.token),
				    r->own_random, DLK_RANDOM_LEN) != 0);
	dlk_request_let_go(r);
	dlk_file_unlock(&r->file);
	return news ? 't' : 0;
}

static const struct lock_kind record_kind = {
	.enter = enter,
	.leave = leave,
	.look_around = look_around,
	.steps = {
		[ACQ_PREPARE] = prepare,
		[ACQ_TRY_KERNEL] = try_kernel,
		[ACQ_ASK] = ask,
		[ACQ_ROLLBACK] = dlk_record_roll_back,
		[ACQ_CHECK_HOLDER] = dlk_record_check_holder,
		[ACQ_CHECK_CYCLE] = dlk_deadlock_check,
		[ACQ_WAIT_KERNEL] = dlk_record_wait,
		[ACQ_DOUBT] = dlk_record_doubt,
	},
};

/* (file_lock) The lease goes first, then the kernel's lock (L1). */
static int give_up(const struct request *r, struct dlk_hold *h)
{
	if (h->revalidates)
		dlk_coherence_flush(r->fd);
	if (dlk_ranges_set(&h->ranges, r->want) < 0)
		return no_room(r);
	if (h->ranges.n == 0)
		dlk_hold_end(h, END_UNLOCKED);
	else
		dlk_list_send(h, &r->want);
	return 0;
}

static int unlock_records(struct request *r)
{
	int err = 0;

	r->call->wait = false;
	dlk_file_lock(r->call, &r->file, UINT64_MAX, dlk_request_away, r);
	/* A handler has run. */
	if (!r->s) {
		dlk_request_fill_hands(r, 0);
		if (dlk_follow_moved(r)) {
			dlk_file_unlock(&r->file);
			return r->s ? DLK_OTHER_FILE : -ENOLCK;
		}
	}
	r->own = dlk_record_owner(&r->file, r->kind, r->fd);
	if (r->lease.key && r->s)
		dlk_record_adopt(
			r); /* or the keeper has the whole, until it ends */
	if (r->own)
		err = give_up(r, r->own);
	err = err ?: dlk_record_set(r, &r->want);
	dlk_request_let_go(r);
	dlk_file_unlock(&r->file);
	return err;
}

/* The key, and what goes with it. */
static int begin(struct request *r)
{
	int err = dlk_request_begin(r, RECORDS);
	ssize_t n;

	if (err)
		return err;
	n = dlk_records_ranges_key(r->lease.key, r->lease.key_len,
				   r->s->ranges_key, sizeof(r->s->ranges_key));
	r->lease.ranges_key = r->s->ranges_key;
	r->lease.ranges_key_len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? -ENOLCK : 0;
}

/* In a wait there is no scratch. */
#define on_stack(text, len) memcpy(alloca((len) + 1), (text), (len) + 1)
#define hold_key(r)                                                            \
	((r)->lease.key = on_stack((r)->lease.key, (r)->lease.key_len),        \
	 (r)->lease.ranges_key =                                               \
		 on_stack((r)->lease.ranges_key, (r)->lease.ranges_key_len))

static int lock_managed(struct request *r)
{
	int err = begin(r);

	if (err)
		return err;
	if (r->rule->hold_at_least_ms) {
		dlk_request_line(r, DLK_ERROR, "the rule has hold_at_least, ",
				 "which is for flock(2) alone",
				 "; the call fails with ENOLCK.  Give files "
				 "with record locks a rule without it");
		return -ENOLCK;
	}
	hold_key(r);
	dlk_follow_threads(r);
	r->by_path = r->lease;
	/* Before the kernel's lock, which would be taken for one. */
	r->inherited = r->lease.fair && dlk_inherited_any();
	err = dlk_engine_run(r, &record_kind);
	dlk_deadlock_end(r);
	return err;
}

/* --- fcntl ---------------------------------------------------------------- */

/*
 * The kernel answers EFAULT for a bad pointer; so do not touch it ourselves.
 * Unless it does not let us ask (seccomp(2)): nothing may pass unlocked.
 */
bool dlk_record_read(const void *from, void *to, size_t size)
{
	struct iovec there = { (void *)(uintptr_t)from, size };
	struct iovec here = { to, size };
	ssize_t n = process_vm_readv((pid_t)dlk_syscall(SYS_gettid), &here, 1,
				     &there, 1, 0);

	if (n < 0 && errno != EFAULT) {
		memcpy(to, from, size);
		return true;
	}
	return n == (ssize_t)size;
}

int dlk_record_write(const void *from, void *to, size_t size)
{
	struct iovec there = { to, size };
	struct iovec here = { (void *)(uintptr_t)from, size };
	ssize_t n = process_vm_writev((pid_t)dlk_syscall(SYS_gettid), &here, 1,
				      &there, 1, 0);

	if (n < 0 && errno != EFAULT) {
		memcpy(to, from, size);
		return 0;
	}
	return n == (ssize_t)size ? 0 : -EFAULT;
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
	if (lock->l_whence == SEEK_END && dlk_stat_known(fd, "", &st) < 0)
		return -errno;
	return dlk_range_of(lock, offset, st.st_size, range);
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

static int get_managed(struct request *r)
{
	int err = begin(r);

	if (err)
		return err;
	hold_key(r);
	return dlk_record_get(r, r->lock);
}

static int unlock_managed(struct request *r)
{
	if (r->rule && dlk_inherited_on(&r->file) && begin(r) == 0)
		hold_key(r);
	else
		r->lease.key = NULL;
	return unlock_records(r);
}

static int act(struct request *r)
{
	if (is_question(r->cmd))
		return get_managed(r);
	if (r->want.type == DLK_UNLOCKED)
		return unlock_managed(r);
	r->call->cancels = r->call->wait;
	return lock_managed(r);
}

static int not_looked(const struct request *r)
{
	dlk_request_say(r, DLK_ERROR,
			"which record locks an execve(2) has left cannot be "
			"read: ",
			"is a descriptor left, for /proc/self/fdinfo?",
			"; the call fails with ENOLCK");
	return -ENOLCK;
}

/* The path may be a rule's: the kernel may still have something to say first. */
static int on_rule(struct request *r)
{
	struct flock64 copy;
	int err;

	*r = (struct request){
		.call = r->call,
		.name = r->name,
		.fd = r->fd,
		.program_fd = r->fd,
		.rule = r->rule,
		.s = r->s,
		.followed = r->followed,
		.number = r->number,
		.cmd = r->cmd,
		.lock = r->lock,
	};
	if (dlk_kernel_is_path_only(r->fd) ||
	    !dlk_record_read(r->lock, &copy, sizeof(copy)) ||
	    (dlk_is_ofd(r->cmd) && copy.l_pid != 0) ||
	    (is_question(r->cmd) && !is_lock(&copy)))
		return DLK_PASS;
	r->kind = dlk_is_ofd(r->cmd) ? DLK_OFD : DLK_POSIX;
	err = read_range(r->fd, &copy, &r->want);
	if (err)
		return err;
	r->blocked = r->want;
	err = dlk_kernel_file(r->fd, &r->file);
	if (err)
		return err;
	if (!dlk_inherited_look() && r->kind == DLK_POSIX &&
	    !is_question(r->cmd) && r->want.type != DLK_UNLOCKED)
		return not_looked(r);
	return act(r);
}

int dlk_record(const char *name, int fd, int cmd, struct flock64 *lock)
{
	struct request a = {
		.name = name,
		.fd = fd,
		.program_fd = fd,
		.cmd = cmd,
		.lock = lock,
	};

	/* One that is pending acts whether there is a wait or not. */
	if (is_wait(cmd))
		pthread_testcancel();
	return dlk_request_run(&a, is_wait(cmd), on_rule);
}

/* As glibc's lockf() has it: the section begins at the offset (lockf(3)). */
int dlk_lockf(int fd, int cmd, off64_t len, bool narrow)
{
	static const struct {
		short type;
		int cmd;
	} as[] = {
		[F_ULOCK] = { F_UNLCK, F_SETLK },
		[F_LOCK] = { F_WRLCK, F_SETLKW },
		[F_TLOCK] = { F_WRLCK, F_SETLK },
		[F_TEST] = { F_RDLCK, F_GETLK },
	};
	struct flock64 lock = { .l_whence = SEEK_CUR, .l_len = len };
	int err;

	if (cmd < F_ULOCK || cmd > F_TEST)
		return DLK_PASS; /* EINVAL is libc's to say */
	lock.l_type = as[cmd].type;
	err = dlk_record("lockf", fd, as[cmd].cmd, &lock);
	if (cmd != F_TEST || err || lock.l_type == F_UNLCK)
		return err;
	if (narrow && lock.l_start > INT32_MAX)
		return -EOVERFLOW;
	return lock.l_pid == dlk_pid() ? 0 : -EACCES;
}
