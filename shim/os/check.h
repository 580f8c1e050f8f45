/* SPDX-License-Identifier: MIT */
/*
 * Preconditions, asserted where the tests are built with sanitizers (make
 * SAN=...): a guest never ends its host (DESIGN L7).
 */
#ifndef DLK_CHECK_H
#define DLK_CHECK_H

#ifdef DLK_CHECK
#include <pthread.h>

/*
 * This thread as glibc notes it in a mutex: gettid(2) is another number in a
 * child of a raw clone(2), which glibc takes for its parent.
 */
static inline int dlk_check_self(void)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	int self;

	pthread_mutex_lock(&own);
	self = own.__data.__owner;
	pthread_mutex_unlock(&own);
	return self;
}

#define dlk_check(condition) ((condition) ? (void)0 : __builtin_trap())
#define dlk_check_locked(mutex)                                                \
	dlk_check((mutex)->__data.__owner == dlk_check_self())
#else
#define dlk_check(condition)    ((void)sizeof(!(condition)))
#define dlk_check_locked(mutex) ((void)sizeof(*(mutex)))
#endif

#endif
