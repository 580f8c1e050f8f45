/* SPDX-License-Identifier: MIT */
/*
 * By whatever name a record lock is taken, it is the same lock.
 */
#include "records.h"

#include <stdarg.h>
#include <sys/syscall.h>

int __fcntl(int fd, int cmd, ...);

static int by_number(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static const struct {
	const char *name;
	int (*call)(int, int, ...);
} calls[] = {
	{ "fcntl", fcntl },
	{ "fcntl64", fcntl64 },
	{ "__fcntl", __fcntl },
	{ "syscall", by_number },
};

#define CALL(cmd, type)                                                        \
	do {                                                                   \
		struct flock l = { .l_type = (type), .l_len = 10 };            \
                                                                               \
		SHOW(call(fd, cmd, &l));                                       \
	} while (0)

static void second(int (*call)(int, int, ...))
{
	int fd = opened("f", O_RDWR);

	CALL(F_SETLK, F_RDLCK);
	CALL(F_OFD_SETLK, F_RDLCK);
	CALL(F_SETLK, F_UNLCK);
}

static void by(const char *name, int (*call)(int, int, ...))
{
	int fd = opened("f", O_RDWR);

	printf("%s\n", name);
	CALL(F_SETLK, F_WRLCK);
	HELD();
	IN_CHILD(second(call));
	CALL(F_SETLKW, F_RDLCK);
	HELD();
	CALL(F_OFD_GETLK, F_WRLCK);
	CALL(F_SETLK, F_UNLCK);
	CALL(F_OFD_SETLKW, F_WRLCK);
	HELD();
	CALL(F_GETLK, F_WRLCK);
	CALL(F_OFD_SETLK, F_UNLCK);
	HELD();
	SHOW(call(fd, F_SETLK, NULL));
	SHOW(call(-1, F_SETLK, NULL));
	close(fd);
}

int main(void)
{
	prober_start("f");
	for (int i = 0; i < 4; i++)
		by(calls[i].name, calls[i].call);
	leave_nothing("f");
	return 0;
}
