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
 *  3. A share whose server may not answer is looked into only if the caller
 *     says so, or every program of the host would hang with it when it starts.
 *     Below its mount point the path is taken as it is written.  The mount
 *     point itself asks nobody (statx(2), AT_STATX_DONT_SYNC).
 *  4. Nothing is opened and nothing allocated, the memory is the caller's, and
 *     the system calls are the kernel's own: this runs in somebody else's
 *     program, at its start and in its locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "config/internal.h"
#include "os/mounts.h"
#include "os/sys.h"

enum { LINKS_MAX = 40 }; /* the kernel's own bound: path_resolution(7) */

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
	place->directory = true;
}

/* ".." of what does not exist: as if it were a directory, once it is made. */
static void climb(struct dlk_place *place)
{
	if (place->lacks) {
		place->lacks--;
		place->impossible = true;
	}
	if (place->unasked)
		place->unasked--;
	pop(place);
}

static bool look(const char *path, struct statx *sx)
{
	return dlk_syscall(SYS_statx, AT_FDCWD, path,
			   AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
				   AT_STATX_DONT_SYNC,
			   STATX_TYPE | STATX_MNT_ID, sx) == 0;
}

static dev_t device(const struct statx *sx)
{
	return makedev(sx->stx_dev_major, sx->stx_dev_minor);
}

/* Where it cannot be known, a prefix had better be followed. */
static bool is_local(uint64_t mount_id)
{
	struct dlk_mount mount;

	return !dlk_mount_by_id(mount_id, &mount) ||
	       dlk_fs_of_type(mount.type) == DLK_FS_LOCAL;
}

static void learn(struct dlk_reach *reach, dev_t dev)
{
	if (reach->n_known < DLK_KNOWN_MAX)
		reach->known[reach->n_known++] = dev;
}

/* May we look into the directory that this is of? */
static bool may_ask(struct dlk_reach *reach, const struct statx *sx)
{
	dev_t dev = device(sx);

	if (reach->all || sx->stx_dev_major != 0 || dev == reach->also)
		return true;
	for (unsigned i = 0; i < reach->n_known; i++) {
		if (reach->known[i] == dev)
			return true;
	}
	if (!reach->learn || !(sx->stx_mask & STATX_MNT_ID) ||
	    !is_local(sx->stx_mnt_id))
		return false;
	learn(reach, dev);
	return true;
}

/* The last component is a link: its target is walked before the rest. */
static int follow(struct dlk_search *s, const char *rest)
{
	struct dlk_place *place = &s->place;
	long n = dlk_syscall(SYS_readlinkat, AT_FDCWD, place->path, s->target,
			     sizeof(s->target));
	size_t more = strlen(rest), len = n > 0 ? (size_t)n : 0;

	if (n <= 0) { /* it was replaced just now */
		place->lacks = 1;
		place->why = n < 0 ? errno : ENOENT;
		return 0;
	}
	if (++s->links > LINKS_MAX)
		return -ELOOP;
	if (len + 1 + more >= sizeof(s->rest))
		return -ENAMETOOLONG;
	memmove(s->rest + len + 1, rest, more + 1);
	memcpy(s->rest, s->target, len);
	s->rest[len] = '/';
	if (s->target[0] == '/')
		place->len = 0;
	else
		pop(place);
	place->path[place->len] = '\0';
	return 0;
}

/* The last component, of which nothing is known yet. */
static int resolve(struct dlk_search *s, struct dlk_reach *reach,
		   const char *rest)
{
	struct dlk_place *place = &s->place;
	struct statx sx;

	if (!look(place->path, &sx)) {
		place->lacks = 1;
		place->why = errno;
		return 0;
	}
	if (S_ISLNK(sx.stx_mode))
		return follow(s, rest);
	place->directory = S_ISDIR(sx.stx_mode);
	s->closed = !may_ask(reach, &sx);
	return 0;
}

/* One component; if it is a link, the rest begins anew in s->rest. */
static int step(struct dlk_search *s, struct dlk_reach *reach, const char *name,
		size_t len)
{
	struct dlk_place *place = &s->place;
	int err;

	if (len <= 2 && !memcmp(name, "..", len)) {
		if (len == 2)
			climb(place);
		return 0;
	}
	err = push(place, name, len);
	if (err)
		return err;
	if (place->lacks)
		place->lacks++;
	else if (place->unasked || s->closed)
		place->unasked++;
	else
		return resolve(s, reach, name + len);
	return 0;
}

static int walk(struct dlk_search *s, struct dlk_reach *reach)
{
	const char *p = s->rest;
	int err = 0;

	while (!err) {
		unsigned links = s->links;
		const char *name = p + strspn(p, "/");
		size_t len = strcspn(name, "/");

		if (!len)
			return 0;
		p = name + len;
		err = step(s, reach, name, len);
		if (s->links != links)
			p = s->rest;
	}
	return err;
}

/* The program itself comes from what is mounted at the root, mostly. */
static void begin(struct dlk_search *s, struct dlk_reach *reach)
{
	struct statx sx;

	s->place = (struct dlk_place){ .directory = true };
	s->links = 0;
	s->closed = false;
	if (look("/", &sx) && sx.stx_dev_major == 0 && reach->learn &&
	    !reach->n_known)
		learn(reach, device(&sx));
}

int dlk_place_find(const char *path, struct dlk_reach *reach,
		   struct dlk_search *s)
{
	size_t len = strlen(path);
	int err;

	begin(s, reach);
	if (len >= sizeof(s->rest))
		return -ENAMETOOLONG;
	memcpy(s->rest, path, len + 1);
	err = walk(s, reach);
	if (err)
		return err;
	if (s->place.lacks || s->place.unasked)
		s->place.directory = false;
	s->place.linked = s->links > 0;
	if (!s->place.len || path[len - 1] == '/')
		err = push(&s->place, "", 0);
	return err;
}
