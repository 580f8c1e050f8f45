/* SPDX-License-Identifier: MIT */
/* Record locks at one server; see records.h and scripts/records.inc. */
#include "lease/records.h"

#include <errno.h>
#include <string.h>

#include "lease/ranges.h"
#include "lease/reply.h"
#include "lease/upkeep.h"
#include "model/seeded.h"
#include "model/text.h"
#include "redis/fault.h"
#include "redis/replicas.h"
#include "scripts.h"

enum {
	NUMBER_LEN = 20, /* of a sequence number, of a since */
	EXPIRY_LEN = 15,
	/* O owner start end type */
	MEMBER_LEN = 1 + DLK_RANDOM_LEN + DLK_BOUNDS_LEN + 1,
};

_Static_assert(DLK_RECORDS_PAGE *DLK_RANGE_LEN < DLK_LIST_SIZE,
	       "a page fits the connection's memory");

/* The owner's name (scripts/records.inc). */
static struct dlk_arg random_of(const struct dlk_lease *l)
{
	return (struct dlk_arg){ dlk_token_digits(l->token), DLK_RANDOM_LEN };
}

/* A range as an argument. */
struct range_arg {
	char text[DLK_RANGE_LEN + 1];
};

static struct dlk_arg range_arg(struct range_arg *room,
				const struct dlk_range *range)
{
	struct dlk_text t = dlk_text_in(room->text, sizeof(room->text));

	dlk_range_put(&t, range);
	return (struct dlk_arg){ t.buf, t.len };
}

/* --- asked ---------------------------------------------------------------- */

static struct dlk_arg proof_of(const struct dlk_records_ask *ask)
{
	if (!ask->proof)
		return NO_WORD;
	if (!ask->adopts)
		return ask->shares ? WORD("share") : WORD("1");
	return ask->rest ? WORD("rest") : WORD("own");
}

int dlk_records_acquire(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease,
			const struct dlk_records_ask *ask,
			struct dlk_answer *answer)
{
	struct dlk_number ttl, since, seq, linger;
	struct dlk_waiter_args w;
	struct range_arg range;

	dlk_waiter_args(&w, ask->waiter);
	struct dlk_arg args[21] = {
		WORD("EVALSHA"),
		dlk_script_name(c, DLK_RECORDS_ACQUIRE),
		WORD("3"),
		KEY(lease),
		RANGES(lease),
		dlk_script_queue(c, lease),
		TOKEN(lease),
		dlk_arg_number(&ttl, lease->ttl_ms, 0),
		dlk_script_identity(lease->token),
		dlk_arg_number(&since, ask->since_ns, NUMBER_LEN),
		proof_of(ask),
		dlk_arg_number(&seq, ask->seq, NUMBER_LEN),
		ask->known ? WORD("1") : NO_WORD,
		range_arg(&range, &ask->range),
		dlk_script_options(lease),
		w.claim,
		w.ticket,
		w.channel,
		w.life,
		ask->holds ? WORD("+") : WORD("-"),
	};

	return dlk_reply_ask(c, deadline_ns, true, lease,
			     dlk_reply_linger(c, lease, &linger, args, 20),
			     args, ask->waiter, answer);
}

int dlk_records_get(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease,
		    const struct dlk_range *range, uint64_t since_ns,
		    struct dlk_answer *answer)
{
	struct dlk_number since;
	struct range_arg text;
	const struct dlk_arg args[] = {
		WORD("EVALSHA"),
		dlk_script_name(c, DLK_RECORDS_GET),
		WORD("2"),
		KEY(lease),
		RANGES(lease),
		TOKEN(lease),
		range_arg(&text, range),
		dlk_script_identity(lease->token),
		dlk_arg_number(&since, since_ns, NUMBER_LEN),
	};

	return dlk_reply_ask(c, deadline_ns, false, lease, 9, args, NULL,
			     answer);
}

/* --- set ------------------------------------------------------------------ */

/*
 * A page of the owner's ranges: the window that fits one command, and what
 * there is in it, in the connection's memory.  *window becomes the rest.
 */
struct page {
	struct range_arg room;
	struct dlk_arg bounds, list;
};

static void take_page(struct dlk_conn *c, struct dlk_range *window,
		      const struct dlk_ranges *held, struct page *page)
{
	struct dlk_range part = *window;
	size_t from = dlk_ranges_find(held, window->start), to = from;
	struct dlk_text bounds =
		// cppcheck-suppress uninitvar ; it is written to
		dlk_text_in(page->room.text, sizeof(page->room.text));
	struct dlk_text list = dlk_text_in(c->list, sizeof(c->list));

	while (to < held->n && held->v[to].start <= window->end &&
	       to - from < DLK_RECORDS_PAGE)
		to++;
	if (to - from == DLK_RECORDS_PAGE && held->v[to - 1].end < window->end)
		part.end = held->v[to - 1].end;
	window->start = part.end + 1;

	dlk_range_put_bounds(&bounds, &part);
	page->bounds = (struct dlk_arg){ bounds.buf, bounds.len };
	for (; from < to; from++) {
		struct dlk_range clipped = held->v[from];

		if (clipped.start < part.start)
			clipped.start = part.start;
		if (clipped.end > part.end)
			clipped.end = part.end;
		dlk_range_put(&list, &clipped);
	}
	page->list = (struct dlk_arg){ list.buf, list.len };
}

int dlk_records_set(struct dlk_conn *c, const struct dlk_lease *lease,
		    uint64_t seq, struct dlk_range *window,
		    const struct dlk_ranges *held, bool by_source)
{
	struct dlk_range rest = *window;
	struct dlk_arg args[11];
	struct dlk_number number;
	struct page page;
	int err, n = 0;

	take_page(c, &rest, held, &page);
	args[n++] = by_source ? WORD("EVAL") : WORD("EVALSHA");
	args[n++] = by_source ? WORD(DLK_LUA_records_drop)
			      : dlk_script_name(c, DLK_RECORDS_SET);
	args[n++] = by_source ? WORD("2") : WORD("3");
	args[n++] = KEY(lease);
	args[n++] = RANGES(lease);
	if (!by_source)
		args[n++] = dlk_script_queue(c, lease);
	args[n++] = TOKEN(lease);
	args[n++] = dlk_arg_number(&number, seq, NUMBER_LEN);
	args[n++] = page.bounds;
	args[n++] = page.list;
	args[n++] = dlk_script_options(lease);
	err = dlk_conn_append(c, n, args);
	if (!err)
		*window = rest;
	return err;
}

/* --- reclaim -------------------------------------------------------------- */

int dlk_records_restore(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_renewal *u, uint64_t since_ns,
			const struct dlk_ranges *held)
{
	struct dlk_range rest = { 0, DLK_RANGE_MAX, DLK_UNLOCKED };
	struct dlk_number ttl, since, number, outdated, linger;
	const struct dlk_lease *lease = u->lease;
	struct page page;
	int err = 0;

	while (!err && rest.start <= rest.end) {
		take_page(c, &rest, held, &page);
		struct dlk_arg args[14] = {
			WORD("EVAL"),
			WORD(DLK_LUA_records_reclaim),
			WORD("2"),
			KEY(lease),
			RANGES(lease),
			TOKEN(lease),
			dlk_arg_number(&ttl, lease->ttl_ms, 0),
			dlk_arg_number(&since, since_ns, NUMBER_LEN),
			dlk_arg_number(&number, u->sent_seq, NUMBER_LEN),
			page.bounds,
			page.list,
			dlk_script_identity(lease->token),
			dlk_arg_number(&outdated, u->outdated_ms, 0),
		};

		err = dlk_conn_append(
			      c, dlk_reply_linger(c, lease, &linger, args, 13),
			      args)
			      ?: dlk_lease_reclaimed(c, deadline_ns, NULL);
	}
	return err ?: dlk_replicas_confirm(c, deadline_ns);
}

void dlk_records_reclaim(struct dlk_conn *c, uint64_t deadline_ns,
			 struct dlk_renewal *u, uint64_t since_ns,
			 const struct dlk_ranges *held)
{
	struct dlk_youth youth;
	int err = dlk_script_young(c, deadline_ns, &youth);

	u->until_ns = 0;
	u->result = err ?: DLK_GONE;
	if (err || !youth.left_ms || dlk_seeded(13))
		return;
	u->outdated_ms = dlk_upkeep_outdated(&youth, u->lease);
	u->result = dlk_records_restore(c, deadline_ns, u, since_ns, held);
	if (u->result == DLK_LOST)
		dlk_upkeep_wait(c, &youth, u);
}

/* --- what an owner has, by the server ------------------------------------- */

/* The number of its last request; a string is its first one's. */
static int read_seq(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease, uint64_t *seq,
		    bool *is_string)
{
	const struct dlk_arg hget[] = { WORD("HGET"), KEY(lease),
					random_of(lease) };
	const struct dlk_arg get[] = { WORD("GET"), KEY(lease) };
	struct dlk_records_owner owner;
	const redisReply *r;
	int err = dlk_conn_call(c, deadline_ns, 3, hget, &r);

	*is_string = false;
	if (err)
		return err;
	if (r->type == REDIS_REPLY_ERROR &&
	    dlk_fault_of(r->str)->outcome == DLK_NO_LEASE) {
		*seq = 1;
		*is_string = true;
		err = dlk_conn_call(c, deadline_ns, 2, get, &r);
		if (err)
			return err;
		return r->type == REDIS_REPLY_STRING &&
				       r->len == lease->token_len &&
				       memcmp(r->str, lease->token, r->len) == 0
			       ? 0
			       : DLK_GONE;
	}
	if (r->type == REDIS_REPLY_NIL)
		return DLK_GONE;
	if (r->type != REDIS_REPLY_STRING ||
	    !dlk_records_read_owner(r->str, r->len, &owner) ||
	    !dlk_digits(r->str, NUMBER_LEN, seq))
		return dlk_script_refused(c, r);
	return 0;
}

/* A page of its ranges, behind the member in `from`, where the last one is put:
   how many, or -errno. */
static int read_page(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease, char from[MEMBER_LEN + 2],
		     struct dlk_ranges *held)
{
	char to[2 + DLK_RANDOM_LEN + 2] = "[O";
	const struct dlk_arg args[] = {
		{ LITERAL("ZRANGEBYLEX") }, RANGES(lease),
		{ from, strlen(from) },     { to, sizeof(to) - 1 },
		{ LITERAL("LIMIT") },       { LITERAL("0") },
		{ LITERAL("500") },
	};
	const redisReply *r;
	struct dlk_range range;
	int err;

	memcpy(to + 2, random_of(lease).text, DLK_RANDOM_LEN);
	to[2 + DLK_RANDOM_LEN] = ':';
	err = dlk_script_call(c, deadline_ns, 7, args, REDIS_REPLY_ARRAY, &r);
	if (err)
		return err;
	for (size_t i = 0; i < r->elements && !err; i++) {
		const redisReply *m = r->element[i];

		if (m->type != REDIS_REPLY_STRING ||
		    !dlk_records_read_place(m->str, m->len, &range))
			return -EREMOTEIO;
		err = dlk_ranges_set(held, range);
		from[0] = '(';
		memcpy(from + 1, m->str, MEMBER_LEN);
		from[1 + MEMBER_LEN] = '\0';
	}
	return err ?: (int)r->elements;
}

int dlk_records_list(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease, struct dlk_ranges *held,
		     uint64_t *seq)
{
	const struct dlk_range whole = { 0, DLK_RANGE_MAX, DLK_WRITE };
	char from[MEMBER_LEN + 2] = "[O";
	bool is_string;
	int n = dlk_conn_open(c, deadline_ns);

	if (!n)
		n = read_seq(c, deadline_ns, lease, seq, &is_string);
	if (n)
		return n;
	if (is_string)
		return dlk_ranges_set(held, whole);
	memcpy(from + 2, random_of(lease).text, DLK_RANDOM_LEN);
	do {
		dlk_conn_reset(c);
		n = read_page(c, deadline_ns, lease, from, held);
	} while (n == DLK_RECORDS_PAGE);
	return n < 0 ? n : 0;
}

int dlk_records_reduce(struct dlk_conn *c, uint64_t deadline_ns,
		       const struct dlk_lease *lease, uint64_t seq,
		       const struct dlk_ranges *held)
{
	struct dlk_range rest = { .end = DLK_RANGE_MAX };
	bool by_source = false;
	int err = 0;

	while (!err && rest.start <= rest.end) {
		struct dlk_range before = rest;
		uint64_t seen = 0;
		const redisReply *r;

		err = dlk_records_set(c, lease, seq, &rest, held, by_source)
		?: dlk_conn_flush(c, deadline_ns)
		?: dlk_conn_reply(c, deadline_ns, &r)
		?: dlk_lease_released(r, &seen);
		/* By its name it is not known; or it was too much at once. */
		if ((err == -ENOENT && !by_source) ||
		    (err == DLK_OLD_SEQ && seen == seq)) {
			by_source |= err == -ENOENT;
			rest = before;
			err = 0;
		}
		dlk_conn_reset(c);
	}
	return err;
}

/* --- what is there -------------------------------------------------------- */

/* SEQUENCE EXPIRY SINCE TOKEN; of one that lingers a newline, and how */
bool dlk_records_read_owner(const char *head, size_t len,
			    struct dlk_records_owner *owner)
{
	enum {
		EXPIRY = NUMBER_LEN + 1,
		SINCE = EXPIRY + EXPIRY_LEN + 1,
		TOKEN = SINCE + NUMBER_LEN + 1
	};
	const char *lingers = memchr(head, '\n', len);
	uint64_t n;

	if (lingers)
		len = (size_t)(lingers - head);
	if (len <= TOKEN || len - TOKEN >= DLK_TOKEN_MAX ||
	    head[EXPIRY - 1] != ' ' || head[SINCE - 1] != ' ' ||
	    head[TOKEN - 1] != ' ')
		return false;
	owner->token = head + TOKEN;
	owner->token_len = len - TOKEN;
	return dlk_digits(head, NUMBER_LEN, &n) &&
	       dlk_digits(head + EXPIRY, EXPIRY_LEN, &owner->expiry_ms) &&
	       dlk_digits(head + SINCE, NUMBER_LEN, &n);
}

/* O owner start end type */
bool dlk_records_read_place(const char *member, size_t len,
			    struct dlk_range *range)
{
	enum { BOUNDS = 1 + DLK_RANDOM_LEN, TYPE = BOUNDS + DLK_BOUNDS_LEN };

	return len == TYPE + 1 && member[0] == 'O' &&
	       dlk_range_read(member[TYPE], member + BOUNDS, range);
}
