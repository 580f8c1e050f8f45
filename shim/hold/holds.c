/* SPDX-License-Identifier: MIT */
/*
 * The leases of this process: a list, and chains of it by file, for a program
 * may hold ten thousand.  Objects come from mmap(2) and are used again.
 * Functions want the mutex unless they say otherwise.
 */
#include "hold/holds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/hold.h"
#include "model/range.h"

enum { SMALL = 1024, BATCH = 32, CHAINS = 1024 };

pthread_mutex_t dlk_holds_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct dlk_hold *first;          /* all but the free */
	struct dlk_hold *chains[CHAINS]; /* the same, by file */
	struct dlk_hold *spare;          /* small free objects */
} holds;

struct dlk_hold *dlk_holds_first(void)
{
	dlk_holds_check();
	return holds.first;
}

/* The objects are a copy of the parent's; a few pages. */
void dlk_holds_forget(void)
{
	pthread_mutex_init(&dlk_holds_mutex, NULL);
	if (holds.first)
		memset(holds.chains, 0, sizeof(holds.chains));
	holds.first = NULL;
	holds.spare = NULL;
}

static struct dlk_hold *take_spare(void)
{
	struct dlk_hold *h = holds.spare;

	dlk_holds_check();
	if (!h) {
		char *batch = dlk_pages((size_t)SMALL * BATCH);

		for (int i = 0; batch && i < BATCH; i++) {
			h = (struct dlk_hold *)(void *)(batch + i * SMALL);
			h->next = holds.spare;
			holds.spare = h;
		}
	}
	if (h)
		holds.spare = h->next;
	return h;
}

/*
 * The ranges of an owner, in pages.  One page is kept: who locks and unlocks
 * one range after another would map it and unmap it each time.
 */
enum { FIRST_ROOM = 4096 / sizeof(struct dlk_range) };
static _Atomic(struct dlk_range *) spare_page;

int dlk_ranges_grow(struct dlk_ranges *set, size_t n)
{
	size_t room = set->room ? set->room * 2 : FIRST_ROOM;
	void *v = NULL;

	while (room < n)
		room *= 2;
	if (set->room)
		v = mremap(set->v, set->room * sizeof(*set->v),
			   room * sizeof(*set->v), MREMAP_MAYMOVE);
	else if (room == FIRST_ROOM)
		v = atomic_exchange(&spare_page, NULL);
	v = v ?: dlk_pages(room * sizeof(*set->v));
	if (!v || v == MAP_FAILED)
		return -ENOLCK;
	set->v = v;
	set->room = room;
	return 0;
}

void dlk_ranges_free(struct dlk_ranges *set)
{
	struct dlk_range *v = set->room ? set->v : NULL;

	if (set->room == FIRST_ROOM)
		v = atomic_exchange(&spare_page, v);
	if (v)
		munmap(v, set->room * sizeof(*v));
	set->room = 0;
}

struct dlk_hold *dlk_hold_new(const struct dlk_lease *lease)
{
	size_t size = sizeof(struct dlk_hold) + lease->key_len +
		      lease->token_len + lease->ranges_key_len + 3;
	struct dlk_hold *h;
	char *p;

	if (size <= SMALL) {
		size = SMALL;
		dlk_holds_lock();
		h = take_spare();
		dlk_holds_unlock();
	} else {
		h = dlk_pages(size);
	}
	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	h->size = size;
	h->fd = -1;
	h->ranges.grow = dlk_ranges_grow;
	h->program_fd = -1;
	p = h->bytes;
	h->lease = *lease;
	h->lease.key = memcpy(p, lease->key, lease->key_len + 1);
	p += lease->key_len + 1;
	h->lease.token = memcpy(p, lease->token, lease->token_len + 1);
	p += lease->token_len + 1;
	if (lease->ranges_key)
		h->lease.ranges_key =
			memcpy(p, lease->ranges_key, lease->ranges_key_len + 1);
	return h;
}

static struct dlk_hold **chain(const struct dlk_file *file)
{
	return &holds.chains[(dlk_node(file) ^ file->dev * 31) % CHAINS];
}

void dlk_holds_add(struct dlk_hold *h)
{
	struct dlk_hold **first = chain(&h->file);

	dlk_holds_check();
	h->next = holds.first;
	h->pprev = &holds.first;
	if (h->next)
		h->next->pprev = &h->next;
	holds.first = h;
	h->chain = *first;
	*first = h;
}

static void give_back(struct dlk_hold *h)
{
	dlk_ranges_free(&h->ranges);
	if (h->size != SMALL) {
		munmap(h, h->size);
		return;
	}
	h->next = holds.spare;
	holds.spare = h;
}

void dlk_holds_remove(struct dlk_hold *h)
{
	struct dlk_hold **in = chain(&h->file);

	dlk_holds_check();
	*h->pprev = h->next;
	if (h->next)
		h->next->pprev = h->pprev;
	while (*in != h)
		in = &(*in)->chain;
	*in = h->chain;
	give_back(h);
}

void dlk_hold_free(struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	give_back(h);
}

static struct dlk_hold *find(const struct dlk_file *file,
			     const struct dlk_hold *from, bool records)
{
	struct dlk_hold *h = from ? from->chain : *chain(file);

	dlk_holds_check();
	for (; h; h = h->chain)
		if (dlk_hold_is_held(h) && (h->kind != DLK_FLOCK) == records &&
		    dlk_same_file(&h->file, file))
			return h;
	return NULL;
}

struct dlk_hold *dlk_hold_find(const struct dlk_file *file,
			       const struct dlk_hold *from)
{
	return find(file, from, false);
}

struct dlk_hold *dlk_hold_find_records(const struct dlk_file *file,
				       const struct dlk_hold *from)
{
	return find(file, from, true);
}

int dlk_hold_next_fd(int from)
{
	int lowest = -1;

	DLK_INSIDE(call);
	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (dlk_hold_is_held(h) && h->fd >= from &&
		    (lowest < 0 || h->fd < lowest))
			lowest = h->fd;
	return lowest;
}
