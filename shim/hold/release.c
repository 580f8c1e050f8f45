/* SPDX-License-Identifier: MIT */
/*
 * What is still to be said to a server: the release of a lease, what an owner
 * of record locks has left, that a lease is a shared one (DESIGN L1).  Sent,
 * not waited for, and sent again until the server has said that it is done, or
 * the ttl has run out; model/outbox.h has the rules.
 *
 * Of ranges a call sends the window that it changed.  Once something went
 * wrong, or the server has seen a later request first, the whole list is sent,
 * with a number of its own: by then nobody knows what the server has.
 */
#include "hold/release.h"
#include "hold/schedule.h"

#include <errno.h>

#include "config/config.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/file_lock.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "model/outbox.h"
#include "model/seeded.h"
#include "model/range.h"
#include "model/timeline.h"

static const struct dlk_range whole = { .end = DLK_RANGE_MAX };

static struct dlk_store *store_of(const struct dlk_hold *h)
{
	return dlk_store_of(h->rule->redis);
}

static void put_at(struct dlk_hold *h, enum outbox_message message, uint64_t at)
{
	dlk_holds_lock();
	dlk_outbox_put(&h->out, message, at);
	dlk_schedule(h);
	dlk_holds_unlock();
	dlk_thread_need(at);
}

/* --- answers -------------------------------------------------------------- */

/* `seen`: of ranges, the number of the last request that the server knows. */
static void answered(struct dlk_hold *h, enum outbox_message message, int err,
		     uint64_t seen)
{
	uint64_t again;
	bool settled;

	dlk_holds_lock();
	dlk_hold_pin(h);
	settled = dlk_outbox_answered(&h->out, message, err, dlk_now_ns());
	again = h->out.unsent ? h->out.due_ns : UINT64_MAX;
	if (h->seen_seq < seen)
		h->seen_seq = seen;
	if (settled && h->state == HOLD_RELEASING)
		dlk_hold_drop(h);
	dlk_hold_unpin(h);
	dlk_holds_unlock();
	if (again != UINT64_MAX)
		dlk_thread_need(again);
}

static void released(void *h, int err, uint64_t seen)
{
	answered(h, OUTBOX_RELEASE, err, seen);
}

static void set(void *h, int err, uint64_t seen)
{
	answered(h, OUTBOX_RANGES, err, seen);
}

static void weakened(void *h, int err, uint64_t seen)
{
	answered(h, OUTBOX_DOWNGRADE, err, seen);
}

/* --- sending -------------------------------------------------------------- */

/*
 * (file_lock) With a number of its own, later than any that the server has
 * seen.
 */
static int send_ranges(struct dlk_hold *h, const struct dlk_sending *how,
		       struct dlk_range *window)
{
	struct dlk_store *s = store_of(h);

	dlk_holds_lock();
	if (h->seq < h->seen_seq)
		h->seq = h->seen_seq;
	dlk_holds_unlock();
	if (dlk_seeded(11)) {
		window->start = window->end + 1;
		return s->ops->send_ranges(
			s, how, &h->lease, ++h->seq,
			&(struct dlk_range){ .end = DLK_RANGE_MAX },
			&(struct dlk_ranges){ 0 });
	}
	return s->ops->send_ranges(s, how, &h->lease, ++h->seq, window,
				   &h->ranges);
}

static int send_message(struct dlk_hold *h, enum outbox_message message,
			struct dlk_sending *how, struct dlk_range *window)
{
	struct dlk_store *s = store_of(h);

	switch (message) {
	case OUTBOX_RELEASE:
		how->done = released;
		return s->ops->send_release(s, how, &h->lease);
	case OUTBOX_RANGES:
		how->done = set;
		return send_ranges(h, how, window);
	case OUTBOX_DOWNGRADE:
		how->done = weakened;
		return s->ops->send_downgrade(s, how, &h->lease);
	case OUTBOX_NOTHING:
		break;
	}
	return -EINVAL;
}

/*
 * 0 when it is on its way; that is noted before, for its answer may have come,
 * and h be gone, by then.  The next question to that server reads it; or the
 * thread.
 */
static int send_one(struct dlk_hold *h, enum outbox_message message,
		    struct dlk_sending *how, struct dlk_range *window,
		    bool first)
{
	uint64_t look_ns;
	int err;

	dlk_holds_lock();
	if (!first && h->out.unsent) {
		dlk_holds_unlock();
		return -EAGAIN;
	}
	how->drop = h->out.by_source;
	how->arg = h;
	/* An answer says meanwhile that more than the window was not done. */
	if (message == OUTBOX_RANGES && h->out.unsent)
		*window = whole;
	dlk_outbox_sent(&h->out, message, dlk_now_ns());
	dlk_schedule(h);
	look_ns = h->out.due_ns;
	dlk_holds_unlock();
	err = send_message(h, message, how, window);
	if (!err) {
		dlk_thread_need(look_ns);
		return 0;
	}
	DLK_GUARD(&dlk_holds_mutex);
	dlk_outbox_answered(&h->out, message, err, dlk_now_ns());
	return err;
}

/*
 * A long list goes in pages, each with a number of its own; all by then.  If a
 * page fails meanwhile all is begun again later, and not here: a server that
 * refuses each would be asked without end.
 */
static int send_all(struct dlk_hold *h, enum outbox_message message,
		    const struct dlk_range *window, uint64_t deadline_ns,
		    struct dlk_sending *how)
{
	struct dlk_range rest = *window;
	bool first = true;
	int err;

	do {
		how->timeout_ns = dlk_left_ns(deadline_ns);
		err = send_one(h, message, how, &rest, first);
		first = false;
	} while (!err && message == OUTBOX_RANGES && rest.start <= rest.end);
	return err;
}

/*
 * At once, if the server can be reached as far as is known, and else by the
 * thread.  No answer is waited for; only for a connection, where all that are
 * open are in use, and no longer than this.
 */
static void send_now(struct dlk_hold *h, enum outbox_message message,
		     const struct dlk_range *window)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_sending how = { 0 };

	if (send_all(h, message, window, now + 20 * DLK_MS, &how) < 0)
		put_at(h, message, now);
}

void dlk_release_send(struct dlk_hold *h)
{
	send_now(h, OUTBOX_RELEASE, &whole);
}

void dlk_list_send(struct dlk_hold *h, const struct dlk_range *window)
{
	if (window)
		dlk_trace_lease(h, "weaker now in", window);
	send_now(h, OUTBOX_RANGES, window ?: &whole);
}

/* --- by the thread -------------------------------------------------------- */

static void send_again(struct dlk_hold *h, enum outbox_message message,
		       uint64_t deadline_ns, bool (*interrupt)(void *))
{
	struct dlk_sending how = { .connects = true, .interrupt = interrupt };
	struct dlk_store *s = store_of(h);

	if (send_all(h, message, &whole, deadline_ns, &how) == 0)
		s->ops->drain(s, deadline_ns, interrupt);
	else
		put_at(h, message, dlk_now_ns() + DLK_RESEND_MS * DLK_MS);
}

/* Answers have come but nobody has read them, by any connection. */
static void read_answers(struct dlk_store *s, uint64_t deadline_ns,
			 bool (*interrupt)(void *))
{
	while (dlk_now_ns() < deadline_ns &&
	       s->ops->drain(s, deadline_ns, interrupt))
		;
}

/* Not read yet: its connection is busy, and whoever has it will read. */
static void looked(struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	dlk_outbox_looked(&h->out, dlk_now_ns());
	dlk_schedule(h);
}

static void send_ranges_again(struct dlk_hold *h, uint64_t deadline_ns,
			      bool (*interrupt)(void *))
{
	if (!dlk_file_trylock(&h->file)) {
		put_at(h, OUTBOX_RANGES, dlk_now_ns() + DLK_MS);
		return;
	}
	/* The file_lock may have brought an end, or an answer. */
	if (h->out.message == OUTBOX_RANGES && h->out.unsent)
		send_again(h, OUTBOX_RANGES, deadline_ns, interrupt);
	dlk_file_unlock(&h->file);
}

/* Releases of leases at one server, in a round trip. */
static void release_all(struct dlk_hold *const *all, unsigned n,
			uint64_t deadline_ns, bool (*interrupt)(void *))
{
	struct dlk_store *s = store_of(all[0]);
	struct dlk_attempt at = { .timeout_ns = dlk_left_ns(deadline_ns),
				  .interrupt = interrupt };
	struct dlk_renewal r[DLK_OUTBOX_BATCH];

	dlk_holds_lock();
	for (unsigned i = 0; i < n; i++) {
		r[i] = (struct dlk_renewal){ .lease = &all[i]->lease };
		dlk_outbox_sent(&all[i]->out, OUTBOX_RELEASE, dlk_now_ns());
		dlk_schedule(all[i]);
	}
	dlk_holds_unlock();
	s->ops->release(s, &at, r, n);
	for (unsigned i = 0; i < n; i++)
		answered(all[i], OUTBOX_RELEASE, r[i].result, 0);
}

static enum outbox_step next_step(struct dlk_hold *h,
				  enum outbox_message *message)
{
	enum outbox_step step;

	DLK_GUARD(&dlk_holds_mutex);
	*message = h->out.message;
	step = dlk_outbox_next(&h->out, dlk_now_ns());
	if (step == OUTBOX_FORGET)
		dlk_hold_drop(h);
	return step;
}

void dlk_outbox_work(struct dlk_hold *const *all, unsigned n,
		     uint64_t deadline_ns, bool (*interrupt)(void *))
{
	struct dlk_hold *releases[DLK_OUTBOX_BATCH];
	unsigned n_releases = 0;
	bool read = false;

	for (unsigned i = 0; i < n; i++) {
		enum outbox_message message;
		const enum outbox_step step = next_step(all[i], &message);

		if (step == OUTBOX_READ) {
			if (!read)
				read_answers(store_of(all[i]), deadline_ns,
					     interrupt);
			read = true;
			looked(all[i]);
		} else if (step == OUTBOX_SEND && message == OUTBOX_RELEASE) {
			releases[n_releases++] = all[i];
		} else if (step == OUTBOX_SEND && message == OUTBOX_RANGES) {
			send_ranges_again(all[i], deadline_ns, interrupt);
		} else if (step == OUTBOX_SEND) {
			send_again(all[i], message, deadline_ns, interrupt);
		}
	}
	if (n_releases)
		release_all(releases, n_releases, deadline_ns, interrupt);
}

/* --- what may be there --------------------------------------------------- */

/*
 * There is no memory to remember it by, so nobody would send it again: now or,
 * by its ttl, later.
 */
static void release_now(const struct dlk_rule *rule,
			const struct dlk_lease *lease)
{
	const struct dlk_sending how = { .timeout_ns = 20 * DLK_MS };
	struct dlk_store *s = dlk_store_of(rule->redis);

	s->ops->send_release(s, &how, lease);
}

void dlk_release_token(const struct dlk_rule *rule,
		       const struct dlk_lease *lease)
{
	struct dlk_hold *h = dlk_hold_new(lease);

	if (!h) {
		release_now(rule, lease);
		return;
	}
	h->rule = rule;
	dlk_holds_lock();
	dlk_hold_install_released(h);
	dlk_hold_pin(h);
	dlk_holds_unlock();
	dlk_release_send(h);
	dlk_unpin(h);
}

/* --- at exit -------------------------------------------------------------- */

static bool is_unsent(const struct dlk_hold *h)
{
	return h->state == HOLD_RELEASING && h->out.unsent;
}

static bool is_free_to_send(const struct dlk_hold *h, const void *unused)
{
	(void)unused;
	return is_unsent(h) && !h->pins;
}

/* Another thread has it in hand, perhaps for an answer to what came before. */
static bool any_in_hand(void)
{
	const struct dlk_hold *h;

	DLK_GUARD(&dlk_holds_mutex);
	h = dlk_holds_first();
	while (h && !(is_unsent(h) && h->pins))
		h = h->next;
	return h;
}

/* What could not be sent, or was sent into a connection that is dead. */
static void send_unsent(uint64_t deadline_ns)
{
	struct dlk_hold *h = dlk_hold_next(NULL, is_free_to_send, NULL);
	struct dlk_hold *all[DLK_OUTBOX_BATCH];

	while (h && dlk_now_ns() < deadline_ns) {
		const unsigned n = dlk_hold_next_some(&h, is_free_to_send, all,
						      DLK_OUTBOX_BATCH);

		release_all(all, n, deadline_ns, NULL);
		dlk_unpin_all(all, n);
	}
	dlk_unpin(h);
}

enum { NAP_NS = 200 * 1000 };

/*
 * A connection in whose socket an answer lies unread is reset by its end
 * (RFC 2525, 2.17), and what the server has not read yet is lost with it:
 *
 *	we				our thread		the server
 *	RELEASE ->							(late)
 *					poll(): an answer is there
 *	the process ends		(does not come to read it)
 *	RST ->							RELEASE is lost
 *
 * So a connection that another thread has is waited for as well.
 */
void dlk_release_flush(unsigned ms)
{
	const uint64_t deadline = dlk_now_ns() + ms * DLK_MS;

	/* Reading first: only then is it known what never arrived. */
	while (dlk_any_owed() && dlk_now_ns() < deadline &&
	       (!dlk_stores_drain(deadline) || any_in_hand()))
		dlk_pause_ns(NAP_NS);
	send_unsent(deadline);
}
