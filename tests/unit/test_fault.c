/* SPDX-License-Identifier: MIT */
/*
 * The table of a server's errors, walked through: each has the outcome that its
 * words stand for, and the line of the log has the advice.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "redis/fault.h"
#include "redis/server.h"

/* As Redis 7.0 says them. */
static const struct said {
	const char *error;
	enum dlk_outcome outcome;
	bool ends;
	const char *advice; /* a part of it; NULL: there is none */
} table[] = {
	{ "LOADING Redis is loading the dataset in memory", DLK_RETRY, false,
	  "reads its data" },
	{ "BUSY Redis is busy running a script. You can only call SCRIPT KILL "
	  "or SHUTDOWN NOSAVE.",
	  DLK_RETRY, false, "SCRIPT KILL ends it" },
	{ "MISCONF Redis is configured to save RDB snapshots, but it's "
	  "currently unable to persist to disk.",
	  DLK_RETRY, false, "its disk" },
	{ "OOM command not allowed when used memory > 'maxmemory'.", DLK_RETRY,
	  false, "maxmemory" },
	{ "READONLY You can't write against a read only replica.", DLK_RETRY,
	  false, "url must name the master" },
	{ "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is "
	  "set to 'no'.",
	  DLK_RETRY, false, "url must name the" },
	{ "NOREPLICAS Not enough good replicas to write.", DLK_RETRY, false,
	  "min-replicas-to-write" },
	{ "UNBLOCKED force unblock from blocking operation, instance state "
	  "changed (master -> replica?)",
	  DLK_RETRY, false, "role" },
	{ "CLUSTERDOWN The cluster is down", DLK_RETRY, false, "CLUSTER INFO" },
	{ "TRYAGAIN Multiple keys request during rehashing of slot", DLK_RETRY,
	  false, "being moved" },
	{ "ERR Script attempted to access a non local key in a cluster node "
	  "script: 6396, on @user_script:250.",
	  DLK_RETRY, false, "being moved" },
	{ "ERR max number of clients reached", DLK_RETRY, true, "maxclients" },
	{ "MOVED 3999 127.0.0.1:6381", DLK_ELSEWHERE, false, "Cluster" },
	{ "ASK 3999 127.0.0.1:6381", DLK_ELSEWHERE, false, "Cluster" },
	{ "CROSSSLOT Keys in request don't hash to the same slot", DLK_FATAL,
	  false, "Cluster" },
	{ "NOAUTH Authentication required.", DLK_FATAL, true, "password_file" },
	{ "WRONGPASS invalid username-password pair or user is disabled.",
	  DLK_FATAL, false, "password_file" },
	{ "NOPERM this user has no permissions to run the 'evalsha' command",
	  DLK_FATAL, false, "PERMISSIONS" },
	{ "DENIED Redis is running in protected mode", DLK_FATAL, true,
	  "protected mode" },
	{ "ERR DB index is out of range", DLK_FATAL, false, "url" },
	{ "WRONGTYPE Operation against a key holding the wrong kind of value",
	  DLK_NO_LEASE, false, NULL },
	{ "ERR unknown command", DLK_FATAL, false, NULL },
	{ "", DLK_FATAL, false, NULL },
	/* A word that only begins as one of them is another. */
	{ "BUSYKEY Target key name already exists.", DLK_FATAL, false, NULL },
	{ "LOADINGX", DLK_FATAL, false, NULL },
};

static void each_has_its_outcome(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const struct said *s = &table[i];
		const struct dlk_fault *f = dlk_fault_of(s->error);

		assert_int_equal(f->outcome, s->outcome);
		assert_int_equal(f->ends, s->ends);
		assert_int_equal(dlk_fault_errno(s->error),
				 s->outcome == DLK_RETRY ? -EAGAIN
							 : -EREMOTEIO);
	}
}

static void each_line_has_its_advice(void **state)
{
	static const struct dlk_server_info nothing;
	char room[512];
	struct dlk_text t;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const struct said *s = &table[i];

		dlk_text_init(&t, room, sizeof(room));
		dlk_server_explain(&t, s->error, &nothing);
		assert_memory_equal(room, s->error, strcspn(s->error, " "));
		if (s->advice)
			assert_non_null(strstr(room, s->advice));
		else
			assert_string_equal(room, s->error);
	}
}

/* What is in the table is in the test. */
static void none_is_left_out(void **state)
{
	const struct dlk_fault *f = dlk_fault_of("LOADING ");
	size_t n = 0, known = 0;

	(void)state;
	for (; f->error; f++, n++)
		for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
			if (dlk_fault_of(table[i].error) == f) {
				known++;
				break;
			}
	assert_int_equal(known, n);
	assert_true(n >= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_its_outcome),
		cmocka_unit_test(each_line_has_its_advice),
		cmocka_unit_test(none_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
