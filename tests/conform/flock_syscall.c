/* SPDX-License-Identifier: MIT */
/*
 * flock(2) and what makes and ends its descriptors, by syscall(2): the same
 * lock as through the functions of libc, and all six words arrive.
 */
#include "conform.h"

#include <linux/sched.h>
#include <limits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void on_alarm(int sig)
{
	(void)sig;
}

static void results(int a)
{
	SHOW(syscall(SYS_flock, a, LOCK_EX));
	PROBE("f");
	SHOW(syscall(SYS_flock, a, LOCK_EX | LOCK_NB));
	SHOW(syscall(SYS_flock, a, LOCK_SH));
	PROBE("f");
	SHOW(flock(a, LOCK_UN));
	PROBE("f");
	SHOW(flock(a, LOCK_EX));
	SHOW(syscall(SYS_flock, a, LOCK_UN));
	PROBE("f");
	SHOW(syscall(SYS_flock, a, 0));
	SHOW(syscall(SYS_flock, a, LOCK_EX | LOCK_UN));
	SHOW(syscall(SYS_flock, -1, LOCK_EX));
	SHOW(syscall(SYS_flock, 99999, LOCK_UN));
}

static void refusals(int a)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int b = opened("f", O_RDWR);

	SHOW(syscall(SYS_flock, b, LOCK_EX));
	SHOW(syscall(SYS_flock, a, LOCK_EX | LOCK_NB));
	SHOW(syscall(SYS_flock, a, LOCK_SH | LOCK_NB));
	sigaction(SIGALRM, &sa, NULL);
	alarm_each_us(100000);
	SHOW(syscall(SYS_flock, a, LOCK_EX));
	alarm_each_us(0);
	SHOW(syscall(SYS_close, b));
	PROBE("f");
	SHOW(syscall(SYS_close, b));
}

static void duplicates(int a)
{
	int b = opened("g", O_RDWR), third = 70;

	SHOW(syscall(SYS_flock, a, LOCK_EX));
	SHOW(syscall(SYS_fcntl, a, F_DUPFD, 60));
	SHOW(syscall(SYS_fcntl, a, F_GETFL) & O_ACCMODE);
	SHOW(syscall(SYS_dup3, a, third, O_CLOEXEC));
	SHOW(syscall(SYS_dup3, a, a, 0));
	SHOW(syscall(SYS_dup3, a, 99, ~0));
	SHOW(syscall(SYS_close, 60));
	PROBE("f");
	/* Onto one that holds it: the other has it still. */
	SHOW(syscall(SYS_dup3, b, third, 0));
	PROBE("f");
#ifdef SYS_dup2
	SHOW(syscall(SYS_dup2, -1, a));
	PROBE("f");
	SHOW(syscall(SYS_dup2, b, a) == a);
#else
	SHOW(dup2(-1, a));
	PROBE("f");
	SHOW(dup2(b, a) == a);
#endif
	PROBE("f");
	SHOW(syscall(SYS_close_range, third, third, 0));
	SHOW(syscall(SYS_close_range, 2, 1, 0));
	close(a);
	close(b);
}

/* A child by system call unlocks, or ends, and says by which status. */
static void child(const char *how, long pid, int fd)
{
	if (pid == 0) {
		int err = syscall(SYS_flock, fd, LOCK_UN);

		syscall(SYS_exit_group, err ? 9 : 3);
	}
	printf("%s: status %d\n", how, WEXITSTATUS(child_status((pid_t)pid)));
	PROBE("f");
}

static void children(int fd)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

#ifdef SYS_fork
	SHOW(flock(fd, LOCK_EX));
	child("fork", syscall(SYS_fork), fd);
#endif
	SHOW(flock(fd, LOCK_EX));
	child("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), fd);
	SHOW(flock(fd, LOCK_EX));
	child("clone3", syscall(SYS_clone3, &args, sizeof(args)), fd);
	SHOW(syscall(SYS_clone3, 8, sizeof(args)));
	SHOW(syscall(SYS_clone3, NULL, 0));
}

/*
 * In the parent's memory: libc's syscall() returns twice by one return
 * address, so such a child can do nothing but end, without a call.
 */
static void vforked(int fd)
{
	long pid;

	SHOW(flock(fd, LOCK_EX));
	pid = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
#if defined(__x86_64__)
	if (pid == 0)
		__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(5));
#elif defined(__i386__)
	if (pid == 0)
		__asm__ volatile("int $0x80" : : "a"(SYS_exit_group), "b"(5));
#else
	if (pid == 0)
		syscall(SYS_exit_group, 5);
#endif
	printf("vfork: %d\n", WEXITSTATUS(child_status((pid_t)pid)));
	PROBE("f");
	SHOW(flock(fd, LOCK_UN));
}

/* What a child's last words are worth: status, and the lock is gone. */
static void ends(long nr, const char *name)
{
	pid_t pid = fork();

	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		if (syscall(SYS_flock, fd, LOCK_EX | LOCK_NB))
			syscall(nr, 99);
		syscall(nr, 4);
	}
	printf("%s: status %d\n", name, WEXITSTATUS(child_status(pid)));
	PROBE("f");
}

static void execs(void)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
			 (char[]){ "flock -n f true && exit 1; exit $x" },
			 NULL };
	char *envp[] = { (char[]){ "x=6" }, (char[]){ "PATH=/usr/bin:/bin" },
			 NULL, NULL, NULL };
	pid_t pid = fork();

	if (getenv("LD_PRELOAD"))
		envp[2] = getenv("LD_PRELOAD") - sizeof("LD_PRELOAD");
	/* By a shadow, only who knows it is refused. */
	if (envp[2] && getenv("DLOCK_CONFIG"))
		envp[3] = getenv("DLOCK_CONFIG") - sizeof("DLOCK_CONFIG");
	if (pid == 0) {
		int fd = opened("f", O_RDWR);

		syscall(SYS_flock, fd, LOCK_EX | LOCK_NB);
		syscall(SYS_execve, "/bin/sh", argv, envp);
		_exit(99);
	}
	printf("execve: status %d\n", WEXITSTATUS(child_status(pid)));
	PROBE("f");
	SHOW(syscall(SYS_execve, "/nonexistent", argv, envp));
}

/* (The mmap(2) of i386 takes its words from memory; mmap2 counts in pages.) */
#ifdef __i386__
#define MMAP(size, prot, flags, fd, page)                                      \
	syscall(SYS_mmap2, NULL, size, prot, flags, fd, page)
#else
#define MMAP(size, prot, flags, fd, page)                                      \
	syscall(SYS_mmap, NULL, size, prot, flags, fd, (page)*size)
#endif

static void six_words(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	int fd = opened("six", O_RDWR);
	char *p;

	SHOW(ftruncate(fd, 3 * page));
	SHOW(pwrite(fd, "x", 1, 2 * page));
	p = (char *)MMAP(page, PROT_READ, MAP_PRIVATE, fd, 2);
	SHOW(p == MAP_FAILED ? -1 : p[0]);
	SHOW(syscall(-1));
	SHOW(syscall(LONG_MAX));
	SHOW(syscall(447 + 1000));
	errno = ENOTTY;
	syscall(SYS_getppid);
	syscall(SYS_dup, fd);
	printf("errno %d\n", errno);
}

int main(void)
{
	int a = opened("f", O_RDWR);

	results(a);
	refusals(a);
	duplicates(a);
	a = opened("f", O_RDWR);
	children(a);
	vforked(a);
	close(a);
	ends(SYS_exit, "exit");
	ends(SYS_exit_group, "exit_group");
	execs();
	six_words();
	return 0;
}
