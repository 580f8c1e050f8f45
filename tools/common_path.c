/* SPDX-License-Identifier: MIT */
/*
 * A path as the kernel will name it once the file exists; see common.h.
 *
 * realpath(3) does it for what exists.  For the rest: the last component is
 * set aside and its parent resolved, again and again; a symbolic link whose
 * target is missing is followed, as open(O_CREAT) would.
 */
#include "tools/common.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 64 };

static int resolve(const char *path, char *out, int depth);

/* Print "A/B" into out; a slash that A ends in is not doubled. */
static int join(char *out, const char *a, const char *b)
{
	const char *slash = strcmp(a, "/") ? "/" : "";
	int n = snprintf(out, DLK_PATH_MAX, "%s%s%s", a, slash, b);

	return n < DLK_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The directory part of a path ("." and "/" included) and the rest. */
static const char *split(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return path;
	*slash = '\0';
	return slash + 1;
}

/* A symbolic link that leads nowhere yet. */
static int resolve_link(const char *parent, const char *target, char *out,
			int depth)
{
	char path[DLK_PATH_MAX];
	int err = 0;

	if (*target == '/')
		return resolve(target, out, depth);
	err = join(path, parent, target);
	return err ? err : resolve(path, out, depth);
}

static int resolve_missing(char *path, char *out, int depth)
{
	char link[DLK_PATH_MAX], parent[DLK_PATH_MAX];
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	const char *last = split(path);
	const char *dir = last == path ? "." : *path ? path : "/";
	int err;

	if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
		return -ENOENT;
	if (n > 0) {
		link[n] = '\0';
		return resolve_link(dir, link, out, depth + 1);
	}
	err = resolve(dir, parent, depth + 1);
	return err ? err : join(out, parent, last);
}

static int resolve(const char *path, char *out, int depth)
{
	char copy[DLK_PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(copy))
		return -ENAMETOOLONG;
	if (realpath(path, out))
		return 0;
	if (errno != ENOENT)
		return -errno;
	if (depth >= DEPTH_MAX)
		return -ELOOP;
	memcpy(copy, path, len + 1);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	return resolve_missing(copy, out, depth);
}

int tool_resolve(const char *path, char out[DLK_PATH_MAX])
{
	return resolve(path, out, 0);
}
