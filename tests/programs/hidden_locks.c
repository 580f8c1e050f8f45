/* SPDX-License-Identifier: MIT */
/*
 * A lock that nothing can look at any more.  A word a line on standard output;
 * at a line on standard input it goes on.
 *
 *	emfile FILE	locks; opens until EMFILE; "full"; ends
 *	chroot FILE DIR	locks; chroot(DIR); "inside"; ends
 *	late FILE DIR	chroot(DIR); locks: "RESULT"
 *	full FILE	locks, duplicates, takes every descriptor there is, and
 *			closes the one it locked by: "closed"; unlocks by the
 *			other: "unlocked"
 *	one FILE	locks a byte by fcntl(2): "locked"; takes every descriptor
 *			there is but one: "one"; ends
 *	memory FILE	locks 200 ranges, bytes 0 to 398: "locked"; has no more
 *			memory: "none"; ends
 *	exec FILE	the same of one byte: "locked"; becomes another program,
 *			which takes every descriptor and locks it once more:
 *			"RESULT"; ends
 *	sealed FILE	locks a byte by fcntl: "locked"; may list no directory
 *			any more (seccomp(2)): "sealed"; ends
 *	try FILE BYTE	locks that: "RESULT"
 *	leaves FILE DIR	locks, makes DIR its root, where no /proc is, and one
 *			of its threads leaves by SYS_exit: "goes on"
 *	ends FILE DIR	the same, but all its threads do, with 7
 *	table FILE	locks; closes it, and a pipe's end, by
 *			CLOSE_RANGE_UNSHARE: what the pipe's reader sees, and
 *			who locks again
 *	marked FILE	the same, closed after CLOSE_RANGE_UNSHARE has marked
 *			all for execve(2) (CLOSE_RANGE_CLOEXEC)
 *
 *	threads FILE	locks by flock(2) and fcntl(2); a thread closes it in a
 *			table of its own (CLOSE_RANGE_UNSHARE): "closed";
 *			unlocks in the first one: "unlocked"
 *
 * RESULT is 0 or the name of the errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/refuse_call.h"

enum { FEW = 96 };

static int run_out(char **arg)
{
	const struct rlimit few = { FEW, FEW };
	int fd;

	if (setrlimit(RLIMIT_NOFILE, &few))
		die("setrlimit");
	locked(arg[0]);
	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0);
	tell(errno == EMFILE ? "full" : strerrorname_np(errno));
	wait_for_go();
	return 0;
}

static void go_inside(const char *dir)
{
	if (chroot(dir) || chdir("/"))
		die(dir);
	if (access("/proc", F_OK) == 0)
		exit(2);
}

static int lock_outside(char **arg)
{
	locked(arg[0]);
	go_inside(arg[1]);
	tell("inside");
	wait_for_go();
	return 0;
}

static int lock_inside(char **arg)
{
	int fd = opened(arg[0]);

	go_inside(arg[1]);
	tell(outcome(flock(fd, LOCK_EX | LOCK_NB)));
	wait_for_go();
	return 0;
}

static int full(char **arg)
{
	struct rlimit few = { 200, 200 };
	int fd, other;

	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		die("setrlimit");
	fd = locked(arg[0]);
	other = dup(fd);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	close(fd);
	tell(errno == EMFILE && other >= 0 ? "closed" : strerror(errno));
	wait_for_go();
	if (flock(other, LOCK_UN) < 0)
		die("unlock");
	tell("unlocked");
	wait_for_go();
	return 0;
}

static void lock_bytes(int fd, int n)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

	for (; l.l_start < 2 * n; l.l_start += 2)
		if (fcntl(fd, F_SETLK, &l))
			die("F_SETLK");
	tell("locked");
	wait_for_go();
}

/* The last one. */
static int take_descriptors(void)
{
	const struct rlimit few = { 200, 200 };
	int fd, last = -1;

	setrlimit(RLIMIT_NOFILE, &few);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		last = fd;
	return last;
}

static int one(char **arg)
{
	lock_bytes(opened(arg[0]), 1);
	close(take_descriptors());
	tell("one");
	wait_for_go();
	return 0;
}

static int exec(char **arg)
{
	char number[16];
	const int fd = dup(opened(arg[0]));

	lock_bytes(fd, 1);
	snprintf(number, sizeof(number), "%d", fd);
	execl("/proc/self/exe", "hidden_locks", "exec2", number, NULL);
	return 1;
}

static int exec2(char **arg)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

	take_descriptors();
	tell(outcome(fcntl((int)strtol(arg[0], NULL, 10), F_SETLK, &l)));
	wait_for_go();
	return 0;
}

static int sealed(char **arg)
{
	lock_bytes(opened(arg[0]), 1);
	refuse_call(SYS_getdents64);
	tell("sealed");
	wait_for_go();
	return 0;
}

static int try(char **arg)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

	l.l_start = strtol(arg[1], NULL, 10);
	tell(outcome(fcntl(opened(arg[0]), F_SETLK, &l)));
	return 0;
}

static int memory(char **arg)
{
	const struct rlimit none = { 1 << 20, 1 << 20 };

	lock_bytes(opened(arg[0]), 200);
	setrlimit(RLIMIT_AS, &none);
	tell("none");
	wait_for_go();
	return 0;
}

static void *leave(void *unused)
{
	(void)unused;
	syscall(SYS_exit, 7);
	return NULL;
}

static pthread_t leave_without_proc(char **arg)
{
	pthread_t thread;

	locked(arg[0]);
	if (chroot(arg[1]) < 0 || chdir("/") < 0)
		die("chroot");
	if (pthread_create(&thread, NULL, leave, NULL))
		die("pthread_create");
	return thread;
}

static int leaves(char **arg)
{
	pthread_join(leave_without_proc(arg), NULL);
	tell("goes on");
	return 0;
}

static int ends(char **arg)
{
	leave_without_proc(arg);
	leave(NULL);
	return 0;
}

static int own_table(const char *file, unsigned flags)
{
	int ends[2];
	char byte;

	locked(file);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    dup3(ends[0], 100, O_CLOEXEC) < 0 ||
	    close_range(3, 99, CLOSE_RANGE_UNSHARE | flags) < 0)
		die("close_range");
	for (int fd = 3; fd < 100; fd++)
		close(fd);
	tell(read(100, &byte, 1) == 0 ? "the end" : strerror(errno));
	tell(flock(opened(file), LOCK_EX | LOCK_NB) < 0 ? strerror(errno)
							: "locked");
	return 0;
}

static int table(char **arg)
{
	return own_table(arg[0], 0);
}

static int marked(char **arg)
{
	return own_table(arg[0], CLOSE_RANGE_CLOEXEC);
}

static sem_t closed;

static void *close_all(void *unused)
{
	(void)unused;
	if (close_range(3, 99, CLOSE_RANGE_UNSHARE) < 0)
		die("close_range");
	sem_post(&closed);
	pause();
	return NULL;
}

static int threads(char **arg)
{
	struct flock l = { .l_type = F_WRLCK };
	const int fd = locked(arg[0]);
	pthread_t thread;

	sem_init(&closed, 0, 0);
	if (fcntl(fd, F_SETLK, &l) ||
	    pthread_create(&thread, NULL, close_all, NULL) || sem_wait(&closed))
		die("threads");
	tell("closed");
	wait_for_go();
	l.l_type = F_UNLCK;
	if (flock(fd, LOCK_UN) || fcntl(fd, F_SETLK, &l))
		die("unlock");
	tell("unlocked");
	wait_for_go();
	_exit(0);
}

static const struct command commands[] = {
	{ "emfile", 1, run_out },   { "chroot", 2, lock_outside },
	{ "late", 2, lock_inside }, { "full", 1, full },
	{ "one", 1, one },          { "memory", 1, memory },
	{ "exec", 1, exec },        { "exec2", 1, exec2 },
	{ "sealed", 1, sealed },    { "try", 2, try },
	{ "leaves", 2, leaves },    { "ends", 2, ends },
	{ "table", 1, table },      { "marked", 1, marked },
	{ "threads", 1, threads },  { 0 },
};

int main(int argc, char **argv)
{
	return run_command(commands, argc, argv);
}
