/* SPDX-License-Identifier: MIT */
/*
 * Runs a command as a service that may not touch resources (seccomp(2)), nor its
 * capabilities: whoever asks for a priority, a scheduler, or a processor is killed
 * for it, and whoever gives up what he has not.
 *
 *	confined COMMAND...
 *
 * The list is the one that systemd.exec(5) calls @resources, by which services
 * are commonly confined (SystemCallFilter=~@resources); and of the one that it calls
 * @privileged, capset(2).
 */
#include "tests/lib/refuse_call.h"

#define DENIED(call)                                                           \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),                 \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		DENIED(capset),
		DENIED(ioprio_set),
		DENIED(mbind),
		DENIED(migrate_pages),
		DENIED(move_pages),
		DENIED(sched_setaffinity),
		DENIED(sched_setattr),
		DENIED(sched_setparam),
		DENIED(sched_setscheduler),
		DENIED(set_mempolicy),
		DENIED(setpriority),
		DENIED(setrlimit),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	if (argc < 2)
		return 64;
	filter_calls(code, sizeof(code) / sizeof(*code));
	execvp(argv[1], argv + 1);
	die(argv[1]);
}
