/* SPDX-License-Identifier: MIT */
/*
 * What the kernel refuses for the call's own sake, for each of the commands,
 * and that nothing is locked or unlocked then.
 */
#include "records.h"

#include <stdbool.h>
#include <sys/mman.h>

static const int commands[] = {
	F_SETLK, F_SETLKW, F_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_OFD_GETLK,
};

#define EACH(cmd) for (const int *cmd = commands; cmd < commands + 6; cmd++)

static int whence(int fd, int cmd, int type, int where)
{
	struct flock l = { .l_type = (short)type, .l_whence = (short)where };

	return fcntl(fd, cmd, &l);
}

static int with_pid(int fd, int cmd, int type, pid_t pid)
{
	struct flock l = { .l_type = (short)type, .l_pid = pid };
	int n = fcntl(fd, cmd, &l);

	printf("type %d pid %d\n", l.l_type, l.l_pid == pid);
	return n;
}

static void arguments(int fd)
{
	EACH(cmd)
	{
		SHOW(whence(fd, *cmd, F_WRLCK, 3));
		SHOW(whence(fd, *cmd, F_WRLCK, -1));
		SHOW(whence(fd, *cmd, F_UNLCK, 77));
		SHOW(record(fd, *cmd, 3, 0, 0));
		SHOW(record(fd, *cmd, -1, 0, 0));
		SHOW(record(fd, *cmd, F_WRLCK, -1, 0));
		SHOW(record(fd, *cmd, F_RDLCK, 5, -6));
		SHOW(record(fd, *cmd, F_UNLCK, -1, 0));
		SHOW(record(fd, *cmd, F_WRLCK, INT64_MAX, 2));
		SHOW(record(fd, *cmd, F_UNLCK, INT64_MAX, 2));
		SHOW(with_pid(fd, *cmd, F_WRLCK, 1));
		SHOW(with_pid(fd, *cmd, F_UNLCK, 1));
		SHOW(with_pid(fd, *cmd, F_WRLCK, -1));
		HELD();
		SHOW(SET(fd, F_UNLCK, 0, 0));
	}
}

static void modes(const char *title, int fd)
{
	EACH(cmd)
	{
		printf("%s, command %d\n", title, *cmd);
		SHOW(record(fd, *cmd, F_RDLCK, 0, 10));
		SHOW(record(fd, *cmd, F_WRLCK, 20, 10));
		SHOW(record(fd, *cmd, F_UNLCK, 0, 0));
		SHOW(record(fd, *cmd, 99, 0, 0));
	}
	HELD();
}

static void descriptors(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(SET(fd, F_WRLCK, 100, 10));
	modes("read-only", open("f", O_RDONLY));
	SHOW(SET(fd, F_WRLCK, 100, 10));
	modes("write-only", open("f", O_WRONLY));
	SHOW(SET(fd, F_WRLCK, 100, 10));
	modes("O_PATH", open("f", O_PATH));
	HELD();
	modes("none", -1);
	modes("not open", 700);
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	HELD();
}

/* A conversion that the open mode forbids leaves the lock as it was. */
static void conversions(void)
{
	int rw = opened("f", O_RDWR);
	int ro = open("f", O_RDONLY), wo = open("f", O_WRONLY);

	SHOW(SET(rw, F_WRLCK, 0, 10));
	SHOW(SET(ro, F_RDLCK, 20, 10));
	SHOW(SET(wo, F_RDLCK, 0, 5));
	SHOW(SET(ro, F_WRLCK, 20, 5));
	HELD();
	SHOW(SET(ro, F_RDLCK, 0, 5));
	SHOW(SET(wo, F_WRLCK, 20, 5));
	HELD();
	SHOW(SET(ro, F_UNLCK, 0, 0));
	HELD();
}

/* With an off_t of 32 bits libc itself reads, and writes, what OFD is given. */
static bool libc_looks(int cmd)
{
	return sizeof(off_t) < sizeof(off64_t) &&
	       (cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW ||
		cmd == F_OFD_GETLK);
}

static void addresses(int fd)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct flock l = { .l_type = F_WRLCK };

	mprotect(page + 4096, 4096, PROT_NONE);
	memcpy(page, &l, sizeof(l));
	mprotect(page, 4096, PROT_READ);
	SHOW(SET(fd, F_RDLCK, 0, 10));
	EACH(cmd)
	{
		if (libc_looks(*cmd))
			continue;
		SHOW(fcntl(fd, *cmd, NULL));
		SHOW(fcntl(fd, *cmd, (void *)1));
		SHOW(fcntl(fd, *cmd, (void *)-1L));
		SHOW(fcntl(fd, *cmd, page + 4096 - 8));
		HELD();
		SHOW(fcntl(-1, *cmd, NULL));
	}
	/* Only the answer of F_GETLK needs memory that can be written. */
	SHOW(fcntl(fd, F_GETLK, page));
	SHOW(fcntl(fd, F_SETLK, page));
	HELD();
	SHOW(SET(fd, F_UNLCK, 0, 0));
	if (!libc_looks(F_OFD_SETLK))
		SHOW(fcntl(fd, F_OFD_SETLK, page));
	HELD();
	SHOW(OFD(fd, F_UNLCK, 0, 0));
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	arguments(fd);
	addresses(fd);
	close(fd);
	descriptors();
	conversions();
	leave_nothing("f");
	return 0;
}
