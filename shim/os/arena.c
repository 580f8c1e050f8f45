/* SPDX-License-Identifier: MIT */
/* hiredis' memory; see arena.h. */
#include "os/arena.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Initial-exec: __tls_get_addr() may call malloc on a thread's first use. */
static __thread struct dlk_arena *current
	__attribute__((tls_model("initial-exec")));

/* Before each block, so that realloc knows what to copy. */
struct head {
	size_t size;
	size_t pad;
};

/* A further chunk remembers the one before it. */
struct chunk {
	struct chunk *before;
	size_t size;
};

void dlk_arena_init(struct dlk_arena *a, void *mem, size_t size, size_t limit)
{
	*a = (struct dlk_arena){ .first = mem, .limit = limit };
	a->first_end = a->first + size;
	a->top = a->first;
	a->end = a->first_end;
}

void dlk_arena_reset(struct dlk_arena *a)
{
	struct chunk *c = (struct chunk *)(void *)a->base;

	while (c) {
		struct chunk *before = c->before;

		munmap(c, c->size);
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
	c = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return -1;
	c->before = (struct chunk *)(void *)a->base;
	c->size = size;
	a->base = (char *)c;
	a->top = a->base + sizeof(*c);
	a->end = a->base + size;
	a->total += size;
	return 0;
}

static size_t rounded(size_t size)
{
	return (size + 15) & ~(size_t)15;
}

void *dlk_arena_malloc(size_t size)
{
	struct dlk_arena *a = current;
	struct head *h;
	size_t need;

	if (!a || size > SIZE_MAX / 2)
		return NULL;
	need = sizeof(*h) + rounded(size);
	if (need > (size_t)(a->end - a->top) && grow(a, need) < 0)
		return NULL;
	h = (struct head *)(void *)a->top;
	h->size = size;
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
	struct head *h = old ? (struct head *)old - 1 : NULL;
	void *p;

	if (h && size <= rounded(h->size)) {
		h->size = size;
		return old;
	}
	p = dlk_arena_malloc(size);
	if (p && h)
		memcpy(p, old, h->size);
	return p;
}

void dlk_arena_free(void *old)
{
	struct dlk_arena *a = current;
	struct head *h = old ? (struct head *)old - 1 : NULL;

	if (a && h && (char *)old + rounded(h->size) == a->top)
		a->top = (char *)h;
}

char *dlk_arena_strdup(const char *s)
{
	size_t size = strlen(s) + 1;
	char *p = dlk_arena_malloc(size);

	return p ? memcpy(p, s, size) : NULL;
}
