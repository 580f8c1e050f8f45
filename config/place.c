/* SPDX-License-Identifier: MIT */
/*
 * Where a path leads: through symbolic links, to the name that the kernel
 * shows in /proc/self/fd.
 *
 * /var/lock is a link to /run/lock on many hosts.  A lock of a file under
 * "/var/lock/jobs/" is one of "/run/lock/jobs/..." there, and a rule that was
 * compared with that name as it is written would manage nothing.
 *
 *  1. Each component that exists is followed if it is a link; so is a link
 *     that leads nowhere yet, for open(O_CREAT) will follow it as well
 *     (path_resolution(7)).
 *  2. From the first component that does not exist on, the path is taken as it
 *     is written: a directory that is made there later has that name.
 *  3. Nothing is opened and nothing allocated, and the system calls are the
 *     kernel's own: this runs in somebody else's program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/internal.h"
#include "lease/sys.h"

enum { LINKS_MAX = 40 }; /* the kernel's own bound: path_resolution(7) */

struct walk {
	struct dlk_place *place; /* so far, without a slash at its end */
	char rest[DLK_PATH_MAX]; /* what is still to be walked */
	unsigned links;
};

/* Put "/NAME" behind what is resolved. */
static int push(struct dlk_place *place, const char *name, size_t len)
{
	if (place->len + 1 + len >= sizeof(place->path))
		return -ENAMETOOLONG;
	place->path[place->len++] = '/';
	memcpy(place->path + place->len, name, len);
	place->len += len;
	place->path[place->len] = '\0';
	return 0;
}

/* Back to the directory that the last component is in. */
static void pop(struct dlk_place *place)
{
	while (place->len && place->path[place->len - 1] != '/')
		place->len--;
	if (place->len)
		place->len--;
	place->path[place->len] = '\0';
}

/* The last component is a link: its target is walked before the rest. */
static int follow(struct walk *w, const char *rest, char *target, size_t len)
{
	size_t more = strlen(rest);

	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (len + 1 + more >= sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + len + 1, rest, more + 1);
	memcpy(w->rest, target, len);
	w->rest[len] = '/';
	if (target[0] == '/')
		w->place->len = 0;
	else
		pop(w->place);
	w->place->path[w->place->len] = '\0';
	return 0;
}

/* ".." of what does not exist: as if it were a directory, once it is made. */
static void climb(struct dlk_place *place)
{
	if (place->lacks) {
		place->lacks--;
		place->impossible = true;
	}
	pop(place);
}

/* One component; if it is a link, the rest begins anew in w->rest. */
static int step(struct walk *w, const char *name, size_t len, const char *rest)
{
	struct dlk_place *place = w->place;
	char target[DLK_PATH_MAX];
	long n;
	int err;

	if (len <= 2 && !memcmp(name, "..", len)) {
		if (len == 2)
			climb(place);
		return 0;
	}
	err = push(place, name, len);
	if (err)
		return err;
	if (place->lacks) {
		place->lacks++;
		return 0;
	}
	n = dlk_syscall(SYS_readlinkat, AT_FDCWD, place->path, target,
			sizeof(target));
	if (n > 0)
		return follow(w, rest, target, (size_t)n);
	if (n < 0 && errno != EINVAL) {
		place->lacks = 1;
		place->why = errno;
	}
	return 0;
}

static int walk(struct walk *w)
{
	const char *p = w->rest;
	int err = 0;

	while (!err) {
		unsigned links = w->links;
		const char *name = p + strspn(p, "/");
		size_t len = strcspn(name, "/");

		if (!len)
			return 0;
		p = name + len;
		err = step(w, name, len, p);
		if (w->links != links)
			p = w->rest;
	}
	return err;
}

/* From what is known of it already: no server of a share need be asked. */
static bool is_directory(const char *path)
{
	struct statx sx;

	return dlk_syscall(SYS_statx, AT_FDCWD, path,
			   AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
				   AT_STATX_DONT_SYNC,
			   STATX_TYPE, &sx) == 0 &&
	       S_ISDIR(sx.stx_mode);
}

int dlk_place_find(const char *path, struct dlk_place *place)
{
	struct walk w = { .place = place };
	size_t len = strlen(path);
	int err;

	*place = (struct dlk_place){ 0 };
	if (len >= sizeof(w.rest))
		return -ENAMETOOLONG;
	memcpy(w.rest, path, len + 1);
	err = walk(&w);
	if (err)
		return err;
	place->directory =
		!place->lacks && is_directory(place->len ? place->path : "/");
	if (!place->len || path[len - 1] == '/')
		err = push(place, "", 0);
	return err;
}
