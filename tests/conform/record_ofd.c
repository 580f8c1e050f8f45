/* SPDX-License-Identifier: MIT */
/*
 * OFD locks are the description's: shared by dup(2) and fork(2), ended by the
 * last close, and in the way of every other owner, be it in the same process
 * (fcntl(2), "Open file description locks").
 */
#include "records.h"

static void duplicates(void)
{
	int fd = opened("f", O_RDWR), copy = dup(fd);

	SHOW(OFD(fd, F_WRLCK, 0, 20));
	SHOW(OFD(copy, F_RDLCK, 10, 20));
	HELD();
	SHOW(OFD(copy, F_UNLCK, 5, 10));
	HELD();
	SHOW(close(fd));
	HELD();
	SHOW(OFD(copy, F_WRLCK, 5, 10));
	HELD();
	SHOW(close(copy));
	HELD();
}

/* The descriptor of another description of the same file is none of it. */
static void descriptions(void)
{
	int a = opened("f", O_RDWR), b = opened("f", O_RDWR);

	SHOW(OFD(a, F_WRLCK, 0, 10));
	SHOW(OFD(b, F_WRLCK, 0, 10));
	SHOW(OFD(b, F_RDLCK, 9, 10));
	SHOW(OFD(b, F_RDLCK, 10, 10));
	SHOW(OFD(a, F_RDLCK, 10, 10));
	SHOW(OFD(a, F_WRLCK, 15, 1));
	HELD();
	SHOW(OFD(b, F_UNLCK, 0, 0));
	HELD();
	SHOW(close(b));
	HELD();
	SHOW(close(a));
	HELD();
}

/* One process, two owners. */
static void against_posix(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	SHOW(OFD(fd, F_RDLCK, 5, 10));
	SHOW(OFD(fd, F_WRLCK, 10, 10));
	SHOW(SET(fd, F_RDLCK, 15, 1));
	HELD();
	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(OFD(fd, F_RDLCK, 0, 10));
	SHOW(SET(fd, F_WRLCK, 0, 10));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	HELD();
	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(close(dup(fd)));
	HELD();
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	SHOW(close(fd));
	HELD();
}

static void child(int fd)
{
	SHOW(OFD(fd, F_WRLCK, 0, 5));
	SHOW(OFD(fd, F_UNLCK, 5, 5));
	SHOW(OFD(fd, F_RDLCK, 20, 5));
	SHOW(OFD(fd, F_RDLCK, 100, 5));
	HELD();
	SHOW(SET(fd, F_WRLCK, 0, 5));
}

/* A child's are its parent's as well: it may unlock a part, or all. */
static void children(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(OFD(fd, F_WRLCK, 0, 30));
	IN_CHILD(child(fd));
	HELD();
	SHOW(OFD(fd, F_WRLCK, 5, 5));
	HELD();
	IN_CHILD(SHOW(OFD(fd, F_UNLCK, 0, 0)));
	HELD();
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	IN_CHILD(SHOW(close(fd)));
	HELD();
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	SHOW(close(fd));
	HELD();
}

/* Those who have it after us keep it. */
static void inherited(void)
{
	struct turns t;
	int fd = opened("f", O_RDWR);
	pid_t pid;

	turns_new(&t);
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		wait_turn(t.to_child);
		SHOW(OFD(fd, F_UNLCK, 0, 5));
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		_exit(0);
	}
	SHOW(close(fd));
	HELD();
	pass_turn(t.to_child);
	wait_turn(t.to_parent);
	HELD();
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	HELD();
}

/* Locked by its number 30, and known by 40 and 20 as well. */
static void locked_thrice(void)
{
	int low = opened("f", O_RDWR);
	int fd = fcntl(low, F_DUPFD, 30);

	close(low);
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	SHOW(dup2(fd, 40) == 40 && dup2(fd, 20) == 20);
	HELD();
}

static void by_closers(void)
{
	FILE *fp = fopen("f", "r+");

	SHOW(OFD(fileno(fp), F_WRLCK, 0, 10));
	HELD();
	SHOW(fclose(fp));
	HELD();
	locked_thrice();
	SHOW(close_range(30, 30, 0));
	SHOW(close_range(35, ~0U, 0));
	HELD();
	SHOW(OFD(20, F_UNLCK, 0, 5));
	HELD();
	SHOW(close_range(20, 20, 0));
	HELD();
	locked_thrice();
	closefrom(20);
	HELD();
}

int main(void)
{
	prober_start("f");
	duplicates();
	descriptions();
	against_posix();
	children();
	inherited();
	by_closers();
	leave_nothing("f");
	return 0;
}
