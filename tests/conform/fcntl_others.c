/* SPDX-License-Identifier: MIT */
/*
 * Every other command of fcntl(2) passes with its argument, be it a number or
 * a pointer, on a file that is locked as on any.
 */
#include "records.h"

#include <stdint.h>
#include <sys/syscall.h>

static struct f_owner_ex owner;

static void descriptors(int fd)
{
	int copy;

	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_SETFD, FD_CLOEXEC));
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_SETFD, 0));
	SHOW(fcntl(fd, F_DUPFD, 50));
	SHOW(fcntl(50, F_GETFD));
	SHOW(fcntl(fd, F_DUPFD_CLOEXEC, 60));
	SHOW(fcntl(60, F_GETFD));
	copy = fcntl64(fd, F_DUPFD, 70);
	SHOW(copy);
	SHOW(fcntl(fd, F_DUPFD, -1));
	SHOW(fcntl(fd, F_DUPFD, 1 << 30));
}

static void flags(int fd)
{
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	SHOW(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	SHOW(syscall(SYS_fcntl, fd, F_SETFL, 0));
	SHOW(fcntl64(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
}

static void signals(int fd)
{
	SHOW(fcntl(fd, F_SETOWN, getpid()));
	SHOW(fcntl(fd, F_GETOWN) == getpid());
	SHOW(fcntl(fd, F_SETSIG, SIGRTMIN));
	SHOW(fcntl(fd, F_GETSIG) == SIGRTMIN);
	owner = (struct f_owner_ex){ F_OWNER_PID, getppid() };
	SHOW(fcntl(fd, F_SETOWN_EX, &owner));
	owner.pid = 0;
	SHOW(fcntl(fd, F_GETOWN_EX, &owner));
	printf("%d %d\n", owner.type, owner.pid == getppid());
	SHOW(fcntl(fd, F_SETOWN_EX, NULL));
	SHOW(fcntl(fd, F_SETSIG, 0));
	SHOW(fcntl(fd, F_SETOWN, 0));
}

static void hints(int fd)
{
	uint64_t hint = RWH_WRITE_LIFE_LONG, got = 0;

	SHOW(fcntl(fd, F_SET_RW_HINT, &hint));
	SHOW(fcntl(fd, F_GET_RW_HINT, &got));
	printf("hint %ju\n", (uintmax_t)got);
	SHOW(fcntl(fd, F_GET_RW_HINT, NULL));
	hint = 77;
	SHOW(fcntl(fd, F_SET_RW_HINT, &hint));
}

static void leases(int fd)
{
	int dir = open(".", O_RDONLY | O_DIRECTORY);

	signal(SIGIO, SIG_IGN);
	SHOW(fcntl(fd, F_GETLEASE));
	SHOW(fcntl(fd, F_SETLEASE, F_UNLCK));
	SHOW(fcntl(fd, F_SETLEASE, 99));
	SHOW(fcntl(dir, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(dir, F_NOTIFY, 0));
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE));
	close(dir);
}

static void pipes(void)
{
	int ends[2];

	if (pipe(ends))
		_exit(2);
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 8192));
	SHOW(fcntl(ends[1], F_GETPIPE_SZ));
	SHOW(fcntl(ends[1], F_SETPIPE_SZ, -1));
	close(ends[0]);
	close(ends[1]);
}

static void seals(int fd)
{
	SHOW(fcntl(fd, F_GET_SEALS));
	SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	SHOW(fcntl(fd, 4242, 1));
	SHOW(fcntl(fd, -1, &fd));
	SHOW(fcntl(-1, F_GETFL));
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	SHOW(OFD(fd, F_WRLCK, 0, 10));
	descriptors(fd);
	flags(fd);
	signals(fd);
	hints(fd);
	leases(fd);
	pipes();
	seals(fd);
	HELD();
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	leave_nothing("f");
	return 0;
}
