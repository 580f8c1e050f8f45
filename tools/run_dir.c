/* SPDX-License-Identifier: MIT */
/*
 * The private runtime directory: generated configurations, the private
 * server's socket.  It is not that of the shadows (state_dir), which other
 * users have a place in, and where what is old is removed.
 *
 *  1. It MUST be a directory of ours that nobody else can enter: a name under
 *     /tmp may have been made by anyone.  It is opened without following a
 *     link, and looked at through that descriptor.
 *  2. A file in it is replaced by rename(2), never written in place.
 */
#include "tools/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/sys.h"
#include "tools/common.h"

/* A descriptor of it, or -errno. */
static int open_dir(const char *dir)
{
	if (mkdir(dir, 0700) && errno != EEXIST)
		return -errno;
	return tool_run_dir_open(dir);
}

static int fail(const char *dir, int err)
{
	const char *reason =
		err == -EPERM ? "not a private directory of ours (owner, "
				"mode 0700)"
			      : strerror(-err);

	return tool_fail(DLK_EXIT_CONFIG, "%s: %s", dir, reason);
}

int run_dir(char dir[DLK_PATH_MAX])
{
	int fd;

	tool_run_dir(0, dir);
	fd = open_dir(dir);
	if (fd < 0)
		return fail(dir, fd);
	close(fd);
	return 0;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			text += n, len -= (size_t)n;
	}
	return 0;
}

static int replace(int dirfd, const char *name, const char *text, size_t len)
{
	uint64_t random;
	char temp[64];
	int fd, err;

	dlk_random(&random, sizeof(random));
	snprintf(temp, sizeof(temp), ".new.%016" PRIx64, random);
	fd = openat(dirfd, temp,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, text, len);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dirfd, temp, dirfd, name))
		err = -errno;
	if (err)
		unlinkat(dirfd, temp, 0);
	return err;
}

int run_dir_write(const char *dir, const char *name, const char *text,
		  size_t len)
{
	int dirfd = open_dir(dir), err;

	if (dirfd < 0)
		return fail(dir, dirfd);
	err = replace(dirfd, name, text, len);
	close(dirfd);
	return err ? fail(dir, err) : 0;
}
