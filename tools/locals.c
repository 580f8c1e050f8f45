/* SPDX-License-Identifier: MIT */
/* The kernel's own locks of a file; see locals.h. */
#include "tools/locals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/mounts.h"
#include "os/proc.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/processes.h"
#include "tools/shadows.h"

/* A file as /proc/locks names it: there the device is the superblock's. */
struct target {
	struct locals *found;
	size_t from;  /* of what is found, its own begin here */
	unsigned pid; /* that is looked at */
	dev_t dev, mounted;
	ino_t ino;
	bool shadow;
	char path[2 * DLK_PATH_MAX];
};

static bool is_about(const struct target *t, const struct dlk_lock_line *l)
{
	dev_t dev = makedev(l->major, l->minor);

	return l->ino == t->ino && (dev == t->dev || dev == t->mounted);
}

/* --- who is it? ----------------------------------------------------------- */

static enum local_library find_library(const struct local *lock)
{
	int fd;

	if (dlk_kernel_is_keeper(lock->command))
		return LIBRARY_KEEPER;
	fd = open(proc_file(lock->pid, "maps"), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return LIBRARY_UNKNOWN;
	close(fd);
	return dlk_kernel_is_preloaded((pid_t)lock->pid) ? LIBRARY_LOADED
							 : LIBRARY_NONE;
}

/* False if there is no such process. */
static bool identify(struct local *lock, unsigned pid)
{
	if (!proc_command(pid, lock->command, sizeof(lock->command)))
		return false;
	lock->pid = pid;
	lock->library = find_library(lock);
	return true;
}

/* --- who has it, if not who took it --------------------------------------- */

static struct local *add(struct target *t, const struct dlk_lock_line *line)
{
	struct locals *l = t->found;

	l->locks = tool_grow(l->locks, l->n, &l->room, sizeof(*l->locks));
	l->locks[l->n] = (struct local){ .line = *line, .shadow = t->shadow };
	return &l->locks[l->n++];
}

/* A line of /proc/locks; an OFD lock is nobody's there. */
static bool add_line(void *arg, const char *text)
{
	struct target *t = arg;
	struct dlk_lock_line line;
	struct local *lock;

	if (!dlk_lock_line(text, &line) || !is_about(t, &line))
		return true;
	lock = add(t, &line);
	if (line.pid > 0)
		lock->ended = !identify(lock, (unsigned)line.pid);
	return true;
}

static bool same_line(const struct dlk_lock_line *a,
		      const struct dlk_lock_line *b)
{
	return a->kind == b->kind && a->write == b->write &&
	       a->start == b->start && a->end == b->end && !a->waits;
}

/*
 * A lock of an open descriptor.  Is its line there, of nobody, then it is this
 * process's; is there none, then who took it has ended, and in a pid namespace
 * /proc/locks leaves such out.
 */
static bool see_line(void *arg, const char *text)
{
	struct target *t = arg;
	struct dlk_lock_line line;
	struct local *lock = NULL;
	bool known = false;

	if (strncmp(text, "lock:", 5) || !dlk_lock_line(text, &line) ||
	    !is_about(t, &line))
		return true;
	for (size_t i = t->from; i < t->found->n && !lock; i++) {
		struct local *l = &t->found->locks[i];

		known = known || same_line(&l->line, &line);
		if (!l->pid && same_line(&l->line, &line))
			lock = l;
	}
	if (!known) {
		lock = add(t, &line);
		lock->ended = true;
	}
	if (lock)
		identify(lock, t->pid);
	return true;
}

/* The name first: stat(2) would ask the file's server. */
static bool has_name(const struct target *t, const char *fd)
{
	char name[sizeof(t->path)];
	ssize_t n = readlink(fd, name, sizeof(name) - 1);
	size_t len = strlen(t->path);

	if (n < 0)
		return false;
	name[n] = '\0';
	return !strncmp(name, t->path, len) &&
	       (!name[len] || !strcmp(name + len, " (deleted)"));
}

static void search_process(struct target *t)
{
	DIR *d = opendir(proc_file(t->pid, "fd"));
	const char *fd;
	char name[80];

	while ((fd = names_next(&d))) {
		snprintf(name, sizeof(name), "/proc/%u/fd/%.20s", t->pid, fd);
		if (!has_name(t, name))
			continue;
		snprintf(name, sizeof(name), "/proc/%u/fdinfo/%.20s", t->pid,
			 fd);
		dlk_each_line(name, see_line, t);
	}
}

static void search_all(struct target *t)
{
	DIR *d = opendir("/proc");

	while ((t->pid = proc_next(&d)))
		search_process(t);
}

/* --- which files ---------------------------------------------------------- */

static bool look_at(const char *path, bool shadow, struct locals *l)
{
	static struct target t;
	struct dlk_mount mount;
	struct stat st;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (dlk_file_known(fd, &st)) {
		close(fd);
		return false;
	}
	t = (struct target){ .found = l,
			     .from = l->n,
			     .dev = st.st_dev,
			     .mounted = st.st_dev,
			     .ino = st.st_ino,
			     .shadow = shadow };
	if (dlk_mount_of(fd, &mount))
		t.mounted = mount.dev;
	snprintf(t.path, sizeof(t.path), "%s", path);
	close(fd);
	dlk_each_line("/proc/locks", add_line, &t);
	search_all(&t);
	return true;
}

struct shadows {
	struct locals *found;
	char prefix[48];
};

/* "DEV-INO-HANDLE", or a socket, of which nobody has locks. */
static int look_in(void *arg, const char *dir, dev_t dev)
{
	const struct shadows *s = arg;
	char path[DLK_STATE_DIR_MAX + 2 * NAME_MAX + 12];
	DIR *d = opendir(dir);
	const char *name;

	(void)dev;
	while ((name = names_next(&d))) {
		if (strncmp(name, s->prefix, strlen(s->prefix)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		look_at(path, true, s->found);
	}
	return 0;
}

static void look_at_shadows(const char *state_dir, const struct stat *st,
			    struct locals *l)
{
	struct shadows s = { .found = l };

	snprintf(s.prefix, sizeof(s.prefix), "%llx-%llx-",
		 (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino);
	shadows_each(state_dir, look_in, &s);
}

void locals_find(const struct subject *s, struct locals *l)
{
	struct stat st;

	*l = (struct locals){ 0 };
	if (lstat(s->path, &st)) {
		l->unseen = errno != ENOENT && errno != ENOTDIR;
		return;
	}
	l->unseen = !look_at(s->path, false, l);
	look_at_shadows(s->config->state_dir, &st, l);
}

void locals_free(struct locals *l)
{
	free(l->locks);
	*l = (struct locals){ 0 };
}
