/* SPDX-License-Identifier: MIT */
/*
 * Which file a command is: the search of execvp(3), so that what is checked
 * is what is run.  Exit codes as a shell's (POSIX, XCU 2.8.2): 127 for a
 * command that is not found, 126 for one that cannot be executed.
 */
#include "tools/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common.h"

/* 0, -EACCES for one that is there but cannot be run, or -ENOENT. */
static int try(const char *file)
{
	struct stat st;

	if (stat(file, &st))
		return errno == EACCES ? -EACCES : -ENOENT;
	if (!S_ISREG(st.st_mode) || eaccess(file, X_OK))
		return -EACCES;
	return 0;
}

/* One element of PATH; an empty one is the current directory. */
static int try_in(const char *dir, size_t len, const char *command, char *file)
{
	if (!len)
		dir = ".", len = 1;
	if (snprintf(file, DLK_PATH_MAX, "%.*s/%s", (int)len, dir, command) >=
	    DLK_PATH_MAX)
		return -ENOENT;
	return try(file);
}

static int search(const char *command, char *file)
{
	const char *path = getenv("PATH");
	int err = -ENOENT;

	if (!path)
		path = "/bin:/usr/bin";
	for (;;) {
		size_t len = strcspn(path, ":");
		int rc = try_in(path, len, command, file);

		if (!rc)
			return 0;
		if (rc == -EACCES)
			err = rc;
		if (!path[len])
			return err;
		path += len + 1;
	}
}

int run_search(const char *command, char file[DLK_PATH_MAX])
{
	int err;

	if (!strchr(command, '/'))
		err = *command ? search(command, file) : -ENOENT;
	else if (snprintf(file, DLK_PATH_MAX, "%s", command) >= DLK_PATH_MAX)
		err = -ENAMETOOLONG;
	else
		err = try(file);
	if (err == -EACCES)
		return tool_fail(DLK_EXIT_CANNOT, "%s: cannot be executed",
				 command);
	return err ? tool_fail(DLK_EXIT_NOT_FOUND, "%s: not found", command)
		   : 0;
}
