/* SPDX-License-Identifier: MIT */
/*
 * Runs a command for which a file server is dead, in what its keeper asks alone:
 *
 *	hangs COMMAND...
 *
 * F_OFD_GETLK, and flock(2) with LOCK_EX | LOCK_NB, do not return (seccomp_unotify(2)),
 * until a child of the same name gets SIGUSR1: then they do what they always do.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIELD(name)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define HANGS(call, second)                                                    \
	FIELD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 3),      \
		FIELD(args[1]),                                                \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (second), 0, 1),           \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)

static void die(const char *what)
{
	perror(what);
	exit(70);
}

static int filter(void)
{
	struct sock_filter code[] = {
		HANGS(fcntl, F_OFD_GETLK),
		HANGS(flock, LOCK_EX | LOCK_NB),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };
	const long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);

	if (fd < 0)
		die("seccomp");
	return (int)fd;
}

static void answer_when_told(int fd)
{
	struct seccomp_notif question = { 0 };
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &sig);
	while (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &question) == 0) {
		struct seccomp_notif_resp answer = {
			.id = question.id,
			.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE,
		};

		/* (It may have been given up meanwhile: ENOENT.) */
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
		question = (struct seccomp_notif){ 0 };
	}
}

int main(int argc, char **argv)
{
	sigset_t set, before;
	int fd;

	if (argc < 2)
		return 64;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &before);
	fd = filter();
	if (fork() == 0) {
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		answer_when_told(fd);
		_exit(0);
	}
	close(fd);
	sigprocmask(SIG_SETMASK, &before, NULL);
	execvp(argv[1], argv + 1);
	die(argv[1]);
}
