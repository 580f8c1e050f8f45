/* SPDX-License-Identifier: MIT */
/* A path as the kernel will name it once the file exists; see common.h. */
#include "tools/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int make_absolute(const char *path, char out[DLK_PATH_MAX])
{
	char cwd[DLK_PATH_MAX];
	int n;

	if (*path == '/')
		n = snprintf(out, DLK_PATH_MAX, "%s", path);
	else if (!getcwd(cwd, sizeof(cwd)))
		return -errno;
	else
		n = snprintf(out, DLK_PATH_MAX, "%s/%s", cwd, path);
	return n < DLK_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int tool_resolve(const char *path, char out[DLK_PATH_MAX])
{
	struct dlk_reach reach = { .all = true };
	static struct dlk_search search;
	struct dlk_place *place = &search.place;
	int err = *path ? make_absolute(path, out) : -ENOENT;

	if (!err)
		err = dlk_place_find(out, &reach, &search);
	if (!err && place->impossible)
		err = -ENOENT;
	if (err)
		return err;
	if (place->len > 1 && place->path[place->len - 1] == '/')
		place->path[--place->len] = '\0';
	memcpy(out, place->path, place->len + 1);
	return 0;
}
