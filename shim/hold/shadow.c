/* SPDX-License-Identifier: MIT */
/*
 * Shadows: where a file cannot be locked in the kernel, a file of ours is
 * locked in its place (local = "shadow", DESIGN 6.8).
 *
 * A flock lock lives as long as its open file description, and so must this
 * one: as long as the description that the program locked, which may move on
 * by fork, exec and passing, while a second description, the shadow's, cannot
 * be made to go along.  So:
 *
 *  1. The process that locks opens the shadow, on a descriptor of its own,
 *     and closes it when it closes its last one of the program's description.
 *     Children have copies of both; exec closes ours.
 *  2. Whatever a description may be shared by, its keeper has a copy of the
 *     shadow's (handover.c, keeper/shadow_copy.c), and closes it when the
 *     program's description has ended, wherever that was.
 *  3. A process that has the program's description and no locked shadow asks
 *     the keepers for it, so that of all shadows of one description at most
 *     one is locked: unlock and conversion by another process work.
 *
 *	sh: exec 9>f	flock 9			flock -u 9
 *			opens a shadow, locks
 *			keeper: a copy
 *			ends
 *						asks the keeper: a copy
 *						unlocks it
 *
 * The table is guarded by `mutex`; a child of fork(2) goes on with its copy
 * (and would else have to ask for what it may need at once: siblings that lock
 * one description must have one shadow).
 */

#include "hold/shadow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "config/config.h"
#include "os/check.h"
#include "os/guard.h"
#include "os/proc.h"
#include "os/shadowdir.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/owner.h"
#include "hold/self.h"
#include "model/text.h"

enum { SHADOWS = 512 };

struct shadow {
	struct dlk_own own;
	struct dlk_file file; /* the program's */
	int fd;               /* the program's, last known */
	bool used;
};

static struct shadow table[SHADOWS];
static unsigned table_end; /* nothing is used from here on */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned n_shadows, n_searches;

/*
 * Who looks for the shadow of a number: keepers are asked for seconds, and another
 * thread may take it away meanwhile.  What is found then is not entered for it.
 *
 *	flock(9)				another thread
 *	ask the keepers: has 9 one? ->
 *						close(9), open(2): 9, of the same file
 *	<- S, which another process has locked
 *						flock(9): would be granted, by S
 */
struct search {
	LIST_ENTRY(search) next;
	int fd;
	struct dlk_file file; /* its, when it began */
	bool taken;
};

static LIST_HEAD(, search) searches; /* guarded by mutex */

bool dlk_shadow_any(void)
{
	return atomic_load(&n_shadows) != 0 || atomic_load(&n_searches) != 0;
}

void dlk_shadow_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	LIST_INIT(&searches);
	atomic_store(&n_searches, 0);
}

/* --- the table ------------------------------------------------------------ */

/* Is it fd's?  kcmp(2) may be forbidden: then it may well be. */
static bool is_of(const struct shadow *s, int fd, const struct dlk_file *file)
{
	int same;

	dlk_check_locked(&mutex);
	if (!s->used || !dlk_same_file(&s->file, file))
		return false;
	if (s->fd == fd)
		return true;
	same = dlk_kernel_same(s->fd, fd);
	/* (Two that were there from the start are rather two than one: refused.) */
	return same == 1 || ((same == -EPERM || same == -ENOSYS) &&
			     atomic_load(&dlk_self.dups));
}

static struct shadow *find(int fd, const struct dlk_file *file)
{
	dlk_check_locked(&mutex);
	for (unsigned i = 0; i < table_end; i++)
		if (table[i].used && table[i].fd == fd &&
		    dlk_same_file(&table[i].file, file))
			return &table[i];
	for (unsigned i = 0; i < table_end; i++)
		if (is_of(&table[i], fd, file))
			return &table[i];
	return NULL;
}

static struct shadow *find_own(int own)
{
	dlk_check_locked(&mutex);
	for (unsigned i = 0; i < table_end; i++)
		if (table[i].used && table[i].own.fd == own)
			return &table[i];
	return NULL;
}

static struct shadow *find_unused(void)
{
	struct shadow *s = table;

	dlk_check_locked(&mutex);
	while (s < table + SHADOWS && s->used)
		s++;
	return s < table + SHADOWS ? s : NULL;
}

/* What is to be closed then: it, if it cannot be entered, or an older one. */
static struct dlk_own put_in(const struct search *f, struct dlk_own own)
{
	struct shadow *s = find(f->fd, &f->file);
	struct dlk_own old = { .fd = -1 };

	if (s) {
		old = s->own;
	} else {
		s = find_unused();
		if (!s)
			return own;
		atomic_fetch_add(&n_shadows, 1);
	}
	*s = (struct shadow){
		.own = own, .file = f->file, .fd = f->fd, .used = true
	};
	if (table_end < (size_t)(s - table) + 1)
		table_end = (unsigned)(s - table) + 1;
	return old;
}

/* Enter a shadow, in the place of an older one; consumes it. */
static int enter(const struct search *f, int shadow)
{
	struct dlk_own own, left;
	int err = dlk_own_take(&own, shadow);

	if (err)
		return err;
	pthread_mutex_lock(&mutex);
	left = f->taken ? own : put_in(f, own);
	if (left.fd == own.fd)
		err = f->taken ? -EBADF : -EMFILE;
	pthread_mutex_unlock(&mutex);
	dlk_own_close(&left);
	return err ? err : own.fd;
}

/* From here on it is told of it, if its number is taken away: 0, or -errno. */
static int begin(struct search *f, int fd)
{
	*f = (struct search){ .fd = fd };
	atomic_fetch_add(&n_searches, 1);
	pthread_mutex_lock(&mutex);
	LIST_INSERT_HEAD(&searches, f, next);
	pthread_mutex_unlock(&mutex);
	return dlk_kernel_file(fd, &f->file);
}

static int end(struct search *f, int result)
{
	pthread_mutex_lock(&mutex);
	// cppcheck-suppress uninitvar ; begin() has put it into the list
	LIST_REMOVE(f, next);
	pthread_mutex_unlock(&mutex);
	atomic_fetch_sub(&n_searches, 1);
	return f->taken ? -EBADF : result;
}

void dlk_shadow_taken(unsigned first, unsigned last)
{
	struct search *f;

	DLK_INSIDE(call);
	DLK_GUARD(&mutex);
	LIST_FOREACH(f, &searches, next)
	f->taken |= (unsigned)f->fd >= first && (unsigned)f->fd <= last;
}

/* Out of the table; what is to be closed then. */
static struct dlk_own take_out(struct shadow *s)
{
	dlk_check_locked(&mutex);
	s->used = false;
	atomic_fetch_sub(&n_shadows, 1);
	return s->own;
}

void dlk_shadow_drop(int fd)
{
	struct dlk_own own = { .fd = -1 };
	struct dlk_file file;
	struct shadow *s;

	if (dlk_kernel_file(fd, &file) < 0)
		return;
	pthread_mutex_lock(&mutex);
	s = find(fd, &file);
	if (s)
		own = take_out(s);
	pthread_mutex_unlock(&mutex);
	dlk_own_close(&own);
}

int dlk_shadow_of(int fd)
{
	struct dlk_file file;
	struct shadow *s;
	int own = -1;

	if (!dlk_shadow_any() || dlk_kernel_file(fd, &file) < 0)
		return -1;
	DLK_GUARD(&mutex);
	s = find(fd, &file);
	if (s && dlk_own_check(&s->own))
		own = s->own.fd;
	return own;
}

bool dlk_shadow_is_own(int fd)
{
	DLK_GUARD(&mutex);
	return find_own(fd) != NULL;
}

int dlk_shadow_program(int own)
{
	struct shadow *s;
	int fd = -1;

	DLK_GUARD(&mutex);
	s = find_own(own);
	if (s)
		fd = s->fd;
	return fd;
}

int dlk_shadow_lend(int own, int (*use)(int fd, void *arg), void *arg)
{
	const struct shadow *s;

	DLK_GUARD(&mutex);
	s = find_own(own);
	return s ? use(s->fd, arg) : -EBADF;
}

int dlk_shadow_next_fd(int from)
{
	int lowest = -1;

	if (!dlk_shadow_any())
		return -1;
	DLK_INSIDE(call);
	DLK_GUARD(&mutex);
	for (unsigned i = 0; i < table_end; i++)
		if (table[i].used && table[i].fd >= from &&
		    (lowest < 0 || table[i].fd < lowest))
			lowest = table[i].fd;
	return lowest;
}

/* --- does the program still have it? -------------------------------------- */

struct other {
	int fd;               /* known, or on its way out */
	unsigned first, last; /* along with these */
	bool same;            /* wanted: of its very description */
	struct dlk_file file;
};

/* Not a descriptor that another shadow is known by. */
static bool may_be(void *arg, int fd)
{
	const struct other *o = arg;
	const struct shadow *s;
	bool claimed = false;
	int same;

	if ((unsigned)fd >= o->first && (unsigned)fd <= o->last)
		return false;
	same = o->same ? dlk_kernel_same(o->fd, fd) : -EPERM;
	if (same >= 0)
		return same;
	/* (Not by its start: is_of().) */
	if (!atomic_load(&dlk_self.dups))
		return false;
	DLK_GUARD(&mutex);
	for (s = table; s < table + table_end; s++)
		claimed |= s->used && s->fd == fd &&
			   dlk_same_file(&s->file, &o->file);
	return !claimed;
}

/* Another descriptor of the program's, or -1. */
static int another(struct other *o)
{
	if (!dlk_duplicated(o->fd))
		return -1;
	return dlk_kernel_find(&o->file, DLK_ANY_MODE, may_be, o);
}

bool dlk_shadow_moves(int fd, unsigned first, unsigned last)
{
	struct other o = {
		.fd = fd, .first = first, .last = last, .same = true
	};
	struct shadow *s;
	int to;

	if (dlk_kernel_file(fd, &o.file) < 0)
		return false;
	to = another(&o);
	if (to < 0)
		return false;
	DLK_GUARD(&mutex);
	s = find(fd, &o.file);
	if (s && s->fd == fd)
		s->fd = to;
	return true;
}

/* One that the program has closed behind our back: gone, or moved on. */
static void sweep_one(struct shadow *s)
{
	struct dlk_own own = { .fd = -1 };
	struct shadow seen;
	struct other o;
	int to;

	pthread_mutex_lock(&mutex);
	seen = *s;
	pthread_mutex_unlock(&mutex);
	/* In another thread's table it may be there. */
	if (!seen.used || atomic_load(&dlk_self.tables) ||
	    dlk_kernel_is_file(seen.fd, &seen.file))
		return;
	o = (struct other){
		.fd = seen.fd,
		.first = (unsigned)seen.fd,
		.last = (unsigned)seen.fd,
		.file = seen.file,
	};
	to = another(&o);
	pthread_mutex_lock(&mutex);
	if (s->used && s->own.fd == seen.own.fd && s->fd == seen.fd) {
		if (to >= 0)
			s->fd = to;
		else
			own = take_out(s);
	}
	pthread_mutex_unlock(&mutex);
	dlk_own_close(&own);
}

void dlk_shadow_look(int shadow)
{
	struct shadow *s;

	pthread_mutex_lock(&mutex);
	s = find_own(shadow);
	pthread_mutex_unlock(&mutex);
	if (s)
		sweep_one(s);
}

static void sweep(void)
{
	unsigned n = 0;

	if (dlk_shadow_any()) {
		pthread_mutex_lock(&mutex);
		n = table_end;
		pthread_mutex_unlock(&mutex);
	}
	while (n > 0)
		sweep_one(&table[--n]);
}

/*
 * dup2(2) is about to replace an own descriptor: go out of its way.  The old
 * number is taken until then, so that the new one is another.
 */
void dlk_shadow_step_aside(int own)
{
	struct dlk_own aside, old;
	struct shadow *s;
	int copy;

	if (!dlk_shadow_any())
		return;
	DLK_INSIDE(call);
	copy = (int)dlk_syscall(SYS_fcntl, own, F_DUPFD_CLOEXEC, 3);
	if (copy < 0 || dlk_own_take(&aside, copy) < 0)
		return;
	pthread_mutex_lock(&mutex);
	s = find_own(own);
	old = s ? s->own : aside;
	if (s)
		s->own = aside;
	pthread_mutex_unlock(&mutex);
	dlk_own_close(&old);
}

/* --- asking the keepers --------------------------------------------------- */

static const uint64_t second_ns = 1000 * DLK_MS;

/* (0 would be for ever: socket(7).) */
static void limit(int sock, int option, uint64_t ns)
{
	const uint64_t us = ns / 1000 + 1;
	const struct timeval time = {
		.tv_sec = (time_t)(us / 1000000),
		.tv_usec = (suseconds_t)(us % 1000000),
	};

	dlk_syscall(SYS_setsockopt, sock, SOL_SOCKET, option, &time,
		    sizeof(time));
}

/* -ECONNREFUSED: there is no keeper any more. */
static int connect_to(int dir, const char *name)
{
	struct sockaddr_un to;
	int err, fd = (int)dlk_syscall(SYS_socket, AF_UNIX,
				       SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	dlk_shadowdir_socket(dir, name, &to);
	limit(fd, SO_RCVTIMEO, second_ns);
	limit(fd, SO_SNDTIMEO, second_ns);
	if (dlk_syscall(SYS_connect, fd, &to, sizeof(to)) == 0)
		return fd;
	err = errno == ENOENT  ? -ECONNREFUSED
	      : errno == EINTR ? -EAGAIN
			       : -errno;
	/* A keeper that was killed has left it. */
	if (errno == ECONNREFUSED)
		dlk_syscall(SYS_unlinkat, dir, name, 0);
	dlk_close(fd);
	return err;
}

struct question {
	int fd, got;
	int err;                            /* -ENOENT: all have answered */
	uint64_t until_ns;                  /* is heard out; 0: nobody yet */
	char name[DLK_SHADOW_NAME_MAX + 1]; /* the shadow's, and a dot */
};

/*
 * Until it has closed what we have sent.  All who are asked have a second for that: of
 * a file server that is away none of them can.
 */
static void hear_out(struct question *q, int sock)
{
	const uint64_t now = dlk_now_ns();
	char none;

	if (!q->until_ns)
		q->until_ns = now + second_ns;
	if (now >= q->until_ns)
		return;
	limit(sock, SO_RCVTIMEO, q->until_ns - now);
	dlk_syscall(SYS_read, sock, &none, 1);
}

static bool ask_if_keeper(void *arg, int dir, const char *name)
{
	struct question *q = arg;
	int sock;

	if (strncmp(name, q->name, strlen(q->name)) != 0)
		return true;
	sock = connect_to(dir, name);
	if (sock == -ECONNREFUSED)
		return true;
	if (sock < 0) {
		q->err = sock;
		return true;
	}
	/* "Have you the shadow of this description?"  It, or -1. */
	if (!dlk_shadowdir_say(sock, q->fd, 0) ||
	    !dlk_shadowdir_hear(sock, &q->got, 0))
		q->err = -EAGAIN;
	else
		hear_out(q, sock);
	if (q->got < -1)
		q->err = q->got;
	dlk_close(sock);
	return q->got < 0;
}

static int ask_all(const struct search *f)
{
	struct question q = { .fd = f->fd, .got = -1, .err = -ENOENT };
	const char *base = dlk_self.config->state_dir;
	struct dlk_shadow_why why;
	int dir;

	dlk_shadow_name(q.name, f->file.dev, f->file.ino, f->file.handle);
	dir = dlk_shadowdir_open(base, false, &why);
	if (dir == -EMFILE || dir == -ENFILE)
		return dlk_shadow_may_be_there(base, q.name) ? dir : -ENOENT;
	if (dir < 0)
		return -ENOENT;
	strcat(q.name, ".");
	dlk_shadowdir_list(dir, ask_if_keeper, &q);
	dlk_close(dir);
	return q.got < 0 ? q.err : enter(f, q.got);
}

int dlk_shadow_ask(int fd)
{
	struct search f;

	return end(&f, begin(&f, fd) ? -ENOENT : ask_all(&f));
}

/* --- for a call ----------------------------------------------------------- */

static bool is_locked(int own)
{
	const int mode = dlk_kernel_flock_mode(own);

	return mode == LOCK_EX || mode == LOCK_SH;
}

int dlk_shadow_locked(int fd)
{
	int own = dlk_shadow_of(fd), got;

	/* (Not shared, it is of nobody else's making.) */
	if (own >= 0 && (!dlk_shared(fd) || is_locked(own)))
		return own;
	if (!dlk_shared(fd))
		return -ENOENT;
	got = dlk_shadow_ask(fd);
	return got == -ENOENT && own >= 0 ? own : got;
}

static int open_for(const struct search *f, struct dlk_shadow_why *why)
{
	char name[DLK_SHADOW_NAME_MAX];
	int dir, own;

	dir = dlk_shadowdir_open(dlk_self.config->state_dir, true, why);
	if (dir < 0)
		return dir;
	dlk_shadow_name(name, f->file.dev, f->file.ino, f->file.handle);
	own = dlk_shadow_open(dir, name, why);
	dlk_close(dir);
	if (own >= 0)
		own = enter(f, own);
	if (own == -EMFILE)
		strcpy(why->text, "too many descriptors, or locks by shadows");
	return own;
}

static int open_new(int fd, struct dlk_shadow_why *why)
{
	struct search f;

	return end(&f, begin(&f, fd) ?: open_for(&f, why));
}

int dlk_shadow_get(int fd, bool sure, struct dlk_shadow_why *why)
{
	int own;

	/* flock(2) on it is EBADF (open(2), O_PATH). */
	if (dlk_syscall(SYS_fcntl, fd, F_GETFL) & O_PATH)
		return -EBADF;
	strcpy(why->text, "it cannot be opened");
	sweep();
	own = dlk_shadow_locked(fd);
	if (own == -EBADF || (own == -EAGAIN && sure))
		return own;
	/* (Who has not answered is asked again, if ours is refused.) */
	if (own < 0)
		own = dlk_shadow_of(fd);
	if (own < 0 || dlk_shadow_is_gone(own))
		own = open_new(fd, why);
	return own;
}

bool dlk_shadow_is_current(int own, int fd)
{
	return dlk_shadow_of(fd) == own && !dlk_shadow_is_gone(own);
}

bool dlk_shadow_perhaps(int fd)
{
	if (dlk_shadow_any())
		return true;
	return dlk_shared(fd) &&
	       dlk_shadowdir_is_there(dlk_self.config->state_dir);
}

/* --- where flock(2) does not work ----------------------------------------- */

enum { DEVICES = 8 };
static _Atomic dev_t devices[DEVICES];

bool dlk_shadow_wanted(const struct dlk_rule *rule, dev_t dev)
{
	if (rule->local == DLK_LOCAL_SHADOW)
		return true;
	for (int i = 0; i < DEVICES; i++)
		if (dev && atomic_load(&devices[i]) == dev)
			return true;
	return false;
}

bool dlk_shadow_note(dev_t dev)
{
	char name[DLK_SHADOW_NAME_MAX];
	struct dlk_shadow_why why;
	struct dlk_text t;
	long fd;
	int dir;

	for (int i = 0; i < DEVICES; i++) {
		dev_t none = 0;

		if (atomic_compare_exchange_strong(&devices[i], &none, dev) ||
		    none == dev)
			break;
	}
	dir = dlk_shadowdir_open(dlk_self.config->state_dir, true, &why);
	if (dir < 0)
		return false;
	dlk_text_init(&t, name, sizeof(name));
	dlk_text_str(&t, "used-");
	dlk_text_hex(&t, dev);
	fd = dlk_syscall(SYS_openat, dir, name,
			 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			 0600);
	dlk_close(dir);
	if (fd >= 0)
		dlk_close((int)fd);
	return fd >= 0;
}
