/* SPDX-License-Identifier: MIT */
/*
 * A call that waits by a descriptor that another thread closes and reuses.
 *
 *	reused_while_waiting KIND HOW FILE OTHER
 *
 * KIND: flock, posix or ofd.  One thread waits for FILE, which somebody holds:
 * "waiting TID".  At a line on standard input the other thread makes the number
 * one of OTHER: by close(2) and open(2) (HOW: open; again: of FILE once more;
 * crowd: as open, and CROWD threads wait by flock(2) for the file "crowd" already),
 * or dup2(2) (dup2), or with another descriptor of the description that stays
 * (dup; began, received: as open, but there were two when the program began, or it
 * has received one), or not at all (keep; cancelled: a third thread begins to close
 * it, and is cancelled before that): "done".  Then the call's result: 0 or the errno's
 * name; and at the next line the program ends, with what it holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { CROWD = 80 };

static const char *kind;
static int fd;

static int lock(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 10 };

	if (strcmp(kind, "flock") == 0)
		return flock(fd, LOCK_EX);
	return fcntl(fd, kind[0] == 'o' ? F_OFD_SETLKW : F_SETLKW, &l);
}

static void *wait_for_it(void *unused)
{
	int error;

	(void)unused;
	printf("waiting %ld\n", syscall(SYS_gettid));
	fflush(stdout);
	error = lock() ? errno : 0;
	tell(error ? strerrorname_np(error) : "0");
	return NULL;
}

static void *wait_in_crowd(void *tid)
{
	const int its = open("crowd", O_RDWR);

	*(_Atomic long *)tid = syscall(SYS_gettid);
	flock(its, LOCK_EX);
	return NULL;
}

/* In flock(2), in the kernel. */
static bool is_in_kernel(long tid)
{
	char path[64], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", tid);
	f = fopen(path, "r");
	if (f && !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return strtol(text, NULL, 10) == SYS_flock;
}

static void begin_crowd(void)
{
	static _Atomic long tids[CROWD];
	pthread_t thread;

	for (int i = 0; i < CROWD; i++)
		pthread_create(&thread, NULL, wait_in_crowd, &tids[i]);
	for (int i = 0; i < CROWD; i++)
		while (!tids[i] || !is_in_kernel(tids[i]))
			usleep(1000);
}

static void reopen(const char *path)
{
	close(fd);
	if (open(path, O_RDWR) != fd)
		exit(3);
}

static void *close_cancelled(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	close(fd);
	exit(3);
}

static void begin_to_close(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, close_cancelled, NULL);
	pthread_join(thread, NULL);
}

static void reuse(const char *how, const char *file, const char *other)
{
	int to = open(other, O_RDWR | O_CREAT, 0666);

	if (strcmp(how, "dup") == 0)
		dup(fd);
	if (strcmp(how, "open") == 0 || strcmp(how, "crowd") == 0 ||
	    strcmp(how, "began") == 0 || strcmp(how, "received") == 0) {
		close(to);
		reopen(other);
	} else if (strcmp(how, "again") == 0) {
		reopen(file);
	} else if (strcmp(how, "cancelled") == 0) {
		begin_to_close();
	} else if (strcmp(how, "keep") != 0) {
		dup2(to, fd);
		close(to);
	}
}

/* The program begins anew, with two descriptors of one description. */
static void begin_with_two(char **argv)
{
	char number[16];

	dup(fd);
	snprintf(number, sizeof(number), "%d", fd);
	setenv("BEGAN", number, 1);
	execv("/proc/self/exe", argv);
	exit(3);
}

/* It sends itself one. */
static void receive(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS,
				.cmsg_len = CMSG_LEN(sizeof(int)) } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int ends[2];

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    sendmsg(ends[0], &msg, 0) != 1 || recvmsg(ends[1], &msg, 0) != 1 ||
	    msg.msg_flags & MSG_CTRUNC)
		exit(3);
}

static void open_file(char **argv)
{
	const char *began = getenv("BEGAN");

	fd = began ? (int)strtol(began, NULL, 10)
		   : open(argv[3], O_RDWR | O_CREAT, 0666);
	if (strcmp(argv[2], "began") == 0 && !began)
		begin_with_two(argv);
	if (strcmp(argv[2], "received") == 0)
		receive();
}

static void go_on(void)
{
	int c;

	while ((c = getchar()) != '\n')
		if (c == EOF)
			_exit(0);
}

int main(int argc, char **argv)
{
	pthread_t waiter;

	if (argc < 5)
		return 2;
	kind = argv[1];
	open_file(argv);
	if (strcmp(argv[2], "crowd") == 0)
		begin_crowd();
	pthread_create(&waiter, NULL, wait_for_it, NULL);
	go_on();
	reuse(argv[2], argv[3], argv[4]);
	tell("done");
	pthread_join(waiter, NULL);
	go_on();
	return 0;
}
