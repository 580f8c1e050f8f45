/* SPDX-License-Identifier: MIT */
/* A store in memory; see store_memory.h. */
#include "tests/unit/store_memory.h"

#include <errno.h>

#include "model/text.h"
#include "tests/unit/memory_leases.h"

static struct store_memory *memory_of(struct dlk_store *s)
{
	return (struct store_memory *)s;
}

/* --- each operation's beginning ---------------------------------------------- */

static void read_unread(struct store_memory *m)
{
	struct memory_sent all[MEMORY_UNREAD];
	unsigned n = m->n_unread;

	memcpy(all, m->unread, n * sizeof(all[0]));
	m->n_unread = 0;
	for (unsigned i = 0; i < n; i++)
		if (all[i].done)
			all[i].done(all[i].arg, all[i].err, all[i].seq);
}

/* An error that it is to make, and whether the thing is done all the same. */
static int begin(struct store_memory *m, struct dlk_attempt *at, bool *done)
{
	int err = m->fault.err;

	m->asked++;
	read_unread(m);
	*done = !err || m->fault.unsure;
	if (err)
		strcpy(at->why, "as the test wants it");
	at->unsure |= err && m->fault.unsure;
	m->fault.err = 0;
	return err;
}

/* --- asked ------------------------------------------------------------------- */

static int acquire(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *l, const struct dlk_ask *ask,
		   struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct dlk_range want = range_of(l);
	struct memory_owner *old, had;
	bool done;
	int err = begin(m, at, &done), result;

	if (!done)
		return err;
	answer->asked_ns = dlk_now_ns();
	if (ask->waiter)
		ask->waiter->request++;
	drop_owner(find_owner(m, l->key, l->token));
	old = ask->superseded ? find_owner(m, l->key, ask->superseded->token)
			      : NULL;
	if (old)
		had = *old;
	drop_owner(old);
	answer->replaced = ask->proof && bury(m, l, &want, since_of(l->token));
	if (!old)
		serve(m, l->key);
	result = grant(m, l, &want, ask->waiter, answer);
	if (old && result == DLK_BUSY)
		*old = had;
	return err ?: result;
}

static int acquire_range(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *l, struct dlk_records_ask *ask,
			 struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o;
	bool done;
	int err = begin(m, at, &done), result;

	if (!done)
		return err;
	answer->asked_ns = dlk_now_ns();
	if (ask->waiter)
		ask->waiter->request++;
	serve(m, l->key);
	o = find_owner(m, l->key, l->token);
	if (ask->known && !o)
		return err ?: DLK_GONE;
	if (o && ask->seq <= o->seq)
		ask->seq = o->seq + 1;
	answer->replaced = ask->proof && bury(m, l, &ask->range, ask->since_ns);
	result = grant(m, l, &ask->range, ask->waiter, answer);
	o = find_owner(m, l->key, l->token);
	if (o) {
		o->seq = ask->seq;
		o->since_ns = ask->since_ns;
	}
	return err ?: result;
}

static int find_holder(struct dlk_store *s, struct dlk_attempt *at,
		       const struct dlk_lease *l, struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o;
	struct dlk_range r;
	bool done;
	int err = begin(m, at, &done);

	if (err)
		return err;
	serve(m, l->key);
	answer->asked_ns = dlk_now_ns();
	answer->holder[0] = '\0';
	answer->holder_len = 0;
	answer->left_ms = -2;
	o = conflict(m, l->key, "", &whole, &r);
	return o ? refuse(m, answer, o, &r) : DLK_BUSY;
}

static int find_conflict(struct dlk_store *s, struct dlk_attempt *at,
			 const struct dlk_lease *l,
			 const struct dlk_range *range, uint64_t since_ns,
			 struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o;
	struct dlk_range r;
	bool done;
	int err = begin(m, at, &done);

	if (err)
		return err;
	serve(m, l->key);
	answer->asked_ns = dlk_now_ns();
	o = conflict(m, l->key, l->token, range, &r);
	if (!o || is_dead(o->token, l->token, since_ns))
		return 0;
	return refuse(m, answer, o, &r);
}

/* Does it have its claim?  Then for a life more. */
static bool has_claim(struct store_memory *m, const struct dlk_lease *l,
		      const struct dlk_waiter *w)
{
	struct memory_owner *o = find_owner(m, l->key, w->claim);

	if (o)
		o->until_ns = now_of(m) + w->claim_ttl_ms * DLK_MS;
	return o != NULL;
}

static int heartbeat(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *l, struct dlk_waiter *w,
		     struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o;
	struct dlk_range r;
	bool done;
	int err = begin(m, at, &done);

	if (!done)
		return err;
	answer->asked_ns = dlk_now_ns();
	w->request++;
	serve(m, l->key);
	if (!has_claim(m, l, w)) {
		queue(m, l, w);
		serve(m, l->key);
	}
	if (has_claim(m, l, w)) {
		w->queued = false;
		return err;
	}
	o = conflict(m, l->key, w->claim, &find_place(m, w->claim)->want, &r);
	return err ?: refuse(m, answer, o, &r);
}

/* Place and claim are given up; the others are served. */
static void give_up(struct store_memory *m, const struct dlk_lease *l,
		    struct dlk_waiter *w, bool keep)
{
	struct memory_place *p = find_place(m, w->claim);

	if (p && keep)
		p->away = true;
	else if (p)
		p->ticket = 0;
	drop_owner(find_owner(m, l->key, w->claim));
	serve(m, l->key);
}

static int yield(struct dlk_store *s, struct dlk_attempt *at,
		 const struct dlk_lease *l, struct dlk_waiter *w,
		 struct dlk_answer *answer)
{
	struct store_memory *m = memory_of(s);
	struct memory_place *p;
	bool done;
	int err = begin(m, at, &done);

	if (!done)
		return err;
	answer->asked_ns = dlk_now_ns();
	give_up(m, l, w, false);
	p = have_place(m, l, w);
	p->ticket = --m->first_ticket;
	p->away = true;
	w->queued = true;
	w->ticket = p->ticket;
	w->ahead = 0;
	return err ?: DLK_BUSY;
}

static int confirm(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *l, uint64_t *asked_ns)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o;
	bool done;
	int err = begin(m, at, &done);

	if (!done)
		return err;
	*asked_ns = dlk_now_ns();
	serve(m, l->key);
	o = find_owner(m, l->key, l->token);
	if (o)
		have_owner(m, l->key, l->token, now_of(m) + l->ttl_ms * DLK_MS);
	return err ?: o ? 0 : DLK_GONE;
}

static int suspend(struct dlk_store *s, struct dlk_attempt *at,
		   const struct dlk_lease *l, struct dlk_waiter *w)
{
	bool done;
	int err = begin(memory_of(s), at, &done);

	if (done)
		give_up(memory_of(s), l, w, true);
	return err;
}

static int ping(struct dlk_store *s, struct dlk_attempt *at)
{
	bool done;

	return begin(memory_of(s), at, &done);
}

/* --- carried on ------------------------------------------------------------- */

static int renew_one(struct store_memory *m, struct dlk_renewal *r)
{
	const struct dlk_lease *l = r->lease;
	struct memory_owner *o = find_owner(m, l->key, l->token);
	struct dlk_range at;

	r->asked_ns = dlk_now_ns();
	if (!o && m->young_ms && !l->ranges_key) {
		o = have_owner(m, l->key, l->token, UINT64_MAX);
		dlk_ranges_set(&o->ranges, range_of(l));
		r->reclaimed = true;
	}
	if (o) {
		have_owner(m, l->key, l->token, now_of(m) + l->ttl_ms * DLK_MS);
		return 0;
	}
	o = conflict(m, l->key, l->token, &whole, &at);
	if (!o || l->ranges_key)
		return DLK_GONE;
	return since_of(o->token) != UINT64_MAX &&
			       is_dead(l->token, o->token, since_of(o->token))
		       ? DLK_REPLACED
		       : DLK_LOST;
}

static void renew(struct dlk_store *s, struct dlk_attempt *at,
		  struct dlk_renewal *r, unsigned n)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done);

	for (unsigned i = 0; i < n; i++) {
		r[i].reclaimed = false;
		serve(m, r[i].lease->key);
		r[i].result = err ?: renew_one(m, &r[i]);
	}
}

static void release(struct dlk_store *s, struct dlk_attempt *at,
		    struct dlk_renewal *r, unsigned n)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done);

	for (unsigned i = 0; i < n; i++) {
		r[i].result = err;
		if (!done)
			continue;
		drop_owner(find_owner(m, r[i].lease->key, r[i].lease->token));
		serve(m, r[i].lease->key);
	}
}

static int put_ranges_back(struct store_memory *m, struct dlk_attempt *at,
			   const struct dlk_lease *l, uint64_t seq,
			   uint64_t since_ns, const struct dlk_ranges *held)
{
	struct memory_owner *o;
	struct dlk_range r;
	bool done;
	int err = begin(m, at, &done);

	if (err)
		return err;
	if (!m->young_ms)
		return DLK_GONE;
	for (size_t i = 0; i < held->n; i++)
		if (conflict(m, l->key, l->token, &held->v[i], &r))
			return DLK_LOST;
	o = have_owner(m, l->key, l->token, now_of(m) + l->ttl_ms * DLK_MS);
	o->seq = seq;
	o->since_ns = since_ns;
	for (size_t i = 0; i < held->n; i++)
		dlk_ranges_set(&o->ranges, held->v[i]);
	return 0;
}

static void reclaim_ranges(struct dlk_store *s, struct dlk_attempt *at,
			   struct dlk_renewal *r, uint64_t since_ns,
			   const struct dlk_ranges *held)
{
	r->until_ns = 0;
	r->result = put_ranges_back(memory_of(s), at, r->lease, r->sent_seq,
				    since_ns, held);
}

/* --- waits ------------------------------------------------------------------ */

static int index_of(struct store_memory *m, const char *process, uint64_t id)
{
	for (int i = 0; i < MEMORY_WAITS; i++)
		if (m->waits[i].id == id &&
		    (!id || strcmp(m->waits[i].process, process) == 0))
			return i;
	return -1;
}

static int tell_wait(struct dlk_store *s, struct dlk_attempt *at,
		     struct dlk_wait *w)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done), i;

	if (err)
		return err;
	i = index_of(m, w->process, w->id);
	if (i < 0)
		i = index_of(m, "", 0);
	w->told = ++m->clock;
	if (!w->id)
		w->id = w->told;
	m->waits[i].id = w->id;
	m->waits[i].told = w->told;
	m->waits[i].range = w->range;
	memcpy(m->waits[i].process, w->process, sizeof(w->process));
	memcpy(m->waits[i].owner, w->owner, sizeof(w->owner));
	copy(m->waits[i].key, sizeof(m->waits[i].key), w->key, w->key_len);
	return 0;
}

static int confirm_wait(struct dlk_store *s, struct dlk_attempt *at,
			const char *process, uint64_t id,
			struct dlk_wait *again, uint64_t *clock)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done), i;

	(void)again;
	if (err)
		return err;
	i = index_of(m, process, id);
	if (i < 0)
		return 0;
	if (*clock)
		m->waits[i].told = *clock;
	*clock = ++m->clock;
	return 1;
}

static int read_wait(struct dlk_store *s, struct dlk_attempt *at,
		     const char *process, unsigned n, struct dlk_wait *w)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done);

	if (err)
		return err;
	for (int i = 0; i < MEMORY_WAITS; i++) {
		if (!m->waits[i].id ||
		    strcmp(m->waits[i].process, process) != 0 || n-- > 0)
			continue;
		w->id = m->waits[i].id;
		w->told = m->waits[i].told;
		w->range = m->waits[i].range;
		memcpy(w->process, process, sizeof(w->process));
		memcpy(w->owner, m->waits[i].owner, sizeof(w->owner));
		w->key_len = strlen(m->waits[i].key);
		memcpy(w->key, m->waits[i].key, w->key_len + 1);
		return 1;
	}
	return 0;
}

static int find_blockers(struct dlk_store *s, struct dlk_attempt *at,
			 struct dlk_wait *w,
			 dlk_process blockers[DLK_BLOCKERS_MAX])
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done), n = 0;

	if (err)
		return err;
	serve(m, w->key);
	for (int i = 0; i < MEMORY_OWNERS && n < DLK_BLOCKERS_MAX; i++) {
		const struct memory_owner *o = &m->owners[i];

		if (o->key[0] && strcmp(o->key, w->key) == 0 &&
		    strncmp(o->token + 7, w->owner, DLK_RANDOM_LEN) != 0 &&
		    dlk_ranges_conflict(&o->ranges, &w->range))
			copy(blockers[n++], sizeof(dlk_process), o->token + 7,
			     DLK_PROCESS_LEN);
	}
	return n;
}

/* --- sent ------------------------------------------------------------------- */

static int sent(struct store_memory *m, const struct dlk_sending *how, int err,
		uint64_t seq)
{
	if (m->n_unread == MEMORY_UNREAD)
		read_unread(m);
	m->sent++;
	m->unread[m->n_unread++] =
		(struct memory_sent){ how->done, how->arg, err, seq };
	return 0;
}

static int send_release(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *l)
{
	struct store_memory *m = memory_of(s);

	drop_owner(find_owner(m, l->key, l->token));
	if (!how->drop)
		serve(m, l->key);
	return sent(m, how, 0, 0);
}

static int send_downgrade(struct dlk_store *s, const struct dlk_sending *how,
			  const struct dlk_lease *l)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o = find_owner(m, l->key, l->token);
	struct dlk_range shared = whole;

	shared.type = DLK_READ;
	if (o)
		dlk_ranges_set(&o->ranges, shared);
	if (o)
		serve(m, l->key);
	return sent(m, how, 0, 0);
}

static int send_ranges(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *l, uint64_t seq,
		       struct dlk_range *window, const struct dlk_ranges *held)
{
	struct store_memory *m = memory_of(s);
	struct memory_owner *o = find_owner(m, l->key, l->token);
	const struct dlk_range all = *window;

	window->start = window->end + 1;
	if (!o)
		return sent(m, how, 0, 0);
	if (seq <= o->seq)
		return sent(m, how, DLK_OLD_SEQ, o->seq);
	o->seq = seq;
	for (uint64_t at = all.start;;) {
		struct dlk_range keep = dlk_ranges_piece(held, at, all.end);
		struct dlk_range r = keep;

		/* Never more than it had. */
		while (o->key[0] && r.start <= keep.end) {
			struct dlk_range has =
				dlk_ranges_piece(&o->ranges, r.start, keep.end);

			if (has.type > keep.type)
				has.type = keep.type;
			r.start = has.end + 1;
			dlk_ranges_set(&o->ranges, has);
		}
		if (keep.end == all.end)
			break;
		at = keep.end + 1;
	}
	if (o->ranges.n == 0)
		drop_owner(o);
	if (!how->drop)
		serve(m, l->key);
	return sent(m, how, 0, 0);
}

static int send_confirm(struct dlk_store *s, const struct dlk_sending *how,
			const struct dlk_lease *l)
{
	struct store_memory *m = memory_of(s);
	struct dlk_renewal r = { .lease = l };

	renew_one(m, &r);
	return sent(m, how, 0, 0);
}

static int send_cancel(struct dlk_store *s, const struct dlk_sending *how,
		       const struct dlk_lease *l, struct dlk_waiter *w)
{
	give_up(memory_of(s), l, w, false);
	w->queued = false;
	return sent(memory_of(s), how, 0, 0);
}

static int send_wait_end(struct dlk_store *s, const struct dlk_sending *how,
			 const char *process, uint64_t id)
{
	struct store_memory *m = memory_of(s);
	int i = index_of(m, process, id);

	if (i >= 0)
		m->waits[i].id = 0;
	return sent(m, how, 0, 0);
}

static bool drain(struct dlk_store *s, uint64_t deadline_ns,
		  bool (*interrupt)(void *arg))
{
	struct store_memory *m = memory_of(s);

	(void)deadline_ns;
	(void)interrupt;
	if (m->n_unread == 0)
		return false;
	read_unread(m);
	return true;
}

/* --- told ------------------------------------------------------------------- */

static struct dlk_subscription *subscribed(struct dlk_store *s,
					   const struct dlk_lease *lease)
{
	struct store_memory *m = memory_of(s);

	(void)lease;
	for (int i = 0; i < MEMORY_OWNERS; i++)
		if (m->subs[i].channel[0] && !m->subs[i].busy) {
			m->subs[i].busy = true;
			m->subs[i].claim[0] = '\0';
			return (struct dlk_subscription *)&m->subs[i];
		}
	return NULL;
}

static int subscribe(struct dlk_store *s, struct dlk_attempt *at,
		     const struct dlk_lease *lease,
		     struct dlk_subscription **sub)
{
	struct store_memory *m = memory_of(s);
	bool done;
	int err = begin(m, at, &done);

	(void)lease;
	*sub = NULL;
	if (err)
		return err;
	for (int i = 0; i < MEMORY_OWNERS; i++)
		if (!m->subs[i].channel[0]) {
			struct dlk_text t;

			dlk_text_init(&t, m->subs[i].channel,
				      sizeof(m->subs[i].channel));
			dlk_text_u64(&t, ++m->clock, 20);
			dlk_text_str(&t, "000000000000");
			m->subs[i].busy = true;
			*sub = (struct dlk_subscription *)&m->subs[i];
			return 0;
		}
	return -EMFILE;
}

static const char *channel(const struct dlk_subscription *sub)
{
	return ((const struct memory_subscription *)sub)->channel;
}

static int heard(struct dlk_subscription *sub, const struct dlk_waiter *w)
{
	struct memory_subscription *me = (struct memory_subscription *)sub;
	bool mine = strncmp(me->claim, w->claim + 7, DLK_RANDOM_LEN) == 0 &&
		    me->request == w->request;

	me->claim[0] = '\0';
	return mine ? 'g' : 0;
}

static int descriptor(const struct dlk_subscription *sub)
{
	(void)sub;
	return -1;
}

static void unsubscribe(struct dlk_subscription *sub, bool unheard)
{
	struct memory_subscription *me = (struct memory_subscription *)sub;

	me->busy = false;
	if (unheard)
		me->channel[0] = '\0';
}

/* --------------------------------------------------------------------------- */

static const struct dlk_store_ops ops = {
	.acquire = acquire,
	.acquire_range = acquire_range,
	.find_holder = find_holder,
	.find_conflict = find_conflict,
	.heartbeat = heartbeat,
	.yield = yield,
	.confirm = confirm,
	.suspend = suspend,
	.ping = ping,
	.renew = renew,
	.release = release,
	.reclaim_ranges = reclaim_ranges,
	.tell_wait = tell_wait,
	.confirm_wait = confirm_wait,
	.read_wait = read_wait,
	.find_blockers = find_blockers,
	.send_release = send_release,
	.send_downgrade = send_downgrade,
	.send_ranges = send_ranges,
	.send_confirm = send_confirm,
	.send_cancel = send_cancel,
	.send_wait_end = send_wait_end,
	.drain = drain,
	.subscribed = subscribed,
	.subscribe = subscribe,
	.channel = channel,
	.heard = heard,
	.descriptor = descriptor,
	.unsubscribe = unsubscribe,
};

void store_memory_init(struct store_memory *m)
{
	memset(m, 0, sizeof(*m));
	m->store = (struct dlk_store){
		.ops = &ops,
		.name = "memory",
		.at = "nowhere",
		.connect_timeout_ms = 1000,
	};
}

void store_memory_restart(struct store_memory *m, uint64_t young_ms)
{
	memset(m->owners, 0, sizeof(m->owners));
	memset(m->places, 0, sizeof(m->places));
	memset(m->waits, 0, sizeof(m->waits));
	m->young_ms = young_ms;
}
