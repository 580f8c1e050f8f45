/* SPDX-License-Identifier: MIT */
/*
 * Byte ranges: split, merge, upgrade, downgrade; and the kernel as the oracle.
 * Four owners (three open file descriptions and this process) lock a real file
 * at random, and four sets do the same: the kernel refuses when and only when
 * a set of another owner conflicts, and F_GETLK names the same lock.
 *
 * DLK_RANGE_STEPS=1000000 for more of it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/range.h"
#include "tests/unit/lcg.h"

#define MAX DLK_RANGE_MAX
#define U   DLK_UNLOCKED
#define R   DLK_READ
#define W   DLK_WRITE

enum { ROOM = 256 };

static struct dlk_range room[ROOM];
static struct dlk_ranges set;

static int empty(void **state)
{
	(void)state;
	memset(room, 0x55, sizeof(room));
	set = (struct dlk_ranges){ .v = room, .room = ROOM };
	return 0;
}

static int put(enum dlk_range_type type, uint64_t start, uint64_t end)
{
	return dlk_ranges_set(&set, (struct dlk_range){ start, end, type });
}

/* "W0-9 R20-29" */
static const char *text(void)
{
	static char buf[4096];
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < set.n && len < sizeof(buf); i++)
		len += (size_t)snprintf(buf + len, sizeof(buf) - len,
					"%s%c%llu-%llu", i ? " " : "",
					"URW"[set.v[i].type],
					(unsigned long long)set.v[i].start,
					(unsigned long long)set.v[i].end);
	return buf;
}

#define assert_set(want) assert_string_equal(text(), want)

/* --- examples ------------------------------------------------------------- */

static void a_lock_is_held(void **state)
{
	(void)state;
	assert_int_equal(put(W, 10, 19), 0);
	assert_set("W10-19");
	assert_int_equal(put(R, 30, 30), 0);
	assert_int_equal(put(R, 0, 3), 0);
	assert_set("R0-3 W10-19 R30-30");
}

static void an_unlock_splits(void **state)
{
	(void)state;
	put(W, 0, MAX);
	put(U, 10, 19);
	assert_set("W0-9 W20-9223372036854775807");
	put(U, 0, 0);
	put(U, MAX, MAX);
	assert_set("W1-9 W20-9223372036854775806");
	put(U, 0, MAX);
	assert_set("");
}

static void an_unlock_of_nothing_does_nothing(void **state)
{
	(void)state;
	put(U, 0, MAX);
	put(R, 10, 19);
	put(U, 0, 9);
	put(U, 20, MAX);
	assert_set("R10-19");
}

static void an_empty_set_needs_no_memory(void **state)
{
	(void)state;
	set = (struct dlk_ranges){ 0 };
	assert_int_equal(put(U, 0, MAX), 0);
	assert_int_equal(put(R, 0, 0), -ENOLCK);
	assert_set("");
}

static void neighbours_of_one_type_merge(void **state)
{
	(void)state;
	put(R, 0, 9);
	put(R, 20, 29);
	put(R, 10, 19);
	assert_set("R0-29");
	put(R, 31, 40);
	assert_set("R0-29 R31-40");
	put(R, 30, 30);
	assert_set("R0-40");
}

static void neighbours_of_two_types_do_not(void **state)
{
	(void)state;
	put(R, 0, 9);
	put(W, 10, 19);
	put(R, 20, 29);
	assert_set("R0-9 W10-19 R20-29");
	put(R, 10, 19);
	assert_set("R0-29");
}

static void an_upgrade_of_a_part_splits(void **state)
{
	(void)state;
	put(R, 0, 99);
	put(W, 40, 49);
	assert_set("R0-39 W40-49 R50-99");
	put(R, 40, 49);
	assert_set("R0-99");
}

static void a_lock_replaces_what_it_covers(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 50; i++)
		put(i % 2 ? R : W, i * 10, i * 10 + 4);
	assert_int_equal(set.n, 50);
	put(W, 5, 488);
	assert_set("W0-488 R490-494");
	put(R, 0, MAX);
	assert_set("R0-9223372036854775807");
}

static void the_same_again_changes_nothing(void **state)
{
	(void)state;
	put(W, 5, 9);
	put(W, 5, 9);
	put(W, 6, 8);
	assert_set("W5-9");
}

/* --- room ----------------------------------------------------------------- */

static void without_room_nothing_changes(void **state)
{
	(void)state;
	set.room = 1;
	assert_int_equal(put(W, 10, 19), 0);
	assert_int_equal(put(W, 30, 39), -ENOLCK);
	assert_int_equal(put(U, 15, 15), -ENOLCK);
	assert_int_equal(put(R, 15, 15), -ENOLCK);
	assert_set("W10-19");
	assert_int_equal(put(R, 10, 19), 0);
	assert_int_equal(put(U, 15, 19), 0);
	assert_set("R10-14");
}

static int grow_to_two(struct dlk_ranges *s, size_t n)
{
	if (n > 2)
		return -ENOMEM;
	s->room = 2;
	return 0;
}

static void room_is_asked_for(void **state)
{
	(void)state;
	set.room = 0;
	set.grow = grow_to_two;
	assert_int_equal(put(W, 10, 19), 0);
	assert_int_equal(put(U, 15, 15), 0);
	assert_int_equal(put(U, 12, 12), -ENOMEM);
	assert_int_equal(dlk_ranges_reserve(&set), -ENOMEM);
	assert_set("W10-14 W16-19");
}

static void ten_thousand_ranges(void **state)
{
	enum { N = 10000 };
	struct dlk_range *many = calloc(N, sizeof(*many));

	(void)state;
	assert_non_null(many);
	set = (struct dlk_ranges){ .v = many, .room = N };
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(put(W, (i * 7919 % N) * 10, i * 7919 % N * 10),
				 0);
	assert_int_equal(set.n, N);
	for (uint64_t i = 0; i < N; i++)
		assert_true(many[i].start == i * 10 && many[i].end == i * 10);
	assert_int_equal(put(W, 1, 1), 0);
	assert_int_equal(put(W, 3, 3), -ENOLCK);
	put(U, 0, MAX);
	assert_int_equal(set.n, 0);
	free(many);
}

/* --- looking -------------------------------------------------------------- */

static const struct dlk_range *conflict(enum dlk_range_type type,
					uint64_t start, uint64_t end)
{
	return dlk_ranges_conflict(&set,
				   &(struct dlk_range){ start, end, type });
}

static void readers_share_and_writers_do_not(void **state)
{
	(void)state;
	put(R, 10, 19);
	put(W, 30, 39);
	assert_null(conflict(R, 0, 29));
	assert_null(conflict(W, 20, 29));
	assert_null(conflict(W, 0, 9));
	assert_null(conflict(W, 40, MAX));
	assert_null(conflict(U, 0, MAX));
	assert_ptr_equal(conflict(W, 0, 10), &set.v[0]);
	assert_ptr_equal(conflict(W, 19, MAX), &set.v[0]);
	assert_ptr_equal(conflict(R, 0, MAX), &set.v[1]);
	assert_ptr_equal(conflict(R, 39, 39), &set.v[1]);
}

static void pieces_tell_the_whole_window(void **state)
{
	char got[256] = "";
	size_t len = 0;

	(void)state;
	put(W, 10, 19);
	put(R, 20, 29);
	put(W, 40, MAX);
	for (uint64_t at = 5;;) {
		struct dlk_range p = dlk_ranges_piece(&set, at, 45);

		len += (size_t)snprintf(got + len, sizeof(got) - len,
					"%c%llu-%llu ", "URW"[p.type],
					(unsigned long long)p.start,
					(unsigned long long)p.end);
		if (p.end == 45)
			break;
		at = p.end + 1;
	}
	assert_string_equal(got, "U5-9 W10-19 R20-29 U30-39 W40-45 ");
}

static const char *lacks(enum dlk_range_type type, uint64_t start, uint64_t end)
{
	static char got[256];
	struct dlk_range rest = { start, end, type }, part;
	size_t len = 0;

	got[0] = '\0';
	while (dlk_ranges_lacks(&set, &rest, &part)) {
		assert_int_equal(part.type, type);
		len += (size_t)snprintf(got + len, sizeof(got) - len,
					"%llu-%llu ",
					(unsigned long long)part.start,
					(unsigned long long)part.end);
	}
	return got;
}

static void what_is_lacking_is_what_must_be_undone(void **state)
{
	(void)state;
	assert_string_equal(lacks(R, 3, MAX), "3-9223372036854775807 ");
	put(W, 10, 19);
	put(R, 20, 29);
	put(W, 40, 49);
	assert_string_equal(lacks(R, 0, 60), "0-9 30-39 50-60 ");
	assert_string_equal(lacks(W, 0, 60), "0-9 20-39 50-60 ");
	assert_string_equal(lacks(W, 12, 15), "");
	assert_string_equal(lacks(W, 20, 39), "20-39 ");
	assert_string_equal(lacks(R, 20, 30), "30-30 ");
	assert_string_equal(lacks(U, 0, MAX), "");
}

/* --- calls ---------------------------------------------------------------- */

static void a_range_becomes_a_call_again(void **state)
{
	const struct dlk_range some[] = {
		{ 0, MAX, W }, { 5, 5, R }, { MAX, MAX, W }, { 0, MAX - 1, U }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		struct flock64 call = { 0 };
		struct dlk_range back;

		dlk_range_to(&some[i], &call);
		assert_int_equal(dlk_range_of(&call, 7, 9, &back), 0);
		assert_true(back.start == some[i].start);
		assert_true(back.end == some[i].end);
		assert_int_equal(back.type, some[i].type);
	}
}

/* --- the kernel ----------------------------------------------------------- */

/*
 * Each owner has its descriptor; the last is the process itself (F_SETLK).
 * The kernel looks at the owners in the order in which each got its first lock.
 */
enum { OWNERS = 4, PROCESS = OWNERS - 1 };

static struct file {
	int fd[OWNERS], watcher;
	struct dlk_ranges held[OWNERS];
	struct dlk_range rooms[OWNERS][ROOM];
	int order[OWNERS], n;
	struct lcg g;
} file;

static int reopened(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int open_file(void **state)
{
	(void)state;
	memset(&file, 0, sizeof(file));
	file.g.seed = 4711;
	file.fd[0] = memfd_create("ranges", MFD_CLOEXEC);
	file.watcher = reopened(file.fd[0]);
	for (int i = 0; i < OWNERS; i++) {
		if (i)
			file.fd[i] = reopened(file.fd[0]);
		if (file.fd[i] < 0)
			return -1;
		file.held[i] =
			(struct dlk_ranges){ .v = file.rooms[i], .room = ROOM };
	}
	return 0;
}

static int close_file(void **state)
{
	(void)state;
	for (int i = 0; i < OWNERS; i++)
		close(file.fd[i]);
	return close(file.watcher);
}

static int set_lock(int owner, struct flock64 *call)
{
	int cmd = owner == PROCESS ? F_SETLK64 : F_OFD_SETLK;

	return fcntl(file.fd[owner], cmd, call) ? -errno : 0;
}

static int get_lock(int owner, struct flock64 *call)
{
	int cmd = owner == PROCESS ? F_GETLK64 : F_OFD_GETLK;
	int fd = owner == OWNERS ? file.watcher : file.fd[owner];

	return fcntl(fd, cmd, call) ? -errno : 0;
}

static const struct dlk_range *first_conflict(int owner,
					      const struct dlk_range *range)
{
	for (int i = 0; i < file.n; i++) {
		const struct dlk_range *r =
			file.order[i] == owner
				? NULL
				: dlk_ranges_conflict(&file.held[file.order[i]],
						      range);

		if (r)
			return r;
	}
	return NULL;
}

/* An owner that has lost its last range goes; one that has its first comes. */
static void keep_order(int owner)
{
	bool listed = false;
	int n = 0;

	for (int i = 0; i < file.n; i++) {
		if (file.order[i] == owner && !file.held[owner].n)
			continue;
		listed |= file.order[i] == owner;
		file.order[n++] = file.order[i];
	}
	if (!listed && file.held[owner].n)
		file.order[n++] = owner;
	file.n = n;
}

/* Small numbers that meet often, and now and then the last of all. */
static struct dlk_range draw(void)
{
	struct lcg *g = &file.g;
	struct dlk_range r;
	uint64_t from = lcg_below(g, 64);

	r.start = lcg_below(g, 40) ? from : MAX - from;
	r.end = r.start + lcg_below(g, lcg_below(g, 4) ? 6 : 64);
	if (r.end > MAX || lcg_below(g, 40) == 0)
		r.end = MAX;
	r.type = (enum dlk_range_type)lcg_below(g, 3);
	return r;
}

static void one_lock(int owner)
{
	struct dlk_range r = draw();
	bool refused = first_conflict(owner, &r) != NULL;
	struct flock64 call = { 0 };

	dlk_range_to(&r, &call);
	assert_int_equal(set_lock(owner, &call), refused ? -EAGAIN : 0);
	if (refused)
		return;
	assert_int_equal(dlk_ranges_set(&file.held[owner], r), 0);
	keep_order(owner);
}

static void one_look(int owner)
{
	struct dlk_range r = draw(), got;
	const struct dlk_range *want;
	struct flock64 call = { 0 };

	if (r.type == DLK_UNLOCKED)
		r.type = DLK_WRITE;
	want = first_conflict(owner, &r);
	dlk_range_to(&r, &call);
	assert_int_equal(get_lock(owner, &call), 0);
	if (!want) {
		assert_int_equal(call.l_type, F_UNLCK);
		return;
	}
	assert_int_equal(dlk_range_of(&call, 0, 0, &got), 0);
	assert_int_equal(got.type, want->type);
	assert_true(got.start == want->start);
	assert_true(got.end == want->end);
}

static unsigned long steps(void)
{
	const char *n = getenv("DLK_RANGE_STEPS");

	return n ? strtoul(n, NULL, 10) : 50000;
}

static void the_kernel_answers_the_same(void **state)
{
	unsigned long n = steps(), most = 0, all = 0;

	(void)state;
	assert_true(n > 0);
	for (unsigned long i = 0; i < n; i++) {
		one_lock((int)lcg_below(&file.g, OWNERS));
		one_look((int)lcg_below(&file.g, OWNERS + 1));
		for (int o = 0; o < OWNERS; o++)
			all += file.held[o].n;
		for (int o = 0; o < OWNERS; o++)
			most = file.held[o].n > most ? file.held[o].n : most;
	}
	print_message("# %lu steps, at most %lu ranges of an owner, %.1f of "
		      "all in the mean\n",
		      n, most, (double)all / (double)n);
	assert_true(most > 5);
}

/* Any number that is next to one that matters. */
static int64_t odd_number(struct lcg *g)
{
	static const int64_t near[] = { 0, 1000, 5000, INT64_MAX, INT64_MIN };
	int64_t n = near[lcg_below(g, 5)], by = (int64_t)lcg_below(g, 5) - 2;

	if (lcg_below(g, 4) == 0 && n != INT64_MIN)
		n = -n;
	return __builtin_add_overflow(n, by, &n) ? 0 : n;
}

/* Where the kernel put the lock, the watcher sees. */
static void assert_locked_there(const struct dlk_range *r)
{
	struct flock64 look = { .l_type = F_WRLCK }, want = { 0 };

	assert_int_equal(get_lock(OWNERS, &look), 0);
	dlk_range_to(r, &want);
	assert_int_equal(look.l_type, want.l_type);
	if (r->type == DLK_UNLOCKED)
		return;
	assert_true(look.l_start == want.l_start);
	assert_true(look.l_len == want.l_len);
}

static void any_call_means_what_the_kernel_says(void **state)
{
	enum { OFFSET = 1000, SIZE = 5000 };
	unsigned long n = steps() / 5, granted = 0;

	(void)state;
	assert_int_equal(ftruncate(file.fd[0], SIZE), 0);
	assert_int_equal(lseek(file.fd[0], OFFSET, SEEK_SET), OFFSET);
	for (unsigned long i = 0; i < n; i++) {
		struct flock64 call = {
			.l_type = (short)lcg_below(&file.g, 4),
			.l_whence = (short)lcg_below(&file.g, 4),
			.l_start = odd_number(&file.g),
			.l_len = odd_number(&file.g),
		};
		struct flock64 none = { .l_type = F_UNLCK };
		struct dlk_range r;
		int want = set_lock(0, &call);

		assert_int_equal(dlk_range_of(&call, OFFSET, SIZE, &r), want);
		if (want)
			continue;
		granted++;
		assert_locked_there(&r);
		assert_int_equal(set_lock(0, &none), 0);
	}
	print_message("# %lu calls, %lu granted\n", n, granted);
	assert_true(granted > n / 20);
}

#define set_test(f)  cmocka_unit_test_setup(f, empty)
#define file_test(f) cmocka_unit_test_setup_teardown(f, open_file, close_file)

int main(void)
{
	const struct CMUnitTest tests[] = {
		set_test(a_lock_is_held),
		set_test(an_unlock_splits),
		set_test(an_unlock_of_nothing_does_nothing),
		set_test(an_empty_set_needs_no_memory),
		set_test(neighbours_of_one_type_merge),
		set_test(neighbours_of_two_types_do_not),
		set_test(an_upgrade_of_a_part_splits),
		set_test(a_lock_replaces_what_it_covers),
		set_test(the_same_again_changes_nothing),
		set_test(without_room_nothing_changes),
		set_test(room_is_asked_for),
		set_test(ten_thousand_ranges),
		set_test(readers_share_and_writers_do_not),
		set_test(pieces_tell_the_whole_window),
		set_test(what_is_lacking_is_what_must_be_undone),
		set_test(a_range_becomes_a_call_again),
		file_test(the_kernel_answers_the_same),
		file_test(any_call_means_what_the_kernel_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
