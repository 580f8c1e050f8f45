/* SPDX-License-Identifier: MIT */
/*
 * A mutex that is taken until the end of the block, whichever way it is left:
 *
 *	DLK_GUARD(&mutex);
 *	return n_waiting > 0;
 *
 * What is returned is evaluated before the mutex is released.  A function that
 * sleeps, or releases the mutex earlier, locks and unlocks by itself; but where
 * it sleeps in a call that lets go of the mutex meanwhile (dlk_keeper_wait).
 */
#ifndef DLK_GUARD_H
#define DLK_GUARD_H

#include <pthread.h>

static inline void dlk_unlock_guarded(pthread_mutex_t *const *guarded)
{
	pthread_mutex_unlock(*guarded);
}

#define DLK_GUARD(mutex)                                                       \
	pthread_mutex_t *const guarded                                         \
		__attribute__((cleanup(dlk_unlock_guarded))) = (mutex);        \
	pthread_mutex_lock(guarded)

#endif
