/* SPDX-License-Identifier: MIT */
/*
 * Locks beyond 2 GiB, by every name that fcntl() has for a struct flock of
 * either size.  In a 64-bit program the two are one; in a 32-bit one what has
 * no room in the small one is EOVERFLOW, and each command means the struct
 * that it means with this name (fcntl_locking(2), and model/narrow.h).
 */
#include "records.h"

#include <stdarg.h>
#include <sys/syscall.h>

#define GIB 0x40000000LL

static int record64(int fd, int cmd, int type, off64_t start, off64_t len)
{
	struct flock64 l = {
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len,
	};

	return fcntl64(fd, cmd, &l);
}

typedef int any_fcntl(int, int, ...);

static int first_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

#ifdef __i386__
static int second_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)syscall(SYS_fcntl64, fd, cmd, arg);
}

/* Of a program that was linked with glibc 2.27 or older. */
int fcntl_2_0(int fd, int cmd, ...);
__asm__(".symver fcntl_2_0, fcntl@GLIBC_2.0");
#endif

static const struct {
	const char *name;
	any_fcntl *call;
} calls[] = {
	{ "fcntl", fcntl },
	{ "fcntl64", fcntl64 },
	{ "SYS_fcntl", first_fcntl },
#ifdef __i386__
	{ "SYS_fcntl64", second_fcntl },
	{ "fcntl@GLIBC_2.0", fcntl_2_0 },
#endif
};

/* By number, so that what was locked so is unlocked whoever stands between. */
static int unlock_all(int fd, int cmd)
{
	struct flock64 all = { .l_type = F_UNLCK };

#ifdef __i386__
	return second_fcntl(fd, cmd, &all);
#else
	return first_fcntl(fd, cmd, &all);
#endif
}

/* All that the call may have written to, as numbers of 16 bits. */
static void show(const char *name, int cmd, int n, const void *words)
{
	const int error = errno;
	unsigned short w[sizeof(struct flock64) / 2];

	memcpy(w, words, sizeof(w));
	printf("%s %d: %d %s", name, cmd, n, n ? strerrorname_np(error) : "of");
	/* The pid, which is of chance, is behind the first 8, or 12. */
	for (int i = 0; !n && i < 6; i++)
		printf(" %x", w[i]);
	printf("\n");
	fflush(stdout);
}

/* The last ones wait, for nobody where nobody is in the way. */
static const int cmds[] = { 5,           6, 12, 13,          F_OFD_GETLK,
			    F_OFD_SETLK, 7, 14, F_OFD_SETLKW };
enum { COMMANDS = sizeof(cmds) / sizeof(cmds[0]), WAITING = 3 };

/* The same words, whatever the call takes them for. */
static void by_all(int fd, size_t n_cmds, const struct flock *small,
		   const struct flock64 *large)
{

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (size_t c = 0; c < 2 * n_cmds; c++) {
			const int cmd = cmds[c / 2];
			struct flock64 words = { 0 };
			int n;

			memcpy(&words, c % 2 ? (const void *)large : small,
			       c % 2 ? sizeof(*large) : sizeof(*small));
			errno = 0;
			n = calls[i].call(fd, cmd, &words);
			show(calls[i].name, cmd, n, &words);
			HELD();
			SHOW(unlock_all(fd, F_SETLK64));
			SHOW(unlock_all(fd, F_OFD_SETLK));
		}
	}
}

/* Another process has this; what can be told of it? */
static void against(int fd, int cmd, off64_t start, off64_t len)
{
	const struct flock small = { .l_type = F_WRLCK };
	const struct flock64 large = { .l_type = F_WRLCK };
	struct turns t;
	pid_t holder;

	printf("against %d %lld %lld\n", cmd, (long long)start, (long long)len);
	turns_new(&t);
	fflush(stdout);
	holder = fork();
	if (holder == 0) {
		int own = opened("f", O_RDWR);

		SHOW(record64(own, cmd, F_RDLCK, start, len));
		pass_turn(t.to_parent);
		wait_turn(t.to_child);
		_exit(0);
	}
	wait_turn(t.to_parent);
	by_all(fd, COMMANDS - WAITING, &small, &large);
	SHOW(lseek64(fd, 0, SEEK_SET));
	SHOW(lockf(fd, F_TEST, 0));
	SHOW(lockf64(fd, F_TEST, 0));
	SHOW(lockf(fd, F_TLOCK, 0));
	pass_turn(t.to_child);
	SHOW(child_status(holder));
}

/* The file's offset has 64 bits, whatever the program's off_t has. */
static void from_offset(int fd)
{
	SHOW(lseek64(fd, 3 * GIB, SEEK_SET) == 3 * GIB);
	SHOW(lockf(fd, F_TLOCK, 10));
	HELD();
	SHOW(lockf(fd, F_TEST, 10));
	SHOW(lockf(fd, F_ULOCK, 5));
	HELD();
	SHOW(lockf64(fd, F_TLOCK, -4 * GIB));
	SHOW(lockf64(fd, F_TLOCK, -3 * GIB));
	HELD();
	SHOW(lockf64(fd, F_ULOCK, 0));
	SHOW(lseek64(fd, 0, SEEK_SET));
	SHOW(lockf64(fd, F_ULOCK, 0));
	HELD();
}

int main(void)
{
	const struct flock small = { .l_type = F_WRLCK,
				     .l_start = 100,
				     .l_len = 50 };
	const struct flock64 large = { .l_type = F_WRLCK,
				       .l_start = 2 * GIB,
				       .l_len = 5 * GIB };
	int fd;

	prober_start("f");
	fd = opened("f", O_RDWR);
	by_all(fd, COMMANDS, &small, &large);
	against(fd, F_SETLK64, 10, 20);
	against(fd, F_SETLK64, 2 * GIB - 1, 1);
	against(fd, F_SETLK64, 2 * GIB, 1);
	against(fd, F_SETLK64, 100, 4 * GIB);
	against(fd, F_OFD_SETLK, 100, 4 * GIB);
	against(fd, F_OFD_SETLK, 3 * GIB, 0);
	from_offset(fd);
	HELD();
	leave_nothing("f");
	return 0;
}
