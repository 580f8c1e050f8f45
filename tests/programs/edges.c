/* SPDX-License-Identifier: MIT */
/*
 * What seldom happens to a lock.  A word a line on standard output; at each
 * line on standard input it goes on.
 *
 *	edges readers FILE	a thread weakens its exclusive lock while
 *			another waits for a shared one, at each line again:
 *			"both"
 *	edges full FILE		locks, duplicates, takes every descriptor
 *			there is, and closes the one it locked by: "closed";
 *			unlocks by the other: "unlocked"
 *	edges stopped FILE	locks: "held"; when it notices that it was
 *			stopped for a second it locks once more, LOCK_NB: what
 *			comes of it
 *	edges leaves FILE DIR	locks, makes DIR its root, where no /proc is,
 *			and one of its threads leaves by SYS_exit: "goes on"
 *	edges ends FILE DIR	the same, but all its threads do, with 7
 *	edges table FILE	locks; closes it, and a pipe's end, by
 *			CLOSE_RANGE_UNSHARE: what the pipe's reader sees, and
 *			who locks again
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static const char *file;

static int go_on(void)
{
	char line[64];

	return fgets(line, sizeof(line), stdin) != NULL;
}

static int open_file(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		die(file);
	return fd;
}

static void lock(int fd, int op)
{
	if (flock(fd, op) < 0)
		die("flock");
}

/* --- two threads ---------------------------------------------------------- */

static pthread_barrier_t meet;

static void *reader(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = open_file();

		pthread_barrier_wait(&meet);
		lock(fd, LOCK_SH);
		pthread_barrier_wait(&meet);
		pthread_barrier_wait(&meet);
		close(fd);
	}
	return NULL;
}

/* The reader is most often asleep in the kernel when it may go on. */
static void readers(void)
{
	pthread_t thread;

	pthread_barrier_init(&meet, NULL, 2);
	if (pthread_create(&thread, NULL, reader, NULL))
		die("pthread_create");
	while (go_on()) {
		int fd = open_file();

		lock(fd, LOCK_EX);
		pthread_barrier_wait(&meet);
		pause_us(200);
		lock(fd, LOCK_SH);
		pthread_barrier_wait(&meet);
		tell("both");
		if (!go_on())
			break;
		pthread_barrier_wait(&meet);
		close(fd);
	}
}

/* --- no descriptor is left ------------------------------------------------ */

static void full(void)
{
	struct rlimit few = { 200, 200 };
	int fd, other;

	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		die("setrlimit");
	fd = open_file();
	lock(fd, LOCK_EX);
	other = dup(fd);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	close(fd);
	tell(errno == EMFILE && other >= 0 ? "closed" : strerror(errno));
	go_on();
	lock(other, LOCK_UN);
	tell("unlocked");
	go_on();
}

/* --- stopped -------------------------------------------------------------- */

static void stopped(void)
{
	int fd = open_file();
	long last, t;

	lock(fd, LOCK_EX);
	tell("held");
	for (last = t = now_ms(); t - last < 1000; t = now_ms())
		last = t;
	tell(flock(fd, LOCK_EX | LOCK_NB) < 0 ? strerror(errno) : "granted");
	go_on();
}

/* --- without /proc -------------------------------------------------------- */

static void *leave(void *unused)
{
	(void)unused;
	syscall(SYS_exit, 7);
	return NULL;
}

static pthread_t leave_without_proc(const char *dir)
{
	pthread_t thread;

	lock(open_file(), LOCK_EX);
	if (chroot(dir) < 0 || chdir("/") < 0)
		die("chroot");
	if (pthread_create(&thread, NULL, leave, NULL))
		die("pthread_create");
	return thread;
}

static void leaves(const char *dir)
{
	pthread_join(leave_without_proc(dir), NULL);
	tell("goes on");
}

static void ends(const char *dir)
{
	leave_without_proc(dir);
	leave(NULL);
}

/* --- a table of its own --------------------------------------------------- */

static void table(void)
{
	int ends[2], fd = open_file();
	char byte;

	lock(fd, LOCK_EX);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    dup3(ends[0], 100, O_CLOEXEC) < 0 ||
	    close_range(3, 99, CLOSE_RANGE_UNSHARE) < 0)
		die("close_range");
	tell(read(100, &byte, 1) == 0 ? "the end" : strerror(errno));
	tell(flock(open_file(), LOCK_EX | LOCK_NB) < 0 ? strerror(errno)
						       : "locked");
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	file = argv[argc > 2 ? 2 : 0];
	if (strcmp(what, "readers") == 0)
		readers();
	else if (strcmp(what, "full") == 0)
		full();
	else if (strcmp(what, "stopped") == 0)
		stopped();
	else if (strcmp(what, "table") == 0)
		table();
	else if (strcmp(what, "leaves") == 0 && argc > 3)
		leaves(argv[3]);
	else if (strcmp(what, "ends") == 0 && argc > 3)
		ends(argv[3]);
	else
		return 64;
	return 0;
}
