/* SPDX-License-Identifier: MIT */
/*
 * Not only regular files have record locks: directories (to read), FIFOs, what
 * is removed already.
 */
#include "records.h"

#include <sys/stat.h>

static void all(const char *title, int fd)
{
	static const int commands[] = { F_SETLK, F_SETLKW, F_OFD_SETLK };

	printf("%s\n", title);
	for (int i = 0; i < 3; i++) {
		struct flock cur = { .l_type = F_RDLCK, .l_whence = SEEK_CUR };
		struct flock end = { .l_type = F_RDLCK,
				     .l_whence = SEEK_END,
				     .l_start = 1 };

		SHOW(record(fd, commands[i], F_RDLCK, 0, 10));
		SHOW(record(fd, commands[i], F_WRLCK, 20, 10));
		SHOW(fcntl(fd, commands[i], &cur));
		SHOW(record(fd, commands[i], F_UNLCK, 0, 0));
		if (commands[i] != F_OFD_SETLK)
			continue;
		SHOW(fcntl(fd, commands[i], &end) == -1 && errno != EOVERFLOW);
		SHOW(record(fd, commands[i], F_UNLCK, 0, 0));
	}
}

static void second(const char *name, int flags)
{
	int fd = open(name, flags);

	SHOW(SET(fd, F_RDLCK, 0, 10));
	SHOW(SET(fd, F_RDLCK, 50, 10));
	SHOW(OFD(fd, F_RDLCK, 0, 10));
	SHOW(SET(fd, F_UNLCK, 0, 0));
	SHOW(OFD(fd, F_UNLCK, 0, 0));
	close(fd);
}

int main(void)
{
	int fd;

	prober_start("f");
	mkdir("d", 0777);
	mkfifo("p", 0666);
	fd = open("d", O_RDONLY | O_DIRECTORY);
	all("a directory", fd);
	SHOW(SET(fd, F_RDLCK, 0, 10));
	IN_CHILD(second("d", O_RDONLY));
	SHOW(close(fd));
	fd = open("p", O_RDWR);
	all("a FIFO", fd);
	SHOW(SET(fd, F_WRLCK, 0, 10));
	IN_CHILD(second("p", O_RDWR));
	SHOW(close(fd));
	fd = opened("f", O_RDWR);
	all("a file", fd);
	SHOW(SET(fd, F_WRLCK, 0, 10));
	HELD();
	IN_CHILD(second("f", O_RDWR));
	SHOW(unlink("f"));
	SHOW(SET(fd, F_WRLCK, 0, 20));
	all("a file that is removed", fd);
	SHOW(close(fd));
	leave_nothing("f");
	return 0;
}
