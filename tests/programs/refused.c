/* SPDX-License-Identifier: MIT */
/*
 * Runs a command to which one system call (of calls[]) is refused: EPERM, as a
 * filter of seccomp(2) commonly answers.
 *
 *	refused CALL COMMAND...
 */
#include "tests/lib/refuse_call.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* Linux 6.5 */
#endif

static const struct {
	const char *name;
	long call;
} calls[] = {
	{ "cachestat", SYS_cachestat },
	{ "capget", SYS_capget },
	{ "close_range", SYS_close_range },
	{ "getrandom", SYS_getrandom },
	{ "kcmp", SYS_kcmp },
	{ "socketpair", SYS_socketpair },
	{ "statx", SYS_statx },
};

int main(int argc, char **argv)
{
	size_t i = 0;

	while (argc > 2 && i < sizeof(calls) / sizeof(*calls) &&
	       strcmp(argv[1], calls[i].name) != 0)
		i++;
	if (argc < 3 || i == sizeof(calls) / sizeof(*calls))
		return 64;
	refuse_call(calls[i].call);
	execvp(argv[2], argv + 2);
	die(argv[2]);
}
