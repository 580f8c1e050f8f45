/* SPDX-License-Identifier: MIT */
/*
 * A mutex that is taken until the end of the block, whichever way it is left:
 *
 *	DLK_GUARD(&mutex);
 *	return n_waiting > 0;
 *
 * What is returned is evaluated before the mutex is released.  A block that sleeps, or that must
 * release the mutex earlier, locks and unlocks by itself.
 */
#ifndef DLK_GUARD_H
#define DLK_GUARD_H

#include <pthread.h>

static inline void dlk_guard_end(pthread_mutex_t *const *guarded)
{
	pthread_mutex_unlock(*guarded);
}

#define DLK_GUARD(mutex)                                                       \
	pthread_mutex_t *const guarded                                         \
		__attribute__((cleanup(dlk_guard_end))) = (mutex);             \
	pthread_mutex_lock(guarded)

#endif
