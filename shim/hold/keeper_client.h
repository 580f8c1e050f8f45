/* SPDX-License-Identifier: MIT */
/*
 * The shim's end of the socket to its keeper (keeper/protocol.h): one a
 * process, started on first need, and replaced when it does not answer.
 *
 *	DLK_GUARD(&dlk_keeper_mutex), { _start, { _send | _hear | _wait }* }
 *
 * All functions want the mutex (the lock), which is held for a few system calls
 * that never sleep: _start and _wait let go of it meanwhile.  Signals are
 * blocked (dlk_enter).  The lock is taken before that of the holds.
 */
#ifndef DLK_KEEPER_CLIENT_H
#define DLK_KEEPER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/protocol.h"
#include "os/guard.h"

extern pthread_mutex_t dlk_keeper_mutex;

bool dlk_keeper_is_there(void);
/* (without the lock) A child that is to be it may still have our descriptors. */
bool dlk_keeper_is_starting(void);
/*
 * To be tried again soon.  No -EAGAIN: that is what fork(2) says where the
 * program may have no more processes, and may say for ever.
 */
enum { DLK_KEEPER_LATER = 1 };

/*
 * 0 when there is one; DLK_KEEPER_LATER: it is being started, and the caller,
 * which is the renewal thread, may not wait for that; -errno.
 */
int dlk_keeper_start(bool wait);

/* Room for one message, ours until it is sent; NULL: no memory. */
void *dlk_keeper_room(void);
/* The number of the message that is sent next. */
uint32_t dlk_keeper_next(void);
/*
 * Number it and send it, with n descriptors, without waiting.  0;
 * DLK_KEEPER_LATER: its queue is full; -EPERM: this process may not do any more
 * what the keeper may; -EPIPE: it has ended; -errno.
 */
int dlk_keeper_send(struct dlk_keep *m, size_t size, const int *fds,
		    unsigned n);
/* The next answer, or HELD: 1; 0: none has come; -EPIPE: the keeper has ended. */
int dlk_keeper_hear(struct dlk_keep_answer *a);
/* Until it may have said something, or the time is over. */
void dlk_keeper_wait(uint64_t until_ns);

/* A lease of this ttl depends on it (model/timeline.h). */
void dlk_keeper_depends(uint32_t ttl_ms);
/* It has left a message without an answer for too long. */
bool dlk_keeper_hangs(void);
/*
 * The same, though it must not be killed for that (dlk_hold_left()), and its
 * standby was told, and had the time to take over: nobody is to wait for it.
 */
bool dlk_keeper_is_silent(void);
/* When to ask that again; UINT64_MAX: everything is answered. */
uint64_t dlk_keeper_look_ns(void);

/* It is gone, or (kill) must be: it never acts again. */
void dlk_keeper_lose(bool kill);
/*
 * The last thing to do about one that was killed, for it lets go of the lock: a
 * message that it has not read keeps the description that it carries, and with
 * it the kernel's lock, until it is dead.
 */
void dlk_keeper_wait_dead(void);
/*
 * It carries on what it has, and hears nothing new; it sees when this process
 * ends.
 */
void dlk_keeper_let_go(void);
/* Has this process given up, for good, what the keeper may? */
bool dlk_keeper_may_more(void);
/* One of those that were let go has ended. */
bool dlk_keeper_let_go_ended(void);

void dlk_keeper_reap(void);
void dlk_keeper_forget(void); /* in a child; wants no lock */

#endif
