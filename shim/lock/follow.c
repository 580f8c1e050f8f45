/* SPDX-License-Identifier: MIT */
/*
 * The descriptor that a call waits with.
 *
 * The kernel looks a number up once, and waits with the description: what
 * another thread does to the number meanwhile is nothing to it (flock(2),
 * fs/fcntl.c).  We have the number only, for a duplicate of our own would drop
 * the program's record locks when it is closed (DESIGN L2), and would keep the
 * description alive.  So whoever takes a number away tells those who wait:
 *
 *	waits with 5			closes 5
 *	(asleep, nothing in hand)	6 is of the same description: follow it
 *					there is none: it is gone
 *					open(2): 5, of another file
 *	wakes up: goes on with 6; or EBADF
 *
 *  1. A call MUST NOT go on with a file that it was not made for; but for one
 *     that a handler in its own thread has put there, for the kernel restarts
 *     a call with its number (signal(7)).
 *  2. Of a description that is gone nothing can be locked, and flock(2), which
 *     returns 0 then, has locked nothing: EBADF, as fcntl(F_SETLKW) says.
 *  3. A POSIX lock is refused whenever its number is taken away (fs/locks.c,
 *     fcntl_setlk: "close/fcntl race").
 *  4. What is taken away past libc is seen by its device and inode.
 *
 * Slots are never freed, for a call that waits may never come back (signals.c): one
 * is its thread's until that needs it again, or has ended.  There are more when all
 * are in use, for who waits without one does not hear that its number is another's.
 */
#include "lock/follow.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/owner.h"
#include "hold/self.h"

enum { BLOCK = 64, BLOCKS = 256, NESTED = 4, GONE = -1 };

struct dlk_followed {
	_Atomic pid_t tid; /* 0: free */
	_Atomic int fd;    /* GONE: no descriptor is left */
	_Atomic bool posix;
};

static struct dlk_followed first_block[BLOCK];
static _Atomic(struct dlk_followed *) blocks[BLOCKS] = { first_block };
static _Atomic unsigned used; /* slots from the first one on */

/* NULL: there are no more. */
static struct dlk_followed *slot(unsigned i)
{
	struct dlk_followed *block =
		i < BLOCK * BLOCKS ? atomic_load(&blocks[i / BLOCK]) : NULL;

	return block ? &block[i % BLOCK] : NULL;
}

/* --- who waits ------------------------------------------------------------ */

/* Its number may be another thread's by now: then it is left alone. */
static bool is_over(pid_t tid)
{
	return tid && dlk_thread_is_gone(tid);
}

static bool claim(struct dlk_followed *f, pid_t from, pid_t tid)
{
	return atomic_compare_exchange_strong(&f->tid, &from, tid);
}

static void count(unsigned n)
{
	unsigned now = atomic_load(&used);

	while (now < n && !atomic_compare_exchange_weak(&used, &now, n))
		;
}

/* Of a thread that was left so often, one of its own; else NULL. */
static struct dlk_followed *find_left(pid_t tid)
{
	struct dlk_followed *f, *own = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < atomic_load(&used) && n < NESTED; i++) {
		f = slot(i);
		if (atomic_load(&f->tid) != tid)
			continue;
		own = f;
		n++;
	}
	return n == NESTED ? own : NULL;
}

/* Nobody's, or that of one who has ended. */
static struct dlk_followed *find_free(pid_t tid, bool ended)
{
	struct dlk_followed *f;
	pid_t was = 0;

	for (unsigned i = 0; (f = slot(i)); i++) {
		if (ended)
			was = atomic_load(&f->tid);
		if ((ended && !is_over(was)) || !claim(f, was, tid))
			continue;
		count(i + 1);
		return f;
	}
	return NULL;
}

/* (Another thread may do so, too: then there are its.) */
static bool grow(void)
{
	const size_t size = BLOCK * sizeof(struct dlk_followed);
	struct dlk_followed *none = NULL, *more;
	unsigned n = 1;

	while (n < BLOCKS && atomic_load(&blocks[n]))
		n++;
	more = n < BLOCKS ? dlk_pages(size) : NULL;
	if (more && !atomic_compare_exchange_strong(&blocks[n], &none, more))
		munmap(more, size);
	return more != NULL;
}

static struct dlk_followed *find_slot(pid_t tid)
{
	struct dlk_followed *f = find_left(tid);

	do
		f = f ?: find_free(tid, false) ?: find_free(tid, true);
	while (!f && grow());
	return f;
}

void dlk_follow(struct request *r)
{
	struct dlk_followed *f;

	if (r->followed)
		return;
	r->number = r->program_fd;
	f = find_slot((pid_t)dlk_syscall(SYS_gettid));
	if (!f)
		return;
	atomic_store(&f->posix, r->kind == DLK_POSIX);
	atomic_store(&f->fd, r->number);
	r->followed = f;
}

void dlk_follow_threads(struct request *r)
{
	if (!__libc_single_threaded)
		dlk_follow(r);
}

void dlk_follow_end(struct request *r)
{
	if (r->followed)
		atomic_store(&r->followed->tid, 0);
	r->followed = NULL;
}

void dlk_follow_forget(void)
{
	for (unsigned i = 0; i < atomic_load(&used); i++)
		atomic_store(&slot(i)->tid, 0);
	atomic_store(&used, 0);
}

/* --- who takes it away ---------------------------------------------------- */

struct span {
	int fd, first, last;
};

static bool is_left(void *arg, int fd)
{
	const struct span *s = arg;

	return (fd < s->first || fd > s->last) &&
	       dlk_kernel_same(s->fd, fd) == 1;
}

static void take_away(struct dlk_followed *f, int fd, int first, int last)
{
	struct span span = { fd, first, last };
	struct dlk_file file;
	int left = GONE;

	/* (-2: there is no telling.) */
	if (!atomic_load(&f->posix) && dlk_duplicated(fd) &&
	    dlk_kernel_file(fd, &file) == 0)
		left = dlk_kernel_find(&file, DLK_ANY_MODE, is_left, &span);
	atomic_compare_exchange_strong(&f->fd, &fd, left < 0 ? GONE : left);
}

/* A call of another thread waits with it. */
static bool concerns(const struct dlk_followed *f, unsigned first,
		     unsigned last, pid_t self)
{
	const pid_t tid = atomic_load(&f->tid);
	const int fd = atomic_load(&f->fd);

	return tid && tid != self && fd >= 0 && (unsigned)fd >= first &&
	       (unsigned)fd <= last;
}

void dlk_follow_closing(unsigned first, unsigned last)
{
	const pid_t self = (pid_t)dlk_syscall(SYS_gettid);

	DLK_INSIDE(call);
	for (unsigned i = 0; i < atomic_load(&used); i++)
		if (concerns(slot(i), first, last, self))
			take_away(slot(i), atomic_load(&slot(i)->fd),
				  (int)first,
				  last > INT_MAX ? INT_MAX : (int)last);
}

bool dlk_follow_concerned(unsigned first, unsigned last)
{
	bool any = false;

	for (unsigned i = 0; i < atomic_load(&used) && !any; i++)
		any = concerns(slot(i), first, last, 0);
	return any;
}

bool dlk_follow_any(void)
{
	return atomic_load(&used) != 0;
}

/* --- where it is now ------------------------------------------------------ */

bool dlk_follow_moved(const struct request *r)
{
	const struct dlk_file *file =
		dlk_request_by_shadow(r) ? &r->turn.file : &r->file;
	struct dlk_file now;
	const int err = dlk_kernel_file(r->program_fd, &now);

	return err == -EBADF || (!err && !dlk_same_file(&now, file));
}

/* By this one: 0, -EBADF, or `other`: it is that of another file. */
static int go_on(struct request *r, int fd, int other)
{
	if (fd < 0)
		return -EBADF;
	if (!dlk_request_by_shadow(r))
		r->fd = fd;
	r->program_fd = fd;
	return dlk_follow_moved(r) ? other : 0;
}

int dlk_follow_number(const struct request *r)
{
	return r->followed ? atomic_load(&r->followed->fd) : r->program_fd;
}

bool dlk_follow_was_taken(const struct request *r)
{
	return dlk_follow_number(r) != r->program_fd || dlk_follow_moved(r);
}

int dlk_follow_up(struct request *r)
{
	if (!r->call->handled)
		return go_on(r, dlk_follow_number(r), -EBADF);
	r->call->handled = false;
	if (r->followed)
		atomic_store(&r->followed->fd, r->number);
	return go_on(r, r->followed ? r->number : r->program_fd,
		     DLK_OTHER_FILE);
}

/*
 * What handlers did in a wait in the kernel is not known.  So of a number that
 * nobody else took away, another file is one that a handler put there.  (Without a
 * slot there is no telling: no other thread's lock may be taken for ours.)
 */
int dlk_follow_granted(struct request *r)
{
	const int fd = dlk_follow_number(r);
	const bool is_handlers =
		fd == r->program_fd && (r->followed || __libc_single_threaded);

	r->call->handled = false;
	return go_on(r, fd, is_handlers ? DLK_OTHER_FILE : -EBADF);
}

/*
 * While Redis was asked, too, another thread may have made the number one of
 * another file; what is undone there would be that one's lock.
 */
bool dlk_follow_is_there(struct request *r)
{
	return go_on(r, dlk_follow_number(r), -EBADF) == 0;
}
