/* SPDX-License-Identifier: MIT */
/*
 * POSIX record locks that an execve(2) has left to this process.
 *
 * The kernel keeps them, and a keeper their lease, under a token of the program
 * before; this one does not know them until it looks.
 *
 *  1. What is inherited MUST be told from what this program takes: so the look
 *     is at its first record call, before the kernel's lock of any.
 *  2. A file stays on the list until its locks are adopted (record.c), and no
 *     call of ours takes a lock of it before.
 *  3. Who has looked looks no more; who inherited nothing pays no more.
 */
#include "hold/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "os/check.h"
#include "os/proc.h"
#include "os/sys.h"
#include "hold/hold.h"
#include "hold/holds.h"

enum { UNKNOWN, SOME, NONE };
static _Atomic int state;

/* All of it is written with `mutex`; n is read without, too. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct dlk_file *v;
	size_t room;
	_Atomic size_t n;
	bool refused; /* some were not adopted */
	bool unsure; /* of some, the lease may be by a token that was not granted */
} files;

static bool make_room(void)
{
	const size_t room = files.room ? 2 * files.room : 64;
	const size_t size = room * sizeof(*files.v);
	void *v = files.room ? mremap(files.v, files.room * sizeof(*files.v),
				      size, MREMAP_MAYMOVE)
			     : dlk_pages(size);

	if (!v || v == MAP_FAILED)
		return false;
	files.v = v;
	files.room = room;
	return true;
}

/* Its place, or n. */
static size_t place_of(const struct dlk_file *file)
{
	size_t i = 0;

	dlk_check_locked(&mutex);
	while (i < files.n && !dlk_same_file(&files.v[i], file))
		i++;
	return i;
}

/* Without room, the program before has it until it ends. */
static void add(const struct dlk_file *file)
{
	if (place_of(file) == files.n && (files.n < files.room || make_room()))
		files.v[files.n++] = *file;
}

/* As far as it is known without asking a server, which may be away. */
static bool is_regular(int fd)
{
	struct statx sx;

	return dlk_syscall(SYS_statx, fd, "",
			   AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
			   &sx) < 0 ||
	       S_ISREG(sx.stx_mode);
}

/* 1, 0 (or it was closed meanwhile), or -errno: there is no telling. */
static int records_of(int fd)
{
	const int has = dlk_kernel_has_records(fd, DLK_POSIX);

	return has == -ENOENT ? 0 : has;
}

/* Until there is no telling. */
static bool look_at(void *err, int fd)
{
	struct dlk_file file;
	int has;

	if (!is_regular(fd))
		return false;
	has = records_of(fd);
	if (has < 0) {
		*(int *)err = has;
		return true;
	}
	if (!has || dlk_kernel_file(fd, &file) < 0)
		return false;
	DLK_GUARD(&mutex);
	add(&file);
	return false;
}

/*
 * Without the mutex, for a file may be a server's that is away.  So two threads
 * may look at once; the later one may list what is adopted already, or taken
 * since, and then there is nothing to adopt.
 *
 * Who may never look (Landlock, AppArmor) is taken for one who inherited nothing,
 * for hardly anybody has: else he could not lock at all.
 */
bool dlk_inherited_look(void)
{
	int err = 0;

	if (atomic_load(&state) != UNKNOWN)
		return true;
	if (dlk_kernel_find(NULL, DLK_ANY_MODE, look_at, &err) == -2)
		err = -errno;
	if (err && err != -EACCES && err != -EPERM)
		return false;
	DLK_GUARD(&mutex);
	if (atomic_load(&state) == UNKNOWN)
		atomic_store(&state, files.n ? SOME : NONE);
	return true;
}

bool dlk_inherited_on(const struct dlk_file *file)
{
	if (atomic_load(&files.n) == 0)
		return false;
	DLK_GUARD(&mutex);
	return place_of(file) < files.n;
}

void dlk_inherited_done(const struct dlk_file *file, bool refused)
{
	size_t i;

	DLK_GUARD(&mutex);
	i = place_of(file);
	if (i < files.n) {
		files.v[i] = files.v[files.n - 1];
		files.n--;
	}
	files.refused |= refused;
	files.unsure &= files.n > 0;
	if (files.n == 0 && !files.refused)
		atomic_store(&state, NONE);
}

void dlk_inherited_unsure(void)
{
	DLK_GUARD(&mutex);
	files.unsure = files.n > 0;
}

bool dlk_inherited_is_unsure(void)
{
	DLK_GUARD(&mutex);
	return files.unsure;
}

static void forget(void)
{
	DLK_GUARD(&mutex);
	atomic_store(&files.n, 0);
	files.refused = files.unsure = false;
	atomic_store(&state, NONE);
}

/* In a child of fork there are none at all. */
void dlk_inherited_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	forget();
}

/* --- is anybody in wait for them? ----------------------------------------- */

static bool has_records(void *unused, int fd)
{
	(void)unused;
	return records_of(fd) != 0;
}

bool dlk_inherited_any(void)
{
	int found;

	if (atomic_load(&state) == NONE)
		return false;
	found = dlk_kernel_find(NULL, DLK_ANY_MODE, has_records, NULL);
	/* (-2: it could not be looked for.) */
	if (found == -1)
		forget();
	return found >= 0;
}

bool dlk_holds_posix(void)
{
	bool found = false;

	dlk_holds_lock();
	for (const struct dlk_hold *h = dlk_holds_first(); h && !found;
	     h = h->next)
		found = dlk_hold_is_held(h) && h->kind == DLK_POSIX;
	dlk_holds_unlock();
	return found || dlk_inherited_any();
}
