/* SPDX-License-Identifier: MIT */
/*
 * flock(): one thread of the process at a time works on what a description has
 * (DESIGN 11.7), in the kernel and at Redis.  So what a refused call must give
 * back is what it took:
 *
 *	thread 1			thread 2, same description
 *	kernel: EX
 *	Redis refuses			waits for its turn
 *	unlock
 *					kernel: EX, Redis grants
 *
 * By the description, for that is the owner (L2): many threads may read one
 * file, each by a descriptor of its own, and ask side by side.  [By the file, 8
 * of them got 0.17 of it where Redis is a millisecond away, 0.78 on loopback:
 * m.]  An unlock and a close take no turn: they wait for nobody.
 *
 * Whoever is inside is in a list, by the request on its stack: no signal is let
 * in there.  Who has to wait sleeps in a futex with nothing in hand, and lets
 * signals be handled.
 */
#include "lock/turn.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "os/guard.h"
#include "os/proc.h"
#include "os/sys.h"
#include "lock/follow.h"
#include "lock/wait.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct request *inside; /* guarded by the mutex */

static _Atomic bool wanted;   /* somebody sleeps until `left` is another */
static _Atomic unsigned left; /* counts those who left since */

/*
 * (mutex held) Where the kernel does not tell two descriptions apart, they may
 * be one.
 */
static bool is_taken(const struct request *r)
{
	const struct request *i = inside;

	while (i && (!dlk_same_file(&i->turn.file, &r->turn.file) ||
		     dlk_kernel_same(dlk_follow_number(i),
				     dlk_follow_number(r)) == 0))
		i = i->turn.next;
	return i;
}

static bool take(struct request *r)
{
	bool taken;

	DLK_GUARD(&mutex);
	taken = is_taken(r);
	if (!taken) {
		r->turn.next = inside;
		inside = r;
	}
	return !taken;
}

int dlk_turn_take(struct request *r, struct dlk_call *call, uint64_t until_ns)
{
	unsigned seen;
	int err;

	while (!take(r)) {
		atomic_store(&wanted, true);
		seen = atomic_load(&left);
		if (take(r))
			return 0;
		if (dlk_now_ns() >= until_ns)
			return -ETIMEDOUT;
		err = dlk_sleep_on_word(call, &left, seen, dlk_request_away, r);
		if (err)
			return err;
	}
	return 0;
}

void dlk_turn_leave(struct request *r)
{
	struct request **p = &inside;

	pthread_mutex_lock(&mutex);
	while (*p != r)
		p = &(*p)->turn.next;
	*p = r->turn.next;
	pthread_mutex_unlock(&mutex);
	if (!atomic_exchange(&wanted, false))
		return;
	atomic_fetch_add(&left, 1);
	dlk_futex_wake(&left, INT_MAX);
}

void dlk_turns_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = NULL;
}
