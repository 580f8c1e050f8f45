/* SPDX-License-Identifier: MIT */
/*
 * Reading the kernel's list of locks so that none is missed.
 *
 * Each read(2) gives a piece, of one moment, of 4 KiB at most, and the next one
 * goes on at a place in the list, not at a lock (fs/locks.c, locks_start):
 *
 *	keeper			the list
 *	read: 1 .. 60		1 .. 60, 61
 *				5 is unlocked: the 61st is now the 60th
 *	read: from the 61st	nothing
 *
 * So it is read twice, the second time cut in the midst of the first one's
 * pieces; and where two cuts come together all the same, as they do near the end
 * of some lists however often these are read, a sixth of a piece off it.  What
 * either reading has counts, if the two agree but for a FEW lines.  A lock that
 * both missed was pushed over a cut twice, once at least by more than a FEW
 * lines that ended; and these would be in one reading and not in the other.
 */
#include "keeper/list.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "model/fdinfo.h"
#include "os/file_id.h"

enum {
	PIECE = 4096,
	SHORT = 2600, /* a first piece that ended because the list did */
	FEW = 6,
	TRIES = 4,
	SIXTHS = 6,
};

/* Of a piece: where each try cuts it. */
static const size_t cut_at[TRIES] = { 3, 4, 2, 3 };

struct reading {
	uint64_t *lines; /* each as a number; waiters are none */
	size_t n, room;
	struct {
		size_t byte, line;
	} * cuts;
	size_t n_cuts, cuts_room;
	struct dlk_listed *locks;
	size_t n_locks, locks_room;
};

static struct {
	struct dlk_listed *locks; /* in order() */
	size_t n, room;
	char *text;
	size_t size;
} list;

uint64_t dlk_list_file(const struct dlk_lock_line *l)
{
	const uint64_t file[] = { l->major, l->minor, l->ino };

	return dlk_hash(file, sizeof(file));
}

bool dlk_grow(void *array, size_t *room, size_t n, size_t size)
{
	void *old, *more;

	if (n < *room)
		return true;
	memcpy(&old, array, sizeof(old));
	more = reallocarray(old, n * 2 + 64, size);
	if (!more)
		return false;
	memcpy(array, &more, sizeof(more));
	*room = n * 2 + 64;
	/* cppcheck-suppress memleak ; the array has it */
	return true;
}

/* --- a reading ------------------------------------------------------------ */

/* What the second of two readings is cut by. */
struct cutting {
	const struct reading *first; /* NULL: this is the first */
	size_t sixths;
};

/* How much to read at `len`: to the midst of the first reading's piece. */
static size_t how_much(const struct cutting *by, size_t len)
{
	size_t from = 0;

	for (size_t i = 0; by->first && i < by->first->n_cuts; i++) {
		size_t to = by->first->cuts[i].byte;
		size_t midst = from + (to - from) * by->sixths / SIXTHS;

		if (midst > len)
			return midst - len < PIECE ? midst - len : PIECE;
		from = to;
	}
	return PIECE;
}

static bool cut(struct reading *r, size_t at)
{
	if (!dlk_grow(&r->cuts, &r->cuts_room, r->n_cuts, sizeof(*r->cuts)))
		return false;
	r->cuts[r->n_cuts++].byte = at;
	return true;
}

static bool slurp_fd(int fd, struct reading *r, const struct cutting *by)
{
	size_t len = 0, last = PIECE;

	for (;;) {
		ssize_t n;

		if (!dlk_grow(&list.text, &list.size, len + PIECE, 1))
			return false;
		n = read(fd, list.text + len, how_much(by, len));
		if (n < 0)
			return false;
		if (n == 0)
			break;
		len += last = (size_t)n;
		if (!cut(r, len))
			return false;
	}
	if (r->n_cuts && last <= SHORT)
		r->n_cuts--;
	list.text[len] = '\0';
	return true;
}

static bool slurp(struct reading *r, const struct cutting *by)
{
	int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
	bool fine;

	if (fd < 0)
		return false;
	r->n_cuts = 0;
	fine = slurp_fd(fd, r, by);
	close(fd);
	return fine;
}

static bool note(const struct dlk_lock_line *l, struct reading *r)
{
	if (l->waits) {
		/* On the last one, which is of the same file. */
		if (r->n_locks && l->pid == getpid())
			r->locks[r->n_locks - 1].blocks_us = true;
		return true;
	}
	if (!dlk_grow(&r->locks, &r->locks_room, r->n_locks, sizeof(*r->locks)))
		return false;
	r->locks[r->n_locks++] = (struct dlk_listed){
		.file = dlk_list_file(l),
		.pid = (uint64_t)l->pid,
		.mode = l->write ? LOCK_EX : LOCK_SH,
	};
	return true;
}

static bool parse(const char *line, struct reading *r)
{
	const char *text = strchr(line, ' ');
	struct dlk_lock_line l;

	if (text && !strstr(text, "-> ")) {
		if (!dlk_grow(&r->lines, &r->room, r->n, sizeof(*r->lines)))
			return false;
		r->lines[r->n++] = dlk_hash(text, strlen(text));
	}
	return !dlk_lock_line(line, &l) || l.kind != DLK_LINE_FLOCK ||
	       note(&l, r);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int order(const void *a, const void *b)
{
	const struct dlk_listed *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->mode - y->mode;
}

static bool read_once(struct reading *r, const struct cutting *by)
{
	char *line, *end;
	size_t c = 0;

	if (!slurp(r, by))
		return false;
	r->n_locks = 0;
	r->n = 0;
	for (line = list.text; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (!parse(line, r))
			return false;
		while (c < r->n_cuts &&
		       r->cuts[c].byte <= (size_t)(end + 1 - list.text))
			r->cuts[c++].line = r->n;
	}
	if (r->n)
		qsort(r->lines, r->n, sizeof(*r->lines), by_number);
	if (r->n_locks)
		qsort(r->locks, r->n_locks, sizeof(*r->locks), order);
	return c == r->n_cuts;
}

/* --- two of them ---------------------------------------------------------- */

/* How many lines are in one of the two only. */
static size_t differences(const struct reading *a, const struct reading *b)
{
	size_t i = 0, j = 0, n = 0;

	while (i < a->n && j < b->n) {
		uint64_t x = a->lines[i], y = b->lines[j];

		n += x != y;
		i += x <= y;
		j += y <= x;
	}
	return n + (a->n - i) + (b->n - j);
}

/* No cut of one is near a cut of the other. */
static bool far_apart(const struct reading *a, const struct reading *b)
{
	size_t i = 0, j = 0;

	while (i < a->n_cuts && j < b->n_cuts) {
		size_t x = a->cuts[i].line, y = b->cuts[j].line;

		if ((x > y ? x - y : y - x) <= (size_t)2 * FEW)
			return false;
		i += x <= y;
		j += y <= x;
	}
	return true;
}

/* What either has; of locks that look alike, as many as the one with more. */
static bool unite(const struct reading *a, const struct reading *b)
{
	size_t i = 0, j = 0;

	list.n = 0;
	while (i < a->n_locks || j < b->n_locks) {
		const struct dlk_listed *x = &a->locks[i], *y = &b->locks[j];
		int first = i == a->n_locks   ? 1
			    : j == b->n_locks ? -1
					      : order(x, y);

		if (!dlk_grow(&list.locks, &list.room, list.n, sizeof(*x)))
			return false;
		list.locks[list.n] = first <= 0 ? *x : *y;
		list.locks[list.n++].blocks_us = (first <= 0 && x->blocks_us) ||
						 (first >= 0 && y->blocks_us);
		i += first <= 0;
		j += first >= 0;
	}
	return true;
}

bool dlk_list_read(void)
{
	static struct reading one, other;
	bool fine = false;

	for (int tries = 0; tries < TRIES && !fine; tries++) {
		const struct cutting whole = { NULL, 0 },
				     midst = { &one, cut_at[tries] };

		if (!read_once(&one, &whole) || !read_once(&other, &midst))
			return false;
		fine = far_apart(&one, &other) &&
		       differences(&one, &other) <= FEW;
	}
	return fine && unite(&one, &other);
}

size_t dlk_list_of(uint64_t file, const struct dlk_listed **first)
{
	size_t low = 0, high = list.n, n = 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list.locks[mid].file < file)
			low = mid + 1;
		else
			high = mid;
	}
	*first = list.locks + low;
	while (low + n < list.n && list.locks[low + n].file == file)
		n++;
	return n;
}
