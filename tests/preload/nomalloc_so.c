/* SPDX-License-Identifier: MIT */
/*
 * Watches the heap, preloaded before dlock: ends the process by SIGABRT, with
 * a line on standard error, when
 *
 *  1. a lock call, or a close, allocates or frees (DESIGN L7), but for
 *     pthread_create(3), which cannot do without;
 *  2. the allocator is entered on a thread that is in it: by a signal handler.
 *
 * NOMALLOC_RAISE=N raises SIGALRM, if handled, within every N-th allocation.
 * NOMALLOC_CONTROL=1 allocates in each lock call: it must be seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static __thread int in_heap, in_lock, in_create;
static unsigned long every;
static bool control;
static int (*real_flock)(int fd, int op);
static int (*real_close)(int fd);
static int (*real_create)(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*run)(void *), void *arg);

__attribute__((constructor)) static void begin(void)
{
	const char *n = getenv("NOMALLOC_RAISE");

	every = n ? strtoul(n, NULL, 10) : 0;
	control = getenv("NOMALLOC_CONTROL") != NULL;
	*(void **)(void *)&real_flock = dlsym(RTLD_NEXT, "flock");
	*(void **)(void *)&real_close = dlsym(RTLD_NEXT, "close");
	*(void **)(void *)&real_create = dlsym(RTLD_NEXT, "pthread_create");
}

static void accuse(const char *what)
{
	if (write(STDERR_FILENO, what, strlen(what)) < 0)
		_exit(99);
	signal(SIGABRT, SIG_DFL);
	raise(SIGABRT);
}

static bool is_handled(int sig)
{
	struct sigaction sa;

	return sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL;
}

static void enter(void)
{
	static __thread unsigned long count;

	if (in_heap++)
		accuse("nomalloc: the heap is entered twice\n");
	if (in_lock && !in_create)
		accuse("nomalloc: the heap is used in a lock call\n");
	if (every && ++count % every == 0 && is_handled(SIGALRM))
		raise(SIGALRM);
}

static void *left(void *p)
{
	in_heap--;
	return p;
}

void *malloc(size_t size)
{
	enter();
	return left(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	enter();
	return left(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	enter();
	return left(__libc_realloc(p, size));
}

void *memalign(size_t align, size_t size)
{
	enter();
	return left(__libc_memalign(align, size));
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	*p = memalign(align, size);
	return *p ? 0 : ENOMEM;
}

void free(void *p)
{
	int err = errno;

	enter();
	__libc_free(p);
	left(NULL);
	errno = err;
}

int flock(int fd, int op)
{
	int r;

	if (!real_flock)
		return errno = ENOSYS, -1;
	in_lock++;
	if (control) {
		void *volatile p = malloc(1);

		free(p);
	}
	r = real_flock(fd, op);
	in_lock--;
	return r;
}

int close(int fd)
{
	int r;

	if (!real_close)
		return errno = ENOSYS, -1;
	in_lock++;
	r = real_close(fd);
	in_lock--;
	return r;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
		   void *(*run)(void *), void *arg)
{
	int r;

	in_create++;
	r = real_create(thread, attr, run, arg);
	in_create--;
	return r;
}
