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
 * A kind of lock: what it does in those states that are not the same for all
 * (PREPARE, TRY_KERNEL, ASK, ROLLBACK, CHECK_HOLDER, CHECK_CYCLE, WAIT_KERNEL,
 * DOUBT); where it has nothing to do there, NULL.
 */
struct lock_kind {
	dlk_step_fn *steps[ACQ_STATES];
	/* (or NULL) 0 or -errno, -ETIMEDOUT if others are inside still at
	   until_ns; signals are let in if there is a call. */
	int (*enter)(struct request *r, struct dlk_call *call,
		     uint64_t until_ns);
	void (*leave)(struct request *r); /* (or NULL) what enter has begun */
	/* (or NULL) Each time that some has passed in the queue: 0, 't' to
	   ask again, -EDEADLK. */
	int (*look_around)(struct request *r);
};

/* From the beginning to the end: 0, -errno, or DLK_OTHER_FILE. */
int dlk_engine_run(struct request *r, const struct lock_kind *kind);

#endif
