/* SPDX-License-Identifier: MIT */
/* Locks with offsets of 32 bits: model/narrow.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "model/narrow.h"

static const struct flock64 wide = { .l_type = F_WRLCK,
				     .l_whence = SEEK_CUR,
				     .l_start = -5,
				     .l_len = INT32_MAX,
				     .l_pid = -7 };

static void there_and_back(void **state)
{
	struct dlk_flock32 narrow;
	struct flock64 back;

	(void)state;
	assert_int_equal(dlk_flock_narrow(&wide, true, &narrow), 0);
	dlk_flock_widen(&narrow, &back);
	assert_int_equal(back.l_type, wide.l_type);
	assert_int_equal(back.l_whence, wide.l_whence);
	assert_int_equal(back.l_start, wide.l_start);
	assert_int_equal(back.l_len, wide.l_len);
	assert_int_equal(back.l_pid, wide.l_pid);
}

/* As fixup_compat_flock() in fs/fcntl.c has it, and glibc's fcntl() for OFD. */
static void no_room(void **state)
{
	struct dlk_flock32 narrow = { 0 }, untouched = { 0 };
	struct flock64 l = wide;

	(void)state;
	l.l_start = INT32_MAX;
	assert_int_equal(dlk_flock_narrow(&l, false, &narrow), 0);
	assert_int_equal(narrow.l_start, INT32_MAX);
	narrow = untouched;
	l.l_start++;
	assert_int_equal(dlk_flock_narrow(&l, false, &narrow), -EOVERFLOW);
	assert_int_equal(dlk_flock_narrow(&l, true, &narrow), -EOVERFLOW);
	l.l_start = 0;
	l.l_len = INT32_MAX + 1LL;
	assert_int_equal(dlk_flock_narrow(&l, true, &narrow), -EOVERFLOW);
	assert_memory_equal(&narrow, &untouched, sizeof(narrow));
	assert_int_equal(dlk_flock_narrow(&l, false, &narrow), 0);
	assert_int_equal(narrow.l_len, INT32_MAX);
}

/* Of a 64-bit program all are one size, whoever was called. */
static void sizes(void **state)
{
	static const int locks[] = { F_GETLK,     F_SETLK,     F_SETLKW,
				     F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW };
	int cmd = F_GETFL;

	(void)state;
	assert_int_equal(dlk_flock_size(DLK_FCNTL, &cmd), DLK_NO_FLOCK);
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
		cmd = locks[i];
		assert_int_equal(dlk_flock_size(DLK_FCNTL_1, &cmd),
				 DLK_FLOCK64);
		assert_int_equal(cmd, locks[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(no_room),
		cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}
