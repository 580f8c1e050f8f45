/* SPDX-License-Identifier: MIT */
/* The life of our thread; see thread.c.  No mutex is held but the keeper's. */
#ifndef DLK_THREAD_H
#define DLK_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* What the thread runs; and has it anything to do, or may it soon have? */
void dlk_thread_set(void *(*run)(void *unused), bool (*is_wanted)(void));
/*
 * Have the thread look no later than at_ns.  False: there is none, and none
 * may be started now; the keeper must do it, or a later call.
 */
bool dlk_thread_need(uint64_t at_ns);
/* A lock call: start it if an earlier one could not. */
void dlk_thread_catch_up(void);
/* Is it there?  Is it there, or will it be when a pause ends? */
bool dlk_thread_here(void);
bool dlk_thread_comes(void);
/* Between the two no thread of ours exists, in the kernel either; they nest. */
void dlk_thread_pause(void);
void dlk_thread_resume(void);
bool dlk_thread_is_paused(void *unused);

/* The thread's own: it is there; who is left; it is the last of them. */
enum dlk_remaining { DLK_OTHERS, DLK_MAIN_ENDS, DLK_ALONE };
void dlk_thread_begin(void);
bool dlk_in_thread(void); /* Is the caller that thread? */
enum dlk_remaining dlk_thread_remaining(void);
void dlk_thread_last(void);
/*
 * (the thread) Have that done by a second thread, which may take its time: 0,
 * -EBUSY (the one before is not gone yet), -errno.  It rings when it is done.
 */
int dlk_thread_beside(void (*work)(void));
bool dlk_thread_beside_is_over(void);
/* The main thread is about to end by itself. */
void dlk_thread_main_ends(void);
/* Is the caller the last one but that thread, and the dead main one? */
bool dlk_thread_is_last_other(void);
/* A thread of the program ends with this code: ours does, if it is the last. */
void dlk_thread_exit_code(int code);
/* The count of the times that it was rung for. */
unsigned dlk_thread_futex(void);
/*
 * Sleep until it is rung for once more than `seen` times, or until the moment
 * that is_over() gives; false: it is over, by is_over(), and who needs the
 * thread from here on starts another.  is_over() may take the mutexes of the table
 * and of the wait reports.
 */
bool dlk_thread_sleep(unsigned seen,
		      bool (*is_over)(void *arg, uint64_t *at_ns), void *arg);
void dlk_thread_forget(void); /* in a child */

#endif
