/* SPDX-License-Identifier: MIT */
/*
 * The arena: memory for hiredis that is aligned, bounded and given back all
 * at once; and hiredis, as it is linked here, takes it from nowhere else.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "os/arena.h"
#include "tests/unit/lcg.h"

enum { FIRST = 1024, LIMIT = 1024 * 1024 };

static struct dlk_arena arena;
static char first[FIRST] __attribute__((aligned(16)));

static int use_arena(void **state)
{
	(void)state;
	dlk_arena_init(&arena, first, sizeof(first), LIMIT);
	dlk_arena_use(&arena);
	return 0;
}

static int drop_arena(void **state)
{
	(void)state;
	dlk_arena_reset(&arena);
	dlk_arena_use(NULL);
	return 0;
}

static bool in_first(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)first &&
	       (uintptr_t)p < (uintptr_t)first + FIRST;
}

static void blocks_are_aligned(void **state)
{
	(void)state;
	for (size_t size = 0; size < 600; size += 7) {
		void *p = dlk_arena_malloc(size);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
	}
}

/* Each block is filled with a byte of its own, which it still has at last. */
static void blocks_do_not_overlap(void **state)
{
	struct lcg g = { 11 };
	unsigned char *p[500];
	size_t size[500];

	(void)state;
	for (int i = 0; i < 500; i++) {
		size[i] = lcg_below(&g, 1500);
		p[i] = dlk_arena_malloc(size[i]);
		assert_non_null(p[i]);
		memset(p[i], i & 255, size[i]);
	}
	for (int i = 0; i < 500; i++)
		for (size_t k = 0; k < size[i]; k++)
			assert_int_equal(p[i][k], i & 255);
}

static void small_things_map_nothing(void **state)
{
	(void)state;
	assert_true(in_first(dlk_arena_malloc(100)));
	assert_true(in_first(dlk_arena_malloc(100)));
	assert_int_equal(arena.total, 0);
}

static void a_block_may_be_larger_than_a_chunk(void **state)
{
	char *p;

	(void)state;
	p = dlk_arena_malloc(LIMIT / 2);
	assert_non_null(p);
	memset(p, 1, LIMIT / 2);
	assert_false(in_first(p));
}

static void realloc_keeps_the_content(void **state)
{
	char *p, want[2000];
	size_t had = 10;

	(void)state;
	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = (char)(i * 31);
	p = dlk_arena_realloc(NULL, had);
	memcpy(p, want, had);
	for (size_t size = 20; size <= sizeof(want); size += 45) {
		/* A block behind it: the next realloc cannot grow in place. */
		assert_non_null(dlk_arena_malloc(1));
		p = dlk_arena_realloc(p, size);
		assert_non_null(p);
		assert_memory_equal(p, want, had);
		memcpy(p, want, size);
		had = size;
	}
}

static void realloc_to_less_keeps_the_block(void **state)
{
	char *p;

	(void)state;
	p = dlk_arena_malloc(100);
	memcpy(p, "content", 8);
	assert_ptr_equal(dlk_arena_realloc(p, 8), p);
	p = dlk_arena_realloc(p, 500);
	assert_string_equal(p, "content");
}

static void a_block_that_grows_has_room_for_more(void **state)
{
	char *p, *q;

	(void)state;
	p = dlk_arena_realloc(dlk_arena_malloc(64), 65);
	q = dlk_arena_malloc(1);
	assert_non_null(q);
	assert_ptr_equal(dlk_arena_realloc(p, 96), p);
}

static void a_failed_realloc_leaves_the_block(void **state)
{
	char *p;

	(void)state;
	p = dlk_arena_malloc(8);
	memcpy(p, "content", 8);
	assert_null(dlk_arena_realloc(p, 2 * LIMIT));
	assert_string_equal(p, "content");
}

static void calloc_clears_what_was_used_before(void **state)
{
	static const char zero[200];
	char *p;

	(void)state;
	p = dlk_arena_malloc(sizeof(zero));
	memset(p, 'x', sizeof(zero));
	dlk_arena_reset(&arena);
	p = dlk_arena_calloc(2, sizeof(zero) / 2);
	assert_memory_equal(p, zero, sizeof(zero));
}

static void sizes_that_overflow_fail(void **state)
{
	size_t half = SIZE_MAX / 2;

	(void)state;
	assert_null(dlk_arena_calloc(half, 3));
	assert_null(dlk_arena_calloc(half + 2, 2));
	assert_null(dlk_arena_malloc(SIZE_MAX));
	assert_null(dlk_arena_malloc(SIZE_MAX - 15));
	assert_null(dlk_arena_malloc(half));
}

static void strdup_copies_with_the_end(void **state)
{
	char text[] = "some text", *p;

	(void)state;
	p = dlk_arena_strdup(text);
	text[0] = 'x';
	assert_string_equal(p, "some text");
}

static void the_limit_holds(void **state)
{
	size_t got = 0;

	(void)state;
	while (got < 4 * LIMIT && dlk_arena_malloc(1000))
		got += 1000;
	assert_true(got <= LIMIT + FIRST);
	assert_true(got >= LIMIT / 2);
	assert_true(arena.total <= LIMIT);
}

static unsigned long mapped_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	char text[64];

	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	return strtoul(text, NULL, 10);
}

static void reset_gives_all_back(void **state)
{
	unsigned long before = mapped_pages(), during;

	(void)state;
	for (int i = 0; i < LIMIT / 5000; i++)
		dlk_arena_malloc(5000);
	during = mapped_pages();
	assert_true(during >= before + LIMIT / 2 / 4096);
	dlk_arena_reset(&arena);
	assert_int_equal(arena.total, 0);
	assert_true(mapped_pages() < before + LIMIT / 4 / 4096);
	assert_true(in_first(dlk_arena_malloc(100)));
}

static void an_arena_can_be_used_for_ever(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_non_null(dlk_arena_malloc(LIMIT / 2));
		dlk_arena_reset(&arena);
	}
}

/* Or a thousand commands of one connection would be in memory at once. */
static void free_gives_the_last_block_back(void **state)
{
	void *kept = dlk_arena_malloc(40), *last = dlk_arena_malloc(50);

	(void)state;
	dlk_arena_free(last);
	assert_ptr_equal(dlk_arena_malloc(60), last);
	dlk_arena_free(kept);
	assert_ptr_not_equal(dlk_arena_malloc(40), kept);
}

static void free_leaves_the_neighbours(void **state)
{
	char *a, *b;

	(void)state;
	a = dlk_arena_strdup("a");
	b = dlk_arena_strdup("b");
	dlk_arena_free(a);
	dlk_arena_free(NULL);
	assert_string_equal(b, "b");
}

static void without_a_current_arena_there_is_none(void **state)
{
	(void)state;
	assert_ptr_equal(dlk_arena_use(NULL), &arena);
	assert_null(dlk_arena_malloc(1));
	assert_null(dlk_arena_calloc(1, 1));
	assert_null(dlk_arena_realloc(NULL, 1));
	assert_null(dlk_arena_strdup("x"));
	assert_null(dlk_arena_use(&arena));
	assert_non_null(dlk_arena_malloc(1));
}

/* --- hiredis -------------------------------------------------------------- */

static const char nested[] = "*4\r\n:-7\r\n$5\r\nhello\r\n"
			     "*2\r\n+OK\r\n*1\r\n$-1\r\n-ERR no\r\n";

static void assert_nested(const redisReply *r)
{
	if (!r) {
		fail();
		return;
	}
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->elements, 4);
	assert_true(r->element[0]->integer == -7);
	assert_string_equal(r->element[1]->str, "hello");
	assert_int_equal(r->element[2]->elements, 2);
	assert_string_equal(r->element[2]->element[0]->str, "OK");
	assert_int_equal(r->element[2]->element[1]->element[0]->type,
			 REDIS_REPLY_NIL);
	assert_int_equal(r->element[3]->type, REDIS_REPLY_ERROR);
	assert_string_equal(r->element[3]->str, "ERR no");
}

static void hiredis_parses_from_the_arena(void **state)
{
	redisReader *reader;
	void *reply = NULL;

	(void)state;
	reader = redisReaderCreate();
	assert_true(in_first(reader));
	assert_int_equal(redisReaderFeed(reader, nested, strlen(nested)), 0);
	assert_int_equal(redisReaderGetReply(reader, &reply), 0);
	assert_non_null(reply);
	assert_nested(reply);
}

static void hiredis_parses_byte_by_byte(void **state)
{
	redisReader *reader;
	void *reply = NULL;

	(void)state;
	reader = redisReaderCreate();
	for (size_t i = 0; i < strlen(nested); i++) {
		assert_null(reply);
		assert_int_equal(redisReaderFeed(reader, nested + i, 1), 0);
		assert_int_equal(redisReaderGetReply(reader, &reply), 0);
	}
	assert_non_null(reply);
	assert_nested(reply);
}

static void hiredis_without_memory_is_an_error(void **state)
{
	const char *argv[] = { "GET", "k" };
	char *cmd = NULL;

	(void)state;
	dlk_arena_use(NULL);
	assert_null(redisReaderCreate());
	assert_true(redisFormatCommandArgv(&cmd, 2, argv, NULL) < 0);
}

/* An array that claims 2^30 elements asks for 8 GiB. */
static void a_reply_beyond_the_limit_is_an_error(void **state)
{
	static const char text[] = "*1073741824\r\n";
	redisReader *reader;
	void *reply = NULL;

	(void)state;
	reader = redisReaderCreate();
	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), 0);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_ERR);
	assert_null(reply);
}

#define arena_test(f) cmocka_unit_test_setup_teardown(f, use_arena, drop_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(blocks_are_aligned),
		arena_test(blocks_do_not_overlap),
		arena_test(small_things_map_nothing),
		arena_test(a_block_may_be_larger_than_a_chunk),
		arena_test(realloc_keeps_the_content),
		arena_test(realloc_to_less_keeps_the_block),
		arena_test(a_block_that_grows_has_room_for_more),
		arena_test(a_failed_realloc_leaves_the_block),
		arena_test(calloc_clears_what_was_used_before),
		arena_test(sizes_that_overflow_fail),
		arena_test(strdup_copies_with_the_end),
		arena_test(the_limit_holds),
		arena_test(reset_gives_all_back),
		arena_test(an_arena_can_be_used_for_ever),
		arena_test(free_gives_the_last_block_back),
		arena_test(free_leaves_the_neighbours),
		arena_test(without_a_current_arena_there_is_none),
		arena_test(hiredis_parses_from_the_arena),
		arena_test(hiredis_parses_byte_by_byte),
		arena_test(hiredis_without_memory_is_an_error),
		arena_test(a_reply_beyond_the_limit_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
