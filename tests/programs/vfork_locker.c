/* SPDX-License-Identifier: MIT */
/*
 * A lock call in a process that runs in its parent's memory.
 *
 *	vfork_locker HOW CALL PATH [HELD]
 *
 * HOW: vfork, shared (clone(2) with CLONE_VM, on a small stack) or fork.  The
 * parent opens PATH, and takes HELD (flock, posix, ofd) before; the child makes
 * the CALL and ends.  One line: what the child got, an errno's name or 0 (of a
 * question: the type of lock, or "free"); then the parent waits for its
 * standard input to end, with what it holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	const char *call;
	int fd, error, type;
};

static int record(int fd, int cmd, int type, int *found)
{
	struct flock l = { .l_type = (short)type, .l_len = 10 };
	int r = fcntl(fd, cmd, &l);

	*found = l.l_type;
	return r;
}

static int by_number(int fd, int type)
{
	struct flock l = { .l_type = (short)type, .l_len = 10 };

	return (int)syscall(SYS_fcntl, fd, F_SETLK, &l);
}

static int make_call(struct job *job)
{
	int fd = job->fd, *type = &job->type;
	const char *c = job->call;

	*type = -1;
	if (strcmp(c, "flock-ex") == 0)
		return flock(fd, LOCK_EX | LOCK_NB);
	if (strcmp(c, "flock-sh") == 0)
		return flock(fd, LOCK_SH | LOCK_NB);
	if (strcmp(c, "flock-wait") == 0)
		return flock(fd, LOCK_EX);
	if (strcmp(c, "flock-un") == 0)
		return flock(fd, LOCK_UN);
	if (strcmp(c, "syscall-flock") == 0)
		return (int)syscall(SYS_flock, fd, LOCK_EX | LOCK_NB);
	if (strcmp(c, "posix") == 0)
		return record(fd, F_SETLK, F_WRLCK, type);
	if (strcmp(c, "posix-read") == 0)
		return record(fd, F_SETLK, F_RDLCK, type);
	if (strcmp(c, "posix-wait") == 0)
		return record(fd, F_SETLKW, F_WRLCK, type);
	if (strcmp(c, "posix-un") == 0)
		return record(fd, F_SETLK, F_UNLCK, type);
	if (strcmp(c, "ofd") == 0)
		return record(fd, F_OFD_SETLK, F_WRLCK, type);
	if (strcmp(c, "ofd-wait") == 0)
		return record(fd, F_OFD_SETLKW, F_WRLCK, type);
	if (strcmp(c, "ofd-un") == 0)
		return record(fd, F_OFD_SETLK, F_UNLCK, type);
	if (strcmp(c, "syscall-fcntl") == 0)
		return by_number(fd, F_WRLCK);
	if (strcmp(c, "lockf") == 0)
		return lockf(fd, F_LOCK, 10);
	if (strcmp(c, "lockf-try") == 0)
		return lockf(fd, F_TLOCK, 10);
	if (strcmp(c, "lockf-test") == 0)
		return lockf(fd, F_TEST, 10);
	if (strcmp(c, "getlk") == 0)
		return record(fd, F_GETLK, F_WRLCK, type);
	if (strcmp(c, "ofd-getlk") == 0)
		return record(fd, F_OFD_GETLK, F_WRLCK, type);
	if (strcmp(c, "close") == 0)
		return close(fd);
	errno = EINVAL;
	return -1;
}

static int child(void *arg)
{
	struct job *job = arg;

	job->error = make_call(job) ? errno : 0;
	_exit(0);
}

static pid_t vforked(struct job *job)
{
	pid_t pid = vfork(); /* NOLINT: what it does is the question */

	if (pid == 0)
		child(job); /* NOLINT(clang-analyzer-unix.Vfork) */
	return pid;
}

static pid_t forked(struct job *job)
{
	pid_t pid = fork();

	if (pid == 0)
		child(job);
	return pid;
}

static pid_t shared(struct job *job)
{
	enum { SIZE = 12288 };
	char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return clone(child, stack + SIZE, CLONE_VM | SIGCHLD, job);
}

static bool take(int fd, const char *held)
{
	int found;

	if (!held)
		return true;
	if (strcmp(held, "flock") == 0)
		return flock(fd, LOCK_EX) == 0;
	return record(fd, held[0] == 'o' ? F_OFD_SETLK : F_SETLK, F_WRLCK,
		      &found) == 0;
}

static void report(const struct job *job)
{
	if (job->error)
		printf("%s\n", strerrorname_np(job->error));
	else if (strstr(job->call, "getlk") && job->type == F_UNLCK)
		printf("free\n");
	else
		printf("0\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (argc < 4 || job == MAP_FAILED)
		return 2;
	job->call = argv[2];
	job->fd = open(argv[3], O_RDWR | O_CREAT, 0666);
	if (job->fd < 0 || !take(job->fd, argv[4])) {
		perror(argv[3]);
		return 2;
	}
	if (strcmp(argv[1], "vfork") == 0)
		pid = vforked(job);
	else if (strcmp(argv[1], "shared") == 0)
		pid = shared(job);
	else
		pid = forked(job);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		return 2;
	report(job);
	while (getchar() != EOF)
		;
	return 0;
}
