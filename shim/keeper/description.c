/* SPDX-License-Identifier: MIT */
/*
 * Has anybody a description still, of which nothing tells the end?  Who has it is found
 * by kcmp(2) with a copy of ours, among the descriptors of all processes; keepers have
 * it for this sake only.  That nobody has it MUST be proved:
 *
 *  - One who was seen to have it, or was sent it, and may not be looked into any more
 *    (setuid(2), PR_SET_DUMPABLE), has it until he ends.
 *  - Whose first thread has ended (pthread_exit(3)) has it by another one.
 *  - What was sent over a socket is in no table of descriptors until it is received
 *    (unix(7), SCM_RIGHTS).  The kernel tells how many are under way, but not which:
 *    it may be among them.  Only to processes of our own user, or every other one
 *    could keep a lock by a descriptor of anything.
 *  - It may pass from who was not looked at yet to who was, or just be received, when
 *    it is in neither place: so all are looked at twice, each time at what is under
 *    way to one before what he has.  (What is missed so both times is lost.)
 *  - Where there is no descriptor, or no memory, to look with, nothing is proved.
 *
 * A mapping (mmap(2)) and io_uring keep a description as well, but do not show it; nor
 * does a thread with a table of its own (unshare(2), CLONE_FILES).
 */
#include "keeper/description.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "model/text.h"
#include "model/timeline.h"
#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"

enum { SENT_MS = 1000 };

/*
 * In /proc/PID/fdinfo/N of a unix socket: how many descriptors were sent there and not
 * received; since Linux 5.6, and a later one where a connection is not accepted yet.
 */
#define SENT "scm_fds: "
/* In /proc/PID/status. */
#define REAL_UID "\nUid:\t"
/* Where /proc/PID/fd/N leads if it is one. */
#define SOCKET "socket:["

static LIST_HEAD(, dlk_description) descriptions;
static bool lacked; /* not all could be looked at */

/* --- one process ---------------------------------------------------------- */

static void note_lack(int err)
{
	lacked |= err == EMFILE || err == ENFILE || err == ENOMEM;
}

static DIR *look_into(const char *name)
{
	DIR *dir = opendir(name);

	if (!dir)
		note_lack(errno);
	return dir;
}

static void leave(DIR *dir)
{
	if (dir)
		closedir(dir);
}

/* False with errno set: it cannot be read, as of who has ended. */
static bool read_text(const char *name, char *text, size_t size)
{
	const ssize_t n = dlk_slurp(name, text, size);

	errno = n < 0 ? (int)-n : 0;
	note_lack(errno);
	return n > 0;
}

/* The number behind a word in a file of /proc; 0, too, if it is not there.  And errno. */
static uint64_t number_in(const char *name, const char *word)
{
	char text[2048];
	const char *found =
		read_text(name, text, sizeof(text)) ? strstr(text, word) : NULL;
	uint64_t n = 0;

	if (found)
		dlk_number(found + strlen(word), 10, &n);
	return n;
}

/* How much was sent to a unix socket, or to one that waits to be accepted by it? */
static uint64_t count_sent(const struct dlk_has *h)
{
	char name[DLK_NUMBERED_MAX], dir[DLK_NUMBERED_MAX];

	dlk_numbered(dir, "/proc/", h->pid, "/fdinfo/");
	return number_in(dlk_numbered(name, dir, h->fd, ""), SENT);
}

static bool is_ours(pid_t pid)
{
	char name[DLK_NUMBERED_MAX];

	return number_in(dlk_numbered(name, "/proc/", pid, "/status"),
			 REAL_UID) == getuid();
}

/* (By stat(2) it might wait for a file server.) */
static bool is_socket(DIR *fds, int fd)
{
	char name[DLK_NUMBERED_MAX], text[sizeof(SOCKET) - 1];

	return readlinkat(dirfd(fds), dlk_numbered(name, "", fd, ""), text,
			  sizeof(text)) == sizeof(text) &&
	       memcmp(text, SOCKET, sizeof(text)) == 0;
}

static bool next_fd(DIR *fds, struct dlk_has *h)
{
	uint64_t fd;

	if (!dlk_next_number(fds, &fd))
		return false;
	h->fd = (int)fd;
	return true;
}

bool dlk_description_is(const struct dlk_description *d, pid_t pid, int fd)
{
	errno = 0;
	return d->fd >= 0 && dlk_syscall(SYS_kcmp, getpid(), pid, KCMP_FILE,
					 (long)d->fd, (long)fd) == 0;
}

static const struct dlk_has *latest(const struct dlk_description *d)
{
	return d->n_holders ? &d->holders[d->n_holders - 1] : NULL;
}

/* (Who has it is worth more than who was sent something.) */
static void note(struct dlk_description *d, struct dlk_has h)
{
	if (h.is_socket && latest(d) && !latest(d)->is_socket)
		return;
	if (d->n_holders < DLK_KNOWN_HOLDERS) {
		d->holders[d->n_holders++] = h;
		return;
	}
	for (unsigned i = 0; i < d->n_holders && !h.is_socket; i++)
		if (d->holders[i].is_socket) {
			d->holders[i] = h;
			return;
		}
}

static void look_at_sockets(DIR *fds, pid_t pid)
{
	struct dlk_has at = { .pid = pid, .is_socket = true };
	struct dlk_description *d;
	struct stat st;

	if (fstat(dirfd(fds), &st) || st.st_uid != geteuid())
		return;
	while (next_fd(fds, &at)) {
		if (!is_socket(fds, at.fd) || count_sent(&at) == 0 ||
		    !is_ours(pid))
			continue;
		LIST_FOREACH(d, &descriptions, next)
		if (d->sought)
			note(d, at);
	}
	rewinddir(fds);
}

/* False: it has none open. */
static bool look_at_fds(const char *name, pid_t pid, bool at_sockets)
{
	struct dlk_has at = { .pid = pid };
	struct dlk_description *d;
	DIR *fds = look_into(name);
	bool any = false;

	if (fds && at_sockets)
		look_at_sockets(fds, pid);
	for (; next_fd(fds, &at); any = true)
		LIST_FOREACH(d, &descriptions, next)
	if (d->sought && dlk_description_is(d, at.pid, at.fd))
		note(d, at);
	leave(fds);
	return any;
}

/* --- all processes -------------------------------------------------------- */

static bool is_looked_at(pid_t pid)
{
	char name[DLK_NUMBERED_MAX], comm[32];

	if (!read_text(dlk_numbered(name, "/proc/", pid, "/comm"), comm,
		       sizeof(comm)))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return !dlk_kernel_is_keeper(comm);
}

/* Its first thread. */
static bool has_ended(pid_t pid)
{
	char name[DLK_NUMBERED_MAX], text[512];

	return read_text(dlk_numbered(name, "/proc/", pid, "/stat"), text,
			 sizeof(text)) &&
	       *dlk_stat_field(text, 3) == 'Z';
}

static void look_at_process(pid_t pid, bool at_sockets)
{
	char name[DLK_NUMBERED_MAX];
	uint64_t task;
	DIR *tasks;

	if (!is_looked_at(pid) ||
	    look_at_fds(dlk_numbered(name, "/proc/", pid, "/fd"), pid,
			at_sockets) ||
	    !has_ended(pid))
		return;
	tasks = look_into(dlk_numbered(name, "/proc/", pid, "/task"));
	while (dlk_next_number(tasks, &task))
		if (look_at_fds(dlk_numbered(name, "/proc/", (pid_t)task,
					     "/fd"),
				(pid_t)task, at_sockets))
			break;
	leave(tasks);
}

/* False: nothing is sought. */
static bool look_at_processes(bool at_sockets)
{
	const struct dlk_description *d;
	uint64_t pid;
	bool any = false;
	DIR *all;

	LIST_FOREACH(d, &descriptions, next)
	any |= d->sought;
	all = any ? look_into("/proc") : NULL;
	while (dlk_next_number(all, &pid))
		look_at_process((pid_t)pid, at_sockets);
	leave(all);
	return any;
}

/* --- a description -------------------------------------------------------- */

/* It was sent something, and may not be asked whether it has received that. */
static bool is_shut(const struct dlk_has *socket)
{
	return count_sent(socket) == 0 && (errno == EPERM || errno == EACCES);
}

static bool may_have(const struct dlk_description *d, const struct dlk_has *h)
{
	if (h->is_socket ? count_sent(h) > 0
			 : dlk_description_is(d, h->pid, h->fd))
		return true;
	if (errno != EPERM && errno != EACCES)
		return false;
	return dlk_shim_process_lives(h->pid) != 0;
}

static bool has_known_holder(struct dlk_description *d)
{
	for (; d->n_holders > 0; d->n_holders--)
		if (may_have(d, latest(d)))
			return true;
	return false;
}

/* Nobody else would find out why a file stays locked. */
static void say_sent(const struct dlk_description *d)
{
	char path[4096];
	const ssize_t n = dlk_kernel_path(d->fd, path, sizeof(path));
	struct dlk_line l;

	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "\"");
	dlk_text_quoted(&l.text, path, n < 0 ? 0 : (size_t)n);
	dlk_text_str(&l.text,
		     "\" stays locked, though nobody has the open file any "
		     "more: descriptors were sent to process ");
	dlk_text_i64(&l.text, latest(d)->pid);
	dlk_text_str(&l.text,
		     " by a socket, which it has not received, and it may be "
		     "among them; let it go on, or end it");
	dlk_line_end(&l);
}

/* By this look only what was sent holds it: since when? */
static void heed_sent(struct dlk_description *d, uint64_t now)
{
	if (!latest(d) || !latest(d)->is_socket || is_shut(latest(d)))
		d->say_ns = 0;
	else if (d->say_ns == 0)
		d->say_ns = now + SENT_MS * DLK_MS;
	else if (now >= d->say_ns) {
		say_sent(d);
		d->say_ns = UINT64_MAX;
	}
}

/* Before that is said: somebody may have received it by now. */
static void forget_sent(struct dlk_description *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_holders; i++)
		if (!d->holders[i].is_socket || is_shut(&d->holders[i]))
			d->holders[n++] = d->holders[i];
	d->n_holders = n;
}

static void seek(struct dlk_description *d, uint64_t now)
{
	const bool due =
		d->say_ns && d->say_ns != UINT64_MAX && now >= d->say_ns;

	if (due)
		forget_sent(d);
	d->sought = !has_known_holder(d);
	if (d->sought && !due)
		d->say_ns = 0; /* what was sent was received, or lost */
}

void dlk_descriptions_look(const struct dlk_description *only)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_description *d;

	lacked = false;
	LIST_FOREACH(d, &descriptions, next)
	if (!only || d == only)
		seek(d, now);
	if (look_at_processes(true)) {
		LIST_FOREACH(d, &descriptions, next)
		d->sought &= d->n_holders == 0;
		look_at_processes(true);
	}
	LIST_FOREACH(d, &descriptions, next)
	{
		d->sought = false;
		if (!only || d == only)
			heed_sent(d, now);
	}
}

bool dlk_description_is_had(const struct dlk_description *d)
{
	return d->n_holders > 0 || lacked;
}

void dlk_description_adopt(struct dlk_description *d, int fd)
{
	d->fd = fd;
	if (fd >= 0)
		LIST_INSERT_HEAD(&descriptions, d, next);
}

bool dlk_description_hold(struct dlk_description *d, int fd)
{
	dlk_description_adopt(d, fcntl(fd, F_DUPFD_CLOEXEC, 3));
	d->sought = true;
	look_at_processes(false);
	d->sought = false;
	return d->n_holders > 0;
}

void dlk_description_drop(struct dlk_description *d)
{
	if (d->fd < 0)
		return;
	LIST_REMOVE(d, next);
	/* (Its server may be away, and a close waits for that.) */
	dlk_errand_close(d->fd);
	d->fd = -1;
}
