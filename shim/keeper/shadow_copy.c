/* SPDX-License-Identifier: MIT */
/*
 * Holding shadows (DESIGN L4; shim/hold/shadow.c): as long as somebody has the
 * description that the program locked, the keeper has the shadow's.
 *
 *  1. It must see the end of that very description: the file alone says
 *     nothing, for whoever waits for the lock has that open too.
 *  2. It gives the shadow to whoever proves to have the description, by
 *     passing it: to unlock or convert what another process has locked.
 *
 * A description that can be polled (FUSE's can) is entered into an epoll set,
 * which holds no reference and forgets it when it ends (epoll(7), Q6); that
 * some description of the file has ended, inotify(7) tells.
 *
 *	__fput(), fs/file_table.c	keeper
 *	fsnotify_close		->	is it still in the set?  yes
 *	eventpoll_release
 *					a moment later: no
 *
 * Where epoll will not have it (EPERM), the keeper has to keep the program's
 * description, to compare others' with it by kcmp(2); and then nothing tells
 * of the end of all others but looking at them, every 20 ms.  That it is gone MUST be
 * proved:
 *
 *  - One who had it, and may not be looked into any more (setuid(2),
 *    PR_SET_DUMPABLE), has it until he ends.
 *  - What was sent over a socket is in no table of descriptors until it is received
 *    (unix(7), SCM_RIGHTS), and the kernel tells how many are under way, but not
 *    which: it may be among them.  Only to processes of our own user, or every other
 *    one could keep the lock by a descriptor of anything.
 *  - It may pass from who was not looked at yet to who was: so all are looked at
 *    twice, of each what is under way to him first.
 *
 * A mapping (mmap(2)) keeps a description as well, but does not show it.
 */
#include "keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/shadowdir.h"
#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum {
	LOOK_MS = 20,
	IDLE_MS = 500,
	ASKERS = 16,
	RELOOKS = 8,
	HOLDERS = 16,
	SENT_MS = 1000,
};

/* In /proc/PID/fdinfo/N of a unix socket, since Linux 5.6, and /proc/PID/status. */
#define UNREAD   "scm_fds: "
#define REAL_UID "\nUid:\t"

struct holder {
	pid_t pid;
	int fd;
	bool is_socket; /* by which it is sent to him, perhaps */
};

struct dlk_shadow_copy {
	LIST_ENTRY(dlk_shadow_copy) next;
	int shadow; /* -1: the description has ended */
	int set;    /* an epoll set with it, by plan.slot; or -1 */
	int held;   /* itself; or -1 */
	struct holder holders[HOLDERS];
	unsigned n_holders;
	uint64_t say_ns; /* that only what is sent holds it; 0: does not */
	int dir, sock;   /* for those who ask; or -1 */
	struct dlk_shadow_plan plan;
};

static LIST_HEAD(, dlk_shadow_copy) copies;
static int bell = -1; /* an epoll set of the next two and all sockets */
static int inotify = -1, timer = -1;
static unsigned relooks; /* still to do after an event */
static bool asleep;      /* we stand by: all of it is the other keeper's */

/* --- is the description still there? -------------------------------------- */

static bool in_set(const struct dlk_shadow_copy *s)
{
	char name[DLK_NUMBERED_MAX], text[512];

	dlk_numbered(name, "/proc/self/fdinfo/", s->set, "");
	return dlk_slurp(name, text, sizeof(text)) < 0 || strstr(text, "tfd:");
}

/* False with errno set, too: 0 for another description. */
static bool same(int ours, pid_t pid, int fd)
{
	errno = 0;
	return dlk_syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, (long)ours,
			   (long)fd) == 0;
}

/* The number behind a name in a file of /proc; 0, too, if it is not there. */
static uint64_t number_in(const char *file, const char *name)
{
	char text[2048];
	const char *found;
	uint64_t n = 0;

	if (dlk_slurp(file, text, sizeof(text)) > 0 &&
	    (found = strstr(text, name)))
		dlk_number(found + strlen(name), 10, &n);
	return n;
}

static bool is_ours(pid_t pid)
{
	char name[DLK_NUMBERED_MAX];

	return number_in(dlk_numbered(name, "/proc/", pid, "/status"),
			 REAL_UID) == getuid();
}

/* A unix socket, with what was sent there, or to one that waits to be accepted by it. */
static bool is_sent_some(const struct holder *h, int fds)
{
	char name[DLK_NUMBERED_MAX], dir[DLK_NUMBERED_MAX];
	struct stat st;

	if (fds >= 0 &&
	    (dlk_stat_known(fds, dlk_numbered(name, "", h->fd, ""), &st) ||
	     !S_ISSOCK(st.st_mode)))
		return false;
	dlk_numbered(dir, "/proc/", h->pid, "/fdinfo/");
	return number_in(dlk_numbered(name, dir, h->fd, ""), UNREAD) > 0 &&
	       is_ours(h->pid);
}

static bool may_have(const struct dlk_shadow_copy *s, const struct holder *h)
{
	if (h->is_socket)
		return is_sent_some(h, -1);
	if (same(s->held, h->pid, h->fd))
		return true;
	if (errno != EPERM && errno != EACCES)
		return false;
	return dlk_shim_process_lives(h->pid) != 0;
}

static void add_holder(struct dlk_shadow_copy *s, struct holder h)
{
	if (s->n_holders < HOLDERS)
		s->holders[s->n_holders++] = h;
}

static bool next_fd(DIR *d, struct holder *h)
{
	const struct dirent *e;
	uint64_t fd;

	while ((e = readdir(d)))
		if (dlk_number(e->d_name, 10, &fd)) {
			h->fd = (int)fd;
			return true;
		}
	return false;
}

static void look_at_sockets(struct dlk_shadow_copy *s, DIR *d, pid_t pid)
{
	struct holder at = { .pid = pid, .is_socket = true };
	struct stat st;

	if (fstat(dirfd(d), &st) || st.st_uid != geteuid())
		return;
	while (next_fd(d, &at))
		if (is_sent_some(&at, dirfd(d)))
			add_holder(s, at);
	rewinddir(d);
}

static void find_in(struct dlk_shadow_copy *s, const char *pid, bool sent)
{
	char name[DLK_NUMBERED_MAX];
	struct holder at = { .fd = -1 };
	uint64_t number;
	DIR *d;

	if (!dlk_number(pid, 10, &number) ||
	    dlk_holder_of(number) == DLK_KEEPER)
		return;
	at.pid = (pid_t)number;
	d = opendir(dlk_numbered(name, "/proc/", at.pid, "/fd"));
	if (!d)
		return;
	if (sent)
		look_at_sockets(s, d, at.pid);
	while (next_fd(d, &at))
		if (same(s->held, at.pid, at.fd))
			add_holder(s, at);
	closedir(d);
}

/* Others who have the description; keepers have it for this sake only. */
static void look_for_holders(struct dlk_shadow_copy *s, bool sent)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	s->n_holders = 0;
	while (d && s->n_holders < HOLDERS && (e = readdir(d)))
		find_in(s, e->d_name, sent);
	if (d)
		closedir(d);
}

static bool find_holders(struct dlk_shadow_copy *s)
{
	look_for_holders(s, false);
	if (s->n_holders == 0)
		look_for_holders(s, true);
	return s->n_holders > 0;
}

static bool has_holder(struct dlk_shadow_copy *s)
{
	while (s->n_holders > 0) {
		if (may_have(s, &s->holders[s->n_holders - 1]))
			return true;
		s->n_holders--;
	}
	return find_holders(s);
}

/* Nobody else would find out why the file stays locked. */
static void say_sent(const struct dlk_shadow_copy *s, pid_t pid)
{
	char path[4096];
	const ssize_t n = dlk_kernel_path(s->held, path, sizeof(path));
	struct dlk_line l;

	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "\"");
	dlk_text_quoted(&l.text, path, n < 0 ? 0 : (size_t)n);
	dlk_text_str(
		&l.text,
		"\" stays locked, though nobody has the open file any more: "
		"descriptors were sent to process ");
	dlk_text_i64(&l.text, pid);
	dlk_text_str(&l.text,
		     " by a socket, which it has not received, and it may be "
		     "among them; let it go on, or end it");
	dlk_line_end(&l);
}

static const struct holder *latest(const struct dlk_shadow_copy *s)
{
	return &s->holders[s->n_holders - 1];
}

static bool is_held(struct dlk_shadow_copy *s)
{
	const uint64_t now = dlk_now_ns();

	if (!has_holder(s))
		return false;
	if (!latest(s)->is_socket) {
		s->say_ns = 0;
	} else if (s->say_ns == 0) {
		s->say_ns = now + SENT_MS * DLK_MS;
	} else if (now >= s->say_ns) {
		s->say_ns = UINT64_MAX;
		/* By now somebody may have received it. */
		if (!find_holders(s))
			return false;
		if (latest(s)->is_socket)
			say_sent(s, latest(s)->pid);
	}
	return true;
}

static bool enter(int fd, void *whose)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = whose };

	return fd >= 0 && epoll_ctl(bell, EPOLL_CTL_ADD, fd, &e) == 0;
}

/*
 * Closed, it would ring on where the standby has the description as well (epoll(7),
 * Q6).  While we stand by, the set is the other keeper's.
 */
static void leave(int *fd)
{
	if (*fd >= 0 && !asleep)
		epoll_ctl(bell, EPOLL_CTL_DEL, *fd, NULL);
	dlk_close_all(fd, 1);
}

static void stop_watching(struct dlk_shadow_copy *s)
{
	const struct dlk_shadow_copy *o;
	bool shared = false;

	/* Another copy of the same file has the same watch. */
	LIST_FOREACH(o, &copies, next)
	shared |= o != s && o->plan.watch == s->plan.watch;
	if (s->plan.watch >= 0 && !shared && !asleep)
		inotify_rm_watch(inotify, s->plan.watch);
	s->plan.watch = -1;
	dlk_close_all(&s->set, 1);
	dlk_close_all(&s->held, 1);
	if (s->plan.sock_name[0] && !asleep)
		unlinkat(s->dir, s->plan.sock_name, 0);
	s->plan.sock_name[0] = '\0';
	leave(&s->sock);
}

/* True if it has ended just now. */
static bool look_at(struct dlk_shadow_copy *s)
{
	if (s->shadow < 0 || (s->set >= 0 ? in_set(s) : is_held(s)))
		return false;
	/* First: whoever does not find the socket takes it for unlocked.  By
	 * flock(2), for the standby has a copy as well. */
	flock(s->shadow, LOCK_UN);
	dlk_close_all(&s->shadow, 1);
	stop_watching(s);
	return true;
}

/* --- when to look --------------------------------------------------------- */

static void arm(void)
{
	const struct dlk_shadow_copy *s;
	struct itimerspec at = { 0 };
	long ms = 0;

	LIST_FOREACH(s, &copies, next)
	{
		if (s->shadow < 0)
			continue;
		if (s->held >= 0 || s->plan.watch < 0)
			ms = LOOK_MS;
		else if (ms == 0)
			ms = IDLE_MS; /* in any case */
	}
	if (relooks > 0) {
		long soon = 1L << (RELOOKS - relooks--);

		ms = ms && ms < soon ? ms : soon;
	}
	at.it_value.tv_nsec = ms * 1000000;
	timerfd_settime(timer, 0, &at, NULL);
}

static bool look_at_all(void)
{
	struct dlk_shadow_copy *s;
	bool ended = false;

	LIST_FOREACH(s, &copies, next)
	ended |= look_at(s);
	arm();
	return ended;
}

static bool begin(void)
{
	if (bell >= 0)
		return true;
	bell = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	/* There are few to a user (max_user_instances): it goes without. */
	if (inotify < 0)
		inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (bell >= 0 && enter(timer, &timer)) {
		enter(inotify, &inotify);
		return true;
	}
	dlk_close_all(&bell, 1);
	dlk_close_all(&timer, 1);
	dlk_close_all(&inotify, 1);
	return false;
}

int dlk_shadow_copies_bell(void)
{
	return bell;
}

/* --- those who ask -------------------------------------------------------- */

bool dlk_shadow_copy_is(const struct dlk_shadow_copy *s, pid_t pid, int fd)
{
	struct kcmp_epoll_slot slot = { .efd = (uint32_t)s->set,
					.tfd = (uint32_t)s->plan.slot };

	if (s->set < 0)
		return s->held >= 0 && same(s->held, pid, fd);
	return dlk_syscall(SYS_kcmp, pid, getpid(), KCMP_EPOLL_TFD, (long)fd,
			   &slot) == 0;
}

/* The shadow, or none. */
static void answer(const struct dlk_shadow_copy *s, int sock)
{
	bool theirs;
	int fd;

	if (!dlk_shadowdir_hear(sock, &fd, MSG_DONTWAIT))
		return;
	theirs = fd >= 0 && s->shadow >= 0 &&
		 dlk_shadow_copy_is(s, getpid(), fd);
	dlk_close_all(&fd, 1);
	dlk_shadowdir_say(sock, theirs ? s->shadow : -1, MSG_DONTWAIT);
}

/*
 * Who has connected and not asked yet, for nobody waits for him: a few, the
 * oldest is given up for the next.
 */
static struct asker {
	struct dlk_shadow_copy *s; /* NULL: free */
	int sock;
} askers[ASKERS];
static unsigned next_asker;

static void end_asker(struct asker *a)
{
	if (a->s)
		leave(&a->sock);
	a->s = NULL;
}

static struct asker *asker_of(void *whose)
{
	for (unsigned i = 0; i < ASKERS; i++)
		if (whose == &askers[i])
			return &askers[i];
	return NULL;
}

static void answer_asker(struct asker *a)
{
	if (a->s)
		answer(a->s, a->sock);
	end_asker(a);
}

/* Whoever asks was refused: first let go what has ended this moment. */
static bool listen_to(struct dlk_shadow_copy *s)
{
	struct asker *a = &askers[next_asker++ % ASKERS];
	int sock = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC);
	bool ended = look_at(s);

	end_asker(a);
	if (sock >= 0 && enter(sock, a))
		*a = (struct asker){ s, sock };
	else
		dlk_close_all(&sock, 1);
	return ended;
}

bool dlk_shadow_copies_look(void)
{
	struct epoll_event e;
	char drain[4096];

	/* One at a time: what it leads to may end another. */
	if (epoll_wait(bell, &e, 1, 0) != 1)
		return false;
	if (asker_of(e.data.ptr)) {
		answer_asker(asker_of(e.data.ptr));
		return false;
	}
	if (e.data.ptr != &timer && e.data.ptr != &inotify)
		return listen_to(e.data.ptr);
	(void)!read(e.data.ptr == &timer ? timer : inotify, drain,
		    sizeof(drain));
	if (e.data.ptr == &inotify)
		relooks = RELOOKS;
	return look_at_all();
}

/* Found by its name, it must be listening: whoever is refused removes it. */
static bool bind_and_listen(struct dlk_shadow_copy *s, const char *first_name)
{
	struct sockaddr_un at;

	dlk_shadowdir_socket(s->dir, first_name, &at);
	s->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			 0);
	return s->sock >= 0 &&
	       bind(s->sock, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	       listen(s->sock, 16) == 0 && enter(s->sock, s) &&
	       renameat(s->dir, first_name, s->dir, s->plan.sock_name) == 0;
}

/* Where it cannot listen, it holds the shadow all the same. */
static void listen_for(struct dlk_shadow_copy *s)
{
	char first_name[32] = "new.";
	struct dlk_text t;
	uint64_t random;

	if (s->dir < 0 || !s->plan.name[0])
		return;
	dlk_random(&random, sizeof(random));
	dlk_text_init(&t, s->plan.sock_name, sizeof(s->plan.sock_name));
	dlk_text_str(&t, s->plan.name);
	dlk_text_str(&t, ".");
	dlk_text_hex(&t, random);
	dlk_text_init(&t, first_name + 4, sizeof(first_name) - 4);
	dlk_text_hex(&t, random);
	if (bind_and_listen(s, first_name))
		return;
	leave(&s->sock);
	unlinkat(s->dir, first_name, 0);
	s->plan.sock_name[0] = '\0';
}

/* --- all copies ----------------------------------------------------------- */

/* The last component of the shadow's path; "" if it is too long for one. */
static void learn_name(struct dlk_shadow_copy *s)
{
	char link[DLK_NUMBERED_MAX], path[4096];
	const char *slash;
	ssize_t n;

	dlk_numbered(link, "/proc/self/fd/", s->shadow, "");
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	slash = strrchr(path, '/');
	if (slash && strlen(slash + 1) < DLK_SHADOW_NAME_MAX)
		strcpy(s->plan.name, slash + 1);
}

/* Watch the program's description, and hold it if need be. */
static bool see_end(struct dlk_shadow_copy *s, int fd)
{
	struct epoll_event none = { 0 };
	char link[DLK_NUMBERED_MAX];

	dlk_numbered(link, "/proc/self/fd/", fd, "");
	s->plan.slot = fd;
	s->set = epoll_create1(EPOLL_CLOEXEC);
	if (s->set >= 0 && epoll_ctl(s->set, EPOLL_CTL_ADD, fd, &none) == 0) {
		s->plan.watch = inotify_add_watch(inotify, link, IN_CLOSE);
		return true;
	}
	dlk_close_all(&s->set, 1);
	s->held = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return s->held >= 0 && find_holders(s);
}

struct dlk_shadow_copy *dlk_shadow_copy_get(const int fds[3])
{
	struct dlk_shadow_copy *s = begin() ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	s->set = s->held = s->sock = s->plan.watch = -1;
	s->dir = fds[2] < 0 ? -1 : fcntl(fds[2], F_DUPFD_CLOEXEC, 3);
	s->shadow = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
	LIST_INSERT_HEAD(&copies, s, next);
	if (!see_end(s, fds[1]) || s->shadow < 0) {
		dlk_shadow_copy_put(s);
		errno = EOPNOTSUPP;
		return NULL;
	}
	learn_name(s);
	listen_for(s);
	/* It may have ended before it was watched. */
	relooks = RELOOKS;
	arm();
	return s;
}

bool dlk_shadow_copy_is_locked(const struct dlk_shadow_copy *s)
{
	return s->shadow >= 0 && dlk_kernel_flock_mode(s->shadow) != LOCK_UN;
}

void dlk_shadow_copy_put(struct dlk_shadow_copy *s)
{
	if (!s)
		return;
	dlk_close_all(&s->shadow, 1);
	stop_watching(s);
	for (unsigned i = 0; i < ASKERS; i++)
		if (askers[i].s == s)
			end_asker(&askers[i]);
	LIST_REMOVE(s, next);
	dlk_close_all(&s->dir, 1);
	free(s);
}

/* --- the other keeper's --------------------------------------------------- */

void dlk_shadow_copy_plan(const struct dlk_shadow_copy *s,
			  struct dlk_shadow_plan *plan, int fds[DLK_SHADOW_FDS])
{
	const int its[DLK_SHADOW_FDS] = {
		s ? s->shadow : -1, s ? s->set : -1,  s ? s->held : -1,
		s ? s->dir : -1,    s ? s->sock : -1, s ? inotify : -1
	};

	memcpy(fds, its, sizeof(its));
	*plan = s ? s->plan : (struct dlk_shadow_plan){ .slot = -1 };
}

struct dlk_shadow_copy *dlk_shadow_copy_adopt(
	const struct dlk_shadow_plan *plan, const int fds[DLK_SHADOW_FDS])
{
	struct dlk_shadow_copy *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->shadow = fds[0];
	s->set = fds[1];
	s->held = fds[2];
	s->dir = fds[3];
	s->sock = fds[4];
	if (inotify < 0)
		inotify = fds[5];
	else if (fds[5] >= 0)
		close(fds[5]);
	s->plan = *plan;
	LIST_INSERT_HEAD(&copies, s, next);
	return s;
}

void dlk_shadow_copies_stand_by(void)
{
	asleep = true;
	/* Who asks is answered when the keeper has closed his. */
	for (unsigned i = 0; i < ASKERS; i++)
		end_asker(&askers[i]);
}

/* The set names what it has by the other keeper's memory, so it is made anew. */
void dlk_shadow_copies_wake(void)
{
	struct dlk_shadow_copy *s;

	asleep = false;
	dlk_close_all(&bell, 1);
	dlk_close_all(&timer, 1);
	if (LIST_EMPTY(&copies) || !begin())
		return;
	LIST_FOREACH(s, &copies, next)
	enter(s->sock, s);
	relooks = RELOOKS;
	arm();
}
