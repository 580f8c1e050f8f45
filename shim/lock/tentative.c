/* SPDX-License-Identifier: MIT */
/*
 * Record locks: who is in the way?  One who holds it, or one who only asks.
 *
 * Whoever asks Redis has the kernel's lock in hand, and may be refused:
 *
 *	tentative: 0-99		Redis: 50 is B's	we: 0-9, without a wait
 *	lock 0-99
 *	ask ->						refused: by whom?
 *			refused
 *	unlock						granted
 *
 *  1. If Redis has no conflicting lease, the local holder is tentative or a
 *     program without dlock: we retry for 10 ms.  A holder costs one question.
 *  2. A thread remembers the lock of a program without dlock for ten times as
 *     long, and does not wait for it meanwhile.  Who is preloaded is waited for
 *     longer: on a busy machine a tentative holder can lose its core.
 *  3. Who was refused by Redis a moment ago asks it first, and the kernel when
 *     it may be granted: so who asks again and again leaves the others room.
 *     The moment is that of 16 round trips.
 *  4. Who only asks closes no cycle of waits, though the kernel says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "os/proc.h"
#include "os/real.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/identity.h"
#include "hold/owner.h"
#include "lock/engine.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "lock/record.h"
#include "lock/wait.h"
#include "model/range.h"
#include "model/timeline.h"
#include "model/token.h"

enum { TENTATIVE_LOOKS = 3, TENTATIVE_MS = 10, REFUSALS = 64 };
enum { SILENT_REDIS_MS = 100, NONPARTICIPANT_TIMES = 10 };

static __thread struct {
	struct dlk_file file;
	struct flock64 lock;
	uint64_t until_ns;
} nonparticipant __attribute__((tls_model("initial-exec")));

/* The last holder that was slow, and whether it is preloaded. */
static __thread struct {
	pid_t pid;
	uint64_t looked_ns;
	bool is;
} slow __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t refused_until_ns[REFUSALS];

static _Atomic uint64_t *refusal_of(const struct request *r)
{
	return &refused_until_ns[(dlk_node(&r->file) ^ r->file.dev) % REFUSALS];
}

/* Redis refused; `began_ns` is when it was asked. */
void dlk_record_refused(const struct request *r, uint64_t began_ns)
{
	const uint64_t now = dlk_now_ns();

	atomic_store(refusal_of(r), now + 16 * (now - began_ns));
}

bool dlk_record_is_half_swept(const struct request *r, uint64_t began_ns)
{
	const uint64_t ns = r->attempt.timeout_ns + r->acquire.timeout_ns;

	return r->s->answer.left_ms == 0 && r->s->answer.holder_len == 0 &&
	       dlk_now_ns() < began_ns + ns;
}

int dlk_record_find(struct request *r)
{
	const uint64_t began = dlk_now_ns();
	int err;

	do
		err = r->store->ops->find_conflict(r->store, &r->attempt,
						   &r->lease, &r->want,
						   r->since_ns, &r->s->answer);
	while (err == DLK_BUSY && dlk_record_is_half_swept(r, began));
	return err;
}

/*
 * For an answer that is what the call returns: once more, for the lease may
 * have been given back a moment ago (DESIGN 11.9).
 */
static int find_surely(struct request *r)
{
	const int err = dlk_record_find(r);

	if (err != DLK_BUSY || r->acquire.repeated ||
	    !dlk_request_is_by_lease(r))
		return err;
	r->acquire.repeated = true;
	return dlk_record_find(r);
}

/* Of whose locks the kernel knows on this host: F_UNLCK for nobody's. */
static int ask_kernel(struct request *r, struct flock64 *lock)
{
	int cmd = r->kind == DLK_OFD ? F_OFD_GETLK : F_GETLK;

	r->since_ns = dlk_identity_since(dlk_now_ns());
	return real.fcntl64(r->fd, cmd, lock) < 0 ? -errno : 0;
}

static int ask_kernel_of_want(struct request *r, struct flock64 *lock)
{
	*lock = (struct flock64){ 0 };
	dlk_range_to(&r->want, lock);
	return ask_kernel(r, lock);
}

/*
 * (file_lock) DLK_BUSY if Redis would refuse, asked with nothing in hand.  One
 * who shares our description may be there under another token: not by this.
 */
int dlk_record_ask_first(struct request *r)
{
	const uint64_t began = dlk_now_ns();
	struct flock64 lock;
	bool older;
	int err;

	if (r->acquire.wait || began >= atomic_load(refusal_of(r)) ||
	    !dlk_record_is_open_for(r) || ask_kernel_of_want(r, &lock) < 0 ||
	    lock.l_type != F_UNLCK)
		return 0;
	err = dlk_request_name(r);
	if (!err)
		err = dlk_record_find(r);
	if (err != DLK_BUSY || dlk_request_same_place(r, &older))
		return err < 0 ? err : 0;
	dlk_record_refused(r, began);
	return err;
}

static bool is_nonparticipant(const struct request *r,
			      const struct flock64 *lock)
{
	return dlk_now_ns() < nonparticipant.until_ns &&
	       dlk_same_file(&r->file, &nonparticipant.file) &&
	       lock->l_pid == nonparticipant.lock.l_pid &&
	       lock->l_type == nonparticipant.lock.l_type &&
	       lock->l_start == nonparticipant.lock.l_start &&
	       lock->l_len == nonparticipant.lock.l_len;
}

/* DLK_BUSY: somebody holds it, here or there; 0: nobody; -errno. */
static int ask_redis_who(struct request *r, uint64_t since_ns,
			 int (*question)(struct request *r))
{
	const struct dlk_lease by_path = r->lease;
	const uint64_t asked_ns = r->since_ns; /* when our kernel was asked */
	int err;

	r->since_ns = since_ns;
	r->own = dlk_record_owner(&r->file, r->kind, r->fd);
	err = dlk_request_name(r);
	if (!err)
		err = question(r);
	dlk_request_let_go(r);
	dlk_request_by_path(r, &by_path);
	r->since_ns = asked_ns;
	return err;
}

static bool is_preloaded(const struct request *r, pid_t pid)
{
	const uint64_t looked_ns = r->acquire.holders.first_ns;

	if (slow.pid != pid || slow.looked_ns != looked_ns) {
		slow.pid = pid;
		slow.looked_ns = looked_ns;
		slow.is = pid > 0 && dlk_kernel_is_preloaded(pid);
	}
	return slow.is;
}

static bool is_too_slow(const struct request *r, pid_t pid, uint64_t ns)
{
	if (r->acquire.holders.n < TENTATIVE_LOOKS ||
	    ns < TENTATIVE_MS * DLK_MS)
		return false;
	return ns >= DLK_SLOW_TENTATIVE_MS * DLK_MS || !is_preloaded(r, pid);
}

/* The kernel has refused, by this lock: may its owner be one who only asks? */
static bool may_only_ask(struct request *r, const struct flock64 *lock)
{
	const uint64_t first = r->acquire.holders.first_ns;
	uint64_t now = dlk_now_ns();
	int err;

	if (is_nonparticipant(r, lock) ||
	    now < atomic_load(&r->store->silent_until_ns))
		return false;
	/* Who holds it here has a lease, that nothing proves to be dead. */
	err = ask_redis_who(r, 0, dlk_record_find);
	now = dlk_now_ns();
	if (err < 0)
		atomic_store(&r->store->silent_until_ns,
			     now + SILENT_REDIS_MS * DLK_MS);
	if (err)
		return false;
	if (!is_too_slow(r, lock->l_pid, now - first))
		return true;
	nonparticipant.file = r->file;
	nonparticipant.lock = *lock;
	nonparticipant.until_ns = now + NONPARTICIPANT_TIMES * (now - first);
	return false;
}

/* Each look costs a question to Redis. */
static void pause_for(const struct request *r)
{
	bool slowly = dlk_acquire_has_waited(&r->acquire, dlk_now_ns(), 1,
					     TENTATIVE_MS * DLK_MS);

	dlk_pause_ns(slowly ? 2 * DLK_MS : DLK_MS / 10);
}

static bool is_tentative(struct request *r)
{
	struct flock64 lock;

	if (ask_kernel_of_want(r, &lock) < 0)
		return false;
	if (lock.l_type == F_UNLCK)
		return true;
	if (!may_only_ask(r, &lock))
		return false;
	pause_for(r);
	return true;
}

/* A local holder that outlasts this is a program without dlock. */
enum { GRANTED_MS = 20 };

/*
 * [WAKE] Redis has granted: a local holder in our way is one who only asks, and
 * is refused; or a program without dlock.
 */
static bool passes_soon(const struct request *r)
{
	if (!r->slot.word || dlk_acquire_has_waited(&r->acquire, dlk_now_ns(),
						    1, GRANTED_MS * DLK_MS))
		return false;
	dlk_pause_ns(DLK_MS / 10);
	return true;
}

enum acquire_event dlk_record_check_holder(struct request *r)
{
	const bool again = r->acquire.wait ? passes_soon(r) : is_tentative(r);

	return again ? EV_AGAIN : EV_BUSY;
}

/*
 * A cycle that goes by bytes for which somebody only asks is none, and soon
 * over:
 *
 *	p has 0			one of q's threads	another
 *				50: ask ->
 *	waits for 50
 *							waits for 0: EDEADLK
 *				refused: unlock 50
 *
 * Whatever was on its way to Redis has its answer before ours, or is given up
 * as soon.
 */
enum acquire_event dlk_record_doubt(struct request *r)
{
	int err;

	ask_redis_who(r, 0, dlk_record_find);
	err = dlk_request_pause(r, DLK_MS);
	return err ? dlk_event_error(r, err) : EV_OK;
}

/* --- F_GETLK -------------------------------------------------------------- */

/*
 * Who holds it on another host?  A question is a call that needs nothing of
 * the kernel, and has what it wants when there is an answer: r->err.
 */
static enum acquire_event ask_about(struct request *r)
{
	const int err = r->acquire.local
				? 0
				: ask_redis_who(r, r->since_ns, find_surely);

	if (err && err != DLK_BUSY)
		return dlk_event_of_redis(r, err);
	r->err = err;
	return EV_OK;
}

static enum acquire_event has_asked(struct request *r)
{
	(void)r;
	return EV_COVERED;
}

static const struct lock_kind question_kind = {
	.steps = {
		[ACQ_PREPARE] = ask_about,
		[ACQ_TRY_KERNEL] = has_asked,
	},
};

/* DLK_BUSY with the answer, 0, -errno. */
static int ask_who(struct request *r)
{
	const int err = dlk_engine_run(r, &question_kind);

	return err ? err : r->err;
}

static void tell_who(const struct request *r, struct flock64 *lock)
{
	const struct dlk_answer *answer = &r->s->answer;
	struct dlk_token t;

	dlk_range_to(&answer->range, lock);
	lock->l_pid = -1;
	if (dlk_token_parse(answer->holder, answer->holder_len, &t) && t.pid)
		lock->l_pid = -(pid_t)t.pid;
}

static int ask_kernel_past_tentative(struct request *r, struct flock64 *lock)
{
	const struct flock64 asked = *lock;
	int err;

	for (;;) {
		err = ask_kernel(r, lock);
		if (err || lock->l_type == F_UNLCK)
			return err;
		dlk_acquire_count_holder(&r->acquire, dlk_now_ns());
		if (!may_only_ask(r, lock))
			return 0;
		pause_for(r);
		*lock = asked;
	}
}

/* The kernel has named one of this host. */
static bool starts_before(const struct request *r, const struct flock64 *lock)
{
	return r->s->answer.range.start < (uint64_t)lock->l_start;
}

/*
 * The first one that is in the way, as the kernel lists an owner's: the one
 * that starts first, of those that our kernel names and of those of other
 * hosts. What Redis has of this host and file, older than the question to the
 * kernel, has ended; or the kernel has named another of that; or it is ours,
 * under a name that we do not know (exec, fork).  DLK_OTHER_FILE, and *lock as
 * it was, where a handler made the descriptor another's while Redis was silent.
 */
int dlk_record_get(struct request *r, struct flock64 *lock)
{
	const short type = lock->l_type;
	int err = ask_kernel_past_tentative(r, lock);
	bool here = !err && lock->l_type != F_UNLCK;

	if (err)
		return err;
	/* Without an answer, the kernel's is one. */
	err = here ? ask_redis_who(r, r->since_ns, find_surely) : ask_who(r);
	if (err == DLK_BUSY && (!here || starts_before(r, lock)))
		tell_who(r, lock);
	if (here || (err >= 0 && err != DLK_OTHER_FILE))
		return 0;
	lock->l_type = type;
	return err;
}
