/* SPDX-License-Identifier: MIT */
/*
 * Runs a command to which one system call, capget or socketpair, is refused: EPERM,
 * as a filter of seccomp(2) commonly answers.
 *
 *	refused CALL COMMAND...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/lib/helper.h"

int main(int argc, char **argv)
{
	const bool gets = argc > 1 && strcmp(argv[1], "capget") == 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			 gets ? SYS_capget : SYS_socketpair, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		die("seccomp");
	execvp(argv[2], argv + 2);
	die(argv[2]);
}
