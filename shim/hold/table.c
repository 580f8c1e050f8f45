/* SPDX-License-Identifier: MIT */
/*
 * The leases of this process: a list, and chains of it by file, for a program
 * may hold ten thousand.  Objects come from mmap(2) and are used again.
 * Functions want the mutex unless they say otherwise.
 */
#include "hold/state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "model/timeline.h"

struct dlk_state dlk = { .mutex = PTHREAD_MUTEX_INITIALIZER };

enum { SMALL = 2048, BATCH = 32 };

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* (mutex held) */
static struct dlk_held *take_spare(void)
{
	struct dlk_held *h = dlk.spare;

	if (!h) {
		char *batch = map((size_t)SMALL * BATCH);

		for (int i = 0; batch && i < BATCH; i++) {
			h = (struct dlk_held *)(void *)(batch + i * SMALL);
			h->next = dlk.spare;
			dlk.spare = h;
		}
	}
	if (h)
		dlk.spare = h->next;
	return h;
}

/* The ranges of an owner, in pages. */
int dlk_ranges_grow(struct dlk_ranges *set, size_t n)
{
	size_t room = set->room ? set->room * 2 : 4096 / sizeof(*set->v);
	void *v;

	while (room < n)
		room *= 2;
	v = set->room ? mremap(set->v, set->room * sizeof(*set->v),
			       room * sizeof(*set->v), MREMAP_MAYMOVE)
		      : map(room * sizeof(*set->v));
	if (!v || v == MAP_FAILED)
		return -ENOLCK;
	set->v = v;
	set->room = room;
	return 0;
}

void dlk_ranges_free(struct dlk_ranges *set)
{
	if (set->room)
		munmap(set->v, set->room * sizeof(*set->v));
	set->room = 0;
}

struct dlk_held *dlk_held_new(const struct dlk_lease *lease)
{
	size_t size = sizeof(struct dlk_held) + lease->key_len +
		      lease->token_len + lease->places_len + 3;
	struct dlk_held *h;

	if (size <= SMALL) {
		size = SMALL;
		pthread_mutex_lock(&dlk.mutex);
		h = take_spare();
		pthread_mutex_unlock(&dlk.mutex);
	} else {
		h = map(size);
	}
	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	h->size = size;
	h->fd = -1;
	h->ranges.grow = dlk_ranges_grow;
	h->program_fd = -1;
	memcpy(h->bytes, lease->key, lease->key_len + 1);
	memcpy(h->bytes + lease->key_len + 1, lease->token,
	       lease->token_len + 1);
	h->lease = *lease;
	h->lease.key = h->bytes;
	h->lease.token = h->bytes + lease->key_len + 1;
	if (lease->places) {
		char *places = h->bytes + lease->key_len + lease->token_len + 2;

		memcpy(places, lease->places, lease->places_len + 1);
		h->lease.places = places;
	}
	return h;
}

static struct dlk_held **chain(const struct dlk_file *file)
{
	return &dlk.chains[(dlk_node(file) ^ file->dev * 31) % DLK_CHAINS];
}

void dlk_table_add(struct dlk_held *h)
{
	struct dlk_held **first = chain(&h->file);

	h->next = dlk.held;
	h->at = &dlk.held;
	if (h->next)
		h->next->at = &h->next;
	dlk.held = h;
	h->chain = *first;
	*first = h;
}

static void give_back(struct dlk_held *h)
{
	dlk_ranges_free(&h->ranges);
	if (h->size != SMALL) {
		munmap(h, h->size);
		return;
	}
	h->next = dlk.spare;
	dlk.spare = h;
}

void dlk_table_remove(struct dlk_held *h)
{
	struct dlk_held **in = chain(&h->file);

	*h->at = h->next;
	if (h->next)
		h->next->at = h->at;
	while (*in != h)
		in = &(*in)->chain;
	*in = h->chain;
	give_back(h);
}

void dlk_held_free(struct dlk_held *h)
{
	pthread_mutex_lock(&dlk.mutex);
	give_back(h);
	pthread_mutex_unlock(&dlk.mutex);
}

static struct dlk_held *find(const struct dlk_file *file,
			     const struct dlk_held *from, bool records)
{
	struct dlk_held *h = from ? from->chain : *chain(file);

	for (; h; h = h->chain)
		if (dlk_hold_is_held(h) && (h->kind != DLK_FLOCK) == records &&
		    dlk_same_file(&h->file, file))
			return h;
	return NULL;
}

struct dlk_held *dlk_held_find(const struct dlk_file *file,
			       const struct dlk_held *from)
{
	return find(file, from, false);
}

struct dlk_held *dlk_held_find_records(const struct dlk_file *file,
				       const struct dlk_held *from)
{
	return find(file, from, true);
}

int dlk_held_next_fd(int from)
{
	struct dlk_call call;
	int lowest = -1;

	dlk_enter(&call);
	pthread_mutex_lock(&dlk.mutex);
	for (struct dlk_held *h = dlk.held; h; h = h->next)
		if (dlk_hold_is_held(h) && h->fd >= from &&
		    (lowest < 0 || h->fd < lowest))
			lowest = h->fd;
	pthread_mutex_unlock(&dlk.mutex);
	dlk_leave(&call);
	return lowest;
}
