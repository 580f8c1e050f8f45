/* SPDX-License-Identifier: MIT */
/* Paths that were looked up a moment ago; see path_cache.h. */
#include "os/path_cache.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "os/sys.h"
#include "model/timeline.h"

enum { CACHE_MS = 100, CACHED = 4, CACHED_PATH = 200 };

struct cached_path {
	int fd;
	uint64_t until_ns, ino, mount;
	uint32_t major, minor;
	char path[CACHED_PATH];
};

static __thread struct {
	bool busy; /* a signal handler came while we were here */
	unsigned next;
	struct cached_path v[CACHED];
} cache __attribute__((tls_model("initial-exec")));

static bool identify(int dir, const char *path, int flags,
		     struct cached_path *p)
{
	struct statx sx;

	if (dlk_syscall(SYS_statx, dir, path, flags,
			STATX_INO | STATX_NLINK | STATX_MNT_ID, &sx) < 0 ||
	    !(sx.stx_mask & STATX_MNT_ID) || sx.stx_nlink != 1)
		return false;
	p->ino = sx.stx_ino;
	p->mount = sx.stx_mnt_id;
	p->major = sx.stx_dev_major;
	p->minor = sx.stx_dev_minor;
	return true;
}

static bool same(const struct cached_path *a, const struct cached_path *b)
{
	return a->ino == b->ino && a->mount == b->mount &&
	       a->major == b->major && a->minor == b->minor;
}

static bool find(int fd)
{
	for (unsigned i = 0; i < CACHED; i++) {
		const struct cached_path *p = &cache.v[i];
		struct cached_path now;

		if (p->until_ns && p->fd == fd)
			return dlk_now_ns() < p->until_ns &&
			       identify(fd, "", AT_EMPTY_PATH, &now) &&
			       same(p, &now) &&
			       identify(AT_FDCWD, p->path, AT_SYMLINK_NOFOLLOW,
					&now) &&
			       same(p, &now);
	}
	return false;
}

bool dlk_path_cache_has(int fd)
{
	bool known;

	if (cache.busy)
		return false;
	cache.busy = true;
	known = find(fd);
	cache.busy = false;
	return known;
}

static struct cached_path *place(int fd)
{
	for (unsigned i = 0; i < CACHED; i++)
		if (cache.v[i].fd == fd)
			return &cache.v[i];
	return &cache.v[cache.next++ % CACHED];
}

void dlk_path_cache_add(int fd, const char *path, size_t len)
{
	struct cached_path *p;

	if (cache.busy || len >= CACHED_PATH)
		return;
	cache.busy = true;
	p = place(fd);
	p->until_ns = 0;
	if (identify(fd, "", AT_EMPTY_PATH, p)) {
		memcpy(p->path, path, len + 1);
		p->fd = fd;
		p->until_ns = dlk_now_ns() + CACHE_MS * DLK_MS;
	}
	cache.busy = false;
}
