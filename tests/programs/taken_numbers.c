/* SPDX-License-Identifier: MIT */
/*
 * A program that takes all numbers of descriptors, those of others' as well
 * (DESIGN L7).
 *
 *	taken_numbers HOW FILE LAST
 *
 * locks FILE; takes every other number up to LAST away, HOW: close, closefrom,
 * close_range, unshare (CLOSE_RANGE_UNSHARE), dup2, dup3 (a file's onto each),
 * raw (system calls that nobody sees: a file of its own for each), sockets (the
 * same): "held", and of what is closed how many sockets of others are lost.  At
 * a line it locks and unlocks for 2 s: what is different in the files, or
 * sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { KEEP = 3, FIRST = 4, MOST = 65536 };

static ino_t inodes[MOST];

/* A socket that is not the program's may come and go. */
static void note_inode(int fd, bool sockets)
{
	struct stat st;

	if (fd < MOST && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) == sockets)
		inodes[fd] = st.st_ino;
}

static void raw_file(int fd)
{
	char name[32];
	long file;

	snprintf(name, sizeof(name), "numbers/%d", fd);
	raw_syscall(SYS_close, fd, 0, 0, 0);
	file = raw_syscall(SYS_openat, AT_FDCWD, (long)name, O_RDWR | O_CREAT,
			   0666);
	if (file != fd) {
		raw_syscall(SYS_dup3, file, fd, 0, 0);
		raw_syscall(SYS_close, file, 0, 0, 0);
	}
}

/* The other ends are beyond LAST. */
static void raw_socket(int fd, int last)
{
	int ends[2] = { -1, -1 };

	raw_syscall(SYS_close, fd, 0, 0, 0);
	if (raw_syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (long)ends))
		_exit(2);
	raw_syscall(SYS_dup3, ends[1], last + 1 + fd, 0, 0);
	if (ends[1] != last + 1 + fd)
		raw_syscall(SYS_close, ends[1], 0, 0, 0);
	if (ends[0] != fd) {
		raw_syscall(SYS_dup3, ends[0], fd, 0, 0);
		raw_syscall(SYS_close, ends[0], 0, 0, 0);
	}
}

static void take_numbers(const char *how, int last)
{
	bool sockets = strcmp(how, "sockets") == 0;
	int other = opened("numbers/other");

	for (int fd = FIRST; fd <= last; fd++) {
		if (fd == other && strncmp(how, "dup", 3) == 0)
			continue;
		if (strcmp(how, "close") == 0)
			close(fd);
		else if (strcmp(how, "dup2") == 0)
			dup2(other, fd);
		else if (strcmp(how, "dup3") == 0)
			dup3(other, fd, 0);
		else if (strcmp(how, "raw") == 0)
			raw_file(fd);
		else if (sockets)
			raw_socket(fd, last);
	}
	if (strcmp(how, "closefrom") == 0)
		closefrom(FIRST);
	else if (strcmp(how, "close_range") == 0)
		close_range(FIRST, ~0U, 0);
	else if (strcmp(how, "unshare") == 0)
		close_range(FIRST, ~0U, CLOSE_RANGE_UNSHARE);
}

/* The lowest free numbers, to the last. */
static void fill_numbers(int last, bool sockets)
{
	char name[32];
	int fd;

	for (int i = 0; i <= last; i++) {
		snprintf(name, sizeof(name), "numbers/%d", i);
		fd = opened(name);
		if (fd > last) {
			close(fd);
			break;
		}
	}
	for (fd = FIRST; fd <= last; fd++)
		note_inode(fd, sockets);
}

/* Did something come out of the other end, or is it in the file? */
static bool touched(int fd, int last, bool sockets)
{
	struct stat st;
	char byte;

	if (fstat(fd, &st) || st.st_ino != inodes[fd])
		return true; /* moved, or gone */
	if (sockets)
		return recv(last + 1 + fd, &byte, 1, MSG_DONTWAIT) >= 0;
	return st.st_size || lseek(fd, 0, SEEK_CUR);
}

static int differences(int last, bool sockets)
{
	int found = 0;

	for (int fd = FIRST; fd <= last; fd++)
		if (inodes[fd] && touched(fd, last, sockets))
			found++;
	return found;
}

static void raise_limit(rlim_t to)
{
	const struct rlimit limit = { to, to };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
}

/* Sockets that we did not open: whose are they?  Their inodes. */
static int sockets_of_others(ino_t *found, int last)
{
	struct stat st;
	int n = 0;

	for (int fd = FIRST; fd <= last; fd++)
		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
			found[n++] = st.st_ino;
	return n;
}

/* Those that are gone, of a set. */
static int gone(const ino_t *before, int n, int last)
{
	static ino_t now[MOST];
	int left = sockets_of_others(now, last), lost = n;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < left; j++)
			lost -= before[i] == now[j];
	return lost;
}

/* A child has our keeper's socket appear, where there is a keeper. */
int main(int argc, char **argv)
{
	static ino_t before[MOST];
	int last = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0, fd, n;
	bool sockets = last && strcmp(argv[1], "sockets") == 0;
	char line[64];

	if (!last)
		return 64;
	raise_limit((rlim_t)last * (sockets ? 2 : 1) + 1024);
	mkdir("numbers", 0777);
	fd = locked(argv[2]);
	if (fd != KEEP || system("true"))
		die("not descriptor 3");
	n = sockets_of_others(before, last);
	take_numbers(argv[1], last);
	if (strncmp(argv[1], "close", 5) == 0 || argv[1][0] == 'u')
		n = gone(before, n, last);
	else
		n = 0;
	fill_numbers(last, sockets);
	snprintf(line, sizeof(line), "held, %d lost", n);
	tell(line);
	wait_for_go();
	for (long end = now_ms() + 2000; now_ms() < end; pause_ms(50))
		if (flock(fd, LOCK_UN) || flock(fd, LOCK_EX | LOCK_NB))
			die("flock again");
	snprintf(line, sizeof(line), "%d different",
		 differences(last, sockets));
	tell(line);
	wait_for_go();
	return 0;
}
