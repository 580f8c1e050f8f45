/* SPDX-License-Identifier: MIT */
/*
 * Preconditions, asserted where the tests are built with sanitizers (make
 * SAN=...): a guest never ends its host (DESIGN L7).
 */
#ifndef DLK_CHECK_H
#define DLK_CHECK_H

#ifdef DLK_CHECK
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define dlk_check(condition) ((condition) ? (void)0 : __builtin_trap())
/* glibc notes who has it. */
#define dlk_check_locked(mutex)                                                \
	dlk_check((mutex)->__data.__owner == (int)syscall(SYS_gettid))
#else
#define dlk_check(condition)    ((void)sizeof(!(condition)))
#define dlk_check_locked(mutex) ((void)sizeof(mutex))
#endif

#endif
