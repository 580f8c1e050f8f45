/* SPDX-License-Identifier: MIT */
/*
 * Where a range begins and how long it is: SEEK_SET, SEEK_CUR and SEEK_END,
 * negative lengths, 0 for the end that is yet to come (fcntl(2)).
 */
#include "records.h"

static int at(int fd, int cmd, int type, int whence, off_t start, off_t len)
{
	struct flock l = {
		.l_type = (short)type,
		.l_whence = (short)whence,
		.l_start = start,
		.l_len = len,
	};

	return fcntl(fd, cmd, &l);
}

#define LOCK(whence, start, len)                                               \
	do {                                                                   \
		SHOW(at(fd, F_SETLK, F_WRLCK, whence, start, len));            \
		HELD();                                                        \
		SHOW(at(fd, F_SETLK, F_UNLCK, whence, start, len));            \
		HELD();                                                        \
	} while (0)

static void offsets(int fd)
{
	LOCK(SEEK_SET, 10, 5);
	LOCK(SEEK_CUR, 10, 5);
	LOCK(SEEK_CUR, -10, 5);
	LOCK(SEEK_CUR, -100, 0);
	LOCK(SEEK_CUR, -101, 5);
	LOCK(SEEK_END, 0, 5);
	LOCK(SEEK_END, 10, 5);
	LOCK(SEEK_END, -10, 5);
	LOCK(SEEK_END, -1000, 1);
	LOCK(SEEK_END, -1001, 1);
	LOCK(SEEK_END, 0, 0);
}

static void lengths(int fd)
{
	const off_t last = 0x7fffffffffffffff;

	LOCK(SEEK_SET, 10, -5);
	LOCK(SEEK_SET, 10, -10);
	LOCK(SEEK_SET, 10, -11);
	LOCK(SEEK_SET, 0, -1);
	LOCK(SEEK_CUR, 0, -50);
	LOCK(SEEK_END, 0, -1000);
	LOCK(SEEK_END, 0, -1001);
	LOCK(SEEK_SET, last, 1);
	LOCK(SEEK_SET, last, 0);
	LOCK(SEEK_SET, last, 2);
	LOCK(SEEK_SET, last, -1);
	LOCK(SEEK_SET, last, -last);
	LOCK(SEEK_SET, 1, last);
	LOCK(SEEK_SET, 2, last);
	LOCK(SEEK_SET, 0, last);
	LOCK(SEEK_CUR, last, 1);
	LOCK(SEEK_CUR, last - 100, 1);
	LOCK(SEEK_SET, -1, 1);
	LOCK(SEEK_SET, -last - 1, 1);
	LOCK(SEEK_SET, 5, -last - 1);
}

/* Behind the end of the file is a place like any other. */
static void growing(int fd)
{
	SHOW(at(fd, F_SETLK, F_WRLCK, SEEK_END, 0, 0));
	HELD();
	SHOW(ftruncate(fd, 2000));
	HELD();
	SHOW(at(fd, F_SETLK, F_UNLCK, SEEK_END, 0, 0));
	HELD();
	SHOW(ftruncate(fd, 500));
	SHOW(at(fd, F_SETLK, F_UNLCK, SEEK_END, 0, 0));
	HELD();
}

/* The offset is the description's. */
static void moving(int fd)
{
	int copy = dup(fd), other = opened("f", O_RDWR);

	SHOW(lseek(fd, 300, SEEK_SET));
	SHOW(at(copy, F_SETLK, F_WRLCK, SEEK_CUR, 0, 10));
	SHOW(at(other, F_SETLK, F_WRLCK, SEEK_CUR, 0, 10));
	HELD();
	SHOW(close(copy));
	HELD();
	SHOW(at(fd, F_OFD_SETLK, F_WRLCK, SEEK_CUR, -300, 10));
	SHOW(at(fd, F_OFD_SETLK, F_RDLCK, SEEK_END, -100, -100));
	HELD();
	SHOW(at(fd, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0));
	SHOW(close(other));
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	SHOW(ftruncate(fd, 1000));
	SHOW(lseek(fd, 100, SEEK_SET));
	offsets(fd);
	lengths(fd);
	growing(fd);
	moving(fd);
	leave_nothing("f");
	return 0;
}
