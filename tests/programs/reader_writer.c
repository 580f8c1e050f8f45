/* SPDX-License-Identifier: MIT */
/*
 * A reader or a writer that records its critical sections.
 *
 *	reader_writer SH|EX FILE MS NAME
 *
 * For MS milliseconds it locks FILE by flock(2), stays for about 1 ms, unlocks
 * and pauses for up to 4 ms (a writer: 8 ms).  At the end it prints a line for
 * each section,
 *
 *	SH|EX START END NAME
 *
 * START is read after the lock is granted, END before it is given back, both
 * CLOCK_BOOTTIME nanoseconds: two processes that overlap were both inside.
 * Status 1: a lock call failed; what is on standard output is still true.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { SECTIONS_MAX = 200000 };

static struct section {
	long long start, end;
} sections[SECTIONS_MAX];

/* Lock, stay, unlock; false if a call failed. */
static bool once(int fd, int mode, struct section *s)
{
	if (flock(fd, mode) < 0)
		return false;
	s->start = now_ns();
	pause_us(1000);
	s->end = now_ns();
	return flock(fd, LOCK_UN) == 0;
}

int main(int argc, char **argv)
{
	bool writer = argc == 5 && strcmp(argv[1], "EX") == 0, good = true;
	long long end;
	int fd, n = 0;

	if (argc != 5 || (!writer && strcmp(argv[1], "SH") != 0))
		return 64;
	fd = open(argv[2], O_RDWR | O_CREAT, 0666);
	if (fd < 0) {
		perror(argv[2]);
		return 66;
	}
	srandom((unsigned)getpid());
	end = now_ns() + strtol(argv[3], NULL, 10) * 1000000LL;
	while (good && n < SECTIONS_MAX && now_ns() < end) {
		good = once(fd, writer ? LOCK_EX : LOCK_SH, &sections[n]);
		n += good;
		pause_us(random() % (writer ? 8000 : 4000));
	}
	if (!good)
		perror("flock");
	for (int i = 0; i < n; i++)
		printf("%s %lld %lld %s\n", argv[1], sections[i].start,
		       sections[i].end, argv[4]);
	return good ? 0 : 1;
}
