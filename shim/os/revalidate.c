/* SPDX-License-Identifier: MIT */
/*
 * A lock is a cache-coherence point (DESIGN L10): what the last holder on
 * another host wrote is read, and what we wrote is there for the next one.
 *
 *  1. After a grant: statx(2) with AT_STATX_FORCE_SYNC, for the file's size and
 *     times; posix_fadvise(2) POSIX_FADV_DONTNEED, for its clean pages; and if
 *     pages stay, for somebody on this host has them mapped, an open(2) and
 *     close(2) of the file, at which FUSE drops them (fs/fuse/file.c,
 *     fuse_finish_open).
 *  2. Before a release, if pages are dirty: sync_file_range(2), which hands them
 *     to the file system without asking it to write to a disk.  What cannot be
 *     written is told to the first who waits for it on a description, and to
 *     nobody else on that one (errseq_t): the program's fsync(2) is to be told.  So
 *     another description waits.
 *  3. That open and close MUST NOT be in the program's descriptor table:
 *     closing would drop its record locks (DESIGN L2).
 *  4. A name beside the file that comes and goes under its locks is looked up
 *     anew after a grant, if it is known here (beside[]).  Of other files and
 *     names the file system says what is seen when they are opened.
 *  5. errno is the caller's to save; no call of these can fail the lock.
 */

#include "os/revalidate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "model/range.h"
#include "model/text.h"

/* --- pages that stay ------------------------------------------------------ */

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* Linux 6.5 */
#endif

struct cache_range {
	uint64_t off, len; /* 0: to the end */
};

struct cache_pages {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* Before cachestat(2): look through a mapping of our own, a MiB at a time. */
static bool resident(int fd, off_t size)
{
	enum { PAGES = 256, LOOKS = 256 };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), step = PAGES * page;
	unsigned char in[PAGES];
	bool found = false;

	for (int i = 0; i < LOOKS && !found && (off_t)(i * step) < size; i++) {
		const off_t at = (off_t)(i * step);
		const size_t len =
			size - at < (off_t)step ? (size_t)(size - at) : step;
		void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, at);

		/* Opened for writing only: there is no telling. */
		if (p == MAP_FAILED)
			return true;
		if (mincore(p, len, in) == 0)
			for (size_t n = 0; n * page < len; n++)
				found |= in[n] & 1;
		munmap(p, len);
	}
	/* Nor is there of what lies behind the last look. */
	return found || (off_t)(LOOKS * step) < size;
}

static bool counted(int fd, struct cache_pages *pages)
{
	struct cache_range all = { 0, 0 };

	return dlk_syscall(SYS_cachestat, fd, &all, pages, 0) == 0;
}

static bool pages_stay(int fd, off_t size)
{
	struct cache_pages pages;

	return counted(fd, &pages) ? pages.cached > 0 : resident(fd, size);
}

/* Of a regular file; where it cannot be told, those that there are may be dirty. */
static bool has_dirty_pages(int fd)
{
	struct cache_pages pages;
	struct statx sx = { 0 };

	if (counted(fd, &pages))
		return pages.dirty + pages.writeback > 0;
	dlk_syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		    STATX_TYPE | STATX_SIZE, &sx);
	return S_ISREG(sx.stx_mode) && resident(fd, (off_t)sx.stx_size);
}

/* --- by another description ----------------------------------------------- */

struct visit {
	char name[DLK_NUMBERED_MAX];
	bool writes; /* what is dirty */
	bool opened;
	int err;
};

/* sync_file_range(2) of all of it; the order of its arguments is the machine's. */
static long write_back(int fd)
{
	const unsigned flags = SYNC_FILE_RANGE_WAIT_BEFORE |
			       SYNC_FILE_RANGE_WRITE |
			       SYNC_FILE_RANGE_WAIT_AFTER;

#if defined(SYS_sync_file_range2)
	return dlk_syscall(SYS_sync_file_range2, fd, flags, 0, 0, 0, 0);
#elif __SIZEOF_LONG__ == 4
	return dlk_syscall(SYS_sync_file_range, fd, 0, 0, 0, 0, flags);
#else
	return dlk_syscall(SYS_sync_file_range, fd, 0, 0, flags);
#endif
}

/* In our memory, with a descriptor table of its own: raw system calls only. */
static int open_and_close(void *arg)
{
	struct visit *v = arg;
	/* O_LARGEFILE is 0 where all files are. */
	const int fd = (int)dlk_syscall(
		SYS_openat, AT_FDCWD, v->name,
		/* NOLINTNEXTLINE(misc-redundant-expression) */
		O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_LARGEFILE);

	v->opened = fd >= 0;
	if (v->opened && v->writes && write_back(fd) < 0)
		v->err = errno;
	dlk_syscall(SYS_exit, 0);
	return 0;
}

static void visit(int fd, struct visit *v)
{
	static const size_t size = 16384;
	void *stack;

	/* There it would be process 1, and end the namespace with it. */
	if (dlk_children_elsewhere())
		return;
	stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return;
	dlk_numbered(v->name, "/proc/self/fd/", fd, "");
	dlk_clone_wait(open_and_close, (char *)stack + size, 0, v);
	munmap(stack, size);
}

/* --- names beside it ------------------------------------------------------ */

/*
 * Names whose being there means something to who has locked these bytes.  The
 * kernel may remember a name for a while (a FUSE mount's entry_timeout, NFS'
 * acdirmax), whatever is locked.
 */
static const struct {
	struct dlk_range range;
	const char *suffix;
} beside[] = {
	/*
	 * SQLite (its src/os.h: RESERVED_BYTE and the SHARED range).  A journal
	 * that is there, and nobody writing: the database is to be rolled back;
	 * one that is remembered but gone is a statement that fails.
	 */
	{ { 0x40000001, 0x400001ff, DLK_READ }, "-journal" },
};

static void look_up_anew(int fd, const char *suffix, char *name, size_t size)
{
	const size_t more = strlen(suffix) + 1;
	ssize_t n = dlk_kernel_path(fd, name, size - more);

	if (n <= 0 || name[0] != '/')
		return;
	memcpy(name + n, suffix, more);
	/* To create is to look; a directory is never linked (fs/namei.c). */
	dlk_syscall(SYS_linkat, AT_FDCWD, "/", AT_FDCWD, name, 0);
}

void dlk_coherence_names(int fd, const struct dlk_range *locked, char *work,
			 size_t size)
{
	for (unsigned i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (locked->start <= beside[i].range.end &&
		    locked->end >= beside[i].range.start)
			look_up_anew(fd, beside[i].suffix, work, size);
}

/* --- the two moments ------------------------------------------------------ */

void dlk_coherence_refresh(int fd)
{
	struct statx sx = { 0 };

	dlk_syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
		    STATX_TYPE | STATX_SIZE | STATX_MTIME | STATX_CTIME, &sx);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (S_ISREG(sx.stx_mode) && pages_stay(fd, (off_t)sx.stx_size)) {
		struct visit v = { 0 };

		visit(fd, &v);
	}
}

/* Whatever else it says is no write-back's: it is not allowed, or not known. */
static bool is_lost(int err)
{
	return err == EIO || err == ENOSPC || err == EDQUOT;
}

static __attribute__((noinline)) void say_lost(int fd, int err)
{
	char path[512];
	struct dlk_line l;
	const ssize_t n = dlk_kernel_path(fd, path, sizeof(path));

	dlk_line_begin(&l, DLK_ERROR);
	dlk_text_str(&l.text, n > 0 ? path : "a locked file");
	dlk_text_str(&l.text, ": what was written under its lock could not be "
			      "written back: ");
	dlk_text_str(&l.text, strerrordesc_np(err) ?: "unknown error");
	dlk_text_str(&l.text, "; the next owner reads what was there before.  "
			      "Look at the file's file system and server");
	dlk_line_end(&l);
}

int dlk_coherence_flush(int fd)
{
	struct visit v = { .writes = true };

	if (!has_dirty_pages(fd))
		return 0;
	visit(fd, &v);
	/* Better an error that the program is not told than bytes not there. */
	if (!v.opened && write_back(fd) < 0)
		v.err = errno;
	if (!is_lost(v.err))
		return 0;
	say_lost(fd, v.err);
	return v.err;
}
