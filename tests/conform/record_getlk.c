/* SPDX-License-Identifier: MIT */
/*
 * F_GETLK names one lock that is in the way, field by field; where there is
 * none, only l_type changes (fcntl(2)).
 */
#include "records.h"

static pid_t holder;

static const char *who(pid_t pid)
{
	static char number[16];

	if (pid == getpid())
		return "our own";
	if (pid == holder)
		return "the holder's";
	snprintf(number, sizeof(number), "%d", pid);
	return number;
}

static void get_at(int line, int fd, int cmd, int type, int whence, off_t start,
		   off_t len)
{
	struct flock l = {
		.l_type = (short)type,
		.l_whence = (short)whence,
		.l_start = start,
		.l_len = len,
		.l_pid = cmd == F_OFD_GETLK ? 0 : 4711,
	};
	int n = fcntl(fd, cmd, &l);

	printf("%d get %d: %d, type %d whence %d start %lld len %lld pid %s\n",
	       line, cmd, n, l.l_type, l.l_whence, (long long)l.l_start,
	       (long long)l.l_len, who(l.l_pid));
	fflush(stdout);
}

#define GET(cmd, type, whence, start, len)                                     \
	get_at(__LINE__, fd, cmd, type, whence, start, len)

static void questions(int fd)
{
	for (int n = 0; n < 2; n++) {
		int cmd = n ? F_OFD_GETLK : F_GETLK;

		GET(cmd, F_WRLCK, SEEK_SET, 0, 0);
		GET(cmd, F_RDLCK, SEEK_SET, 0, 0);
		GET(cmd, F_WRLCK, SEEK_SET, 0, 10);
		GET(cmd, F_RDLCK, SEEK_SET, 5, 96);
		GET(cmd, F_WRLCK, SEEK_SET, 55, -5);
		GET(cmd, F_WRLCK, SEEK_CUR, 40, 1);
		GET(cmd, F_WRLCK, SEEK_CUR, -10, 1);
		GET(cmd, F_WRLCK, SEEK_END, -1, 0);
		GET(cmd, F_RDLCK, SEEK_END, -1, 0);
		GET(cmd, F_WRLCK, SEEK_END, 1, 0);
		GET(cmd, F_UNLCK, SEEK_SET, 0, 0);
		GET(cmd, F_WRLCK, 9, 0, 0);
		GET(cmd, F_WRLCK, SEEK_SET, -1, 0);
		GET(cmd, F_WRLCK, SEEK_SET, INT64_MAX, 2);
	}
}

/* Of another process: write 100-199, read 50-59 and 300 to the end. */
static void others(int fd)
{
	struct turns t;

	turns_new(&t);
	fflush(stdout);
	holder = fork();
	if (holder == 0) {
		int own = opened("f", O_RDWR);

		SHOW(SET(own, F_WRLCK, 100, 100));
		SHOW(SET(own, F_RDLCK, 50, 10));
		SHOW(SET(own, F_RDLCK, 300, 0));
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		SHOW(SET(own, F_UNLCK, 0, 0));
		_exit(0);
	}
	wait_turn(t.to_parent);
	questions(fd);
	pass_turn(t.to_child);
	SHOW(child_status(holder));
}

/* Our own are in nobody's way but a description's. */
static void own(int fd)
{
	int other = opened("f", O_RDWR);

	SHOW(SET(fd, F_WRLCK, 100, 100));
	questions(fd);
	SHOW(SET(fd, F_UNLCK, 0, 0));
	SHOW(OFD(fd, F_WRLCK, 100, 100));
	questions(fd);
	get_at(__LINE__, other, F_OFD_GETLK, F_RDLCK, SEEK_SET, 0, 0);
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	questions(fd);
	close(other);
}

int main(void)
{
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	SHOW(ftruncate(fd, 500));
	SHOW(lseek(fd, 15, SEEK_SET));
	others(fd);
	own(fd);
	HELD();
	leave_nothing("f");
	return 0;
}
