/* SPDX-License-Identifier: MIT */
/* Our own descriptors, and the log's: what a program closes behind our back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/log.h"
#include "os/sys.h"
#include "dir.h"

static struct dlk_own taken(unsigned n)
{
	struct dlk_own own;

	assert_int_equal(dlk_own_take(&own, opened(n)), 0);
	return own;
}

/* The number comes back, as another file of ours. */
static void a_number_is_taken_again(void **state)
{
	struct dlk_own first = taken(1), again;

	(void)state;
	assert_true(dlk_own_is(first.fd));
	dlk_close(first.fd);
	assert_false(dlk_own_is(first.fd));
	again = taken(2);
	assert_int_equal(again.fd, first.fd);
	assert_true(dlk_own_is(again.fd));
	assert_int_equal(dlk_own_next(0), again.fd);
	dlk_own_close(&first);
	assert_true(dlk_own_is(again.fd));
	dlk_own_close(&again);
}

/* There is room for 1024. */
static void the_log_is_opened_again_and_again(void **state)
{
	static char setting[80];
	struct dlk_own own;

	(void)state;
	snprintf(setting, sizeof(setting), "error:%s/log", dir);
	dlk_log_init(setting, true);
	assert_int_equal(dlk_log_open(), 0);
	for (int i = 0; i < 1100; i++) {
		assert_true(dlk_log_fd() >= 0);
		dlk_close(dlk_log_fd());
		dlk_log(DLK_ERROR, "a line", NULL);
	}
	assert_true(dlk_own_is(dlk_log_fd()));
	own = taken(3);
	dlk_own_close(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_taken_again),
		cmocka_unit_test(the_log_is_opened_again_and_again),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
