/* SPDX-License-Identifier: MIT */
/*
 * What is still to be said about a lease: each story is a table of what
 * happens, and of what is then to be done, and when.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "model/outbox.h"
#include "model/timeline.h"

enum { NO = 0, SETTLED = 1, SOURCE = 2 };
enum event { PUT, RELEASE, SENT, ANSWER, LOOKED, CLEAR, PASS };
enum { TTL_MS = 10000, NEVER = -1, STALE = 7 };

/* ms of the story; `due` of the next step. */
struct happens {
	enum event event;
	enum outbox_message message;
	int err; /* of an ANSWER */
	int at;
	enum outbox_step next; /* at that moment */
	int due;
	unsigned flags;
};

/* A day after boot. */
static const uint64_t start = 86400123456789;

static uint64_t ns(int ms)
{
	return ms == NEVER ? UINT64_MAX : start + (uint64_t)ms * DLK_MS;
}

static bool happen(struct outbox *o, const struct happens *e)
{
	switch (e->event) {
	case PUT:
		dlk_outbox_put(o, e->message, ns(e->at));
		break;
	case RELEASE:
		dlk_outbox_put_release(o, ns(e->at), TTL_MS);
		break;
	case SENT:
		dlk_outbox_sent(o, e->message, ns(e->at));
		break;
	case ANSWER:
		return dlk_outbox_answered(o, e->message, e->err, ns(e->at));
	case LOOKED:
		dlk_outbox_looked(o, ns(e->at));
		break;
	case CLEAR:
		dlk_outbox_clear(o, ns(e->at));
		break;
	case PASS:
		break;
	}
	return false;
}

static void tell(const struct happens *story, size_t n)
{
	struct outbox o = { 0 };

	assert_int_equal(dlk_outbox_next(&o, UINT64_MAX), OUTBOX_WAIT);
	for (size_t i = 0; i < n; i++) {
		const struct happens *e = &story[i];
		const bool settled = happen(&o, e);

		if (settled != !!(e->flags & SETTLED) ||
		    o.by_source != !!(e->flags & SOURCE) ||
		    dlk_outbox_next(&o, ns(e->at)) != e->next ||
		    dlk_outbox_due_ns(&o) != ns(e->due))
			fail_msg("line %zu: settled %d, by source %d, step %d, "
				 "due %lld ms",
				 i, settled, o.by_source,
				 dlk_outbox_next(&o, ns(e->at)),
				 (long long)(dlk_outbox_due_ns(&o) - start) /
					 (long long)DLK_MS);
	}
}

#define TELL(...)                                                              \
	do {                                                                   \
		static const struct happens story_[] = { __VA_ARGS__ };        \
		tell(story_, sizeof(story_) / sizeof(story_[0]));              \
	} while (0)

#define DOWNGRADE OUTBOX_DOWNGRADE
#define RANGES    OUTBOX_RANGES
#define RELEASES  OUTBOX_RELEASE
#define WAIT      OUTBOX_WAIT
#define SEND      OUTBOX_SEND
#define READ      OUTBOX_READ
#define FORGET    OUTBOX_FORGET

/* --- a release ------------------------------------------------------------ */

static void a_release_is_sent_by_who_gives_up(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { PASS, 0, 0, 99, WAIT, NEVER, NO },
	     { PASS, 0, 0, 20000, WAIT, NEVER, NO });
}

static void an_answer_settles_it(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RELEASES, 0, 3, WAIT, NEVER, SETTLED });
}

static void an_answer_that_is_not_read_is_looked_for(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { PASS, 0, 0, 24, WAIT, 25, NO }, { PASS, 0, 0, 25, READ, 25, NO },
	     { LOOKED, 0, 0, 26, WAIT, 51, NO },
	     { PASS, 0, 0, 51, READ, 51, NO },
	     { ANSWER, RELEASES, 0, 52, WAIT, NEVER, SETTLED },
	     { LOOKED, 0, 0, 52, WAIT, NEVER, NO });
}

/* What is in flight has not expired: its answer is to come. */
static void what_is_in_flight_is_not_forgotten(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { PASS, 0, 0, 60000, READ, 25, NO });
}

static void a_failure_is_sent_again_after_a_pause(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RELEASES, -EPIPE, 5, WAIT, 105, NO },
	     { PASS, 0, 0, 105, SEND, 105, NO },
	     { PUT, RELEASES, 0, 205, SEND, 205, NO },
	     { SENT, RELEASES, 0, 206, WAIT, 231, NO },
	     { ANSWER, RELEASES, -EAGAIN, 207, WAIT, 307, NO },
	     { SENT, RELEASES, 0, 307, WAIT, 332, NO },
	     { ANSWER, RELEASES, 0, 308, WAIT, NEVER, SETTLED });
}

static void a_server_that_knows_no_script_is_told_in_full_at_once(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RELEASES, -ENOENT, 5, SEND, 5, SOURCE },
	     { SENT, RELEASES, 0, 5, WAIT, 30, SOURCE },
	     { ANSWER, RELEASES, 0, 6, WAIT, NEVER, SETTLED });
}

static void a_refusal_is_final(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RELEASES, -EREMOTEIO, 5, WAIT, NEVER, SETTLED });
}

static void it_is_forgotten_when_the_server_has_forgotten_it(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { PUT, RELEASES, 0, 1, SEND, 1, NO },
	     { PUT, RELEASES, 0, 10999, SEND, 10999, NO },
	     { PUT, RELEASES, 0, 11001, FORGET, 11000, NO },
	     { PASS, 0, 0, 12000, FORGET, 11000, NO });
}

/* A release that is late for another reason than a later one is no race. */
static void a_release_never_loops(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RELEASES, STALE, 5, WAIT, 105, NO });
}

/* --- ranges --------------------------------------------------------------- */

static void several_lists_are_in_flight(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { SENT, RANGES, 0, 10, WAIT, 35, NO },
	     { ANSWER, RANGES, 0, 11, WAIT, 35, NO },
	     { ANSWER, RANGES, 0, 12, WAIT, NEVER, SETTLED });
}

static void a_later_one_makes_us_send_the_whole_at_once(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RANGES, STALE, 5, SEND, 5, NO },
	     { SENT, RANGES, 0, 5, WAIT, 30, NO },
	     { ANSWER, RANGES, 0, 6, WAIT, NEVER, SETTLED });
}

/* The other answer may say which number the server has seen. */
static void the_whole_waits_for_the_other_answers(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { SENT, RANGES, 0, 1, WAIT, 26, NO },
	     { ANSWER, RANGES, -EPIPE, 5, WAIT, 105, NO },
	     { PASS, 0, 0, 105, READ, 105, NO },
	     { ANSWER, RANGES, 0, 106, SEND, 105, NO },
	     { LOOKED, 0, 0, 106, SEND, 105, NO },
	     { SENT, RANGES, 0, 106, WAIT, 131, NO },
	     { ANSWER, RANGES, 0, 107, WAIT, NEVER, SETTLED });
}

static void a_list_never_expires(void **state)
{
	(void)state;
	TELL({ PUT, RANGES, 0, 0, SEND, 0, NO },
	     { PASS, 0, 0, 60000, SEND, 0, NO });
}

static void by_its_name_again_once_it_was_understood(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { ANSWER, RANGES, -ENOENT, 5, READ, 5, SOURCE },
	     { ANSWER, RANGES, -ENOENT, 5, SEND, 5, SOURCE },
	     { SENT, RANGES, 0, 5, WAIT, 30, SOURCE },
	     { ANSWER, RANGES, 0, 6, WAIT, NEVER, SETTLED });
}

/* --- a downgrade ---------------------------------------------------------- */

static void a_downgrade_is_due_at_once(void **state)
{
	(void)state;
	TELL({ PUT, DOWNGRADE, 0, 0, SEND, 0, NO },
	     { SENT, DOWNGRADE, 0, 1, WAIT, 26, NO },
	     { ANSWER, DOWNGRADE, -ETIMEDOUT, 20, WAIT, 120, NO },
	     { SENT, DOWNGRADE, 0, 120, WAIT, 145, NO },
	     { ANSWER, DOWNGRADE, 0, 121, WAIT, NEVER, SETTLED });
}

/* --- one in place of another ---------------------------------------------- */

static void a_release_takes_the_place_of_a_list(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { RELEASE, 0, 0, 5, WAIT, NEVER, NO },
	     { PUT, RELEASES, 0, 6, SEND, 6, NO },
	     { ANSWER, RANGES, STALE, 7, SEND, 6, NO },
	     { SENT, RELEASES, 0, 8, WAIT, 33, NO },
	     { ANSWER, RELEASES, 0, 9, WAIT, NEVER, SETTLED });
}

/* The answer to the list comes by another connection, and later. */
static void an_answer_may_outlive_its_lease(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { RELEASE, 0, 0, 5, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 5, WAIT, 30, NO },
	     { ANSWER, RELEASES, 0, 9, WAIT, 34, SETTLED },
	     { PASS, 0, 0, 34, READ, 34, NO },
	     { ANSWER, RANGES, -EPIPE, 35, WAIT, NEVER, NO });
}

static void a_list_after_the_release_is_only_counted(void **state)
{
	(void)state;
	TELL({ RELEASE, 0, 0, 0, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 0, WAIT, 25, NO },
	     { SENT, RANGES, 0, 10, WAIT, 25, NO },
	     { PUT, RANGES, 0, 11, WAIT, 25, NO },
	     { ANSWER, RELEASES, 0, 12, WAIT, 37, SETTLED },
	     { ANSWER, RANGES, STALE, 13, WAIT, NEVER, NO });
}

static void a_release_takes_the_place_of_a_downgrade(void **state)
{
	(void)state;
	TELL({ PUT, DOWNGRADE, 0, 0, SEND, 0, NO },
	     { RELEASE, 0, 0, 5, WAIT, NEVER, NO },
	     { SENT, RELEASES, 0, 5, WAIT, 30, NO },
	     { ANSWER, RELEASES, 0, 6, WAIT, NEVER, SETTLED });
}

static void what_is_lost_need_not_be_weakened(void **state)
{
	(void)state;
	TELL({ SENT, RANGES, 0, 0, WAIT, 25, NO },
	     { PUT, RANGES, 0, 1, READ, 1, NO },
	     { CLEAR, 0, 0, 2, WAIT, 27, NO }, { PASS, 0, 0, 27, READ, 27, NO },
	     { ANSWER, RANGES, 0, 28, WAIT, NEVER, NO });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_release_is_sent_by_who_gives_up),
		cmocka_unit_test(an_answer_settles_it),
		cmocka_unit_test(an_answer_that_is_not_read_is_looked_for),
		cmocka_unit_test(what_is_in_flight_is_not_forgotten),
		cmocka_unit_test(a_failure_is_sent_again_after_a_pause),
		cmocka_unit_test(
			a_server_that_knows_no_script_is_told_in_full_at_once),
		cmocka_unit_test(a_refusal_is_final),
		cmocka_unit_test(
			it_is_forgotten_when_the_server_has_forgotten_it),
		cmocka_unit_test(a_release_never_loops),
		cmocka_unit_test(several_lists_are_in_flight),
		cmocka_unit_test(a_later_one_makes_us_send_the_whole_at_once),
		cmocka_unit_test(the_whole_waits_for_the_other_answers),
		cmocka_unit_test(a_list_never_expires),
		cmocka_unit_test(by_its_name_again_once_it_was_understood),
		cmocka_unit_test(a_downgrade_is_due_at_once),
		cmocka_unit_test(a_release_takes_the_place_of_a_list),
		cmocka_unit_test(an_answer_may_outlive_its_lease),
		cmocka_unit_test(a_list_after_the_release_is_only_counted),
		cmocka_unit_test(a_release_takes_the_place_of_a_downgrade),
		cmocka_unit_test(what_is_lost_need_not_be_weakened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
