/* SPDX-License-Identifier: MIT */
/*
 * The threads of a process are one owner of POSIX locks; a description that
 * they share is one owner of OFD locks.
 */
#include "records.h"

#include <pthread.h>

static int fds[2];

static void *other(void *unused)
{
	(void)unused;
	SHOW(SET(fds[1], F_WRLCK, 0, 10));
	SHOW(SET(fds[0], F_UNLCK, 5, 10));
	SHOW(SET(fds[1], F_RDLCK, 50, 10));
	SHOW(OFD(fds[0], F_RDLCK, 100, 10));
	SHOW(OFD(fds[1], F_WRLCK, 100, 10));
	HELD();
	return NULL;
}

static void *wait_for(void *unused)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 10, .l_start = 50 };

	(void)unused;
	SHOW(fcntl(fds[0], F_SETLKW, &l));
	l.l_type = F_UNLCK;
	SHOW(fcntl(fds[0], F_SETLKW, &l));
	return NULL;
}

static void *closes(void *fd)
{
	SHOW(close(*(int *)fd));
	return NULL;
}

static void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		_exit(2);
	pthread_join(thread, NULL);
}

int main(void)
{
	prober_start("f");
	fds[0] = opened("f", O_RDWR);
	fds[1] = opened("f", O_RDWR);
	SHOW(SET(fds[0], F_WRLCK, 0, 20));
	SHOW(OFD(fds[0], F_WRLCK, 100, 10));
	in_thread(other, NULL);
	HELD();
	in_thread(wait_for, NULL);
	HELD();
	SHOW(SET(fds[0], F_RDLCK, 0, 30));
	HELD();
	in_thread(closes, &fds[1]);
	HELD();
	in_thread(closes, &fds[0]);
	HELD();
	leave_nothing("f");
	return 0;
}
