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
 *  4. At the start of a program no share is asked, for its server may be away,
 *     and the program may have nothing to do with it.  What lies below the
 *     share's mount point is taken as it is written, and followed when the
 *     program locks a file of that share (dlk_config_follow).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/internal.h"
#include "lease/mounts.h"
#include "lease/sys.h"

enum { LINKS_MAX = 40 }; /* the kernel's own bound: path_resolution(7) */

struct walk {
	struct dlk_place *place; /* so far, without a slash at its end */
	char rest[DLK_PATH_MAX]; /* what is still to be walked */
	char target[DLK_PATH_MAX];
	unsigned links;
	bool ask_shares;
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
static int follow(struct walk *w, const char *rest, size_t len)
{
	const char *target = w->target;
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
	if (place->share)
		return 0;
	if (place->lacks) {
		place->lacks++;
		return 0;
	}
	n = dlk_syscall(SYS_readlinkat, AT_FDCWD, place->path, w->target,
			sizeof(w->target));
	if (n > 0)
		return follow(w, rest, (size_t)n);
	if (n < 0 && errno != EINVAL) {
		place->lacks = 1;
		place->why = errno;
	} else if (!w->ask_shares && dlk_is_share(place->path)) {
		place->share = place->len;
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

static int find(struct walk *w, const char *path)
{
	struct dlk_place *place = w->place;
	size_t len = strlen(path);
	int err;

	memset(place, 0, sizeof(*place));
	w->links = 0;
	if (len >= sizeof(w->rest))
		return -ENAMETOOLONG;
	memcpy(w->rest, path, len + 1);
	err = walk(w);
	if (err)
		return err;
	place->directory = !place->lacks && !place->share &&
			   is_directory(place->len ? place->path : "/");
	if (!place->len || path[len - 1] == '/')
		err = push(place, "", 0);
	return err;
}

int dlk_place_find(const char *path, bool ask_shares, struct dlk_place *place)
{
	struct walk w;

	w.place = place;
	w.ask_shares = ask_shares;
	return find(&w, path);
}

/* --- on shares, when a file of theirs is locked ----------------------------
 */

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * Found by two threads at once, it is the same; the first one's stays, for
 * ever, for who looks at it takes no lock.  (By pages: a signal handler's stack
 * is small.)
 */
static bool follow_rule(const struct dlk_rule *rule)
{
	struct dlk_place *place = map(sizeof(*place));
	struct walk *w = map(sizeof(*w));
	const struct dlk_place *none = NULL;
	bool found = false;

	if (place && w) {
		w->place = place;
		w->ask_shares = true;
		found = find(w, rule->prefix) == 0 &&
			atomic_compare_exchange_strong(&rule->later->found,
						       &none, place);
	}
	if (place && !found)
		munmap(place, sizeof(*place));
	if (w)
		munmap(w, sizeof(*w));
	return found || none;
}

static bool is_on_share(const struct dlk_rule *rule, const char *path,
			size_t len)
{
	const size_t n = rule->later->share;

	return len > n && path[n] == '/' && memcmp(path, rule->place, n) == 0;
}

bool dlk_config_follow(const struct dlk_config *config, const char *path,
		       size_t len)
{
	bool any = false;

	for (unsigned i = 0; i < config->n_rules; i++) {
		const struct dlk_rule *rule = &config->rules[i];

		if (rule->later && !atomic_load(&rule->later->found) &&
		    is_on_share(rule, path, len))
			any |= follow_rule(rule);
	}
	return any;
}
