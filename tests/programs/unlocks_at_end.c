/* SPDX-License-Identifier: MIT */
/*
 * Three OFD locks on FILE, each of a byte; 2 ms later two unlocks, a close and
 * the end, at once.	unlocks_at_end FILE
 */
#include <fcntl.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static void set(int fd, short type, off_t start)
{
	struct flock l = { .l_type = type,
			   .l_whence = SEEK_SET,
			   .l_start = start,
			   .l_len = 1 };

	if (fcntl(fd, F_OFD_SETLK, &l) < 0)
		die("fcntl");
}

int main(int argc, char **argv)
{
	int fd;

	if (argc != 2)
		return 64;
	fd = open(argv[1], O_RDWR | O_CREAT, 0666);
	if (fd < 0)
		die(argv[1]);
	for (off_t i = 0; i < 3; i++)
		set(fd, F_WRLCK, 2 * i);
	pause_ms(2);
	for (off_t i = 0; i < 2; i++)
		set(fd, F_UNLCK, 2 * i);
	close(fd);
	return 0;
}
