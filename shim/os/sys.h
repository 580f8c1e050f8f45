/* SPDX-License-Identifier: MIT */
/*
 * Small things of the system that the shim, the keeper and the tools share.
 *
 * In the shim close(2), fcntl(2) and their like are our own exported
 * wrappers; own descriptors are opened, moved and closed here by raw system
 * calls, so none of ours ever passes through them (DESIGN L7).
 *
 * So are the clock, pauses, pids and stat(2): other preloaded libraries stand
 * in for those (libfaketime would move our deadlines, or stretch a wait a
 * hundredfold; fakeroot asks a server of its own at each fstat(2)).
 */
#ifndef DLK_SYS_H
#define DLK_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct pollfd;
struct stat;

/*
 * syscall(3), but for the name: that one is exported by the shim.  Always six
 * words are passed on; -1 and errno, as there.
 */
long dlk_syscall(long nr, ...);

/*
 * clone(2) without a thread pointer or ids, for a child with a stack of its
 * own (`stack` is its end): its pid, or -1 and errno.  The child exits with
 * what fn returns.
 */
pid_t dlk_clone(int (*fn)(void *), void *stack, unsigned long flags, void *arg);
/* One that runs in our memory while we wait (vfork(2)), and is reaped. */
pid_t dlk_clone_wait(int (*fn)(void *), void *stack, unsigned long flags,
		     void *arg);

/*
 * CLOCK_BOOTTIME, nanoseconds: by a system call (200 ns [m]) until the vDSO's
 * function (23 ns) is given, which nothing can stand in for either.
 */
uint64_t dlk_now_ns(void);
/* What is left of the time until then. */
static inline uint64_t dlk_left_ns(uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();

	return now < deadline_ns ? deadline_ns - now : 0;
}

typedef int dlk_clock_fn(clockid_t clock, struct timespec *ts);
void dlk_clock_use(dlk_clock_fn *fn);

struct timespec dlk_timespec(uint64_t ns);
/* Sleep for at most `ns`; ends early when a signal is handled. */
void dlk_pause_ns(uint64_t ns);
/* The same, until the word is woken; not if it is another than `seen` (futex(2)). */
void dlk_futex_wait(_Atomic unsigned *word, unsigned seen, uint64_t ns);
/* Wake so many who sleep on it, in this process. */
void dlk_futex_wake(_Atomic unsigned *word, int n);

/* Zeroed pages, for munmap(2); NULL: no memory. */
void *dlk_pages(size_t size);
/*
 * Zeroed pages for what holds a password: no core dump has them.  A child of
 * fork(2) does, for it connects as its parent.  NULL: no memory.
 */
void *dlk_undumped(size_t size);
void dlk_undumped_free(void *pages, size_t size);

/*
 * Random bytes, at most 256, never of the program's PRNG: getrandom(2), or where
 * that is refused some that are nobody else's.
 */
void dlk_random(void *bytes, size_t len);

void dlk_close(int fd);
/* Those that are there (not less than 0) are closed; all are -1 then. */
void dlk_close_all(int *fds, unsigned n);
/*
 * All from that one on; in a child, which is to keep nothing of its parent's: what
 * stays open there would be locked for ever, or a pipe without an end.  Older
 * filters of seccomp(2) do not know close_range(2); then those that the list has
 * are closed, and without one: -EPERM.
 */
int dlk_close_from(unsigned first);
pid_t dlk_pid(void);
/* No thread of ours has this number: tgkill(2).  (Later one may have it again.) */
bool dlk_thread_is_gone(pid_t tid);
int dlk_fstat(int fd, struct stat *st);
int dlk_stat(const char *path, struct stat *st, int flags);
/*
 * What the kernel remembers of fd's file (`path` ""), without asking a server,
 * which may be away, or have no such file any more: device, inode, mode and
 * size.  Or of a path's, such as /proc/PID/fd/N, whose lookup asks nobody.
 */
int dlk_stat_known(int fd, const char *path, struct stat *st);
int dlk_poll(struct pollfd *fds, unsigned n, unsigned ms);
/* Of a connection by TCP: no delay, and its end is noticed within a minute. */
void dlk_tcp_options(int fd);

/*
 * An own descriptor: high, close-on-exec, and known by device and inode, so
 * that it can be told from what the program opened under its number after
 * closing ours.
 */
struct dlk_own {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

/*
 * Move `fd` up and remember it; closes `fd`.  0, or -EMFILE where there is
 * room at 0, 1 or 2 only, for no other descriptor of the program's, or where
 * we have a thousand.
 */
int dlk_own_take(struct dlk_own *own, int fd);
/* The same of both ends of a pipe or a pair of sockets; or of neither. */
int dlk_own_take_pair(struct dlk_own *one, struct dlk_own *other,
		      const int ends[2]);
bool dlk_own_check(const struct dlk_own *own);
/* Close it if it is still ours. */
void dlk_own_close(struct dlk_own *own);
/* Is `fd` one of ours? (for close(), dup2() and their like) */
bool dlk_own_is(int fd);
/* The lowest own descriptor >= from, or -1. */
int dlk_own_next(int from);
/* In a child of fork(2): close our copies of what was the parent's. */
void dlk_own_forget(bool (*stays)(int fd));

/* Read a small file whole; its length (NUL added), or -errno. */
ssize_t dlk_slurp(const char *path, char *buf, size_t size);
/*
 * The lines of a file, without their newlines, for as long as `fn` returns
 * true; of one longer than 4 KiB its beginning.  False (errno) if there is no
 * file, or it could not be read to its end.
 */
typedef bool dlk_line_fn(void *arg, const char *line);
bool dlk_each_line(const char *path, dlk_line_fn *fn, void *arg);

/*
 * The names in an open directory, for as long as `fn` returns true: by
 * getdents64(2), for opendir(3) would allocate.  False (errno): not all could
 * be read.
 */
typedef bool dlk_entry_fn(void *arg, int dir, const char *name);
bool dlk_each_entry(int dir, dlk_entry_fn *fn, void *arg);

/*
 * Will the next child be of another pid namespace than we?  The first one
 * there is its process 1, and the namespace ends with it; so dlk_spawn() fails
 * with -EXDEV.  Where /proc cannot be asked, what was noted counts.
 */
bool dlk_children_elsewhere(void);
void dlk_note_pid_namespace(bool there);

#endif
