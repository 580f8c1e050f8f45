/* SPDX-License-Identifier: MIT */
/* What the scripts are told and answer; see reply.h. */
#include "lease/reply.h"

#include <errno.h>
#include <string.h>

#include "lease/ranges.h"
#include "redis/fault.h"
#include "redis/replicas.h"

/* A channel is said with the number of the request: "HEX.NUMBER". */
static struct dlk_arg channel_of(char *room, size_t size,
				 const struct dlk_waiter *w)
{
	struct dlk_text t = dlk_text_in(room, size);

	dlk_text_str(&t, w->channel);
	if (t.len >= DLK_CHANNEL_LEN) {
		dlk_text_str(&t, ".");
		dlk_text_u64(&t, w->request, 1);
	}
	return (struct dlk_arg){ room, t.len };
}

void dlk_waiter_args(struct dlk_waiter_args *args, const struct dlk_waiter *w)
{
	args->claim = args->ticket = args->channel = NO_WORD;
	args->life =
		dlk_arg_number(&args->numbers[0], w ? w->claim_ttl_ms : 0, 0);
	if (!w)
		return;
	args->claim = (struct dlk_arg){ w->claim, w->claim_len };
	args->channel = channel_of(args->room, sizeof(args->room), w);
	if (w->queued) {
		struct dlk_text t = dlk_text_in(args->numbers[1].text,
						sizeof(args->numbers[1].text));

		dlk_text_i64(&t, w->ticket);
		args->ticket = (struct dlk_arg){ t.buf, t.len };
	}
}

int dlk_reply_linger(const struct dlk_conn *c, const struct dlk_lease *lease,
		     struct dlk_number *room, struct dlk_arg *args, int argc)
{
	struct dlk_text t = dlk_text_in(room->text, sizeof(room->text));

	if (!lease->pause_ms)
		return argc;
	dlk_text_u64(&t, lease->pause_ms, 0);
	if (!c->ep->restart_delay_ms)
		dlk_text_str(&t, " -");
	args[argc] = (struct dlk_arg){ room->text, t.len };
	return argc + 1;
}

/* [JOIN] Its place, if it has taken one. */
static void note_place(struct dlk_waiter *w, const redisReply *r, bool waits)
{
	const size_t n = r->elements;
	int64_t ahead;

	if (!w || n < 5)
		return;
	w->queued = waits && w->channel[0];
	if (!w->queued)
		return;
	ahead = dlk_script_int(r, n - 1);
	w->ticket = dlk_script_int(r, n - 2);
	w->lost = ahead < 0;
	w->ahead = w->lost ? ~ahead : ahead;
}

static bool is_answer(const redisReply *r, bool ranges)
{
	return r->type == REDIS_REPLY_ARRAY &&
	       (ranges ? r->elements == 4 || r->elements == 6
		       : r->elements == 5) &&
	       r->element[2]->type == REDIS_REPLY_STRING &&
	       (!ranges || r->element[3]->type == REDIS_REPLY_STRING);
}

static bool read_range(const redisReply *r, struct dlk_range *range)
{
	return r->len == DLK_RANGE_LEN &&
	       dlk_range_read(r->str[0], r->str + 1, range);
}

static int read_answer(struct dlk_conn *c, const redisReply *r, bool ranges,
		       struct dlk_waiter *waiter, struct dlk_answer *answer)
{
	if (!is_answer(r, ranges))
		return dlk_script_refused(c, r);
	answer->holder_len = dlk_script_text(r->element[2], answer->holder,
					     sizeof(answer->holder));
	switch (dlk_script_int(r, 0)) {
	case 1:
		answer->replaced = dlk_script_int(r, 1) == 1;
		note_place(waiter, r, false);
		return 0;
	case 0:
		answer->left_ms = dlk_script_int(r, 1);
		note_place(waiter, r, true);
		if (!ranges || read_range(r->element[3], &answer->range))
			return DLK_BUSY;
		break;
	case 2:
		return DLK_WRONG_TYPE;
	case 3:
		if (ranges && dlk_number(answer->holder, 10, &answer->seq))
			return DLK_OLD_SEQ;
		break;
	case 4:
		if (ranges)
			return DLK_GONE;
		break;
	}
	return dlk_script_refused(c, r);
}

int dlk_reply_ask(struct dlk_conn *c, uint64_t deadline_ns, bool grants,
		  const struct dlk_lease *lease, int argc,
		  const struct dlk_arg *args, struct dlk_waiter *waiter,
		  struct dlk_answer *answer)
{
	const bool ranges = lease->ranges_key;
	const redisReply *r;
	int err =
		dlk_script_ask(c, deadline_ns,
			       ranges ? DLK_RECORD_SCRIPTS : DLK_FLOCK_SCRIPTS,
			       grants, argc, args, answer, &r);

	if (err)
		return err;
	err = read_answer(c, r, ranges, waiter, answer);
	if (!grants)
		return err;
	if (!err)
		return dlk_replicas_have(c, deadline_ns);
	if (dlk_conn_is_open(c))
		dlk_replicas_ignore(c);
	return err;
}

int dlk_lease_reclaimed(struct dlk_conn *c, uint64_t deadline_ns, bool *ours)
{
	const redisReply *r;
	int err = dlk_conn_flush(c, deadline_ns)
			  ?: dlk_conn_reply(c, deadline_ns, &r);

	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return dlk_script_refused(c, r);
	if (ours)
		*ours = r->integer == 2;
	return r->integer == 1 ? 0 : DLK_LOST;
}

/* {code, text} */
static bool is_pair(const redisReply *r)
{
	return r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
	       r->element[1]->type == REDIS_REPLY_STRING;
}

int dlk_lease_released(const redisReply *r, uint64_t *seq)
{
	int64_t code;

	if (!r)
		return -EPIPE;
	if (r->type == REDIS_REPLY_INTEGER)
		return 0;
	if (dlk_script_unknown(r))
		return -ENOENT;
	/* (Elsewhere: who sends it again, does so where it is known to be.) */
	if (r->type == REDIS_REPLY_ERROR)
		return dlk_fault_of(r->str)->outcome == DLK_ELSEWHERE
			       ? -EAGAIN
			       : dlk_fault_errno(r->str);
	if (!is_pair(r))
		return -EREMOTEIO;
	code = dlk_script_int(r, 0);
	if (code == 0 || code == 1)
		return 0;
	return code == 2 && dlk_number(r->element[1]->str, 10, seq)
		       ? DLK_OLD_SEQ
		       : -EREMOTEIO;
}

/* "SEQUENCE NUMBER" of records, and " DIGEST"; "EX" of a whole file, or "". */
static void read_state(const redisReply *r, struct dlk_renewal *u)
{
	const char *text = r->element[1]->str;

	u->seq = u->ranges = u->digest = 0;
	u->alone = strcmp(text, "EX") == 0;
	text = dlk_number(text, 10, &u->seq);
	if (text && *text == ' ')
		text = dlk_number(text + 1, 10, &u->ranges);
	if (text && *text == ' ')
		dlk_number(text + 1, 16, &u->digest);
}

int dlk_lease_renewed(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *u)
{
	const redisReply *r;
	int err = dlk_conn_reply(c, deadline_ns, &r);

	if (err)
		return err;
	if (dlk_script_unknown(r))
		return -ENOENT;
	if (r->type == REDIS_REPLY_ERROR &&
	    dlk_fault_of(r->str)->outcome == DLK_NO_LEASE)
		return DLK_LOST;
	if (!is_pair(r))
		return dlk_script_refused(c, r);
	switch (dlk_script_int(r, 0)) {
	case 1:
		read_state(r, u);
		return 0;
	case 0:
		return dlk_script_succeeds(u->lease->token, r->element[1])
			       ? DLK_REPLACED
			       : DLK_LOST;
	case -1:
		return DLK_GONE;
	default:
		return dlk_script_refused(c, r);
	}
}
