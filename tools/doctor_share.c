/* SPDX-License-Identifier: MIT */
/*
 * Managed shares: databases that share memory where only locks are shared, and
 * names that a mount remembers (dlock(7), File systems); see doctor.h.  All of
 * it asks a file's server, so it is done apart.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/mounts.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/processes.h"

enum { DEPTH = 3, ENTRIES = 10000, SQLITE_HEADER = 20, SQLITE_WAL = 2 };

/* A rule whose files are a share's; its place, open by O_PATH. */
typedef void share_fn(struct doctor *d, const struct dlk_rule *rule, int fd);

static void each_share(struct doctor *d, share_fn *fn)
{
	for (unsigned i = 0; i < d->config->n_rules; i++) {
		const struct dlk_rule *rule = &d->config->rules[i];
		int fd = open(rule->place, O_PATH | O_CLOEXEC);
		struct stat st;
		enum dlk_fs fs;

		if (fd < 0)
			continue;
		fs = dlk_file_known(fd, &st) ? DLK_FS_OTHER
					     : dlk_fs_of(fd, st.st_dev);
		if (fs == DLK_FS_CACHED || fs == DLK_FS_FUSE)
			fn(d, rule, fd);
		close(fd);
	}
}

/* --- what shares memory --------------------------------------------------- */

struct walk {
	struct doctor *d;
	const struct dlk_rule *rule;
	unsigned entries;
};

/* Who is not named as a database is not looked into, but the `only` one. */
static const char *shares_memory(int dir, const char *name, bool only)
{
	const size_t len = strlen(name);
	char head[SQLITE_HEADER];
	ssize_t n = -1;
	int fd;

	if (!strcmp(name, "data.mdb"))
		return "an LMDB database";
	if (!strncmp(name, "__db.00", strlen("__db.00")))
		return "a Berkeley DB environment";
	if (tool_ends(name, len, "-wal") || tool_ends(name, len, "-shm"))
		return "of an SQLite database in WAL mode";
	if (!only && !tool_ends(name, len, ".db") &&
	    !tool_ends(name, len, ".sqlite") &&
	    !tool_ends(name, len, ".sqlite3") && !tool_ends(name, len, ".db3"))
		return NULL;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, head, sizeof(head));
		close(fd);
	}
	if (n == SQLITE_HEADER && !memcmp(head, "SQLite format 3", 16) &&
	    head[18] == SQLITE_WAL)
		return "an SQLite database in WAL mode";
	return NULL;
}

static void find_database(struct doctor *d, const struct dlk_rule *rule,
			  const char *path, const char *what)
{
	doctor_find(d, DOCTOR_CRITICAL,
		    "it is shared by memory and not by locks: used from two "
		    "hosts it is corrupted, with dlock or without",
		    "PRAGMA journal_mode=DELETE for SQLite; others belong on "
		    "one host, or in the rule's exclude",
		    "path \"%s\": %s is %s", rule->prefix, path, what);
}

static void walk(struct walk *w, int dir, const char *path, unsigned depth)
{
	DIR *stream = fdopendir(dir);
	struct dirent *e;

	while (stream && w->entries < ENTRIES && (e = readdir(stream))) {
		char name[DLK_PATH_MAX];
		const char *what;
		int sub;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    snprintf(name, sizeof(name), "%s%s%s", path,
			     tool_ends(path, strlen(path), "/") ? "" : "/",
			     e->d_name) >= (int)sizeof(name))
			continue;
		w->entries++;
		sub = depth < DEPTH && e->d_type == DT_DIR
			      ? openat(dirfd(stream), e->d_name,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					       O_CLOEXEC)
			      : -1;
		if (sub >= 0)
			walk(w, sub, name, depth + 1);
		if (!dlk_config_match(w->d->config, name, strlen(name)))
			continue;
		what = shares_memory(dirfd(stream), e->d_name, false);
		if (what)
			find_database(w->d, w->rule, name, what);
	}
	if (stream)
		closedir(stream);
	else
		close(dir);
}

/* A rule of one file: that, or what SQLite has beside it while it is in use. */
static void look_at_file(struct doctor *d, const struct dlk_rule *rule)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	const size_t at = (size_t)(strrchr(rule->place, '/') + 1 - rule->place);
	char path[DLK_PATH_MAX + 8];
	const char *what = NULL;
	int dir;

	snprintf(path, at + 1, "%s", rule->place);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3 && !what; i++) {
		snprintf(path, sizeof(path), "%s%s", rule->place, ends[i]);
		if (!faccessat(dir, path + at, F_OK, 0))
			what = shares_memory(dir, path + at, !*ends[i]);
	}
	if (what)
		find_database(d, rule, path, what);
	if (dir >= 0)
		close(dir);
}

static void look_below(struct doctor *d, const struct dlk_rule *rule, int fd)
{
	struct walk w = { .d = d, .rule = rule };
	int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0)
		walk(&w, dir, rule->place, 1);
	if (w.entries >= ENTRIES)
		doctor_find(d, DOCTOR_UNKNOWN,
			    "a database that shares memory may be among the "
			    "others",
			    "look for *-wal, data.mdb and __db.00* there",
			    "path \"%s\" has more than %d files: the others "
			    "were not looked at",
			    rule->prefix, ENTRIES);
}

static void look_for_databases(struct doctor *d, const struct dlk_rule *rule,
			       int fd)
{
	if (dlk_rule_is_directory(rule))
		look_below(d, rule, fd);
	else
		look_at_file(d, rule);
}

void doctor_wal(struct doctor *d)
{
	each_share(d, look_for_databases);
}

/* --- names that are remembered -------------------------------------------- */

/* "entry_timeout=0" among "-o a,b" of a file server's command line. */
static bool is_zero(const char *options, const char *name)
{
	const char *p = strstr(options, name);

	while (p && p != options && p[-1] != ',' && p[-1] != ' ')
		p = strstr(p + 1, name);
	if (!p || p[strlen(name)] != '=')
		return false;
	p += strlen(name) + 1;
	p += strspn(p, "0.");
	return !*p || strchr(", ", *p);
}

/* Its words with blanks between, if one of them is the mount point. */
static bool serves(unsigned pid, const char *point, char *line, size_t size)
{
	ssize_t n = dlk_slurp(proc_file(pid, "cmdline"), line, size);
	bool found = false;

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(line + i) + 1)
		found = found || !strcmp(line + i, point);
	if (found)
		proc_line(pid, line, size);
	return found;
}

/* The command line of the FUSE server that is mounted there, if it is seen. */
static bool find_server(const char *point, char *line, size_t size)
{
	DIR *dir = opendir("/proc");
	bool found = false;
	unsigned pid;

	while (!found && (pid = proc_next(&dir)))
		found = pid != (unsigned)getpid() &&
			serves(pid, point, line, size);
	if (dir)
		closedir(dir);
	return found;
}

static void look_for_caches(struct doctor *d, const struct dlk_rule *rule,
			    int fd)
{
	struct dlk_mount mount;
	char point[DLK_PATH_MAX], link[64], line[8192];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, point, sizeof(point) - 1);
	if (n <= 0 || !dlk_mount_of(fd, &mount) ||
	    (size_t)n < mount.point_len || strncmp(mount.type, "fuse", 4) != 0)
		return;
	point[mount.point_len] = '\0';
	if (!find_server(point, line, sizeof(line)) ||
	    (is_zero(line, "entry_timeout") &&
	     is_zero(line, "negative_timeout")))
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "a file that another host makes, renames or removes beside "
		    "a locked one is seen late, though the lock is right "
		    "(SQLite's journal is looked up anew all the same)",
		    "mount it with entry_timeout=0,negative_timeout=0 where a "
		    "program relies on names",
		    "path \"%s\": the %s mount at %s caches names",
		    rule->prefix, mount.type, point);
}

void doctor_caches(struct doctor *d)
{
	each_share(d, look_for_caches);
}
