/* SPDX-License-Identifier: MIT */
/* Filters of system calls (seccomp(2)), as services are confined by. */
#ifndef REFUSE_CALL_H
#define REFUSE_CALL_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/helper.h"

/* Of all threads, and of what they become; but of no keeper that is there already. */
static inline void filter_calls(struct sock_filter *code, size_t n)
{
	const struct sock_fprog filter = { (unsigned short)n, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_TSYNC, &filter))
		die("seccomp");
}

/* The call of this number (syscalls(2)) is EPERM from now on. */
static inline void refuse_call(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter_calls(code, sizeof(code) / sizeof(*code));
}

#endif
