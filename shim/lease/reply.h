/* SPDX-License-Identifier: MIT */
/*
 * What the scripts are told, and what they answer, that is the same for the
 * lease of a whole file and for one with ranges (DESIGN 7).
 */
#ifndef DLK_REPLY_H
#define DLK_REPLY_H

#include "lease/lease.h"
#include "redis/script.h"

#define LITERAL   DLK_LITERAL
#define WORD(s)   ((struct dlk_arg){ LITERAL(s) })
#define NO_WORD   WORD("")
#define KEY(l)    ((struct dlk_arg){ (l)->key, (l)->key_len })
#define RANGES(l) ((struct dlk_arg){ (l)->ranges_key, (l)->ranges_key_len })
#define TOKEN(l)  ((struct dlk_arg){ (l)->token, (l)->token_len })

/* Of who waits: claim, ticket, channel and life; of NULL, who does not. */
struct dlk_waiter_args {
	struct dlk_arg claim, ticket, channel, life;
	struct dlk_number numbers[2];
	char room[64];
};
void dlk_waiter_args(struct dlk_waiter_args *args, const struct dlk_waiter *w);

/*
 * How the lease lingers when it has expired (scripts/linger.inc), behind `argc`
 * arguments, if it does; how many there are then.
 */
int dlk_reply_linger(const struct dlk_conn *c, const struct dlk_lease *lease,
		     struct dlk_number *room, struct dlk_arg *args, int argc);

/*
 * A script that grants, or serves: taught to a server that is old enough
 * (script.h).  Its answer:
 *	{code, number, text, ticket, ahead}		of a whole file
 *	{code, number, text, range, ticket, ahead}	of ranges
 *	{code, number, text, range}			of who does not wait
 * `grants`: it is granted when the replicas have it as well (replicas.h).
 */
int dlk_reply_ask(struct dlk_conn *c, uint64_t deadline_ns, bool grants,
		  const struct dlk_lease *lease, int argc,
		  const struct dlk_arg *args, struct dlk_waiter *waiter,
		  struct dlk_answer *answer);

#endif
