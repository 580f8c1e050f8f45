/* SPDX-License-Identifier: MIT */
/*
 * Watching a file until the lock on it ends (DESIGN L4).
 *
 * A thread per file asks, on a description of the keeper's own, for a lock
 * that conflicts with the guarded one, and sleeps in flock(2).  When it is
 * granted, the guarded lock has ended, by whatever way.
 *
 *  1. The lock MUST be given back at once: a local program with LOCK_NB would
 *     be refused for it.
 *  2. The moment is noted while the lock is held: a lease whose kernel grant
 *     came later is not the one that ended.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lease/sys.h"
#include "model/text.h"
#include "model/timeline.h"

struct dlk_watch {
	struct dlk_watch *next;
	dev_t dev;
	ino_t ino;
	int fd, bell;
	unsigned refs;         /* main thread's */
	pthread_mutex_t mutex; /* guards the three below */
	pthread_cond_t go;
	uint64_t free_at_ns;
	bool waiting, end;
};

static struct dlk_watch *watches; /* main thread's */

static void free_watch(struct dlk_watch *w)
{
	close(w->fd);
	free(w);
}

/* One wait in the kernel; the lock is ours for two instructions. */
static void wait_for_end(struct dlk_watch *w)
{
	/* EINTR cannot be: all signals are blocked.  ENOLCK can. */
	while (flock(w->fd, LOCK_EX) < 0)
		dlk_pause_ns(100 * DLK_MS);
	pthread_mutex_lock(&w->mutex);
	w->free_at_ns = dlk_now_ns();
	w->waiting = false;
	pthread_mutex_unlock(&w->mutex);
	flock(w->fd, LOCK_UN);
}

static void *run(void *arg)
{
	struct dlk_watch *w = arg;
	const uint64_t one = 1;
	bool end;

	do {
		wait_for_end(w);
		(void)!write(w->bell, &one, sizeof(one));
		pthread_mutex_lock(&w->mutex);
		while (!w->waiting && !w->end)
			pthread_cond_wait(&w->go, &w->mutex);
		end = w->end;
		pthread_mutex_unlock(&w->mutex);
	} while (!end);
	free_watch(w);
	return NULL;
}

static int start(struct dlk_watch *w)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, run, w);
	pthread_attr_destroy(&attr);
	return err;
}

/* Reading is enough for flock(2); a file that is write-only for us as well. */
static int reopen(int fd)
{
	char name[48];
	struct dlk_text t;
	int own;

	dlk_text_init(&t, name, sizeof(name));
	dlk_text_str(&t, "/proc/self/fd/");
	dlk_text_i64(&t, fd);
	own = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own < 0 && errno == EACCES)
		own = open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own;
}

static struct dlk_watch *find(const struct stat *st)
{
	for (struct dlk_watch *w = watches; w; w = w->next)
		if (w->dev == st->st_dev && w->ino == st->st_ino)
			return w;
	return NULL;
}

static struct dlk_watch *new_watch(int fd, const struct stat *st, int bell)
{
	struct dlk_watch *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return NULL;
	w->fd = reopen(fd);
	if (w->fd < 0) {
		free(w);
		return NULL;
	}
	w->dev = st->st_dev;
	w->ino = st->st_ino;
	w->bell = bell;
	w->waiting = true;
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->go, NULL);
	err = start(w);
	if (err) {
		free_watch(w);
		errno = err;
		return NULL;
	}
	w->next = watches;
	watches = w;
	return w;
}

struct dlk_watch *dlk_watch_get(int fd, int bell)
{
	struct dlk_watch *w = NULL;
	struct stat st;
	int err;

	if (fstat(fd, &st) == 0) {
		w = find(&st);
		if (!w)
			w = new_watch(fd, &st, bell);
	}
	err = errno;
	close(fd);
	errno = err;
	return w;
}

uint64_t dlk_watch_free_at(struct dlk_watch *w)
{
	uint64_t at;

	pthread_mutex_lock(&w->mutex);
	at = w->free_at_ns;
	pthread_mutex_unlock(&w->mutex);
	return at;
}

void dlk_watch_again(struct dlk_watch *w)
{
	pthread_mutex_lock(&w->mutex);
	w->waiting = true;
	pthread_cond_signal(&w->go);
	pthread_mutex_unlock(&w->mutex);
}

void dlk_watch_ref(struct dlk_watch *w)
{
	w->refs++;
}

/*
 * Its thread may sleep in the kernel for long yet: it is found again by the
 * next lease of the file, and swept when it has woken.
 */
void dlk_watch_unref(struct dlk_watch *w)
{
	w->refs--;
	dlk_watch_sweep();
}

static bool told_to_end(struct dlk_watch *w)
{
	bool end;

	pthread_mutex_lock(&w->mutex);
	end = w->refs == 0 && !w->waiting;
	if (end) {
		w->end = true;
		pthread_cond_signal(&w->go);
	}
	pthread_mutex_unlock(&w->mutex);
	return end;
}

void dlk_watch_sweep(void)
{
	struct dlk_watch **at = &watches;

	while (*at) {
		struct dlk_watch *w = *at, *next = w->next;

		/* Told to end, it frees itself at any moment. */
		if (told_to_end(w))
			*at = next;
		else
			at = &w->next;
	}
}
