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
 *  2. Before a release: sync_file_range(2), which hands the dirty pages to the
 *     file system without asking it to write to a disk.
 *  3. That open and close MUST NOT be in the program's descriptor table:
 *     closing would drop its record locks (DESIGN L2).
 *  4. A name beside the file that comes and goes under its locks is looked up
 *     anew after a grant, if it is known here (beside[]).  Of other files and
 *     names the file system says what is seen when they are opened.
 *  5. errno is the caller's to save; no call of these can fail the lock.
 */

#include "os/revalidate.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	return found;
}

static bool pages_stay(int fd, off_t size)
{
	struct cache_range all = { 0, 0 };
	struct cache_pages pages = { 0 };

	if (dlk_syscall(SYS_cachestat, fd, &all, &pages, 0) == 0)
		return pages.cached > 0;
	return resident(fd, size);
}

/* In our memory, with a descriptor table of its own: raw system calls only. */
static int open_and_close(void *name)
{
	/* O_LARGEFILE is 0 where all files are. */
	dlk_syscall(SYS_openat, AT_FDCWD, name,
		    /* NOLINTNEXTLINE(misc-redundant-expression) */
		    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_LARGEFILE);
	dlk_syscall(SYS_exit, 0);
	return 0;
}

static void drop_mapped(int fd)
{
	static const size_t size = 16384;
	char name[DLK_NUMBERED_MAX];
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return;
	dlk_numbered(name, "/proc/self/fd/", fd, "");
	dlk_clone_wait(open_and_close, (char *)stack + size, name);
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
	if (S_ISREG(sx.stx_mode) && pages_stay(fd, (off_t)sx.stx_size))
		drop_mapped(fd);
}

void dlk_coherence_flush(int fd)
{
	sync_file_range(fd, 0, 0,
			SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				SYNC_FILE_RANGE_WAIT_AFTER);
}
