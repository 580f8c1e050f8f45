/* SPDX-License-Identifier: MIT */
/* Record locks at one server; see records.h and scripts/records.inc. */
#include "lease/records.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lease/queue.h"
#include "lease/ranges.h"
#include "redis/script.h"
#include "model/text.h"
#include "scripts.h"

#define LITERAL DLK_LITERAL

enum {
	NUMBER_LEN = 20, /* of a sequence number, of a since */
	EXPIRY_LEN = 15,
	STACK_RANGES = 16,
	/* O owner start end type */
	MEMBER_LEN = 1 + DLK_RANDOM_LEN + DLK_BOUNDS_LEN + 1,
};

static const struct dlk_arg none = { "", 0 };
static const struct dlk_arg one = { LITERAL("1") };
static const struct dlk_arg two = { LITERAL("2") };
static const struct dlk_arg three = { LITERAL("3") };
static const struct dlk_arg evalsha = { LITERAL("EVALSHA") };
static const struct dlk_arg eval = { LITERAL("EVAL") };

static struct dlk_arg key_of(const struct dlk_lease *l)
{
	return (struct dlk_arg){ l->key, l->key_len };
}

static struct dlk_arg ranges_key_of(const struct dlk_lease *l)
{
	return (struct dlk_arg){ l->ranges_key, l->ranges_key_len };
}

static struct dlk_arg token_of(const struct dlk_lease *l)
{
	return (struct dlk_arg){ l->token, l->token_len };
}

/* The owner's name (scripts/records.inc). */
static struct dlk_arg random_of(const struct dlk_lease *l)
{
	return (struct dlk_arg){ l->token + sizeof("dlock1"), DLK_RANDOM_LEN };
}

/* --- acquire -------------------------------------------------------------- */

/* [JOIN] Its place, if it has taken one. */
static void note_place(struct dlk_waiter *w, const redisReply *r, bool waits)
{
	if (w && r->elements == 6)
		dlk_waiter_place(w, waits, dlk_script_int(r, 4),
				 dlk_script_int(r, 5));
}

/* {code, number, text, range}, and of a waiter {ticket, ahead} */
static int read_answer(struct dlk_conn *c, const redisReply *r,
		       struct dlk_waiter *waiter, struct dlk_answer *answer)
{
	const redisReply *range;

	if (r->type != REDIS_REPLY_ARRAY ||
	    (r->elements != 4 && r->elements != 6) ||
	    r->element[2]->type != REDIS_REPLY_STRING ||
	    r->element[3]->type != REDIS_REPLY_STRING)
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
		range = r->element[3];
		if (range->len == DLK_RANGE_LEN &&
		    dlk_range_read(range->str[0], range->str + 1,
				   &answer->range))
			return DLK_BUSY;
		break;
	case 2:
		return DLK_WRONG_TYPE;
	case 3:
		if (dlk_number(answer->holder, 10, &answer->seq))
			return DLK_OLD_SEQ;
		break;
	case 4:
		return DLK_GONE;
	}
	return dlk_script_refused(c, r);
}

/* A question that a young server must not answer: never by EVAL. */
static int ask_old(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		   const struct dlk_arg *args, struct dlk_waiter *waiter,
		   struct dlk_answer *answer)
{
	const redisReply *r;
	int err = dlk_script_ask(c, deadline_ns, DLK_RECORD_SCRIPTS, argc, args,
				 answer, &r);

	return err ? err : read_answer(c, r, waiter, answer);
}

static struct dlk_arg ticket_of(struct dlk_number *n,
				const struct dlk_waiter *w)
{
	return w && w->queued ? dlk_script_signed(n, w->ticket) : none;
}

static struct dlk_arg proof_of(const struct dlk_records_ask *ask)
{
	static const struct dlk_arg own = { LITERAL("own") };
	static const struct dlk_arg rest = { LITERAL("rest") };
	static const struct dlk_arg share = { LITERAL("share") };

	if (!ask->proof)
		return none;
	if (!ask->adopts)
		return ask->shares ? share : one;
	return ask->rest ? rest : own;
}

int dlk_records_acquire(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease,
			const struct dlk_records_ask *ask,
			struct dlk_answer *answer)
{
	const struct dlk_waiter *w = ask->waiter;
	struct dlk_number ttl, since, seq, place, life;
	struct dlk_channel channel;
	char range[DLK_RANGE_LEN + 1];
	struct dlk_text t;

	dlk_text_init(&t, range, sizeof(range));
	dlk_range_put(&t, &ask->range);
	const struct dlk_arg args[] = {
		evalsha,
		dlk_script_name(c, DLK_RECORDS_ACQUIRE),
		three,
		key_of(lease),
		ranges_key_of(lease),
		dlk_script_queue(c, lease),
		token_of(lease),
		dlk_script_number(&ttl, lease->ttl_ms, 0),
		dlk_script_identity(lease->token),
		dlk_script_number(&since, ask->since_ns, NUMBER_LEN),
		proof_of(ask),
		dlk_script_number(&seq, ask->seq, NUMBER_LEN),
		ask->known ? one : none,
		{ range, t.len },
		dlk_script_options(lease),
		w ? (struct dlk_arg){ w->claim, w->claim_len } : none,
		ticket_of(&place, w),
		w ? dlk_script_channel(&channel, w) : none,
		dlk_script_number(&life, w ? w->claim_ttl_ms : 0, 0),
		{ ask->holds ? "+" : "-", 1 },
	};

	return ask_old(c, deadline_ns, 20, args, ask->waiter, answer);
}

/* --- queue ---------------------------------------------------------------- */

int dlk_records_queue(struct dlk_conn *c, uint64_t deadline_ns,
		      const char *verb, const struct dlk_lease *lease,
		      struct dlk_waiter *w, struct dlk_answer *answer)
{
	struct dlk_number place, life;
	struct dlk_channel channel;
	const struct dlk_arg args[] = {
		evalsha,
		dlk_script_name(c, DLK_RECORDS_QUEUE),
		three,
		key_of(lease),
		ranges_key_of(lease),
		dlk_script_queue(c, lease),
		{ verb, strlen(verb) },
		{ w->what, DLK_WHAT_LEN },
		{ w->claim, w->claim_len },
		ticket_of(&place, w),
		dlk_script_channel(&channel, w),
		dlk_script_number(&life, w->claim_ttl_ms, 0),
		dlk_script_options(lease),
	};

	if (!answer)
		return dlk_script_append(c, 13, args);
	return ask_old(c, deadline_ns, 13, args, w, answer);
}

/* --- get ------------------------------------------------------------------ */

int dlk_records_get(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease,
		    const struct dlk_range *range, uint64_t since_ns,
		    struct dlk_answer *answer)
{
	char text[DLK_RANGE_LEN + 1];
	struct dlk_number since;
	struct dlk_text t;

	dlk_text_init(&t, text, sizeof(text));
	dlk_range_put(&t, range);
	const struct dlk_arg args[] = {
		evalsha,
		dlk_script_name(c, DLK_RECORDS_GET),
		two,
		key_of(lease),
		ranges_key_of(lease),
		token_of(lease),
		{ text, t.len },
		dlk_script_identity(lease->token),
		dlk_script_number(&since, since_ns, NUMBER_LEN),
	};

	return ask_old(c, deadline_ns, 9, args, NULL, answer);
}

/* --- set ------------------------------------------------------------------ */

/* What of *window fits one command; *window becomes the rest. */
static struct dlk_range take_page(struct dlk_range *window,
				  const struct dlk_ranges *held, size_t *n)
{
	struct dlk_range page = *window;
	size_t from = dlk_ranges_find(held, window->start), to = from;

	while (to < held->n && held->v[to].start <= window->end &&
	       to - from < DLK_RECORDS_PAGE)
		to++;
	*n = to - from;
	if (*n == DLK_RECORDS_PAGE && held->v[to - 1].end < window->end)
		page.end = held->v[to - 1].end;
	window->start = page.end + 1;
	return page;
}

static void put_page(struct dlk_text *t, const struct dlk_range *page,
		     const struct dlk_ranges *held, size_t n)
{
	const struct dlk_range *from =
		held->v + dlk_ranges_find(held, page->start);

	for (const struct dlk_range *r = from; r < from + n; r++) {
		struct dlk_range clipped = *r;

		if (clipped.start < page->start)
			clipped.start = page->start;
		if (clipped.end > page->end)
			clipped.end = page->end;
		dlk_range_put(t, &clipped);
	}
}

/* A long list is too much for a signal handler's stack. */
struct list {
	char few[STACK_RANGES * DLK_RANGE_LEN + 1];
	void *many;
	size_t size;
	struct dlk_text text;
};

static int list_page(struct list *l, const struct dlk_range *page,
		     const struct dlk_ranges *held, size_t n)
{
	l->many = NULL;
	l->size = n * DLK_RANGE_LEN + 1;
	if (n <= STACK_RANGES) {
		dlk_text_init(&l->text, l->few, sizeof(l->few));
	} else {
		l->many = mmap(NULL, l->size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (l->many == MAP_FAILED)
			return -ENOMEM;
		dlk_text_init(&l->text, l->many, l->size);
	}
	if (n)
		put_page(&l->text, page, held, n);
	return 0;
}

static void list_free(struct list *l)
{
	if (l->many)
		munmap(l->many, l->size);
}

static int set_page(struct dlk_conn *c, const struct dlk_lease *lease,
		    uint64_t seq, const struct dlk_range *page,
		    const struct list *list, bool by_source)
{
	struct dlk_number s;
	char bounds[DLK_BOUNDS_LEN + 1];
	struct dlk_text t;

	dlk_text_init(&t, bounds, sizeof(bounds));
	dlk_range_put_bounds(&t, page);
	const struct dlk_arg sha = dlk_script_name(c, DLK_RECORDS_SET);
	const struct dlk_arg lua = { LITERAL(DLK_LUA_records_drop) };
	const struct dlk_arg args[] = {
		by_source ? eval : evalsha,
		by_source ? lua : sha,
		three,
		key_of(lease),
		ranges_key_of(lease),
		dlk_script_queue(c, lease),
		token_of(lease),
		dlk_script_number(&s, seq, NUMBER_LEN),
		{ bounds, t.len },
		{ list->text.buf, list->text.len },
		dlk_script_options(lease),
	};

	return dlk_script_append(c, 11, args);
}

int dlk_records_set(struct dlk_conn *c, const struct dlk_lease *lease,
		    uint64_t seq, struct dlk_range *window,
		    const struct dlk_ranges *held, bool by_source)
{
	struct dlk_range rest = *window, page;
	struct list list;
	size_t n;
	int err;

	page = take_page(&rest, held, &n);
	err = list_page(&list, &page, held, n);
	if (err)
		return err;
	err = set_page(c, lease, seq, &page, &list, by_source);
	list_free(&list);
	if (!err)
		*window = rest;
	return err;
}

int dlk_records_was_set(const redisReply *r, uint64_t *seq)
{
	if (!r)
		return -EPIPE;
	if (dlk_script_unknown(r))
		return -ENOENT;
	if (dlk_script_passing(r))
		return -EAGAIN;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_STRING)
		return -EREMOTEIO;
	switch (dlk_script_int(r, 0)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return dlk_number(r->element[1]->str, 10, seq) ? DLK_OLD_SEQ
							       : -EREMOTEIO;
	default:
		return -EREMOTEIO;
	}
}

/* --- renew ---------------------------------------------------------------- */

int dlk_records_renew(struct dlk_conn *c, const struct dlk_lease *lease,
		      bool by_source)
{
	const struct dlk_arg sha = { LITERAL(DLK_SHA_records_renew) };
	const struct dlk_arg lua = { LITERAL(DLK_LUA_records_renew) };
	struct dlk_number ttl;
	const struct dlk_arg args[] = {
		by_source ? eval : evalsha,
		by_source ? lua : sha,
		two,
		key_of(lease),
		ranges_key_of(lease),
		token_of(lease),
		dlk_script_number(&ttl, lease->ttl_ms, 0),
	};

	return dlk_script_append(c, 7, args);
}

int dlk_records_renewed(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease)
{
	const redisReply *r;
	int err = dlk_conn_reply(c, deadline_ns, &r);

	if (err)
		return err;
	if (dlk_script_unknown(r))
		return -ENOENT;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_STRING)
		return dlk_script_refused(c, r);
	switch (dlk_script_int(r, 0)) {
	case 1:
		return 0;
	case 0:
		return dlk_script_succeeds(lease->token, r->element[1])
			       ? DLK_REPLACED
			       : DLK_LOST;
	case -1:
		return DLK_GONE;
	default:
		return dlk_script_refused(c, r);
	}
}

/* --- reclaim -------------------------------------------------------------- */

static int reclaim_page(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease, uint64_t seq,
			uint64_t since_ns, const struct dlk_range *page,
			const struct list *list)
{
	struct dlk_number ttl, since, s;
	char bounds[DLK_BOUNDS_LEN + 1];
	struct dlk_text t;
	const redisReply *r;
	int err;

	dlk_text_init(&t, bounds, sizeof(bounds));
	dlk_range_put_bounds(&t, page);
	const struct dlk_arg args[] = {
		eval,
		{ LITERAL(DLK_LUA_records_reclaim) },
		two,
		key_of(lease),
		ranges_key_of(lease),
		token_of(lease),
		dlk_script_number(&ttl, lease->ttl_ms, 0),
		dlk_script_number(&since, since_ns, NUMBER_LEN),
		dlk_script_number(&s, seq, NUMBER_LEN),
		{ bounds, t.len },
		{ list->text.buf, list->text.len },
		dlk_script_identity(lease->token),
	};

	err = dlk_script_call(c, deadline_ns, 12, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_INTEGER)
		return dlk_script_refused(c, r);
	return r->integer == 1 ? 0 : DLK_LOST;
}

int dlk_records_reclaim(struct dlk_conn *c, uint64_t deadline_ns,
			const struct dlk_lease *lease, uint64_t seq,
			uint64_t since_ns, const struct dlk_ranges *held)
{
	struct dlk_range rest = { 0, DLK_RANGE_MAX, DLK_UNLOCKED };
	uint64_t left_ms;
	int err = dlk_script_young(c, deadline_ns, &left_ms);

	if (err)
		return err;
	if (!left_ms)
		return DLK_GONE;
	while (!err && rest.start <= rest.end) {
		struct dlk_range page;
		struct list list;
		size_t n;

		page = take_page(&rest, held, &n);
		err = list_page(&list, &page, held, n);
		if (err)
			return err;
		err = reclaim_page(c, deadline_ns, lease, seq, since_ns, &page,
				   &list);
		list_free(&list);
	}
	return err;
}

/* --- what an owner has, by the server ------------------------------------- */

/* The number of its last request; a string is its first one's. */
static int read_seq(struct dlk_conn *c, uint64_t deadline_ns,
		    const struct dlk_lease *lease, uint64_t *seq,
		    bool *by_source)
{
	const struct dlk_arg hget[] = { { LITERAL("HGET") },
					key_of(lease),
					random_of(lease) };
	const struct dlk_arg get[] = { { LITERAL("GET") }, key_of(lease) };
	struct dlk_records_owner owner;
	const redisReply *r;
	int err = dlk_script_call(c, deadline_ns, 3, hget, &r);

	*by_source = false;
	if (err)
		return err;
	if (r->type == REDIS_REPLY_ERROR && strncmp(r->str, "WRONG", 5) == 0) {
		*seq = 1;
		*by_source = true;
		err = dlk_script_call(c, deadline_ns, 2, get, &r);
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

/* A page of its places, behind the member in `from`, where the last one is put:
   how many, or -errno. */
static int read_page(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease, char from[MEMBER_LEN + 2],
		     struct dlk_ranges *held)
{
	char to[2 + DLK_RANDOM_LEN + 2] = "[O";
	const struct dlk_arg args[] = {
		{ LITERAL("ZRANGEBYLEX") }, ranges_key_of(lease),
		{ from, strlen(from) },     { to, sizeof(to) - 1 },
		{ LITERAL("LIMIT") },       { LITERAL("0") },
		{ LITERAL("500") },
	};
	const redisReply *r;
	struct dlk_range range;
	int err;

	memcpy(to + 2, random_of(lease).text, DLK_RANDOM_LEN);
	to[2 + DLK_RANDOM_LEN] = ':';
	err = dlk_script_call(c, deadline_ns, 7, args, &r);
	if (err)
		return err;
	if (r->type != REDIS_REPLY_ARRAY)
		return dlk_script_refused(c, r);
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
	return err ? err : (int)r->elements;
}

int dlk_records_list(struct dlk_conn *c, uint64_t deadline_ns,
		     const struct dlk_lease *lease, struct dlk_ranges *held,
		     uint64_t *seq)
{
	const struct dlk_range whole = { 0, DLK_RANGE_MAX, DLK_WRITE };
	char from[MEMBER_LEN + 2] = "[O";
	bool by_source;
	int n = dlk_conn_open(c, deadline_ns);

	if (!n)
		n = read_seq(c, deadline_ns, lease, seq, &by_source);
	if (n)
		return n;
	if (by_source)
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

		err = dlk_records_set(c, lease, seq, &rest, held, by_source);
		if (!err)
			err = dlk_conn_flush(c, deadline_ns);
		if (!err)
			err = dlk_conn_reply(c, deadline_ns, &r);
		if (!err)
			err = dlk_records_was_set(r, &seen);
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

/* SEQUENCE EXPIRY SINCE TOKEN */
bool dlk_records_read_owner(const char *head, size_t len,
			    struct dlk_records_owner *owner)
{
	enum {
		EXPIRY = NUMBER_LEN + 1,
		SINCE = EXPIRY + EXPIRY_LEN + 1,
		TOKEN = SINCE + NUMBER_LEN + 1
	};
	uint64_t n;

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
