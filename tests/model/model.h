/* SPDX-License-Identifier: MIT */
/*
 * What lease.pml and queue.pml share: what is checked, what may go wrong, and
 * the names of a trail's lines.  run.sh sets the macros; 0 means never.
 */

/* What is checked: a run looks at one of these. */
#ifdef EXCLUSION /* never two owners inside their deadlines */
#define CHECK(p) assert(p)
#else
#define CHECK(p) skip
#endif
#ifdef INTEGRITY /* and no proof takes the lease of a living owner */
#define STRICT(p) assert(p)
#else
#define STRICT(p) skip
#endif
#if defined(FINISH) || defined(EMPTY) /* under weak fairness */
#define FAIR 1
#else
#define FAIR 0
#endif

/* How often it may go wrong. */
#ifndef COPIES /* a request has a copy that is late */
#define COPIES 0
#endif
#ifndef COPY /* of one kind only */
#define COPY 0
#endif
#ifndef LOSSES /* a request, or its answer */
#define LOSSES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef PROMOTED /* lease.pml: a restart is a replica's promotion */
#define PROMOTED 0
#endif
#ifndef OLD /* lease.pml: and with what the server had a while ago */
#define OLD 0
#endif
#ifndef UNSHARES /* lease.pml: unlocked by who shares the description */
#define UNSHARES 0
#endif
#ifndef DEAF /* queue.pml: a subscription is lost */
#define DEAF 0
#endif
#ifndef STRANGERS /* queue.pml: a program that is not preloaded */
#define STRANGERS 0
#endif
#ifndef CANCELS /* queue.pml: a wait is interrupted */
#define CANCELS 0
#endif

/* Who takes part. */
#ifndef RENEWALS /* lease.pml: of process 0 */
#define RENEWALS 1
#endif
#ifndef KEEPERS /* lease.pml: of process 0 */
#define KEEPERS 0
#endif
#ifndef NEIGHBOUR /* 1, of the host of 0; queue.pml: its rounds */
#define NEIGHBOUR 0
#endif
#ifndef SPREAD /* queue.pml: each has a host of its own */
#define SPREAD 0
#endif
#ifndef FOREVER /* queue.pml: how many never have enough */
#define FOREVER 0
#endif

#define UNSURE 0
#define OK     1
#define BUSY   2
#define GONE   3
#define YOUNG  4

/* Requests; and what run.sh prints of a trail, in the column of token t. */
#define TICK         0
#define ASK          1
#define HEARTBEAT    2
#define RENEW        3
#define RELEASE      4
#define CANCEL       5
#define YIELD        6
#define RECLAIM      7
#define SERVE        8
#define WOKEN        9
#define OWN          10
#define DIES         11
#define SAY(what, t) printf("say %d %d\n", what, t)
