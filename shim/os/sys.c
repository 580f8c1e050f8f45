/* SPDX-License-Identifier: MIT */
/* Clocks, descriptors, children; see sys.h. */
#include "os/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model/sha1.h"
#include "model/text.h"
#include "os/number.h"

/* As the kernel's own function: 0 or -errno. */
static int by_system_call(clockid_t clock, struct timespec *ts)
{
	return dlk_syscall(SYS_clock_gettime, clock, ts) < 0 ? -errno : 0;
}

static dlk_clock_fn *read_clock = by_system_call;

void dlk_clock_use(dlk_clock_fn *fn)
{
	struct timespec ts;

	if (fn(CLOCK_BOOTTIME, &ts) == 0)
		read_clock = fn;
}

uint64_t dlk_now_ns(void)
{
	struct timespec ts;

	read_clock(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

struct timespec dlk_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000U),
				  .tv_nsec = (long)(ns % 1000000000U) };
}

void dlk_pause_ns(uint64_t ns)
{
	const struct timespec ts = dlk_timespec(ns);

	dlk_syscall(SYS_nanosleep, &ts, NULL);
}

void dlk_futex_wait(_Atomic unsigned *word, unsigned seen, uint64_t ns)
{
	const struct timespec ts = dlk_timespec(ns);

	dlk_syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void dlk_futex_wake(_Atomic unsigned *word, int n)
{
	dlk_syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/*
 * Where getrandom(2) is refused (seccomp(2)): what the kernel gave this program at
 * its start (getauxval(3)), and what no other call has.
 */
static void mix(unsigned char *bytes, size_t len)
{
	static _Atomic uint64_t calls;
	const void *given = (const void *)getauxval(AT_RANDOM);
	char hex[DLK_SHA1_LEN + 1];

	while (len > 0) {
		const uint64_t here[] = { atomic_fetch_add(&calls, 1),
					  dlk_now_ns(),
					  (uint64_t)dlk_syscall(SYS_gettid) };
		struct dlk_sha1 s;
		const size_t n = len < sizeof(s.h) ? len : sizeof(s.h);

		dlk_sha1_init(&s);
		if (given)
			dlk_sha1_add(&s, given, 16);
		dlk_sha1_add(&s, here, sizeof(here));
		dlk_sha1_hex(&s, hex); /* (which completes s.h) */
		memcpy(bytes, s.h, n);
		bytes += n;
		len -= n;
	}
}

void dlk_random(void *bytes, size_t len)
{
	long n;

	do
		n = dlk_syscall(SYS_getrandom, bytes, len, 0);
	while (n < 0 && errno == EINTR);
	if (n != (long)len)
		mix(bytes, len);
}

void dlk_close(int fd)
{
	dlk_syscall(SYS_close, fd);
}

void dlk_close_all(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (fds[i] >= 0)
			dlk_close(fds[i]);
		fds[i] = -1;
	}
}

pid_t dlk_pid(void)
{
	return (pid_t)dlk_syscall(SYS_getpid);
}

bool dlk_thread_is_gone(pid_t tid)
{
	return dlk_syscall(SYS_tgkill, dlk_pid(), tid, 0) < 0 && errno == ESRCH;
}

int dlk_fstat(int fd, struct stat *st)
{
	return (int)dlk_syscall(DLK_SYS_FSTAT, fd, st);
}

int dlk_stat(const char *path, struct stat *st, int flags)
{
	return (int)dlk_syscall(DLK_SYS_FSTATAT, AT_FDCWD, path, st, flags);
}

/* Where statx(2) is forbidden (seccomp(2)), stat(2) is not. */
int dlk_stat_known(int fd, const char *path, struct stat *st)
{
	struct statx sx;

	if (dlk_syscall(SYS_statx, fd, path,
			(path[0] ? 0 : AT_EMPTY_PATH) | AT_STATX_DONT_SYNC,
			STATX_TYPE | STATX_INO | STATX_SIZE, &sx) < 0) {
		if (errno == (path[0] ? ENOENT : EBADF))
			return -1;
		return path[0] ? (int)dlk_syscall(DLK_SYS_FSTATAT, fd, path, st,
						  0)
			       : dlk_fstat(fd, st);
	}
	*st = (struct stat){
		.st_dev = makedev(sx.stx_dev_major, sx.stx_dev_minor),
		.st_ino = sx.stx_ino,
		.st_mode = sx.stx_mode,
		.st_size = (off_t)sx.stx_size,
	};
	return 0;
}

int dlk_poll(struct pollfd *fds, unsigned n, unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000,
			       .tv_nsec = ms % 1000 * 1000000L };

	return (int)dlk_syscall(SYS_ppoll, fds, n, &ts, NULL, 0);
}

void dlk_tcp_options(int fd)
{
	int on = 1, idle = 60, unacked_ms = 60000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms,
		   sizeof(unacked_ms));
}

/* --- own descriptors ------------------------------------------------------ */

enum { OWN_MAX = 1024 };

/*
 * Their numbers + 1 (0 is free) and inodes.  Lock-free, for close() may look
 * at any time; an entry whose inode does not fit is none of ours any more.
 */
static struct {
	_Atomic int fd1;
	_Atomic ino_t ino;
} owns[OWN_MAX];
static _Atomic int own_count, own_end; /* none is used from own_end on */

/* Before it is used: a child may be made at any moment. */
static void own_reach(int end)
{
	int now = atomic_load(&own_end);

	while (now < end && !atomic_compare_exchange_weak(&own_end, &now, end))
		;
}

static bool own_add(int fd, ino_t ino)
{
	for (int i = 0; i < OWN_MAX; i++) {
		int none = 0;

		own_reach(i + 1);
		if (!atomic_compare_exchange_strong(&owns[i].fd1, &none,
						    fd + 1))
			continue;
		atomic_store(&owns[i].ino, ino);
		atomic_fetch_add(&own_count, 1);
		return true;
	}
	return false;
}

static void own_remove(const struct dlk_own *own)
{
	for (int i = 0; i < atomic_load(&own_end); i++) {
		int it = own->fd + 1;

		if (atomic_load(&owns[i].ino) == own->ino &&
		    atomic_compare_exchange_strong(&owns[i].fd1, &it, 0)) {
			atomic_fetch_sub(&own_count, 1);
			return;
		}
	}
}

bool dlk_own_is(int fd)
{
	struct stat st;

	if (atomic_load_explicit(&own_count, memory_order_relaxed) == 0)
		return false;
	/* (What was closed behind our back may have had that number before.) */
	for (int i = 0; i < atomic_load(&own_end); i++)
		if (atomic_load_explicit(&owns[i].fd1, memory_order_relaxed) ==
			    fd + 1 &&
		    dlk_fstat(fd, &st) == 0 &&
		    st.st_ino == atomic_load(&owns[i].ino))
			return true;
	return false;
}

int dlk_own_next(int from)
{
	int lowest = -1;

	for (int i = 0; i < atomic_load(&own_end); i++) {
		int fd = atomic_load(&owns[i].fd1) - 1;

		if (fd >= from && (lowest < 0 || fd < lowest) && dlk_own_is(fd))
			lowest = fd;
	}
	return lowest;
}

void dlk_own_forget(bool (*stays)(int fd))
{
	int left = 0;

	/* Any number but 0: dlk_own_is() is asked. */
	atomic_store(&own_count, OWN_MAX);
	for (int i = 0; i < atomic_load(&own_end); i++) {
		int fd = atomic_load(&owns[i].fd1) - 1;
		bool is_own = fd >= 0 && dlk_own_is(fd);

		if (is_own && stays(fd)) {
			left++;
			continue;
		}
		if (is_own)
			dlk_close(fd);
		atomic_store(&owns[i].fd1, 0);
	}
	atomic_store(&own_count, left);
}

/*
 * High, so that a program that counts on the lowest free number, or closes
 * the first dozens, does not meet it; yet below 1024, for the kernel's table
 * grows with the highest number in use (and RLIMIT_NOFILE may be 10^9).
 */
static int high_fd(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_cur >= 1024)
		return 960;
	return rl.rlim_cur > 64 ? (int)rl.rlim_cur - 32 : 3;
}

/* As high as can be; `fd` is closed.  Never 0, 1 or 2: the program's to get. */
static int move_up(int fd)
{
	int high = -1;

	for (int from = high_fd(); high < 0 && from > 1; from /= 2)
		high = (int)dlk_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
					from > 3 ? from : 3);
	if (high < 0 && fd > STDERR_FILENO)
		return fd;
	dlk_close(fd);
	return high < 0 ? -EMFILE : high;
}

/* flock(1) calls dup() at its end: with its last descriptor ours it failed. */
static bool one_is_left(int fd)
{
	int next = (int)dlk_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);

	if (next >= 0)
		dlk_close(next);
	return next >= 0;
}

int dlk_own_take(struct dlk_own *own, int fd)
{
	struct stat st;
	int high = move_up(fd);

	if (high < 0)
		return high;
	if (!one_is_left(high) || dlk_fstat(high, &st) < 0 ||
	    !own_add(high, st.st_ino)) {
		dlk_close(high);
		return -EMFILE;
	}
	*own = (struct dlk_own){ .fd = high,
				 .dev = st.st_dev,
				 .ino = st.st_ino };
	return 0;
}

int dlk_own_take_pair(struct dlk_own *one, struct dlk_own *other,
		      const int ends[2])
{
	int err = dlk_own_take(one, ends[0]);

	if (err) {
		dlk_close(ends[1]);
		return err;
	}
	err = dlk_own_take(other, ends[1]);
	if (err)
		dlk_own_close(one);
	return err;
}

bool dlk_own_check(const struct dlk_own *own)
{
	struct stat st;

	return own->fd >= 0 && dlk_fstat(own->fd, &st) == 0 &&
	       st.st_dev == own->dev && st.st_ino == own->ino;
}

void dlk_own_close(struct dlk_own *own)
{
	if (own->fd < 0)
		return;
	own_remove(own);
	if (dlk_own_check(own))
		dlk_close(own->fd);
	own->fd = -1;
}

ssize_t dlk_slurp(const char *path, char *buf, size_t size)
{
	/* O_LARGEFILE is 0 where all files are. */
	long fd = dlk_syscall(SYS_openat, AT_FDCWD, path,
			      /* NOLINTNEXTLINE(misc-redundant-expression) */
			      O_RDONLY | O_CLOEXEC | O_NOCTTY | O_LARGEFILE);
	size_t len = 0;
	long n = 0;
	int err;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = dlk_syscall(SYS_read, fd, buf + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	err = n < 0 ? -errno : 0;
	buf[len] = '\0';
	dlk_close((int)fd);
	return err ?: (ssize_t)len;
}

struct lines {
	dlk_line_fn *fn;
	void *arg;
	bool cut; /* the rest of a line whose beginning was told */
	bool stop;
};

/* Each line of the text, but for the last one, which has no end yet. */
static char *tell_lines(struct lines *l, char *line)
{
	char *end;

	for (; !l->stop && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (!l->cut)
			l->stop = !l->fn(l->arg, line);
		l->cut = false;
	}
	return line;
}

bool dlk_each_line(const char *path, dlk_line_fn *fn, void *arg)
{
	struct lines l = { .fn = fn, .arg = arg };
	char buf[4096];
	long in = dlk_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	long n = 0;
	int err;

	if (in < 0)
		return false;
	while (!l.stop && (n = dlk_syscall(SYS_read, in, buf + have,
					   sizeof(buf) - 1 - have)) > 0) {
		char *rest;

		have += (size_t)n;
		buf[have] = '\0';
		rest = tell_lines(&l, buf);
		have = strlen(rest);
		memmove(buf, rest, have);
		if (have < sizeof(buf) - 1)
			continue;
		/* It does not fit: its beginning must do. */
		buf[have] = '\0';
		if (!l.cut)
			l.stop = !fn(arg, buf);
		l.cut = true;
		have = 0;
	}
	err = errno;
	dlk_close((int)in);
	errno = err;
	return n >= 0;
}

bool dlk_each_entry(int dir, dlk_entry_fn *fn, void *arg)
{
	char buf[2048] __attribute__((aligned(8)));
	bool more = true;
	long n = 0;

	while (more &&
	       (n = dlk_syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		const struct dirent64 *e;

		for (long at = 0; at < n && more; at += e->d_reclen) {
			e = (const void *)(buf + at);
			more = fn(arg, dir, e->d_name);
		}
	}
	return n >= 0;
}

/* --- children ------------------------------------------------------------- */

static bool close_high(void *first, int dir, const char *name)
{
	uint64_t fd;

	if (dlk_number(name, 10, &fd) && fd >= *(const unsigned *)first &&
	    fd != (uint64_t)dir)
		dlk_close((int)fd);
	return true;
}

int dlk_close_from(unsigned first)
{
	long dir;
	bool done;

	if (dlk_syscall(SYS_close_range, first, ~0U, 0U) == 0)
		return 0;
	dir = dlk_syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -EPERM;
	done = dlk_each_entry((int)dir, close_high, &first);
	dlk_close((int)dir);
	return done ? 0 : -EPERM;
}

static _Atomic bool elsewhere;

bool dlk_children_elsewhere(void)
{
	struct stat here, there;

	if (dlk_stat("/proc/thread-self/ns/pid", &here, 0) < 0)
		return atomic_load(&elsewhere);
	/* ENOENT: it has no process 1 yet. */
	return dlk_stat("/proc/thread-self/ns/pid_for_children", &there, 0) <
		       0 ||
	       here.st_ino != there.st_ino;
}

void dlk_note_pid_namespace(bool there)
{
	atomic_store(&elsewhere, there);
}

void *dlk_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *dlk_undumped(size_t size)
{
	void *p = dlk_pages(size);

	if (p)
		madvise(p, size, MADV_DONTDUMP);
	return p;
}

void dlk_undumped_free(void *pages, size_t size)
{
	munmap(pages, size);
}

pid_t dlk_clone_wait(int (*fn)(void *), void *stack, unsigned long flags,
		     void *arg)
{
	const pid_t pid =
		dlk_clone(fn, stack, CLONE_VM | CLONE_VFORK | flags, arg);

	while (pid > 0 &&
	       dlk_syscall(SYS_wait4, pid, NULL, __WCLONE, NULL) < 0 &&
	       errno == EINTR)
		;
	return pid;
}
