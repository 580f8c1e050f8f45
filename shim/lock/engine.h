/* SPDX-License-Identifier: MIT */
/*
 * The engine of all lock calls: it does what the machine (model/acquire.h, with
 * the chart) says, by the functions of the kind of lock, and tells the machine
 * what came of it.
 *
 * A kind's functions are called in the order of the chart.  What they return
 * is one of the events that the machine has for that state (event.h).
 */
#ifndef DLK_ENGINE_H
#define DLK_ENGINE_H

#include "lock/request.h"

typedef enum acquire_event dlk_step_fn(struct request *r);

/*
 * A kind of lock.  Those marked (or NULL) may have nothing to do; a question
 * (F_GETLK) has none but prepare, and kernel_try.
 */
struct lock_kind {
	/* (or NULL) 0 or -errno; signals are let in if there is a call. */
	int (*enter)(struct request *r, struct dlk_call *call);
	dlk_step_fn *prepare; /* (or NULL) */
	dlk_step_fn *kernel_try;
	dlk_step_fn *ask; /* and install what is granted */
	dlk_step_fn *rollback;
	void (*leave)(struct request *r); /* (or NULL) what enter has begun */
	bool (*holder_is_tentative)(struct request *r);
	dlk_step_fn *kernel_wait;
	/* (or NULL) Each time that some has passed in the queue: 0, 't' to
	   ask again, -EDEADLK. */
	int (*look_around)(struct request *r);
	dlk_step_fn *closes_cycle; /* (or NULL) */
	dlk_step_fn *doubt;        /* (or NULL) */
};

/* From the beginning to the end: 0, -errno, or DLK_OTHER_FILE. */
int dlk_engine_run(struct request *r, const struct lock_kind *kind);

#endif
