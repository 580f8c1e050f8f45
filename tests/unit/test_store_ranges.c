/* SPDX-License-Identifier: MIT */
/* Stores, as in test_store.c: byte ranges, and who waits for them. */
// link: tests/unit/store_memory.c
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/stores.h"

/* --- ranges ------------------------------------------------------------------- */

static struct dlk_range range(enum dlk_range_type type, uint64_t start,
			      uint64_t end)
{
	return (struct dlk_range){ start, end, type };
}

/* It wants it, and is told what came of it. */
static int ask_range_with(int i, const struct dlk_range *r,
			  struct dlk_records_ask ask)
{
	struct party *p = &party[i];
	int err;

	p->lease.ranges_key = "{k}%r";
	p->lease.ranges_key_len = 5;
	ask.range = *r;
	if (!ask.seq)
		ask.seq = p->seq + 1;
	if (!ask.since_ns)
		ask.since_ns = 1000 + (uint64_t)i;
	err = s->ops->acquire_range(s, &at, &p->lease, &ask, &answer);
	p->seq = ask.seq;
	return err;
}

static int lock(int i, enum dlk_range_type type, uint64_t start, uint64_t stop)
{
	const struct dlk_range r = range(type, start, stop);

	return ask_range_with(i, &r, (struct dlk_records_ask){ 0 });
}

static void give_back(int i, uint64_t start, uint64_t stop,
		      const struct dlk_ranges *held)
{
	struct dlk_range window = range(DLK_UNLOCKED, start, stop);
	unsigned before = n_done;

	assert_int_equal(s->ops->send_ranges(s, &sending, &party[i].lease,
					     ++party[i].seq, &window, held),
			 0);
	assert_true(window.start > window.end);
	settle_all(before + 1);
}

static void ranges_exclude_by_bytes(void **state)
{
	const struct dlk_range r = range(DLK_WRITE, 5, 30);

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	assert_int_equal(lock(2, DLK_READ, 20, 29), 0);
	assert_int_equal(lock(3, DLK_READ, 25, 40), 0);
	assert_int_equal(lock(3, DLK_READ, 19, 19), DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
	assert_int_equal(answer.range.start, 10);
	assert_int_equal(answer.range.end, 19);
	assert_int_equal(answer.range.type, DLK_WRITE);
	assert_int_equal(s->ops->find_conflict(s, &at, &party[3].lease, &r, 0,
					       &answer),
			 DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
}

static void a_part_is_given_back(void **state)
{
	struct dlk_range left[1] = { { 10, 14, DLK_WRITE } };
	const struct dlk_ranges held = { .v = left, .n = 1, .room = 1 };
	static const struct dlk_ranges nothing;

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	give_back(0, 15, 19, &held);
	assert_int_equal(last_err, 0);
	assert_int_equal(lock(2, DLK_WRITE, 15, 19), 0);
	assert_int_equal(lock(2, DLK_WRITE, 14, 14), DLK_BUSY);
	give_back(0, 0, DLK_RANGE_MAX, &nothing);
	assert_int_equal(lock(2, DLK_WRITE, 0, DLK_RANGE_MAX), 0);
	give_back(0, 0, DLK_RANGE_MAX, &nothing);
	assert_int_equal(last_err, 0);
}

static void a_list_that_is_late_changes_nothing(void **state)
{
	static const struct dlk_ranges nothing;

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	assert_int_equal(lock(0, DLK_WRITE, 20, 29), 0);
	party[0].seq = 0;
	give_back(0, 0, DLK_RANGE_MAX, &nothing);
	assert_int_equal(last_err, DLK_OLD_SEQ);
	assert_int_equal(last_seq, 2);
	assert_int_equal(lock(2, DLK_WRITE, 10, 10), DLK_BUSY);
}

static void an_ask_that_is_late_is_asked_anew(void **state)
{
	const struct dlk_range r = range(DLK_WRITE, 20, 29);

	(void)state;
	party[0].seq = 7;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	assert_int_equal(party[0].seq, 8);
	assert_int_equal(
		ask_range_with(0, &r, (struct dlk_records_ask){ .seq = 3 }), 0);
	assert_int_equal(party[0].seq, 9);
}

static void what_the_server_forgot_is_gone(void **state)
{
	const struct dlk_range r = range(DLK_WRITE, 20, 29);
	static const struct dlk_ranges nothing;
	struct dlk_renewal u = { .lease = &party[0].lease, .sent_seq = 8 };

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	give_back(0, 0, DLK_RANGE_MAX, &nothing);
	assert_int_equal(
		ask_range_with(0, &r,
			       (struct dlk_records_ask){ .known = true }),
		DLK_GONE);
	assert_int_equal(renew(0), DLK_GONE);
	s->ops->reclaim_ranges(s, &at, &u, 1000, &nothing);
	assert_int_equal(u.result, DLK_GONE);
}

static void proof_cuts_the_range_out(void **state)
{
	const struct dlk_range r = range(DLK_WRITE, 12, 13);

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	assert_int_equal(lock(1, DLK_WRITE, 12, 13), DLK_BUSY);
	assert_int_equal(
		ask_range_with(1, &r,
			       (struct dlk_records_ask){ .proof = true }),
		0);
	assert_true(answer.replaced);
	assert_int_equal(lock(2, DLK_READ, 12, 12), DLK_BUSY);
	assert_string_equal(answer.holder, party[1].token);
	assert_int_equal(lock(2, DLK_READ, 14, 14), DLK_BUSY);
	assert_string_equal(answer.holder, party[0].token);
}

static void who_waits_for_a_range_is_served_its_own(void **state)
{
	const struct dlk_range r = range(DLK_WRITE, 15, 16);
	static const struct dlk_ranges nothing;
	struct party *p = &party[2];

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	assert_int_equal(lock(3, DLK_WRITE, 20, 29), 0);
	listen_to(2);
	dlk_records_what(p->what, &r, "", false);
	p->w.what = p->what;
	assert_int_equal(
		ask_range_with(2, &r,
			       (struct dlk_records_ask){ .waiter = &p->w }),
		DLK_BUSY);
	assert_true(p->w.queued);
	give_back(3, 0, DLK_RANGE_MAX, &nothing);
	assert_true(is_silent(2));
	give_back(0, 0, DLK_RANGE_MAX, &nothing);
	assert_int_equal(hear(2), 'g');
	assert_int_equal(lock(3, DLK_READ, 15, 15), DLK_BUSY);
	assert_int_equal(
		ask_range_with(2, &r,
			       (struct dlk_records_ask){ .waiter = &p->w }),
		0);
	assert_false(p->w.queued);
	assert_int_equal(renew(2), 0);
}

/* --- waits -------------------------------------------------------------------- */

static struct dlk_wait wait_a, wait_b; /* too large for a stack */

static void what_is_told_of_a_wait_is_read(void **state)
{
	const char *process = "0123456789abcdef";
	uint64_t clock = 0;

	(void)state;
	memset(&wait_a, 0, sizeof(wait_a));
	strcpy(wait_a.process, process);
	strcpy(wait_a.owner, "-");
	strcpy(wait_a.key, "k");
	wait_a.key_len = 1;
	wait_a.range = range(DLK_WRITE, 3, 4);
	assert_int_equal(s->ops->tell_wait(s, &at, &wait_a), 0);
	assert_true(wait_a.id > 0);
	assert_int_equal(s->ops->read_wait(s, &at, process, 0, &wait_b), 1);
	assert_int_equal(wait_b.id, wait_a.id);
	assert_int_equal(wait_b.told, wait_a.told);
	assert_string_equal(wait_b.key, "k");
	assert_int_equal(wait_b.range.end, 4);
	assert_int_equal(s->ops->read_wait(s, &at, process, 1, &wait_b), 0);
	assert_int_equal(s->ops->confirm_wait(s, &at, process, wait_a.id, NULL,
					      &clock),
			 1);
	assert_true(clock > wait_a.told);
	assert_int_equal(s->ops->confirm_wait(s, &at, process, wait_a.id, NULL,
					      &clock),
			 1);
	assert_int_equal(s->ops->read_wait(s, &at, process, 0, &wait_b), 1);
	assert_true(wait_b.told > wait_a.told);
	assert_int_equal(s->ops->send_wait_end(s, &sending, process, wait_a.id),
			 0);
	settle_all(1);
	assert_int_equal(s->ops->read_wait(s, &at, process, 0, &wait_b), 0);
	assert_int_equal(s->ops->confirm_wait(s, &at, process, wait_a.id, NULL,
					      &clock),
			 0);
}

static void who_is_in_the_way_is_found(void **state)
{
	dlk_process blockers[DLK_BLOCKERS_MAX];

	(void)state;
	assert_int_equal(lock(0, DLK_WRITE, 10, 19), 0);
	memset(&wait_a, 0, sizeof(wait_a));
	strcpy(wait_a.owner, "-");
	strcpy(wait_a.key, "k");
	wait_a.key_len = 1;
	wait_a.range = range(DLK_WRITE, 3, 4);
	assert_int_equal(s->ops->find_blockers(s, &at, &wait_a, blockers), 0);
	wait_a.range = range(DLK_READ, 3, 10);
	assert_int_equal(s->ops->find_blockers(s, &at, &wait_a, blockers), 1);
	assert_string_equal(blockers[0], "aaaaaaaaaaaaaaaa");
	memcpy(wait_a.owner, party[0].token + 7, DLK_RANDOM_LEN);
	assert_int_equal(s->ops->find_blockers(s, &at, &wait_a, blockers), 0);
}

/* -------------------------------------------------------------------------- */

int main(void)
{
	const struct CMUnitTest tests[] = {
		of_both(ranges_exclude_by_bytes),
		of_both(a_part_is_given_back),
		of_both(a_list_that_is_late_changes_nothing),
		of_both(an_ask_that_is_late_is_asked_anew),
		of_both(what_the_server_forgot_is_gone),
		of_both(proof_cuts_the_range_out),
		of_both(who_waits_for_a_range_is_served_its_own),
		of_both(what_is_told_of_a_wait_is_read),
		of_both(who_is_in_the_way_is_found),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
