/* SPDX-License-Identifier: MIT */
/*
 * The machine of a lock call.  Every edge of it stands in a table here; a pair
 * of state and event that has no line is none that the machine takes.  And of
 * all that can be reached from the beginning: no wait with something in hand,
 * no end with it but a grant, one way in and out of the file's own part.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/acquire.h"
#include "model/timeline.h"

enum { NOW_MS = 1000000, TIMEOUT_MS = 500 };

static const char *const states[ACQ_STATES] = {
	"RESUME",      "PING",        "ENTER",        "PREPARE", "TRY_KERNEL",
	"ASK",         "ROLLBACK",    "CHECK_HOLDER", "PASS_ON", "CHECK_OWN",
	"CHECK_CYCLE", "WAIT_KERNEL", "WAIT_QUEUE",   "DOUBT",   "BACK_OFF",
	"GRANTED",     "FAILED",      "RESTART",
};

struct edge {
	enum acquire_state from;
	enum acquire_event event;
	enum acquire_state to;
	/* What it is like before: */
	struct acquire m;
	struct acquire_report r;
	/* And after: */
	int err; /* if it fails */
	bool in_hand;
	bool reserved;
};

#define EDGE(from_, event_, to_, ...)                                          \
	{                                                                      \
		.from = ACQ_##from_, .event = EV_##event_, .to = ACQ_##to_,    \
		__VA_ARGS__                                                    \
	}
#define WAIT       .m.wait = true
#define HAND       .m.in_hand = true
#define MAY        .m.may_be_local = true
#define LOCAL      .m.local = true
#define SAYS(err_) .r.err = (err_), .err = (err_)

static const struct edge edges[] = {
	EDGE(RESUME, OK, ENTER),
	EDGE(RESUME, OK, PING, .m.give_up_ns = 1),
	EDGE(RESUME, MOVED, RESTART),
	EDGE(RESUME, ERROR, FAILED, SAYS(-EBADF)),

	EDGE(PING, OK, ENTER, .m.give_up_ns = 1),
	EDGE(PING, SIGNAL, BACK_OFF, .m.give_up_ns = 1),
	EDGE(PING, NO_ANSWER, BACK_OFF, .m.give_up_ns = (NOW_MS + 21) * DLK_MS),
	EDGE(PING, NO_ANSWER, FAILED, .m.give_up_ns = (NOW_MS + 20) * DLK_MS,
	     .err = -ENOLCK),
	EDGE(PING, UNUSABLE, FAILED, .m.give_up_ns = UINT64_MAX,
	     .err = -ENOLCK),
	/* Not reached in time, and so by the kernel alone, where it may be. */
	EDGE(PING, NO_ANSWER, RESUME, MAY,
	     .m.give_up_ns = (NOW_MS + 20) * DLK_MS),
	EDGE(PING, NO_ANSWER, BACK_OFF, MAY,
	     .m.give_up_ns = (NOW_MS + 21) * DLK_MS),
	EDGE(PING, NO_ANSWER, FAILED, MAY, .r.reached = true,
	     .m.give_up_ns = (NOW_MS + 20) * DLK_MS, .err = -ENOLCK),
	EDGE(PING, UNUSABLE, FAILED, MAY, .m.give_up_ns = UINT64_MAX,
	     .err = -ENOLCK),

	EDGE(ENTER, OK, PREPARE),
	EDGE(ENTER, OK, PREPARE, HAND, .in_hand = true),
	EDGE(ENTER, MOVED, RESTART),
	EDGE(ENTER, ERROR, FAILED, SAYS(-EINTR)),

	EDGE(PREPARE, OK, TRY_KERNEL),
	EDGE(PREPARE, OK, TRY_KERNEL, HAND, .in_hand = true),
	EDGE(PREPARE, LOCAL, TRY_KERNEL, MAY),
	EDGE(PREPARE, COVERED, GRANTED),
	EDGE(PREPARE, BUSY, CHECK_OWN),
	EDGE(PREPARE, YOUNG, FAILED, .err = -ENOLCK),
	EDGE(PREPARE, YOUNG, BACK_OFF, WAIT),
	EDGE(PREPARE, YOUNG, ROLLBACK, WAIT, HAND, .in_hand = true),
	EDGE(PREPARE, WRONG_TYPE, FAILED, .err = -ENOLCK),
	EDGE(PREPARE, NO_ANSWER, BACK_OFF),
	EDGE(PREPARE, UNUSABLE, FAILED, .err = -ENOLCK),
	EDGE(PREPARE, SIGNAL, BACK_OFF),
	EDGE(PREPARE, LOST, FAILED, .err = -ENOLCK),
	EDGE(PREPARE, ERROR, FAILED, SAYS(-EINTR)),
	EDGE(PREPARE, ERROR, ROLLBACK, HAND, .in_hand = true),

	EDGE(TRY_KERNEL, OK, ASK, .in_hand = true),
	EDGE(TRY_KERNEL, OK, GRANTED, LOCAL, .in_hand = true),
	EDGE(TRY_KERNEL, BUSY, FAILED, LOCAL, SAYS(-EAGAIN)),
	EDGE(TRY_KERNEL, BUSY, WAIT_KERNEL, LOCAL, WAIT),
	EDGE(TRY_KERNEL, COVERED, GRANTED),
	EDGE(TRY_KERNEL, BUSY, CHECK_HOLDER),
	EDGE(TRY_KERNEL, BUSY, CHECK_CYCLE, WAIT),
	EDGE(TRY_KERNEL, BUSY, CHECK_CYCLE, WAIT, HAND),
	EDGE(TRY_KERNEL, BUSY, CHECK_HOLDER, WAIT, .m.reserved = true,
	     .reserved = true),
	EDGE(TRY_KERNEL, NOT_VISIBLE, PREPARE, .in_hand = true),
	EDGE(TRY_KERNEL, NOT_VISIBLE, PREPARE, .m.not_visible = 18,
	     .in_hand = true),
	EDGE(TRY_KERNEL, NOT_VISIBLE, ROLLBACK, .m.not_visible = 19,
	     .in_hand = true),
	EDGE(TRY_KERNEL, LINGER, BACK_OFF, WAIT),
	EDGE(TRY_KERNEL, LINGER, CHECK_CYCLE, WAIT, .m.lingers = 40),
	EDGE(TRY_KERNEL, LINGER, CHECK_HOLDER, WAIT, .m.lingers = 40,
	     .m.reserved = true, .reserved = true),
	EDGE(TRY_KERNEL, MOVED, RESTART),
	EDGE(TRY_KERNEL, ERROR, FAILED, SAYS(-EBADF)),

	EDGE(ASK, OK, GRANTED, HAND, .in_hand = true),
	EDGE(ASK, OVERTAKEN, PREPARE, HAND),
	EDGE(ASK, OVERTAKEN, PREPARE, HAND, .m.overtaken = 999),
	EDGE(ASK, OVERTAKEN, ROLLBACK, HAND, .m.overtaken = 1000,
	     .in_hand = true),
	EDGE(ASK, BUSY, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, YOUNG, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, WRONG_TYPE, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, NO_ANSWER, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, UNUSABLE, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, SIGNAL, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, LOST, ROLLBACK, HAND, .in_hand = true),
	EDGE(ASK, ERROR, ROLLBACK, HAND, .in_hand = true),

	EDGE(ROLLBACK, OK, CHECK_OWN, HAND, .m.cause = EV_BUSY),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_YOUNG, .err = -ENOLCK),
	EDGE(ROLLBACK, OK, BACK_OFF, WAIT, HAND, .m.cause = EV_YOUNG),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_WRONG_TYPE,
	     .err = -ENOLCK),
	EDGE(ROLLBACK, OK, BACK_OFF, HAND, .m.cause = EV_NO_ANSWER,
	     .m.give_up_ns = (NOW_MS + 21) * DLK_MS),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_NO_ANSWER,
	     .m.give_up_ns = (NOW_MS + 20) * DLK_MS, .err = -ENOLCK),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_UNUSABLE,
	     .err = -ENOLCK),
	EDGE(ROLLBACK, OK, RESUME, HAND, MAY, .m.cause = EV_NO_ANSWER,
	     .m.give_up_ns = (NOW_MS + 20) * DLK_MS),
	EDGE(ROLLBACK, OK, RESUME, HAND, MAY, WAIT, .m.reserved = true,
	     .m.cause = EV_NO_ANSWER, .m.give_up_ns = (NOW_MS + 20) * DLK_MS),
	EDGE(ROLLBACK, OK, FAILED, HAND, MAY, .m.cause = EV_NO_ANSWER,
	     .m.reached = true, .m.give_up_ns = (NOW_MS + 20) * DLK_MS,
	     .err = -ENOLCK),
	EDGE(ROLLBACK, OK, FAILED, HAND, MAY, .m.cause = EV_UNUSABLE,
	     .err = -ENOLCK),
	EDGE(ROLLBACK, OK, FAILED, HAND, MAY, .m.cause = EV_YOUNG,
	     .err = -ENOLCK),
	EDGE(ROLLBACK, OK, CHECK_OWN, HAND, MAY, .m.cause = EV_BUSY),
	EDGE(ROLLBACK, OK, BACK_OFF, HAND, .m.cause = EV_SIGNAL),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_LOST, .err = -ENOLCK),
	EDGE(ROLLBACK, OK, FAILED, HAND, .m.cause = EV_ERROR, .m.err = -ENOMEM,
	     .err = -ENOMEM),
	EDGE(ROLLBACK, OVERTAKEN, PREPARE, HAND, .m.cause = EV_BUSY,
	     .in_hand = true),
	EDGE(ROLLBACK, OVERTAKEN, CHECK_OWN, HAND, .m.cause = EV_BUSY,
	     .m.overtaken = 1000),
	EDGE(ROLLBACK, COVERED, GRANTED, HAND, .m.cause = EV_NO_ANSWER),
	EDGE(ROLLBACK, ERROR, FAILED, HAND, .m.cause = EV_NO_ANSWER,
	     SAYS(-ENOLCK)),

	EDGE(CHECK_HOLDER, AGAIN, RESUME),
	EDGE(CHECK_HOLDER, BUSY, FAILED, .m.err = -EACCES, .err = -EACCES),
	EDGE(CHECK_HOLDER, BUSY, PASS_ON, WAIT, .m.reserved = true,
	     .reserved = true),

	EDGE(PASS_ON, OK, CHECK_CYCLE, WAIT, .m.reserved = true),
	EDGE(PASS_ON, NOTHING, WAIT_QUEUE, WAIT, .m.reserved = true,
	     .reserved = true),
	EDGE(PASS_ON, NOTHING, BACK_OFF, WAIT, .m.reserved = true,
	     .r.cannot_queue = true),

	EDGE(CHECK_OWN, OK, CHECK_CYCLE, WAIT),
	EDGE(CHECK_OWN, OK, FAILED, .err = -EWOULDBLOCK),
	EDGE(CHECK_OWN, OK, RESUME, .r.by_lease = true),
	EDGE(CHECK_OWN, OK, FAILED, .r.by_lease = true, .m.repeated = true,
	     .err = -EWOULDBLOCK),
	EDGE(CHECK_OWN, AGAIN, RESUME),
	EDGE(CHECK_OWN, BUSY, FAILED, .err = -EWOULDBLOCK),
	EDGE(CHECK_OWN, BUSY, FAILED, WAIT, .err = -EDEADLK),

	EDGE(CHECK_CYCLE, OK, WAIT_KERNEL, WAIT, .m.by_kernel = true),
	EDGE(CHECK_CYCLE, OK, WAIT_QUEUE, WAIT, .m.by_kernel = true,
	     .m.lingers = 40, .reserved = true),
	EDGE(CHECK_CYCLE, OK, WAIT_QUEUE, WAIT, .reserved = true),
	EDGE(CHECK_CYCLE, OK, BACK_OFF, WAIT, .r.cannot_queue = true),
	EDGE(CHECK_CYCLE, SUSPECTED, BACK_OFF, WAIT, .m.by_kernel = true),
	EDGE(CHECK_CYCLE, SUSPECTED, WAIT_QUEUE, WAIT, .reserved = true),
	EDGE(CHECK_CYCLE, DEADLOCK, FAILED, WAIT, .err = -EDEADLK),

	EDGE(WAIT_KERNEL, OK, ENTER, WAIT, .in_hand = true),
	EDGE(WAIT_KERNEL, AGAIN, RESUME, WAIT),
	EDGE(WAIT_KERNEL, DEADLOCK, FAILED, WAIT, LOCAL, .err = -EDEADLK),
	EDGE(WAIT_KERNEL, DEADLOCK, DOUBT, WAIT),
	EDGE(WAIT_KERNEL, DEADLOCK, DOUBT, WAIT, .m.cycles = { 2, 0 }),
	EDGE(WAIT_KERNEL, DEADLOCK, DOUBT, WAIT,
	     .m.cycles = { 3, (NOW_MS - 9) * DLK_MS }),
	EDGE(WAIT_KERNEL, DEADLOCK, FAILED, WAIT,
	     .m.cycles = { 3, (NOW_MS - 10) * DLK_MS }, .err = -EDEADLK),
	EDGE(WAIT_KERNEL, MOVED, RESTART, WAIT),
	EDGE(WAIT_KERNEL, ERROR, FAILED, WAIT, SAYS(-EINTR)),

	EDGE(WAIT_QUEUE, OK, RESUME, WAIT),
	EDGE(WAIT_QUEUE, YOUNG, BACK_OFF, WAIT),
	EDGE(WAIT_QUEUE, WRONG_TYPE, FAILED, WAIT, .err = -ENOLCK),
	EDGE(WAIT_QUEUE, NO_ANSWER, BACK_OFF, WAIT),
	EDGE(WAIT_QUEUE, NO_ANSWER, FAILED, WAIT, .m.give_up_ns = 1,
	     .err = -ENOLCK),
	EDGE(WAIT_QUEUE, NO_ANSWER, BACK_OFF, WAIT, .m.give_up_ns = 1,
	     .r.answered = true),
	EDGE(WAIT_QUEUE, UNUSABLE, FAILED, WAIT, .err = -ENOLCK),
	EDGE(WAIT_QUEUE, SIGNAL, BACK_OFF, WAIT),
	EDGE(WAIT_QUEUE, DEADLOCK, FAILED, WAIT, .err = -EDEADLK),
	EDGE(WAIT_QUEUE, MOVED, RESTART, WAIT),
	EDGE(WAIT_QUEUE, ERROR, FAILED, WAIT, SAYS(-EINTR)),

	EDGE(DOUBT, OK, RESUME, WAIT),
	EDGE(DOUBT, ERROR, FAILED, WAIT, SAYS(-EINTR)),
	EDGE(BACK_OFF, OK, RESUME),
	EDGE(BACK_OFF, ERROR, FAILED, SAYS(-EINTR)),
};

enum { EDGES = sizeof(edges) / sizeof(edges[0]) };

static struct acquire before(const struct edge *e)
{
	struct acquire m = e->m;

	m.state = e->from;
	m.timeout_ns = TIMEOUT_MS * DLK_MS;
	return m;
}

static struct acquire_report report_of(const struct edge *e)
{
	struct acquire_report r = e->r;

	r.event = e->event;
	r.began_ns = (NOW_MS - 100) * DLK_MS;
	r.now_ns = NOW_MS * DLK_MS;
	return r;
}

static bool is_in_the_table(enum acquire_state s, enum acquire_event event)
{
	for (unsigned i = 0; i < EDGES; i++)
		if (edges[i].from == s && edges[i].event == event)
			return true;
	return false;
}

/* --- the table ------------------------------------------------------------ */

static void every_edge_is_as_the_table_has_it(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < EDGES; i++) {
		const struct edge *e = &edges[i];
		const struct acquire_report r = report_of(e);
		struct acquire m = before(e);
		enum acquire_state to = dlk_acquire_next(&m, &r);

		if (to != e->to || m.state != to || m.in_hand != e->in_hand ||
		    (to == ACQ_FAILED && m.err != e->err) ||
		    (!dlk_acquire_is_over(to) && m.reserved != e->reserved))
			fail_msg("line %u, %s and event %d: %s, err %d, "
				 "in hand %d, reserved %d",
				 i, states[e->from], (int)e->event, states[to],
				 m.err, m.in_hand, m.reserved);
	}
}

static void what_the_table_has_not_fails_closed(void **unused)
{
	unsigned impossible = 0;

	(void)unused;
	for (int s = 0; s < ACQ_GRANTED; s++)
		for (int event = 0; event < EV_EVENTS; event++) {
			struct acquire m = { .state = (enum acquire_state)s };
			struct acquire_report r = {
				.event = (enum acquire_event)event,
				.err = -EINVAL,
			};

			if (is_in_the_table(m.state, r.event))
				continue;
			impossible++;
			dlk_acquire_next(&m, &r);
			if (m.state != ACQ_FAILED || m.err != -ENOLCK)
				fail_msg("%s and event %d: %s", states[s],
					 event, states[m.state]);
		}
	assert_in_range(impossible, 1, ACQ_GRANTED * EV_EVENTS);
}

static void nothing_follows_the_end(void **unused)
{
	(void)unused;
	for (int s = ACQ_GRANTED; s < ACQ_STATES; s++)
		for (int event = 0; event < EV_EVENTS; event++)
			assert_false(
				is_in_the_table((enum acquire_state)s,
						(enum acquire_event)event));
}

/* --- all that can be reached ---------------------------------------------- */

enum { SEEN = 1 << 20 };

static uint64_t seen[SEEN];
static struct acquire queue[SEEN];
static unsigned n_queue;
static bool reached[ACQ_STATES];

/* A counter between its ends is as any other. */
static unsigned near_end(unsigned n, unsigned last)
{
	return n && n < last - 1 ? last - 1 : n > last ? last : n;
}

static void shorten(struct acquire *m)
{
	m->not_visible = near_end(m->not_visible, 19);
	m->lingers = near_end(m->lingers, 40);
	m->overtaken = near_end(m->overtaken, 1000);
	m->cycles.n = near_end(m->cycles.n, 4);
	m->holders.n = m->holders.n > 0;
	m->holders.first_ns = 0;
	m->give_up_ns = m->give_up_ns ? NOW_MS * DLK_MS : 0;
	m->cycles.first_ns = 0;
}

static uint64_t key_of(const struct acquire *m)
{
	uint64_t key = m->state + 1;

	key = key << 5 | m->cause;
	key = key << 8 | (unsigned)-m->err % 256;
	key = key << 5 | m->not_visible;
	key = key << 6 | m->lingers;
	key = key << 2 | (m->overtaken > 999 ? 2 : m->overtaken > 0);
	key = key << 3 | m->cycles.n;
	key = key << 1 | (m->holders.n > 0);
	key = key << 1 | (m->give_up_ns > 0);
	key = key << 3 | m->may_be_local << 2 | m->local << 1 | m->reached;
	return key << 5 | m->wait << 4 | m->in_hand << 3 | m->by_kernel << 2 |
	       m->reserved << 1 | m->repeated;
}

static void note(struct acquire m)
{
	uint64_t key;
	size_t at;

	shorten(&m);
	key = key_of(&m);
	at = (size_t)(key * 0x9e3779b97f4a7c15ULL >> 44);
	while (seen[at] && seen[at] != key)
		at = (at + 1) % SEEN;
	if (seen[at])
		return;
	seen[at] = key;
	assert_in_range(n_queue, 0, SEEN / 2);
	queue[n_queue++] = m;
}

#define HOLDS(what)                                                            \
	do {                                                                   \
		if (!(what))                                                   \
			fail_msg("%s, event %d -> %s: " #what,                 \
				 states[was->state], (int)event,               \
				 states[m->state]);                            \
	} while (0)

static void check_step(const struct acquire *was, enum acquire_event event,
		       const struct acquire *m)
{
	const bool inside = dlk_acquire_is_inside(m->state);

	HOLDS(!dlk_acquire_is_wait(m->state) || !m->in_hand);
	HOLDS(inside || m->state == ACQ_GRANTED || m->state == ACQ_ENTER ||
	      !m->in_hand);
	HOLDS(m->state != ACQ_ASK || m->in_hand);
	HOLDS(m->state != ACQ_ROLLBACK || m->in_hand);
	HOLDS(!inside || dlk_acquire_is_inside(was->state) ||
	      was->state == ACQ_ENTER);
	HOLDS(m->state != ACQ_FAILED || m->err < 0);
	HOLDS(m->wait || (m->state != ACQ_WAIT_KERNEL &&
			  m->state != ACQ_WAIT_QUEUE && !m->reserved));
	HOLDS(m->state != ACQ_WAIT_KERNEL || (m->by_kernel && !m->reserved));
	HOLDS(m->state != ACQ_WAIT_KERNEL || event != EV_SUSPECTED);
	HOLDS(m->state != ACQ_WAIT_KERNEL || !m->lingers || m->local);
	HOLDS(m->state != ACQ_WAIT_QUEUE || m->reserved);
	HOLDS(m->state != ACQ_PASS_ON || m->reserved);
	HOLDS(m->state != ACQ_PING || m->give_up_ns);
	HOLDS(m->state != ACQ_GRANTED || event == EV_OK || event == EV_COVERED);
	HOLDS(m->state != ACQ_RESTART || !m->in_hand);
	HOLDS(m->overtaken <= 1000);
	HOLDS(!m->local || m->may_be_local || was->local || event == EV_LOCAL);
	HOLDS(!m->local ||
	      (m->state != ACQ_ASK && m->state != ACQ_PING &&
	       m->state != ACQ_WAIT_QUEUE && m->state != ACQ_CHECK_HOLDER));
}

static void step(const struct acquire *was, enum acquire_event event,
		 unsigned facts)
{
	const struct acquire_report r = {
		.event = event,
		.err = event == EV_ERROR ? -EINTR : -EAGAIN,
		.by_lease = facts & 1,
		.cannot_queue = facts & 2,
		.answered = facts & 4,
		.reached = facts & 16,
		.began_ns = NOW_MS * DLK_MS,
		.now_ns = (facts & 8 ? NOW_MS : NOW_MS / 2) * DLK_MS,
	};
	struct acquire m = *was;

	dlk_acquire_next(&m, &r);
	check_step(was, event, &m);
	reached[m.state] = true;
	if (!dlk_acquire_is_over(m.state))
		note(m);
}

static bool can_be(const struct acquire *m, enum acquire_event event)
{
	if (m->state == ACQ_ENTER && m->in_hand)
		return event == EV_OK;
	if (event == EV_LOCAL && !m->may_be_local)
		return false;
	/* Who is local asks nothing before the kernel. */
	if (m->state == ACQ_PREPARE && m->local)
		return event == EV_OK;
	return is_in_the_table(m->state, event);
}

static void whatever_happens_nobody_sleeps_with_it_in_hand(void **unused)
{
	struct acquire m;

	(void)unused;
	for (int how = 0; how < 4; how++) {
		dlk_acquire_begin(&m, how & 1, TIMEOUT_MS * DLK_MS);
		m.may_be_local = how & 2;
		note(m);
	}
	for (unsigned i = 0; i < n_queue; i++) {
		for (int event = 0; event < EV_EVENTS; event++)
			for (unsigned facts = 0; facts < 32; facts++)
				if (can_be(&queue[i],
					   (enum acquire_event)event))
					step(&queue[i],
					     (enum acquire_event)event, facts);
	}
	for (int s = 0; s < ACQ_STATES; s++)
		if (!reached[s])
			fail_msg("%s is never reached", states[s]);
	print_message("%u situations\n", n_queue);
}

/* --- what an edge leaves behind ------------------------------------------- */

static enum acquire_state feed(struct acquire *m, enum acquire_event event,
			       uint64_t now_ms)
{
	const struct acquire_report r = {
		.event = event,
		.err = -EAGAIN,
		.by_lease = true,
		.began_ns = now_ms * DLK_MS,
		.now_ns = now_ms * DLK_MS,
	};

	return dlk_acquire_next(m, &r);
}

static struct acquire begun(bool wait)
{
	struct acquire m;

	dlk_acquire_begin(&m, wait, TIMEOUT_MS * DLK_MS);
	return m;
}

/* From ENTER: the kernel grants, Redis says this, it is rolled back. */
static enum acquire_state ask(struct acquire *m, enum acquire_event answer,
			      uint64_t now_ms)
{
	assert_int_equal(m->state, ACQ_ENTER);
	feed(m, EV_OK, now_ms);
	feed(m, EV_OK, now_ms);
	feed(m, EV_OK, now_ms);
	assert_int_equal(m->state, ACQ_ASK);
	feed(m, answer, now_ms);
	assert_int_equal(m->state, ACQ_ROLLBACK);
	return feed(m, EV_OK, now_ms);
}

static void asks_once_more_before_it_is_refused(void **unused)
{
	struct acquire m = begun(false);

	(void)unused;
	assert_int_equal(ask(&m, EV_BUSY, 1), ACQ_CHECK_OWN);
	assert_int_equal(feed(&m, EV_OK, 1), ACQ_RESUME);
	assert_int_equal(feed(&m, EV_OK, 1), ACQ_ENTER);
	assert_int_equal(ask(&m, EV_BUSY, 2), ACQ_CHECK_OWN);
	assert_int_equal(feed(&m, EV_OK, 2), ACQ_FAILED);
	assert_int_equal(m.err, -EWOULDBLOCK);
}

/* The timeout counts from the first question that was not answered. */
static void a_silent_server_is_given_up_in_time(void **unused)
{
	struct acquire m = begun(true);
	uint64_t now = 1000;

	(void)unused;
	assert_int_equal(ask(&m, EV_NO_ANSWER, now), ACQ_BACK_OFF);
	for (;;) {
		assert_int_equal(dlk_acquire_pause_ns(&m, 0, 0, 0),
				 20 * DLK_MS);
		now += 20;
		assert_int_equal(feed(&m, EV_OK, now), ACQ_RESUME);
		assert_int_equal(feed(&m, EV_OK, now), ACQ_PING);
		if (feed(&m, EV_NO_ANSWER, now) != ACQ_BACK_OFF)
			break;
	}
	assert_int_equal(m.state, ACQ_FAILED);
	assert_int_equal(m.err, -ENOLCK);
	assert_int_equal(now, 1000 + TIMEOUT_MS - 20);
}

/* So is one without which a call may go on; what it asked last counts. */
static void a_silent_server_is_done_without(void **unused)
{
	struct acquire m = begun(true);

	(void)unused;
	m.may_be_local = true;
	assert_int_equal(ask(&m, EV_NO_ANSWER, 1000), ACQ_BACK_OFF);
	feed(&m, EV_OK, 1000 + TIMEOUT_MS);
	assert_int_equal(feed(&m, EV_OK, 1000 + TIMEOUT_MS), ACQ_PING);
	assert_int_equal(feed(&m, EV_NO_ANSWER, 1000 + TIMEOUT_MS), ACQ_RESUME);
	assert_true(m.local);
	assert_int_equal(feed(&m, EV_OK, 2000), ACQ_ENTER);
	feed(&m, EV_OK, 2000);
	assert_int_equal(feed(&m, EV_OK, 2000), ACQ_TRY_KERNEL);
	assert_int_equal(feed(&m, EV_BUSY, 2000), ACQ_WAIT_KERNEL);
	assert_int_equal(feed(&m, EV_OK, 9000), ACQ_ENTER);
	feed(&m, EV_OK, 9000);
	assert_int_equal(feed(&m, EV_OK, 9000), ACQ_TRY_KERNEL);
	assert_int_equal(feed(&m, EV_OK, 9000), ACQ_GRANTED);
}

/* And it grants nothing: whoever else asks it is answered, too (L8). */
static void who_answers_pings_only_was_reached(void **unused)
{
	struct acquire m = begun(true);
	uint64_t now = 1000;

	(void)unused;
	m.may_be_local = true;
	while (ask(&m, EV_NO_ANSWER, now) == ACQ_BACK_OFF) {
		now += 20;
		feed(&m, EV_OK, now);
		assert_int_equal(feed(&m, EV_OK, now), ACQ_PING);
		assert_int_equal(feed(&m, EV_OK, now), ACQ_ENTER);
	}
	assert_int_equal(m.state, ACQ_FAILED);
	assert_int_equal(m.err, -ENOLCK);
	assert_int_equal(now, 1000 + TIMEOUT_MS - 20);
}

/* Answered in between, it has all the time once more. */
static void an_answer_ends_the_silence(void **unused)
{
	struct acquire m = begun(true);

	(void)unused;
	assert_int_equal(ask(&m, EV_NO_ANSWER, 1000), ACQ_BACK_OFF);
	feed(&m, EV_OK, 1400);
	assert_int_equal(feed(&m, EV_OK, 1400), ACQ_PING);
	assert_int_equal(feed(&m, EV_OK, 1400), ACQ_ENTER);
	assert_int_equal(ask(&m, EV_YOUNG, 1400), ACQ_BACK_OFF);
	feed(&m, EV_OK, 1500);
	assert_int_equal(feed(&m, EV_OK, 1500), ACQ_ENTER);
	assert_int_equal(ask(&m, EV_NO_ANSWER, 1500), ACQ_BACK_OFF);
}

/* Who waits for the kernel asks nothing, and nobody is silent. */
static void a_wait_for_the_kernel_is_no_silence(void **unused)
{
	struct acquire m = begun(true);
	const struct acquire_report waited = {
		.event = EV_OK,
		.began_ns = 1100 * DLK_MS,
		.now_ns = 90000 * DLK_MS,
	};

	(void)unused;
	assert_int_equal(ask(&m, EV_NO_ANSWER, 1000), ACQ_BACK_OFF);
	feed(&m, EV_OK, 1100);
	assert_int_equal(feed(&m, EV_OK, 1100), ACQ_PING);
	assert_int_equal(feed(&m, EV_OK, 1100), ACQ_ENTER);
	feed(&m, EV_OK, 1100);
	assert_int_equal(feed(&m, EV_OK, 1100), ACQ_TRY_KERNEL);
	assert_int_equal(feed(&m, EV_BUSY, 1100), ACQ_CHECK_CYCLE);
	assert_int_equal(feed(&m, EV_OK, 1100), ACQ_WAIT_KERNEL);
	assert_int_equal(dlk_acquire_next(&m, &waited), ACQ_ENTER);
	assert_int_equal(ask(&m, EV_NO_ANSWER, 90000), ACQ_BACK_OFF);
	feed(&m, EV_OK, 90000 + TIMEOUT_MS);
	feed(&m, EV_OK, 90000 + TIMEOUT_MS);
	assert_int_equal(feed(&m, EV_NO_ANSWER, 90000 + TIMEOUT_MS),
			 ACQ_FAILED);
}

static void a_local_holder_of_the_reserved_has_the_next_one_served(
	void **unused)
{
	struct acquire m = begun(true);

	(void)unused;
	assert_int_equal(ask(&m, EV_BUSY, 1), ACQ_CHECK_OWN);
	feed(&m, EV_OK, 1);
	assert_int_equal(feed(&m, EV_OK, 1), ACQ_WAIT_QUEUE);
	feed(&m, EV_OK, 2);
	feed(&m, EV_OK, 2);
	feed(&m, EV_OK, 2);
	feed(&m, EV_OK, 2);
	assert_int_equal(feed(&m, EV_BUSY, 3), ACQ_CHECK_HOLDER);
	assert_true(dlk_acquire_has_waited(&m, 5 * DLK_MS, 1, 2 * DLK_MS));
	assert_false(dlk_acquire_has_waited(&m, 5 * DLK_MS, 2, 2 * DLK_MS));
	assert_false(dlk_acquire_has_waited(&m, 5 * DLK_MS, 1, 3 * DLK_MS));
	assert_int_equal(feed(&m, EV_BUSY, 5), ACQ_PASS_ON);
	assert_int_equal(feed(&m, EV_OK, 5), ACQ_CHECK_CYCLE);
	assert_int_equal(feed(&m, EV_OK, 5), ACQ_WAIT_KERNEL);
	assert_false(m.reserved);
	assert_int_equal(feed(&m, EV_OK, 9), ACQ_ENTER);
	assert_true(m.in_hand);
}

static void pauses_are_by_their_cause(void **unused)
{
	struct acquire m = begun(true);

	(void)unused;
	m.cause = EV_SIGNAL;
	assert_int_equal(dlk_acquire_pause_ns(&m, 0, 0, 7), 0);
	m.cause = EV_SUSPECTED;
	assert_int_equal(dlk_acquire_pause_ns(&m, 0, 0, 7), 5 * DLK_MS);
	m.cause = EV_BUSY;
	assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, 7), 5 * DLK_MS,
			15 * DLK_MS);
	assert_int_equal(dlk_acquire_pause_ns(&m, 1, 0, 0xffff), 2 * DLK_MS);
	assert_int_equal(dlk_acquire_pause_ns(&m, 0, 3 * DLK_MS, 0xffff),
			 3 * DLK_MS);
}

/* Where nobody is told: DESIGN 5.7. */
static void who_is_passed_over_often_is_a_senior(void **unused)
{
	struct acquire m = begun(true);
	unsigned n = 0;

	(void)unused;
	m.cause = EV_BUSY;
	while (!dlk_acquire_is_senior(&m)) {
		dlk_acquire_note_holder(&m, ++n);
		for (int i = 0; i < 9; i++)
			dlk_acquire_note_holder(&m, n);
	}
	assert_int_equal(n, 16);
	dlk_acquire_begin(&m, true, TIMEOUT_MS);
	for (n = 0; n < 99; n++)
		dlk_acquire_note_holder(&m, 0);
	assert_false(dlk_acquire_is_senior(&m));
}

static void pauses_are_long_where_one_holds_it_for_long(void **unused)
{
	struct acquire m = begun(true);
	const uint64_t most = 0xffff;

	(void)unused;
	m.cause = EV_BUSY;
	for (uint64_t n = 1; !dlk_acquire_is_senior(&m); n++) {
		assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, most), 1,
				15 * DLK_MS);
		dlk_acquire_note_holder(&m, n);
	}
	/* He asks again at once, and then as all do. */
	assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, 0), 1, 2 * DLK_MS);
	assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, most), 14 * DLK_MS,
			15 * DLK_MS);
	assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, most), 40 * DLK_MS,
			45 * DLK_MS);
	dlk_acquire_note_holder(&m, 99);
	assert_in_range(dlk_acquire_pause_ns(&m, 0, 0, most), 1, 4 * DLK_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_edge_is_as_the_table_has_it),
		cmocka_unit_test(what_the_table_has_not_fails_closed),
		cmocka_unit_test(nothing_follows_the_end),
		cmocka_unit_test(
			whatever_happens_nobody_sleeps_with_it_in_hand),
		cmocka_unit_test(asks_once_more_before_it_is_refused),
		cmocka_unit_test(a_silent_server_is_given_up_in_time),
		cmocka_unit_test(a_silent_server_is_done_without),
		cmocka_unit_test(who_answers_pings_only_was_reached),
		cmocka_unit_test(an_answer_ends_the_silence),
		cmocka_unit_test(a_wait_for_the_kernel_is_no_silence),
		cmocka_unit_test(
			a_local_holder_of_the_reserved_has_the_next_one_served),
		cmocka_unit_test(pauses_are_by_their_cause),
		cmocka_unit_test(who_is_passed_over_often_is_a_senior),
		cmocka_unit_test(pauses_are_long_where_one_holds_it_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
