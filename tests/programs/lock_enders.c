/* SPDX-License-Identifier: MIT */
/*
 * A program that ends a lock in one of many ways.
 *
 *	list			the ways, a line each: NAME STAGES
 *	NAME FILE		locks FILE: "locked"; goes on at each line on
 *				standard input.  STAGES 2: lets one of two
 *				descriptors of the lock go: "survives".  Then
 *				ends the lock: "done NS", CLOCK_BOOTTIME; but
 *				says nothing if it ends with that.
 *	NAME FILE now		the same without waiting for lines in between:
 *				"done NS HELD-NS"
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

int __close(int fd);
int __dup2(int from, int to);

static const char *name; /* of the file */
static int fd, second = -1;
static FILE *stream;
static DIR *dir;
static pid_t pid;

static void go_on(void)
{
	char line[64];

	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		_exit(0);
}

/* --- taking it ------------------------------------------------------------ */

static void take(int flags)
{
	fd = open(name, O_RDWR | O_CREAT | flags, 0666);
	if (fd < 0 || flock(fd, LOCK_EX))
		die(name);
}

static void by_open(void)
{
	take(0);
}

static void by_high_number(void)
{
	const int low = open(name, O_RDWR | O_CREAT, 0666);

	fd = fcntl(low, F_DUPFD, 100);
	close(low);
	if (fd < 0 || flock(fd, LOCK_EX))
		die(name);
}

static void by_cloexec(void)
{
	take(O_CLOEXEC);
}

static void by_syscall(void)
{
	fd = open(name, O_RDWR | O_CREAT, 0666);
	if (fd < 0 || syscall(SYS_flock, fd, LOCK_EX))
		die(name);
}

/* By two descriptors; a child was made, and so others may have them, too. */
static void by_two(void)
{
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	take(0);
	second = dup(fd);
}

static void by_stream(void)
{
	stream = fopen(name, "w+");
	if (!stream || flock(fileno(stream), LOCK_EX))
		die(name);
	fputs("text\n", stream);
}

static void by_mntent(void)
{
	stream = setmntent(name, "w+");
	if (!stream || flock(fileno(stream), LOCK_EX))
		die(name);
}

static void by_directory(void)
{
	if (mkdir(name, 0777) && errno != EEXIST)
		die(name);
	dir = opendir(name);
	if (!dir || flock(dirfd(dir), LOCK_EX))
		die(name);
}

/* --- letting one of two go ------------------------------------------------ */

static void with_dup(void)
{
	second = dup(fd);
	close(fd);
}

static void with_dupfd(void)
{
	second = fcntl(fd, F_DUPFD, 50);
	close(fd);
}

static void with_dupfd_cloexec(void)
{
	second = fcntl(fd, F_DUPFD_CLOEXEC, 50);
	close(fd);
}

static void with_dup3(void)
{
	second = dup3(fd, 60, O_CLOEXEC);
	close(fd);
}

static void with_syscalls(void)
{
	second = (int)syscall(SYS_fcntl, fd, F_DUPFD, 50);
	syscall(SYS_close, fd);
}

static void with_syscall_dup(void)
{
	second = (int)syscall(SYS_dup, fd);
	syscall(SYS_close, fd);
}

/* The child of popen(3) has the descriptor too; it ends with its input. */
static void with_popen(void)
{
	stream = popen("read x", "w");
	if (!stream)
		die("popen");
	close(fd);
}

/* A cancellation acts before the descriptor is closed: nothing is let go. */
static void *close_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	close(fd);
	return unused;
}

static void with_cancelled_close(void)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, close_cancelled, NULL) ||
	    pthread_join(thread, &result) || result != PTHREAD_CANCELED ||
	    fcntl(fd, F_GETFD) < 0)
		die("close");
}

static void child_waits(void)
{
	for (;;)
		pause();
}

static void with_fork(void)
{
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		child_waits();
	close(fd);
}

static int cloned(void *arg)
{
	(void)arg;
	child_waits();
	return 0;
}

static void with_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	pid = clone(cloned, stack + sizeof(stack), SIGCHLD, NULL);
	close(fd);
}

/* --- ending it ------------------------------------------------------------ */

static void end_close(void)
{
	close(fd);
}

static void end_second(void)
{
	close(second);
}

static void end_alias(void)
{
	__close(fd);
}

static void end_syscall(void)
{
	syscall(SYS_close, fd);
}

static void end_unlock(void)
{
	syscall(SYS_flock, fd, LOCK_UN);
}

static void end_raw(void)
{
	raw_syscall(SYS_close, fd, 0, 0, 0);
}

static void end_fclose(void)
{
	fclose(stream);
}

static void end_pclose(void)
{
	pclose(stream);
}

static void end_endmntent(void)
{
	endmntent(stream);
}

static void end_freopen(void)
{
	stream = freopen("/dev/null", "r", stream);
	if (!stream)
		die("freopen");
}

static void end_freopen64(void)
{
	stream = freopen64("/dev/null", "r", stream);
	if (!stream)
		die("freopen64");
}

static void end_freopen_itself(void)
{
	stream = freopen(NULL, "r", stream);
	if (!stream)
		die("freopen");
}

static void end_freopen_fails(void)
{
	stream = freopen("/nonexistent/file", "r", stream);
	if (stream)
		die("freopen");
}

static void end_closedir(void)
{
	closedir(dir);
}

static void end_closefrom(void)
{
	closefrom(fd);
}

static void end_close_range(void)
{
	if (close_range((unsigned)fd, ~0U, 0))
		die("close_range");
}

static void end_syscall_range(void)
{
	if (syscall(SYS_close_range, 3U, ~0U, 0U))
		die("close_range");
}

static void end_dup2(void)
{
	dup2(STDERR_FILENO, fd);
}

/* EBADF: the limit is below it, which is open all the same. */
static void fail_dup2(void)
{
	struct rlimit old, low = { 0 };

	getrlimit(RLIMIT_NOFILE, &old);
	low.rlim_cur = (rlim_t)fd;
	low.rlim_max = old.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &low) || dup2(STDERR_FILENO, fd) != -1 ||
	    errno != EBADF || setrlimit(RLIMIT_NOFILE, &old))
		_exit(2);
}

static void end_dup2_alias(void)
{
	__dup2(STDERR_FILENO, fd);
}

static void end_dup3(void)
{
	dup3(STDERR_FILENO, fd, O_CLOEXEC);
}

static void end_syscall_dup(void)
{
	syscall(SYS_dup3, STDERR_FILENO, fd, 0);
}

static void end_child(void)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void end_fcloseall(void)
{
	fcloseall();
}

static void end_exit(void)
{
	exit(0);
}

static void end_exit_now(void)
{
	_exit(0);
}

static void end_quick_exit(void)
{
	quick_exit(0);
}

static void end_exit_group(void)
{
	syscall(SYS_exit_group, 0);
}

static void end_exit_thread(void)
{
	syscall(SYS_exit, 0);
}

static void end_pthread_exit(void)
{
	pthread_exit(NULL);
}

static void end_raw_exit(void)
{
	raw_syscall(SYS_exit_group, 0, 0, 0, 0);
}

static char word[] = "cat";
static char *const cat[] = { word, NULL };

static void end_exec(void)
{
	execvp("cat", cat);
}

static void end_syscall_exec(void)
{
	syscall(SYS_execve, "/bin/cat", cat, environ);
}

static void end_range_exec(void)
{
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC))
		die("close_range");
	execv("/bin/cat", cat);
}

static const struct way {
	const char *name;
	void (*take)(void), (*survive)(void), (*end)(void);
} ways[] = {
	{ "close", by_open, NULL, end_close },
	{ "close-alias", by_open, NULL, end_alias },
	{ "close-syscall", by_syscall, NULL, end_syscall },
	{ "unlock-syscall", by_syscall, NULL, end_unlock },
	{ "raw-close", by_open, NULL, end_raw },
	{ "fclose", by_stream, NULL, end_fclose },
	{ "pclose-file", by_stream, NULL, end_pclose },
	{ "endmntent", by_mntent, NULL, end_endmntent },
	{ "freopen", by_stream, NULL, end_freopen },
	{ "freopen64", by_stream, NULL, end_freopen64 },
	{ "freopen-itself", by_stream, NULL, end_freopen_itself },
	{ "freopen-fails", by_stream, NULL, end_freopen_fails },
	{ "closedir", by_directory, NULL, end_closedir },
	{ "closefrom", by_open, NULL, end_closefrom },
	{ "close_range", by_open, NULL, end_close_range },
	{ "close_range-both", by_two, NULL, end_close_range },
	{ "close_range-syscall", by_open, NULL, end_syscall_range },
	{ "dup2", by_open, NULL, end_dup2 },
	{ "dup2-alias", by_open, NULL, end_dup2_alias },
	{ "dup3", by_open, NULL, end_dup3 },
	{ "dup3-syscall", by_open, NULL, end_syscall_dup },
	{ "two-dup2-fails", by_high_number, fail_dup2, end_dup2 },
	{ "two-cancelled", by_open, with_cancelled_close, end_close },
	{ "two-dup", by_open, with_dup, end_second },
	{ "two-dupfd", by_open, with_dupfd, end_second },
	{ "two-cloexec", by_open, with_dupfd_cloexec, end_second },
	{ "two-dup3", by_open, with_dup3, end_second },
	{ "two-syscalls", by_syscall, with_syscalls, end_second },
	{ "two-syscall-dup", by_open, with_syscall_dup, end_second },
	{ "two-pclose", by_open, with_popen, end_pclose },
	{ "two-fork", by_open, with_fork, end_child },
	{ "two-clone", by_open, with_clone, end_child },
	{ "two-fcloseall", by_stream, end_fcloseall, end_fclose },
	{ "exit", by_stream, NULL, end_exit },
	{ "_exit", by_open, NULL, end_exit_now },
	{ "quick_exit", by_open, NULL, end_quick_exit },
	{ "exit_group", by_open, NULL, end_exit_group },
	{ "exit-thread", by_open, NULL, end_exit_thread },
	{ "pthread_exit", by_open, NULL, end_pthread_exit },
	{ "raw-exit", by_open, NULL, end_raw_exit },
	{ "exec", by_cloexec, NULL, end_exec },
	{ "exec-syscall", by_cloexec, NULL, end_syscall_exec },
	{ "exec-range", by_open, NULL, end_range_exec },
};

static void run(const struct way *w, bool at_once)
{
	long long begin = now_ns(), end;
	char line[64];

	w->take();
	if (!at_once) {
		tell("locked");
		go_on();
	}
	if (w->survive) {
		w->survive();
		tell("survives");
		go_on();
	}
	w->end();
	end = now_ns();
	snprintf(line, sizeof(line), "done %lld %lld", end, end - begin);
	tell(line);
	go_on();
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (argc == 2)
			printf("%s %d\n", ways[i].name,
			       ways[i].survive ? 2 : 1);
		if (argc >= 3 && strcmp(argv[1], ways[i].name) == 0) {
			name = argv[2];
			run(&ways[i], argc == 4);
			_exit(0);
		}
	}
	return argc == 2 ? 0 : 64;
}
