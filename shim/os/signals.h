/* SPDX-License-Identifier: MIT */
/*
 * One call into dlock, between dlk_enter() and dlk_leave(): signals are
 * blocked, and let in where nothing is in hand (signals.c).
 */
#ifndef DLK_SIGNALS_H
#define DLK_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct dlk_call {
	sigset_t mask; /* the program's */
	int cancel;    /* the program's cancellation state */
	int err;       /* the program's errno */
	bool wait;     /* a signal may interrupt it: EINTR */
	bool handled;  /* a handler ran in a sleep of ours */
	uint64_t signal_delay_ns, signal_until_ns; /* dlk_signal_waits */
	const struct dlk_call *outer; /* that a signal handler interrupted */
	bool cancels; /* a pause is a cancellation point (pthreads(7)) */
};

/* Block signals and cancellation for a while; errno is put back by leave. */
void dlk_enter(struct dlk_call *call);
void dlk_leave(struct dlk_call *call);
/*
 * A call that is entered here and left at the end of the block, whichever way
 * that is left; what is returned is evaluated before.
 */
#define DLK_INSIDE(call)                                                       \
	struct dlk_call call __attribute__((cleanup(dlk_leave)));              \
	dlk_enter(&call)

/* Has the program one for it?  Neither by default nor ignored. */
bool dlk_has_handler(int sig);
/* (between enter and leave) May the caller be a signal handler? */
bool dlk_in_handler(void);
/* The signal mask that the program has, here too; empty in our own thread. */
void dlk_program_mask(sigset_t *mask);

/*
 * For the `interrupt` of who asks a server: true if a signal waits that must be
 * let in, and so the connection given up first.  At once if it is to end a
 * waiting call; another one from signal_until_ns on, which the caller sets.
 */
bool dlk_signal_waits(void *call);

/*
 * From here on the call may never come back: nothing may be in hand, no
 * connection, no scratch, no pin (signals.c).
 *
 * Let pending signals be handled now.  -EINTR if the call waits and a handler
 * without SA_RESTART ran (signal(7)), else 0.
 */
int dlk_let_signals_in(struct dlk_call *call);

/*
 * Run as the program's own system call would: its mask, its cancellation.  What
 * a handler has made of them is the program's when they are masked again.
 */
void dlk_unmask(struct dlk_call *call);
void dlk_mask(struct dlk_call *call);

/*
 * Outside a call of ours: the cancellation state that the program had.  Where it
 * is cancelled, and that asynchronously, the thread ends here.
 */
void dlk_cancel_state(int state);

/*
 * A timed sleep that ends as flock(2)'s does: -EINTR for a handler without
 * SA_RESTART if the call may be interrupted, else 0 when the time is over.
 */
int dlk_sleep(struct dlk_call *call, uint64_t ns);
/*
 * The same, and it ends with 1 when bytes come on fd (-1: none), a socket of
 * ours that has no flags.  Before a handler runs, or where the thread is
 * cancelled, `away` is called, for the call may never come back; after a
 * handler it ends, with 0 or -EINTR.
 */
typedef void dlk_away_fn(void *arg);
int dlk_sleep_on(struct dlk_call *call, int fd, uint64_t ns, dlk_away_fn *away,
		 void *arg);
/*
 * Let signals in, as dlk_sleep_on(), and sleep for a slice of time or until the
 * futex `word` is woken or another than `seen`: 0, or an error if the call may
 * be interrupted.  Without a call nothing is let in.
 */
int dlk_sleep_on_word(struct dlk_call *call, _Atomic unsigned *word,
		      unsigned seen, dlk_away_fn *away, void *arg);

#endif
