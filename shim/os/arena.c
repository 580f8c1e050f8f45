/* SPDX-License-Identifier: MIT */
/* Memory that is given back all at once; see arena.h. */
#include "os/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "os/sys.h"

/* Initial-exec: __tls_get_addr() may call malloc on a thread's first use. */
static __thread struct dlk_arena *current
	__attribute__((tls_model("initial-exec")));

/* Before each block, so that realloc knows what to copy. */
struct head {
	_Alignas(max_align_t) size_t room;
};

/* A further chunk remembers the one before it. */
struct chunk {
	struct chunk *before;
	size_t size;
};

void dlk_arena_init(struct dlk_arena *a, void *mem, size_t size, size_t limit)
{
	*a = (struct dlk_arena){ .first = mem, .limit = limit };
	a->first_end = mem ? a->first + size : NULL;
	a->top = a->first;
	a->end = a->first_end;
}

void dlk_arena_reset(struct dlk_arena *a)
{
	struct chunk *c = (struct chunk *)(void *)a->base;

	while (c) {
		struct chunk *before = c->before;

		dlk_undumped_free(c, c->size);
		c = before;
	}
	a->base = NULL;
	a->top = a->first;
	a->end = a->first_end;
	a->total = 0;
}

struct dlk_arena *dlk_arena_use(struct dlk_arena *a)
{
	struct dlk_arena *was = current;

	current = a;
	return was;
}

static int grow(struct dlk_arena *a, size_t need)
{
	size_t size = (need + sizeof(struct chunk) + 0x1ffff) & ~0xffffUL;
	struct chunk *c;

	if (a->total + size > a->limit)
		return -1;
	c = dlk_undumped(size);
	if (!c)
		return -1;
	c->before = (struct chunk *)(void *)a->base;
	c->size = size;
	a->base = (char *)c;
	a->top = a->base + sizeof(*c);
	a->end = a->base + size;
	a->total += size;
	return 0;
}

void *dlk_arena_malloc(size_t size)
{
	struct dlk_arena *a = current;
	struct head *h;
	size_t need;

	if (!a || size > SIZE_MAX / 2)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	need = sizeof(*h) + size;
	if (need > (size_t)(a->end - a->top) && grow(a, need) < 0)
		return NULL;
	h = (struct head *)(void *)a->top;
	h->room = size;
	a->top += need;
	return h + 1;
}

void *dlk_arena_calloc(size_t n, size_t size)
{
	size_t all;
	void *p;

	if (__builtin_mul_overflow(n, size, &all))
		return NULL;
	p = dlk_arena_malloc(all);
	if (p)
		memset(p, 0, all);
	return p;
}

void *dlk_arena_realloc(void *old, size_t size)
{
	const size_t room = old ? ((struct head *)old - 1)->room : 0;
	void *p;

	if (old && size <= room)
		return old;
	p = dlk_arena_malloc(size < room + room / 2 ? room + room / 2 : size);
	if (p && old)
		memcpy(p, old, room);
	return p;
}

void *dlk_arena_reallocarray(void *old, size_t n, size_t size)
{
	size_t all;

	return __builtin_mul_overflow(n, size, &all)
		       ? NULL
		       : dlk_arena_realloc(old, all);
}

void dlk_arena_free(void *old)
{
	struct dlk_arena *a = current;
	struct head *h = old ? (struct head *)old - 1 : NULL;

	if (a && h && (char *)old + h->room == a->top)
		a->top = (char *)h;
}

char *dlk_arena_strdup(const char *s)
{
	return dlk_arena_strndup(s, SIZE_MAX / 4);
}

char *dlk_arena_strndup(const char *s, size_t max)
{
	const size_t len = strnlen(s, max);
	char *p = dlk_arena_calloc(1, len + 1);

	return p ? memcpy(p, s, len) : NULL;
}
