/* SPDX-License-Identifier: MIT */
/* Who holds it; see holder.h. */
#include "tools/holder.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "model/fdinfo.h"
#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/processes.h"

/* A process' beginning is told in hundredths of a second. */
enum { COMM_MAX = 16, SLACK_MS = 50 };

/* --- which process -------------------------------------------------------- */

/* "dlockctl lock" holds under the name of the command that it has been given. */
static bool is_lock_for(unsigned pid, const char *command)
{
	char line[2 * DLK_PATH_MAX], word[DLK_WORD_MAX];
	ssize_t n = dlk_slurp(proc_file(pid, "cmdline"), line, sizeof(line));
	bool locks = false;

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(line + i) + 1) {
		const char *name = basename(line + i);

		dlk_word(word, sizeof(word), name, strlen(name));
		if (locks && !strcmp(word, command))
			return true;
		locks = locks || !strcmp(line + i, "lock");
	}
	return false;
}

/* Its name and its pid were another process's when the lock was taken. */
static bool began_later(unsigned pid, const struct scan_token *token)
{
	return proc_began_ns(pid) > token->since_ns + SLACK_MS * DLK_MS;
}

static bool has_command(unsigned pid, const struct scan_token *token)
{
	char comm[COMM_MAX + 1], name[DLK_WORD_MAX];

	if (!proc_command(pid, comm, sizeof(comm)) || began_later(pid, token))
		return false;
	dlk_unword(token->command, name, sizeof(name));
	return !strcmp(comm, name) ||
	       (!strcmp(comm, "dlockctl") && is_lock_for(pid, token->command));
}

/* "NSpid:	4242	17": the last one is that of its own namespace. */
static bool is_known_as(void *arg, const char *line)
{
	unsigned *pid = arg;
	const char *last = strrchr(line, '\t');
	uint64_t n;

	if (strncmp(line, "NSpid:", 6) != 0)
		return true;
	*pid = last && last != strchr(line, '\t') &&
			       dlk_number(last + 1, 10, &n)
		       ? (unsigned)n
		       : 0;
	return false;
}

/* --- of several namespaces ------------------------------------------------ */

struct locked {
	uint64_t dev, ino; /* of the file that the token names */
	bool is_it;
};

static bool is_lock_of(void *arg, const char *line)
{
	struct locked *file = arg;
	struct dlk_lock_line l;

	file->is_it |= dlk_lock_line(line, &l) &&
		       makedev(l.major, l.minor) == file->dev &&
		       l.ino == file->ino;
	return !file->is_it;
}

/* By what the kernel says of its descriptors: no file is looked at. */
static bool has_lock(unsigned pid, const struct scan_token *token)
{
	struct locked file = { 0 };
	char *end;

	file.dev = strtoull(token->file, &end, 16);
	file.ino = *end == ':' ? strtoull(end + 1, NULL, 16) : 0;
	proc_each_fdinfo(pid, is_lock_of, &file);
	return file.is_it;
}

/* Those of other namespaces, by one pass for all tokens. */
struct inner {
	unsigned pid, own; /* here, and there */
};

struct inners {
	struct inner *v;
	size_t n, room;
	bool read;
};

static void read_inners(struct inners *all)
{
	DIR *d = opendir("/proc");
	unsigned pid;

	all->read = true;
	while ((pid = proc_next(&d))) {
		struct inner one = { .pid = pid };

		dlk_each_line(proc_file(pid, "status"), is_known_as, &one.own);
		if (!one.own)
			continue;
		all->v = tool_grow(all->v, all->n, &all->room, sizeof(one));
		all->v[all->n++] = one;
	}
}

/*
 * Of another namespace: the only one that has this pid and command there, or of
 * those the only one with a lock of the file: two containers of one image have
 * the same of each.
 */
static unsigned search(struct inners *all, const struct scan_token *token)
{
	unsigned found = 0, many = 0, locked = 0, many_locked = 0;

	if (!all->read)
		read_inners(all);
	for (size_t i = 0; i < all->n; i++) {
		const struct inner *one = &all->v[i];

		if (one->own != token->pid || !has_command(one->pid, token))
			continue;
		found = one->pid;
		many++;
		if (has_lock(found, token)) {
			locked = found;
			many_locked++;
		}
	}
	return many == 1 ? found : many_locked == 1 ? locked : 0;
}

/* --- what is known of it -------------------------------------------------- */

static void read_user(struct scan_holder *h)
{
	struct stat st;
	struct passwd *p;

	if (stat(proc_file(h->pid, ""), &st))
		return;
	p = getpwuid(st.st_uid);
	if (p)
		snprintf(h->user, sizeof(h->user), "%s", p->pw_name);
	else
		snprintf(h->user, sizeof(h->user), "%u", (unsigned)st.st_uid);
}

/* "0::/system.slice/cron.service": the last of its kind (systemd, podman). */
static bool take_unit(void *arg, const char *line)
{
	struct scan_holder *h = arg;
	const char *path = strrchr(line, ':');
	char copy[1024], *rest = copy, *part;

	if (!path)
		return true;
	snprintf(copy, sizeof(copy), "%s", path + 1);
	while ((part = strsep(&rest, "/"))) {
		size_t n = strlen(part);

		if (tool_ends(part, n, ".service") ||
		    tool_ends(part, n, ".scope") ||
		    !strncmp(part, "docker-", 7) ||
		    !strncmp(part, "lxc.payload", 11))
			snprintf(h->unit, sizeof(h->unit), "%s", part);
	}
	return true;
}

/* NULL: it is not seen from here. */
static struct scan_holder *look_at(struct inners *all,
				   const struct scan_token *token)
{
	struct scan_holder found = { .pid = token->pid };

	if (!has_command(token->pid, token)) {
		found.pid = search(all, token);
		found.elsewhere = true;
	}
	if (!found.pid)
		return NULL;
	proc_line(found.pid, found.line, sizeof(found.line));
	read_user(&found);
	dlk_each_line(proc_file(found.pid, "cgroup"), take_unit, &found);
	return (void *)tool_copy(&found, sizeof(found));
}

void holders_find(struct scan *scan)
{
	struct inners all = { 0 };
	size_t looked = 0;

	for (size_t i = 0; i < scan->n && looked < HOLDERS_MAX; i++) {
		struct scan_lock *lock = &scan->locks[i];

		if (!lock->ours || !lock->of_host || lock->copy ||
		    lock->token.since_ns >= DLK_NO_LOCK_NS)
			continue;
		lock->holder = look_at(&all, &lock->token);
		looked++;
	}
	free(all.v);
}
