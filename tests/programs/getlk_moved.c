/* SPDX-License-Identifier: MIT */
/*
 * F_GETLK by a descriptor that a signal handler makes another file's meanwhile.
 *
 *	getlk_moved FILE OTHER
 *
 * Prints "free", "locked", or the errno's name.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int fd, other;

static void move(int signo)
{
	(void)signo;
	dup2(other, fd);
}

int main(int argc, char **argv)
{
	const struct sigaction sa = { .sa_handler = move };
	const struct itimerval soon = { .it_value.tv_usec = 300000 };
	struct flock l = { .l_type = F_WRLCK };

	if (argc < 3)
		return 2;
	fd = open(argv[1], O_RDWR | O_CREAT, 0666);
	other = open(argv[2], O_RDWR | O_CREAT, 0666);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	if (fcntl(fd, F_GETLK, &l) < 0)
		puts(strerrorname_np(errno));
	else
		puts(l.l_type == F_UNLCK ? "free" : "locked");
	return 0;
}
