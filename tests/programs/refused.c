/* SPDX-License-Identifier: MIT */
/*
 * Runs a command to which one system call, capget or socketpair, is refused: EPERM,
 * as a filter of seccomp(2) commonly answers.
 *
 *	refused CALL COMMAND...
 */
#include "tests/lib/refuse_call.h"

int main(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	refuse_call(strcmp(argv[1], "capget") == 0 ? SYS_capget
						   : SYS_socketpair);
	execvp(argv[2], argv + 2);
	die(argv[2]);
}
