/* SPDX-License-Identifier: MIT */
/*
 * Closing any descriptor of a file drops all the process's POSIX locks on it,
 * by whatever call, and whichever descriptor took them (fcntl(2)).
 */
#include "records.h"

#include <sys/syscall.h>

/* Locked through one descriptor, with another one open: its number. */
static int locked(void)
{
	int fd = opened("f", O_RDWR), other = opened("f", O_RDWR);

	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 20, 10));
	HELD();
	return other;
}

/* And none of the descriptors is left. */
static void ended(void)
{
	HELD();
	closefrom(20);
}

static int raised(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 20);

	close(fd);
	return high;
}

/* The same, above all that the program uses otherwise. */
static int locked_high(void)
{
	int fd = raised(opened("f", O_RDWR));
	int other = raised(opened("f", O_RDWR));

	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(SET(other, F_RDLCK, 20, 10));
	HELD();
	return other;
}

static void by_close(void)
{
	int other = locked_high();

	SHOW(close(other));
	ended();
	other = locked_high();
	SHOW(syscall(SYS_close, other));
	ended();
	other = locked_high();
	SHOW(close(dup(other)));
	ended();
	other = opened("g", O_RDWR);
	locked_high();
	SHOW(close(other));
	HELD();
	ended();
}

static void by_dup(void)
{
	int other = locked_high(), g = opened("g", O_RDWR);

	SHOW(dup2(other, other) == other);
	HELD();
	SHOW(dup2(-1, other));
	HELD();
	SHOW(dup2(g, other) == other);
	ended();
	other = locked_high();
	SHOW(dup3(g, other, O_CLOEXEC) == other);
	ended();
	/* Of the same file, too. */
	other = locked_high();
	SHOW(dup2(other - 1, other) == other);
	ended();
	close(g);
}

static void by_stream(void)
{
	FILE *fp;

	locked_high();
	fp = fopen("f", "r");
	HELD();
	SHOW(fclose(fp));
	ended();
	locked_high();
	fp = fopen("f", "r");
	fp = freopen("g", "w+", fp);
	HELD();
	ended();
	locked_high();
	SHOW(fclose(fp));
	ended();
}

static void by_range(void)
{
	int other = locked_high();

	SHOW(close_range((unsigned)other + 1, ~0U, 0));
	HELD();
	SHOW(close_range((unsigned)other, (unsigned)other, 0));
	ended();
	other = locked_high();
	SHOW(close_range((unsigned)other, ~0U, CLOSE_RANGE_CLOEXEC));
	HELD();
	SHOW(syscall(SYS_close_range, other, ~0U, 0));
	ended();
	other = locked_high();
	closefrom(other);
	ended();
	locked_high();
	closefrom(20);
	ended();
}

/* What only looks, or fails, drops nothing. */
static void by_nothing(void)
{
	int other = locked();

	SHOW(close(-1));
	SHOW(close(900));
	SHOW(access("f", R_OK));
	SHOW(fcntl(other, F_GETFD));
	HELD();
	SHOW(close(other));
	SHOW(close(other - 1));
	HELD();
}

int main(void)
{
	prober_start("f");
	by_close();
	by_dup();
	by_stream();
	by_range();
	by_nothing();
	leave_nothing("f");
	return 0;
}
