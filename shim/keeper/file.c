/* SPDX-License-Identifier: MIT */
/*
 * Watching a file until the lock on it ends (DESIGN L4).
 *
 * On a description of the keeper's own, a thread asks for a lock that
 * conflicts with the guarded one, and sleeps in flock(2).  When it is granted,
 * the guarded lock has ended, by whatever way.
 *
 *  1. The lock MUST be given back at once: a local program with LOCK_NB would
 *     be refused for it.
 *  2. The moment is noted while the lock is held: a lease whose kernel grant
 *     came later is not the one that ended.
 *  3. A thread per file, but no more than THREADS: a process with ten thousand
 *     locks must not have ten thousand threads for them (pids.max counts
 *     them).  The other files are asked now and then, and when a description
 *     of theirs is closed, as inotify(7) tells.
 *  4. Only what has no life of its own is opened: the far end of a FIFO sees
 *     who opens it, a tape is rewound by it.  Such a file, and one that the
 *     keeper may not open, is not asked at all: the kernel's list of locks
 *     (locks.c) must do.
 *  5. Where a file server may be dead, the first thread asks for nothing that
 *     another one was not told a moment ago: all leases would end with that.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file_id.h"
#include "os/guard.h"
#include "os/proc.h"
#include "os/spawn.h"
#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum { THREADS = 64, BUCKETS = 1024, ANSWERED_MS = 200 };

LIST_HEAD(watch_list, dlk_watch);

static struct watch_list watches[BUCKETS];   /* by file */
static struct watch_list listening[BUCKETS]; /* by inotify's number */
static struct watch_list stirred, threaded;
static struct dlk_bells bells = { .ended = -1, .closed = -1 };
static unsigned threads, stirs;
static bool asleep;         /* we stand by, without any of the threads */
static _Atomic int leaving; /* threads that end just now */

bool dlk_watch_init(void)
{
	bells.ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return bells.ended >= 0;
}

const struct dlk_bells *dlk_watch_bells(void)
{
	return &bells;
}

/* --- waiting in the kernel ------------------------------------------------ */

static void destroy(struct dlk_watch *w)
{
	dlk_close_all(&w->fd, 1);
	free(w);
}

/* One of its file's, or -1: where the file system may hang, in the background. */
static void close_its(const struct dlk_watch *w, int fd)
{
	if (w->remote && fd >= 0)
		dlk_errand_close(fd);
	else
		dlk_close_all(&fd, 1);
}

static void destroy_now(struct dlk_watch *w)
{
	close_its(w, w->fd);
	w->fd = -1;
	destroy(w);
}

/*
 * It is ours: for as short as can be, for a program without dlock that asks
 * with LOCK_NB in between is refused (DESIGN 4.1).
 */
static void pass_on(struct dlk_watch *w)
{
	const uint64_t now = dlk_now_ns();

	flock(w->fd, LOCK_UN);
	DLK_GUARD(&w->mutex);
	w->free_at_ns = now;
	w->waiting = false;
}

/* One wait in the kernel; the lock is ours for two instructions. */
static void wait_for_end(struct dlk_watch *w)
{
	/* EINTR cannot be: all signals are blocked.  ENOLCK can. */
	while (flock(w->fd, LOCK_EX) < 0)
		dlk_pause_ns(100 * DLK_MS);
	pass_on(w);
}

static void *run(void *arg)
{
	struct dlk_watch *w = arg;
	bool end;

	atomic_store(&w->tid, (pid_t)dlk_syscall(SYS_gettid));
	do {
		wait_for_end(w);
		eventfd_write(bells.ended, 1);
		pthread_mutex_lock(&w->mutex);
		while (!w->waiting && !w->end)
			pthread_cond_wait(&w->go, &w->mutex);
		end = w->end;
		pthread_mutex_unlock(&w->mutex);
	} while (!end);
	destroy(w);
	atomic_fetch_sub(&leaving, 1);
	return NULL;
}

/* None to be had is no failure: the file is asked now and then. */
static void start(struct dlk_watch *w)
{
	if (w->fd < 0 || threads >= THREADS)
		return;
	w->waiting = true;
	w->since_ns = dlk_now_ns();
	w->has_thread = asleep || dlk_small_thread(run, w);
	threads += w->has_thread;
	if (w->has_thread)
		LIST_INSERT_HEAD(&threaded, w, in_threaded);
}

static bool probe(struct dlk_watch *w)
{
	if (flock(w->fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	pass_on(w);
	return true;
}

bool dlk_watch_probe(struct dlk_watch *w)
{
	return !w->has_thread && !w->records && w->fd >= 0 &&
	       dlk_watch_answers(w) && probe(w);
}

/* --- does its file server answer? ----------------------------------------- */

/* One that is asked for all files of a file system. */
struct server {
	struct dlk_errand errand;
	LIST_ENTRY(server) next;
	uint64_t dev, answered_ns;
	bool asked, answers;
	struct dlk_watch *watch; /* by its descriptor; the errand's reference */
};

static LIST_HEAD(, server) servers;

static struct server *find_server(const struct dlk_watch *w)
{
	struct server *s;

	LIST_FOREACH(s, &servers, next)
	if (s->dev == w->dev)
		break;
	return s;
}

static struct server *new_server(const struct dlk_watch *w)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dev = w->dev;
	LIST_INSERT_HEAD(&servers, s, next);
	return s;
}

/*
 * What it says is of no matter; but it is to be asked: where a lock of this host is in
 * the way, NFS answers the latter two itself.
 */
static void ask_it(struct dlk_errand *e)
{
	struct dlk_watch *w = ((struct server *)e)->watch;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct statx st;

	statx(w->fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_NLINK, &st);
	if (w->records)
		fcntl(w->fd, F_OFD_GETLK, &lock);
	else
		probe(w);
}

static void has_answered(struct dlk_errand *e)
{
	struct server *s = (struct server *)e;

	s->asked = false;
	s->answers = true;
	s->answered_ns = dlk_now_ns();
	dlk_watch_unref(s->watch);
}

/* Many files, or a server of leases that is silent, take longer than that. */
static bool has_just_answered(const struct server *s)
{
	return s->answers &&
	       dlk_now_ns() < s->answered_ns + ANSWERED_MS * DLK_MS;
}

/* (Without memory it is asked by the first thread, and may hang.) */
bool dlk_watch_answers(struct dlk_watch *w)
{
	struct server *s;

	if (!w->remote)
		return true;
	s = find_server(w) ?: new_server(w);
	if (!s || has_just_answered(s))
		return true;
	w->unasked = true;
	if (s->asked)
		return false;
	s->asked = true;
	s->answers = false;
	s->watch = w;
	w->refs++;
	s->errand = (struct dlk_errand){ .run = ask_it, .done = has_answered };
	dlk_errand_send(&s->errand);
	return false;
}

static bool any_answers(void)
{
	const struct server *s;

	LIST_FOREACH(s, &servers, next)
	if (s->answers)
		return true;
	return false;
}

/* Of many files the rest is for the next answer, and comes first then. */
void dlk_watch_answered(void (*ask)(struct dlk_watch *w))
{
	static size_t first;
	const size_t begin = first;
	struct dlk_watch *w;

	for (size_t i = begin; i < begin + BUCKETS && any_answers(); i++)
		LIST_FOREACH(w, &watches[i % BUCKETS], next)
	if (w->unasked && find_server(w)->answers) {
		w->unasked = false;
		if (dlk_watch_answers(w))
			ask(w);
		else
			first = i % BUCKETS;
	}
}

void dlk_watch_answers_are_old(void)
{
	struct server *s;

	LIST_FOREACH(s, &servers, next)
	s->answers = false;
}

/* --- opening -------------------------------------------------------------- */

static const char *fd_name(char name[DLK_NUMBERED_MAX], int fd)
{
	return dlk_numbered(name, "/proc/self/fd/", fd, "");
}

/* Reading is enough for flock(2); a file that is write-only for us as well. */
static int reopen(int fd, mode_t mode)
{
	const int flags = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	char name[DLK_NUMBERED_MAX];
	int own;

	if (!S_ISREG(mode) && !S_ISDIR(mode)) {
		errno = EMEDIUMTYPE;
		return -1;
	}
	own = open(fd_name(name, fd), O_RDONLY | flags);
	if (own < 0 && errno == EACCES)
		own = open(name, O_WRONLY | flags);
	return own;
}

/*
 * What is of a file server is none of a child's (os/spawn.h).  The other number is to
 * be closed where that may hang.
 */
static int move_up(int *fd)
{
	const int was = *fd;
	const int up = was >= 0 && was < DLK_SPAWN_WITHOUT
			       ? fcntl(was, F_DUPFD_CLOEXEC, DLK_SPAWN_WITHOUT)
			       : -1;

	if (up < 0)
		return -1;
	*fd = up;
	return was;
}

static struct watch_list *bucket(uint64_t dev, uint64_t node)
{
	return &watches[(node ^ dev * 31) % BUCKETS];
}

static struct dlk_watch *find(const struct dlk_keep_add *add)
{
	struct dlk_watch *w;

	LIST_FOREACH(w, bucket(add->dev, add->node), next)
	if (w->dev == add->dev && w->node == add->node &&
	    w->records == (add->kind != DLK_KEPT_FLOCK))
		return w;
	return NULL;
}

static void listen_begin(void)
{
	if (bells.closed < 0)
		bells.closed = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

static struct dlk_watch *new_watch(const struct dlk_keep_add *add)
{
	struct dlk_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = -1;
	w->records = add->kind != DLK_KEPT_FLOCK;
	w->remote = add->remote;
	w->dev = add->dev;
	w->node = add->node;
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->go, NULL);
	LIST_INSERT_HEAD(bucket(w->dev, w->node), w, next);
	return w;
}

/* The program may have closed the descriptor and opened another file. */
static int check_file(int fd, uint64_t dev, uint64_t node, struct stat *st)
{
	if (dlk_file_known(fd, st) < 0)
		return -errno;
	/* On FUSE it is the handle's: the number may be another's by now. */
	return st->st_dev == dev && (st->st_ino == node ||
				     dlk_handle_hash(fd) == node)
		       ? 0
		       : -ESTALE;
}

static struct dlk_watch *get_local(int fd, const struct dlk_watch_what *what)
{
	struct dlk_watch *w;
	struct stat st;
	int own, err = check_file(fd, what->add->dev, what->add->node, &st);

	if (err) {
		errno = -err;
		return NULL;
	}
	own = reopen(fd, st.st_mode);
	if (own < 0 && what->open_only)
		return NULL;
	w = new_watch(what->add);
	if (!w && own >= 0)
		close(own);
	if (!w)
		return NULL;
	w->fd = own;
	if (!w->records)
		start(w);
	return w;
}

/* What it cannot have (its own limits; no permission) is seen at a tick. */
static int listen_to(int fd)
{
	char name[DLK_NUMBERED_MAX];

	if (bells.closed < 0)
		return -1;
	return inotify_add_watch(bells.closed, fd_name(name, fd),
				 IN_CLOSE_WRITE | IN_CLOSE_NOWRITE);
}

static void note_wd(struct dlk_watch *w, int wd)
{
	if (wd <= 0 || w->wd > 0)
		return;
	w->wd = wd;
	LIST_INSERT_HEAD(&listening[wd % BUCKETS], w, by_wd);
}

/* --- opening in the background -------------------------------------------- */

struct opening {
	struct dlk_errand errand;
	struct dlk_watch *watch;
	uint32_t number;
	void (*tell)(struct dlk_watch *w, uint32_t number, int err);
	bool found;   /* it was opened before */
	bool listens; /* or was to be, and nothing tells of it yet */
	int fd, own, wd, err;
};

static void open_file(struct opening *o, int fd)
{
	struct stat st;
	int low;

	o->err = check_file(fd, o->watch->dev, o->watch->node, &st);
	if (!o->err) {
		o->own = reopen(fd, st.st_mode);
		o->err = o->own < 0 ? -errno : 0;
		low = move_up(&o->own);
		dlk_close_all(&low, 1);
	}
}

/*
 * The program's locks end with the last descriptor of its description, and so not
 * while we have one: its file is kept by a path (open(2), O_PATH), of which the file
 * server hears nothing, and that is closed first.
 */
static void open_it(struct dlk_errand *e)
{
	struct opening *o = (struct opening *)e;
	char name[DLK_NUMBERED_MAX];
	const int path = open(fd_name(name, o->fd), O_PATH | O_CLOEXEC);
	const int fd = path < 0 ? o->fd : path;

	if (o->listens)
		o->wd = listen_to(fd);
	if (path >= 0)
		close(o->fd);
	if (!o->found)
		open_file(o, fd);
	close(fd);
}

static void take_file(struct opening *o)
{
	struct dlk_watch *w = o->watch;

	w->opening = false;
	w->fd = o->own;
	if (!w->records && w->refs > 1)
		start(w);
	dlk_watch_stir(w);
}

static void opened(struct dlk_errand *e)
{
	struct opening *o = (struct opening *)e;

	note_wd(o->watch, o->wd);
	if (!o->found)
		take_file(o);
	o->watch->lent--;
	o->tell(o->watch, o->number, o->err);
	dlk_watch_unref(o->watch);
	free(o);
}

static struct dlk_watch *get_remote(int fd, const struct dlk_watch_what *what,
				    struct dlk_watch *found)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->watch = found ? found : new_watch(what->add);
	if (!o->watch) {
		free(o);
		return NULL;
	}
	o->watch->opening |= !found;
	o->watch->refs++; /* the errand's */
	o->watch->lent++;
	o->errand.run = open_it;
	o->errand.done = opened;
	o->number = what->add->head.seq;
	o->tell = what->opened;
	o->found = found;
	o->listens = o->watch->wd <= 0;
	o->fd = fd;
	o->own = -1;
	listen_begin();
	dlk_errand_send(&o->errand);
	return o->watch;
}

struct dlk_watch *dlk_watch_get(int fd, const struct dlk_watch_what *what)
{
	struct dlk_watch *w = find(what->add);

	if (w && dlk_watch_is_shut(w) && what->open_only) {
		errno = EACCES;
		return NULL;
	}
	if (what->add->remote)
		w = get_remote(fd, what, w);
	else if (!w)
		w = get_local(fd, what);
	if (w)
		w->refs++;
	return w;
}

/* Does the thread sleep, or is it to?  That is for this one to say. */
static bool is_waiting(struct dlk_watch *w)
{
	bool waiting;

	DLK_GUARD(&w->mutex);
	waiting = w->waiting;
	return waiting;
}

/*
 * An unlock wakes whoever waits for it before it returns (fs/locks.c,
 * __locks_wake_up_blocks), so who sleeps in flock(2) waits for a lock that is
 * there, and who was woken has yet to run.  A file server wakes when it likes.
 */
int dlk_watch_is_blocked(struct dlk_watch *w)
{
	const pid_t tid = atomic_load(&w->tid);
	char path[DLK_NUMBERED_MAX], state;

	if (w->remote)
		return -1;
	if (!is_waiting(w) || tid == 0)
		return 0;
	state = dlk_kernel_task_state(
		dlk_numbered(path, "/proc/self/task/", tid, "/stat"));
	return state ? state != 'R' : -1;
}

bool dlk_watch_is_shut(const struct dlk_watch *w)
{
	return w->fd < 0 && !w->opening;
}

uint64_t dlk_watch_free_at(struct dlk_watch *w)
{
	DLK_GUARD(&w->mutex);
	return w->free_at_ns;
}

void dlk_watch_again(struct dlk_watch *w)
{
	if (!w->has_thread)
		return;
	DLK_GUARD(&w->mutex);
	if (w->waiting)
		return;
	w->waiting = true;
	w->since_ns = dlk_now_ns();
	pthread_cond_signal(&w->go);
}

bool dlk_watch_waits_since(struct dlk_watch *w, uint64_t ns)
{
	DLK_GUARD(&w->mutex);
	return w->waiting && w->since_ns > ns;
}

/* --- inotify -------------------------------------------------------------- */

/* (Of a remote file the descriptor is the errand's, which has asked.) */
void dlk_watch_listen(struct dlk_watch *w, int fd)
{
	if (w->wd > 0 || w->remote)
		return;
	listen_begin();
	note_wd(w, listen_to(fd));
}

/* One number a file, whichever locks of it are watched. */
static bool any_listens(int wd)
{
	const struct dlk_watch *w;

	LIST_FOREACH(w, &listening[wd % BUCKETS], by_wd)
	if (w->wd == wd)
		return true;
	return false;
}

static void listen_no_more(struct dlk_watch *w)
{
	if (w->wd <= 0)
		return;
	LIST_REMOVE(w, by_wd);
	if (!asleep && !any_listens(w->wd))
		inotify_rm_watch(bells.closed, w->wd);
	w->wd = 0;
}

void dlk_watch_stir(struct dlk_watch *w)
{
	if (!w->stirred)
		LIST_INSERT_HEAD(&stirred, w, in_stirred);
	w->stirred = true;
	stirs++;
}

static void calm(struct dlk_watch *w)
{
	if (w->stirred)
		LIST_REMOVE(w, in_stirred);
	w->stirred = false;
}

unsigned dlk_watch_stirs(void)
{
	return stirs;
}

struct dlk_watch *dlk_watch_stirred(const struct dlk_watch *after)
{
	return after ? LIST_NEXT(after, in_stirred) : LIST_FIRST(&stirred);
}

void dlk_watch_calm(void)
{
	while (LIST_FIRST(&stirred))
		calm(LIST_FIRST(&stirred));
}

/* (fn() may free it.) */
static void each_watch(void (*fn)(struct dlk_watch *w))
{
	struct dlk_watch *w, *next;

	for (size_t i = 0; i < BUCKETS; i++)
		for (w = LIST_FIRST(&watches[i]); w; w = next) {
			next = LIST_NEXT(w, next);
			fn(w);
		}
}

static void stir_wd(int wd)
{
	struct dlk_watch *w;

	if (wd <= 0)
		return;
	LIST_FOREACH(w, &listening[wd % BUCKETS], by_wd)
	if (w->wd == wd)
		dlk_watch_stir(w);
}

void dlk_watch_closed(void)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n;

	while ((n = read(bells.closed, buf, sizeof(buf))) > 0) {
		const struct inotify_event *e;

		for (ssize_t at = 0; at < n;
		     at += (ssize_t)(sizeof(*e) + e->len)) {
			e = (const void *)(buf + at);
			if (e->mask & IN_Q_OVERFLOW)
				each_watch(dlk_watch_stir);
			else
				stir_wd(e->wd);
		}
	}
}

/* --- the end -------------------------------------------------------------- */

/* It frees itself, at any moment. */
static void end_thread(struct dlk_watch *w)
{
	LIST_REMOVE(w, in_threaded);
	threads--;
	if (asleep) {
		destroy_now(w);
		return;
	}
	atomic_fetch_add(&leaving, 1);
	DLK_GUARD(&w->mutex);
	w->end = true;
	pthread_cond_signal(&w->go);
}

/*
 * A thread may sleep in the kernel for long yet: its watch is found again by
 * the next lease of the file, and swept when it has woken.
 */
static void sweep(struct dlk_watch *w)
{
	if (w->refs)
		return;
	listen_no_more(w);
	if (w->has_thread && !asleep && is_waiting(w))
		return;
	calm(w);
	LIST_REMOVE(w, next);
	if (w->has_thread)
		end_thread(w);
	else
		destroy_now(w);
}

void dlk_watch_unref(struct dlk_watch *w)
{
	w->refs--;
	sweep(w);
}

void dlk_watch_ended(void (*ended)(struct dlk_watch *w))
{
	struct dlk_watch *next;
	uint64_t count;

	eventfd_read(bells.ended, &count);
	for (struct dlk_watch *w = LIST_FIRST(&threaded); w; w = next) {
		next = LIST_NEXT(w, in_threaded);
		if (w->refs && dlk_watch_free_at(w))
			ended(w);
		sweep(w);
	}
}

/* --- a child that stands by ----------------------------------------------- */

/* Its thread is made when it wakes; without leases it needs none. */
static void put_to_sleep(struct dlk_watch *w)
{
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->go, NULL);
	atomic_store(&w->tid, 0);
	w->free_at_ns = 0;
	sweep(w);
}

bool dlk_watch_is_quiet(void)
{
	return atomic_load(&leaving) == 0;
}

bool dlk_watch_stand_by(void)
{
	asleep = true;
	dlk_watch_answers_are_old();
	close(bells.ended);
	each_watch(put_to_sleep);
	return dlk_watch_init();
}

/*
 * The other keeper may have ended with the lock in hand: it was our
 * description's, so it is ours, and its thread gives it back; or, where its file
 * server is to be asked first, the next look.
 */
static void wake(struct dlk_watch *w)
{
	const bool had_thread = w->has_thread;

	if (had_thread) {
		LIST_REMOVE(w, in_threaded);
		threads--;
		w->has_thread = false;
		start(w);
	}
	if (w->fd >= 0 && !w->records && !w->has_thread && !w->remote)
		flock(w->fd, LOCK_UN);
	dlk_watch_stir(w);
}

void dlk_watch_wake(void)
{
	asleep = false;
	each_watch(wake);
}

static void take_given(struct dlk_watch *w, int fd)
{
	if (w->remote)
		close_its(w, move_up(&fd));
	w->fd = fd;
}

void dlk_watch_complete(struct dlk_watch *w,
			const struct dlk_watch_given *given)
{
	if (bells.closed < 0)
		bells.closed = given->bell;
	else if (given->bell >= 0)
		close(given->bell);
	note_wd(w, given->wd);
	if (w->fd >= 0)
		close_its(w, given->fd);
	else
		take_given(w, given->fd);
	if (given->has_thread && !w->has_thread)
		start(w);
}

struct dlk_watch *dlk_watch_adopt(const struct dlk_keep_add *add,
				  const struct dlk_watch_given *given)
{
	struct dlk_watch *w = find(add) ?: new_watch(add);

	if (!w)
		return NULL;
	w->refs++;
	dlk_watch_complete(w, given);
	return w;
}
