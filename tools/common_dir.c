/* SPDX-License-Identifier: MIT */
/* Where dlock run keeps its things; see common.h. */
#include "tools/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* XDG_RUNTIME_DIR may be another user's, after su(1). */
static bool ours(const char *dir)
{
	struct stat st;

	return dir && *dir == '/' && !lstat(dir, &st) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

/*
 * In the order of preference: cron(8) has no XDG_RUNTIME_DIR, and the same
 * user's shell has.
 */
bool tool_run_dir(unsigned i, char dir[DLK_PATH_MAX])
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	unsigned uid = geteuid();

	if (!ours(xdg) || strlen(xdg) >= DLK_PATH_MAX / 2)
		i++;
	if (i == 0)
		sprintf(dir, "%s/dlock-run", xdg);
	else if (i == 1 && !uid)
		strcpy(dir, "/run/dlock-run");
	else if (i == 1)
		sprintf(dir, "/tmp/dlock-%u", uid);
	else if (i == 2)
		sprintf(dir, "/run/user/%u/dlock-run", uid);
	return i <= 2;
}

int tool_run_dir_open(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int err;

	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : 0;
	if (!err && (st.st_uid != geteuid() || (st.st_mode & 077)))
		err = -EPERM;
	if (!err)
		return fd;
	close(fd);
	return err;
}

void tool_beside(const char *name, const char *installed, int mode,
		 char file[DLK_PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", file, DLK_PATH_MAX - 1);
	char *slash;

	file[n > 0 ? n : 0] = '\0';
	slash = strrchr(file, '/');
	if (slash && slash - file < DLK_PATH_MAX - 64) {
		strcpy(slash + 1, name);
		if (!access(file, mode))
			return;
	}
	snprintf(file, DLK_PATH_MAX, "%s", installed);
}
