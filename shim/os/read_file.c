/* SPDX-License-Identifier: MIT */
/*
 * Only a regular file is read, never waited for, and never more of it than was
 * asked for.
 */
#include "os/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/sys.h"

static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);
		if (n == 0)
			return (ssize_t)len;
		if (n > 0)
			len += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return -EFBIG;
}

/*
 * O_NONBLOCK: a FIFO in the file's place must not hang the open.  The raw
 * close: this runs inside programs whose close() is ours.
 */
ssize_t dlk_read_file(const char *path, char *buf, size_t max, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t len;

	if (fd < 0)
		return -errno;
	if (dlk_fstat(fd, st))
		len = -errno;
	else if (!S_ISREG(st->st_mode))
		len = -EINVAL;
	else
		len = read_all(fd, buf, max);
	dlk_close(fd);
	if (len < 0 && len != -EFBIG)
		return len;
	buf[len < 0 ? (ssize_t)max - 1 : len] = '\0';
	return len;
}
