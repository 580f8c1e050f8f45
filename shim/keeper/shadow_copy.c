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
 * description, and then nothing tells of the end of all others but looking for who
 * has it, every 20 ms (description.c).
 */
#include "keeper/keeper.h"

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
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "keeper/description.h"
#include "os/proc.h"
#include "os/shadowdir.h"
#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum {
	LOOK_MS = 20,
	IDLE_MS = 500,
	LENT_MS = 500,
	ASKERS = 16,
	RELOOKS = 8,
};

struct dlk_shadow_copy {
	LIST_ENTRY(dlk_shadow_copy) next;
	int shadow; /* -1: the description has ended */
	int set;    /* an epoll set with it, by plan.slot; or -1 */
	struct dlk_description description; /* itself, where there is no set */
	bool rests; /* who asks is not accepted, until it is looked at again */
	unsigned lent;    /* descriptors of the description that we close */
	uint64_t lent_ns; /* since then, the last one */
	int dir, sock;    /* for those who ask; or -1 */
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

static bool enter(int fd, void *whose)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = whose };

	return fd >= 0 && epoll_ctl(bell, EPOLL_CTL_ADD, fd, &e) == 0;
}

/*
 * Closed, it would ring on where the standby has the description as well (epoll(7),
 * Q6).  While we stand by, the set is the other keeper's.
 */
static void ring_no_more(int fd)
{
	if (fd >= 0 && !asleep)
		epoll_ctl(bell, EPOLL_CTL_DEL, fd, NULL);
}

static void leave(int *fd)
{
	ring_no_more(*fd);
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
	dlk_description_drop(&s->description);
	if (s->plan.sock_name[0] && !asleep)
		unlinkat(s->dir, s->plan.sock_name, 0);
	s->plan.sock_name[0] = '\0';
	leave(&s->sock);
}

/*
 * What we close yet is there by that, and may have ended but for it: who asks waits for
 * it, for a moment, for its server may be away.
 */
static bool is_to_wait(const struct dlk_shadow_copy *s)
{
	return s->lent && dlk_now_ns() < s->lent_ns + LENT_MS * DLK_MS;
}

static void let_ask(struct dlk_shadow_copy *s)
{
	if (s->rests && !is_to_wait(s))
		s->rests = s->sock >= 0 && !enter(s->sock, s);
}

/* At all copies, or one; true if a description has ended just now. */
static bool look_at(const struct dlk_shadow_copy *only)
{
	struct dlk_shadow_copy *s;
	bool ended = false;

	dlk_descriptions_look(only ? &only->description : NULL);
	LIST_FOREACH(s, &copies, next)
	{
		if (s->shadow < 0 || (only && s != only) ||
		    (s->set >= 0 ? in_set(s)
				 : dlk_description_is_had(&s->description)))
			continue;
		/* First: whoever does not find the socket takes it for
		 * unlocked.  By flock(2), for the standby has a copy. */
		flock(s->shadow, LOCK_UN);
		dlk_close_all(&s->shadow, 1);
		stop_watching(s);
		ended = true;
	}
	return ended;
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
		if (s->description.fd >= 0 || s->plan.watch < 0 || s->rests)
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
	const bool ended = look_at(NULL);
	struct dlk_shadow_copy *s;

	LIST_FOREACH(s, &copies, next)
	let_ask(s);
	arm();
	return ended;
}

void dlk_shadow_copy_lent(struct dlk_shadow_copy *s)
{
	s->lent++;
	s->lent_ns = dlk_now_ns();
}

bool dlk_shadow_copy_is_lent(const struct dlk_shadow_copy *s)
{
	return s->lent > 0;
}

bool dlk_shadow_copy_given_back(struct dlk_shadow_copy *s)
{
	bool ended;

	s->lent--;
	ended = look_at(s);
	let_ask(s);
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
		return dlk_description_is(&s->description, pid, fd);
	return dlk_syscall(SYS_kcmp, pid, getpid(), KCMP_EPOLL_TFD, (long)fd,
			   &slot) == 0;
}

/* The shadow, or -1; -ENOSYS: kcmp(2) is refused, so there is no telling. */
static int shadow_of(const struct dlk_shadow_copy *s, int fd)
{
	errno = 0;
	if (s->shadow >= 0 && dlk_shadow_copy_is(s, getpid(), fd))
		return s->shadow;
	return errno == EPERM || errno == ENOSYS ? -ENOSYS : -1;
}

/*
 * The descriptor that we were asked by, or -1.  Without one left to be asked by there is
 * no telling: he hears nothing, and asks again.
 */
static int answer(const struct dlk_shadow_copy *s, int sock)
{
	int fd;

	if (!dlk_shadowdir_hear(sock, &fd, MSG_DONTWAIT) || fd < 0)
		return -1;
	dlk_shadowdir_say(sock, shadow_of(s, fd), MSG_DONTWAIT);
	return fd;
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

/*
 * He goes on when we have his description no more: what he closes then has ended.  (Its
 * server may be away, and our close waits for that: by then he does not.)
 */
static void answer_asker(struct asker *a)
{
	const int fd = a->s ? answer(a->s, a->sock) : -1;

	if (fd >= 0) {
		ring_no_more(a->sock);
		dlk_errand_hang_up(fd, a->sock);
		a->s = NULL;
	}
	end_asker(a);
}

/* Whoever asks was refused: first let go what has ended this moment. */
static bool listen_to(struct dlk_shadow_copy *s)
{
	struct asker *a = &askers[next_asker++ % ASKERS];
	int sock;
	bool ended;

	if (is_to_wait(s)) {
		ring_no_more(s->sock);
		s->rests = true;
		arm();
		return false;
	}
	sock = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC);
	/* It would ring on: until the next look. */
	if (sock < 0 && (errno == EMFILE || errno == ENFILE))
		s->rests = epoll_ctl(bell, EPOLL_CTL_DEL, s->sock, NULL) == 0;
	ended = look_at(s);
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
	return dlk_description_hold(&s->description, fd);
}

struct dlk_shadow_copy *dlk_shadow_copy_get(const int fds[3])
{
	struct dlk_shadow_copy *s = begin() ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	s->set = s->description.fd = s->sock = s->plan.watch = -1;
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
		s ? s->shadow : -1,         s ? s->set : -1,
		s ? s->description.fd : -1, s ? s->dir : -1,
		s ? s->sock : -1,           s ? inotify : -1
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
	dlk_description_adopt(&s->description, fds[2]);
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
	s->rests = s->sock >= 0 && !enter(s->sock, s);
	relooks = RELOOKS;
	arm();
}
