/* SPDX-License-Identifier: MIT */
/*
 * Calls that may hang, for a file server may be dead: open(2), close(2) and
 * what writes dirty pages back.  A thread of its own makes each, so the leases
 * of other files are renewed, and the shim is answered, meanwhile.
 */
#include "keeper/keeper.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/sys.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_errand *back; /* guarded by it */
static int bell = -1;
static unsigned under_way; /* the main thread's */

bool dlk_errands_init(void)
{
	if (bell < 0)
		bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return bell >= 0;
}

bool dlk_errands_begin_anew(void)
{
	pthread_mutex_init(&mutex, NULL);
	back = NULL;
	under_way = 0;
	dlk_close_all(&bell, 1);
	return dlk_errands_init();
}

unsigned dlk_errands_open(void)
{
	return under_way;
}

int dlk_errands_bell(void)
{
	return bell;
}

static void *run(void *arg)
{
	struct dlk_errand *e = arg;

	e->run(e);
	pthread_mutex_lock(&mutex);
	e->next = back;
	back = e;
	pthread_mutex_unlock(&mutex);
	eventfd_write(bell, 1);
	return NULL;
}

bool dlk_small_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return err == 0;
}

/* Without a thread to be had it is done at once, and may hang. */
void dlk_errand_send(struct dlk_errand *e)
{
	under_way++;
	if (!dlk_small_thread(run, e))
		run(e);
}

struct closing {
	struct dlk_errand errand;
	int fd, sock; /* or -1 */
};

/* (The standby may have the socket, too.) */
static void close_both(int fd, int sock)
{
	close(fd);
	if (sock >= 0)
		shutdown(sock, SHUT_RDWR);
	dlk_close_all(&sock, 1);
}

static void close_it(struct dlk_errand *e)
{
	const struct closing *c = (struct closing *)e;

	close_both(c->fd, c->sock);
}

static void closed(struct dlk_errand *e)
{
	free(e);
}

void dlk_errand_hang_up(int fd, int sock)
{
	struct closing *c = calloc(1, sizeof(*c));

	if (!c) {
		close_both(fd, sock);
		return;
	}
	*c = (struct closing){ { .run = close_it, .done = closed }, fd, sock };
	dlk_errand_send(&c->errand);
}

void dlk_errand_close(int fd)
{
	dlk_errand_hang_up(fd, -1);
}

short dlk_polled(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, ms) < 0 ? POLLNVAL : p.revents;
}

void dlk_errands_back(void)
{
	struct dlk_errand *e, *next;
	uint64_t count;

	eventfd_read(bell, &count);
	pthread_mutex_lock(&mutex);
	e = back;
	back = NULL;
	pthread_mutex_unlock(&mutex);
	for (; e; e = next) {
		next = e->next;
		under_way--;
		e->done(e);
	}
}
