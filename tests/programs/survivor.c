/* SPDX-License-Identifier: MIT */
/*
 * Locks, writes and checks shared data, and keeps a log of it that outlives it:
 * one of many on several hosts, who are killed, stopped and cut off
 * (survival.py).  What it says is judged by check_intervals.py.
 *
 *	survivor KIND LOG DATA SEED HOLD_MS	in the directory of its locks
 *
 * KIND: ex (flock), mixed (flock, readers and writers), range (fcntl: one or two
 * ranges), fork (a child has the lock in the end), exec (another program has).
 * All lock a file l0, l1 or l2, or bytes of the file r; HOLD_MS is how long a
 * lock is held at most; most are held for a hundredth of that.
 *
 * An interval begins after the lock was granted and ends before it is given
 * back, and `last` is the last moment at which it has acted: so two that overlap
 * were held by two.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 3, CELLS = 8, RECORDS = 1 << 16 };

/* (check_intervals.py reads these by their offsets.) */
struct record {
	uint64_t start, last, end; /* CLOCK_MONOTONIC ns; end 0: not yet */
	uint32_t cell, cells;      /* of the data: FILES, then those of r */
	uint32_t writes, broken;   /* broken: the data was another's */
	uint64_t wrote[CELLS];     /* what each counter was to become */
	uint64_t acked;            /* 1: and did */
};

struct log {
	_Atomic uint64_t n;
	_Atomic uint64_t errors, pid;
	struct record r[RECORDS];
};

struct cell {
	_Atomic uint64_t counter, owner;
};

static struct log *log_;
static struct cell *data;
static uint64_t seed, hold_ms;
static char **self;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static void *map(const char *path, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		err(1, "%s", path);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		err(1, "%s", path);
	close(fd);
	return p;
}

/* --- what is held --------------------------------------------------------- */

static struct record *begin(unsigned cell, unsigned cells, bool writes)
{
	struct record *r = &log_->r[log_->n];

	if (log_->n + 1 >= RECORDS)
		exit(0);
	*r = (struct record){ .cell = cell, .cells = cells, .writes = writes };
	r->start = r->last = now_ns();
	log_->n++;
	return r;
}

static uint64_t mark(const struct record *r)
{
	return (uint64_t)(r - log_->r) << 32 | (log_->pid & 0xffffffff);
}

/* For a while: nobody else writes what is ours. */
static void use(struct record *r, uint64_t ms)
{
	const uint64_t until = now_ns() + ms * 1000000;
	uint64_t was[CELLS] = { 0 };

	for (unsigned i = 0; i < r->cells; i++) {
		was[i] = data[r->cell + i].counter;
		if (r->writes)
			data[r->cell + i].owner = mark(r);
	}
	do {
		for (unsigned i = 0; i < r->cells; i++) {
			const struct cell *c = &data[r->cell + i];

			r->broken |= c->counter != was[i] ||
				     (r->writes && c->owner != mark(r));
		}
		r->last = now_ns();
		if (ms)
			pause_ms(1);
	} while (now_ns() < until);
	for (unsigned i = 0; i < r->cells && r->writes; i++) {
		r->wrote[i] = was[i] + 1;
		data[r->cell + i].counter = was[i] + 1;
	}
	r->acked = 1;
	r->last = now_ns();
}

static void finish(struct record *r)
{
	r->last = r->end = now_ns();
}

static uint64_t some_ms(void)
{
	return below(30) ? below((unsigned)hold_ms / 100 + 1)
			 : below((unsigned)hold_ms + 1);
}

/* --- how it is locked ------------------------------------------------------ */

/* Until it is granted: the server may be away for long. */
static void flock_all_the_same(int fd, int how)
{
	while (flock(fd, how) < 0) {
		log_->errors++;
		pause_ms(5);
	}
}

static void range_lock(int fd, int type, unsigned from, unsigned n)
{
	struct flock l = { .l_type = (short)type,
			   .l_whence = SEEK_SET,
			   .l_start = (off_t)from * 10,
			   .l_len = (off_t)n * 10 };

	while (fcntl(fd, F_SETLKW, &l) < 0) {
		log_->errors++;
		pause_ms(5);
	}
}

static int open_file(char kind, unsigned n)
{
	char name[] = { kind, kind == 'l' ? (char)('0' + n) : '\0', '\0' };
	int fd = open(name, O_RDWR | O_CREAT, 0666);

	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

/* A child that becomes another program, and has the descriptor for an instant. */
static void storm(void)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	pid_t child = fork();

	if (child == 0) {
		execv("/bin/true", argv);
		_exit(1);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void one_flock(bool mixed)
{
	const unsigned cell = below(FILES);
	const bool writes = !mixed || below(2);
	int fd = open_file('l', cell), copy;
	struct record *r;

	flock_all_the_same(fd, writes ? LOCK_EX : LOCK_SH);
	r = begin(cell, 1, writes);
	if (below(8) == 0)
		storm();
	if (below(4) == 0) {
		copy = dup(fd);
		close(copy);
	}
	use(r, some_ms());
	finish(r);
	if (below(2))
		flock(fd, LOCK_UN);
	close(fd);
}

/* Bytes of r; perhaps others within the time, and given back before. */
static void one_range(int fd)
{
	const unsigned from = below(CELLS / 2), n = 1 + below(2);
	const bool writes = below(3);
	struct record *r, *more;

	range_lock(fd, writes ? F_WRLCK : F_RDLCK, from, n);
	r = begin(FILES + from, n, writes);
	if (below(3) == 0) {
		range_lock(fd, F_WRLCK, CELLS - 2, 2);
		more = begin(FILES + CELLS - 2, 2, true);
		use(more, some_ms() / 2);
		finish(more);
		range_lock(fd, F_UNLCK, CELLS - 2, 2);
	}
	use(r, some_ms());
	finish(r);
	range_lock(fd, F_UNLCK, from, n);
}

/* The lock ends with the child's descriptor; this process may be dead by then. */
static void one_fork(void)
{
	const unsigned cell = below(FILES);
	int fd = open_file('l', cell);
	struct record *r;
	pid_t child;

	flock_all_the_same(fd, LOCK_EX);
	r = begin(cell, 1, true);
	child = fork();
	if (child == 0) {
		use(r, some_ms());
		finish(r);
		_exit(0);
	}
	close(fd);
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void one_exec(void)
{
	const unsigned cell = below(FILES);
	char fd_text[16], record[24], next[24];
	int fd = open_file('l', cell);
	struct record *r;

	flock_all_the_same(fd, LOCK_EX);
	r = begin(cell, 1, true);
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(record, sizeof(record), "%td", r - log_->r);
	snprintf(next, sizeof(next), "%llu", (unsigned long long)seed);
	char *argv[] = { self[0], self[1], self[2], self[3], next,
			 self[5], fd_text, record,  NULL };
	execv(self[0], argv); /* (by this path it keeps its name) */
	err(1, "exec");
}

int main(int argc, char **argv)
{
	int range;

	if (argc < 6)
		errx(2, "usage: survivor KIND LOG DATA SEED HOLD_MS");
	self = argv;
	log_ = map(argv[2], sizeof(*log_));
	data = map(argv[3], (FILES + CELLS) * sizeof(*data));
	seed = strtoull(argv[4], NULL, 10);
	hold_ms = strtoull(argv[5], NULL, 10);
	if (!log_->pid)
		log_->pid = strtoull(argv[4], NULL, 10) | 1;
	if (argc == 8) {
		struct record *r = &log_->r[strtoull(argv[7], NULL, 10)];

		use(r, some_ms());
		finish(r);
		close((int)strtol(argv[6], NULL, 10));
	}
	range = open_file('r', 0);
	for (;;) {
		pause_ms(below(6));
		if (strcmp(argv[1], "range") == 0)
			one_range(range);
		else if (strcmp(argv[1], "fork") == 0)
			one_fork();
		else if (strcmp(argv[1], "exec") == 0)
			one_exec();
		else
			one_flock(strcmp(argv[1], "mixed") == 0);
	}
}
