/* SPDX-License-Identifier: MIT */
/*
 * What a renewal has made of a hold: the judgement (DESIGN L6).  It changes the
 * hold, pinned by the caller, and says nothing; who asked says it, and does what
 * the rule wants (lost.h), when no mutex is held.
 */
#ifndef DLK_VERDICT_H
#define DLK_VERDICT_H

#include <stdint.h>

#include "hold/hold.h"

enum hold_verdict {
	VERDICT_NOTHING,
	VERDICT_PUT_BACK,  /* what was given up is there again: release it */
	VERDICT_RECOVERED, /* it was warned of, and is renewed */
	VERDICT_WARN,
	VERDICT_READY,    /* the keeper is to stop us */
	VERDICT_OUTLIVED, /* its last mark has passed, and "hold" goes on */
	VERDICT_LOST,
};

/* By what the server has said, or not said in time. */
enum hold_verdict dlk_judge(struct dlk_hold *h, const struct dlk_renewal *r,
			    uint64_t now);
/* By a mark that has come between two renewals, of which one has failed. */
enum hold_verdict dlk_judge_marks(struct dlk_hold *h, uint64_t now);

#endif
