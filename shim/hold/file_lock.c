/* SPDX-License-Identifier: MIT */
/*
 * A lock of ours per file: one thread of the process at a time works on what
 * the process holds of its records, in the kernel and at Redis (see record.c).
 *
 * No mutex, for Redis may be asked in between: whoever finds it taken sleeps
 * in a futex with nothing in hand, and lets signals be handled, or holds them
 * off for as long as Redis is asked.
 */

#include "hold/file_lock.h"

#include <errno.h>
#include <stdatomic.h>

#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"

enum { LOCKS = 64 };
enum { FREE, TAKEN, WANTED };

/* Two files of one number share a lock: they wait in vain at worst. */
static _Atomic unsigned locks[LOCKS];

static _Atomic unsigned *lock_of(const struct dlk_file *file)
{
	return &locks[(dlk_node(file) ^ file->dev) % LOCKS];
}

bool dlk_file_trylock(const struct dlk_file *file)
{
	unsigned state = FREE;

	return atomic_compare_exchange_strong(lock_of(file), &state, TAKEN);
}

int dlk_file_lock(struct dlk_call *call, const struct dlk_file *file,
		  uint64_t until_ns, dlk_away_fn *away, void *arg)
{
	_Atomic unsigned *lock = lock_of(file);
	int err;

	if (dlk_file_trylock(file))
		return 0;
	while (atomic_exchange(lock, WANTED) != FREE) {
		if (dlk_now_ns() >= until_ns)
			return -ETIMEDOUT;
		err = dlk_sleep_on_word(call, lock, WANTED, away, arg);
		if (err)
			return err;
	}
	return 0;
}

void dlk_file_unlock(const struct dlk_file *file)
{
	_Atomic unsigned *lock = lock_of(file);

	if (atomic_exchange(lock, FREE) == WANTED)
		dlk_futex_wake(lock, 1);
}

/* In a child: whoever was inside is not here. */
void dlk_file_locks_forget(void)
{
	for (int i = 0; i < LOCKS; i++)
		atomic_store(&locks[i], FREE);
}
