/* SPDX-License-Identifier: MIT */
/* Who kills what has no core is not to be without one itself. */
#ifndef DLK_PRECEDENCE_H
#define DLK_PRECEDENCE_H

/*
 * The calling thread comes before all that have no real-time priority, by
 * SCHED_RR of the least one (sched(7)), if it may: CAP_SYS_NICE, or
 * RLIMIT_RTPRIO; else all stays as it is, and so it does where it has a real-time
 * priority already, or a seccomp filter, or may be killed for it (RLIMIT_RTTIME).
 * What it starts is not concerned.
 */
void dlk_come_first(void);
/* If it did, by that, it is from here on what it was before. */
void dlk_step_back(void);

#endif
